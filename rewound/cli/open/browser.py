"""Starts the user's browser, if this machine has one, and never waits for it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping

import trio

# In a separate process: a browser in the foreground would block this one, and write to its terminal.
_OPEN = "import sys, webbrowser; sys.exit(not webbrowser.open(sys.argv[1]))"


def why_unseen(environment: Mapping[str, str] = os.environ, platform: str = sys.platform) -> str:
    """Why a browser that starts here would not be seen; empty if it would be.

    $BROWSER is always used: editors set it to a program that opens links on the user's own machine.
    """
    if environment.get("BROWSER"):
        return ""
    if environment.get("SSH_CONNECTION") or environment.get("SSH_TTY"):
        return "this is a session over SSH"
    if platform.startswith("linux") and not (
        environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY")
    ):
        return "there is no display"
    return ""


def tunnel(port: int) -> str:
    """The command by which a browser on another machine reaches the listener, on the same port: it is in the Host."""
    return f"ssh -L {port}:127.0.0.1:{port} {socket.gethostname()}"


async def start_browser(url: str) -> bool:
    """Start a browser; returns whether that worked, and only after the browser ends if it runs in the foreground.

    It is not in the process group of the terminal: Ctrl-C ends this command, not the browser.
    """
    process = await trio.lowlevel.open_process(
        [sys.executable, "-c", _OPEN, url],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    return await process.wait() == 0
