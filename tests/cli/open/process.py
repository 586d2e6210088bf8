"""Runs `rewound open` as a process, with a browser that passes its link to the test."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from tests.gateway.processes import COMMAND


@asynccontextmanager
async def opened_in_browser(folder: Path, *arguments: str) -> AsyncIterator[str]:
    """The link with which it started the browser. It ends by Ctrl-C, without an error."""
    pipe, browser = folder / "link", folder / "browser"
    os.mkfifo(pipe)
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > "{pipe}"\n')
    browser.chmod(0o700)
    environment = {**os.environ, "BROWSER": str(browser), "HOME": str(folder)}
    process = await trio.lowlevel.open_process(
        [*COMMAND, "open", *arguments], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    try:
        with trio.fail_after(60):
            # Of both ends: reading would wait for a writer that may never come.
            reading = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
            try:
                await trio.lowlevel.wait_readable(reading)
                link = os.read(reading, 4096).decode()
            finally:
                os.close(reading)
        yield link
        process.send_signal(signal.SIGINT)
        with trio.fail_after(60):
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
