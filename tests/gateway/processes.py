"""Runs the server as a separate process, with flags, signals and an exit code.

    async with process(tmp_path) as server:
        await server.client.get("/livez")
        server.signal(signal.SIGTERM)
        assert await server.ended() == 0

Starting one takes half a second, so only tests that need a process use one.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import trio

from tests.gateway.api import ADMIN, TOKENS
from tests.ports import reserve_port

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "rewound.cli.main"]


class Server:
    """A running server, and a client of its plain port with a user in system:masters."""

    def __init__(self, process: trio.Process, port: int) -> None:
        self.process, self.port = process, port
        self.banner = ""
        self.client = self.connect()

    def connect(self) -> httpx.AsyncClient:
        headers = {"authorization": f"Bearer {ADMIN}"}
        return httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{self.port}", headers=headers, verify=False, timeout=30
        )

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def ended(self) -> int:
        with trio.fail_after(30):
            return await self.process.wait()


def heed_ctrl_c() -> None:
    """Handle SIGINT again: shells make background processes ignore it, and children inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def flags(folder: Path, port: int, *more: str) -> list[str]:
    tokens = folder / "tokens.csv"
    tokens.write_text(TOKENS)
    given = [
        "--data-dir",
        str(folder / "data"),
        "--insecure-port",
        str(port),
        "--token-auth-file",
        str(tokens),
    ]
    # The last occurrence of a flag wins.
    return [*COMMAND, "serve", "--secure-port", "0", *given, *more]


@asynccontextmanager
async def process(folder: Path, *more: str, errors: int = subprocess.DEVNULL) -> AsyncIterator[Server]:
    """Serve a folder until the end of the block, or until the test ends the server.

    `errors` is a file for what it writes to standard error.
    """
    port = reserve_port()
    started = await trio.lowlevel.open_process(
        flags(folder, port, *more), stdout=subprocess.PIPE, stderr=errors
    )
    server = Server(started, port)
    try:
        server.banner = await _ready(started)
        yield server
    finally:
        with trio.CancelScope(shield=True):
            await server.client.aclose()
            if started.returncode is None:
                started.kill()
            await started.wait()
            assert started.stdout is not None
            await started.stdout.aclose()


async def _ready(started: trio.Process) -> str:
    """Wait until the server is ready, and return what it printed."""
    assert started.stdout is not None
    printed = b""
    with trio.fail_after(60):
        while b"Stop with Ctrl-C." not in printed:
            more = await started.stdout.receive_some(65536)
            assert more, f"the server ended before it was ready: {printed!r}"
            printed += more
    return printed.decode()


async def refused(folder: Path, *more: str) -> tuple[int, str]:
    """Exit code and standard error of a server that cannot start."""
    with trio.fail_after(60):
        result = await trio.run_process(
            flags(folder, reserve_port(), *more),
            capture_stdout=True,
            capture_stderr=True,
            check=False,
        )
    return result.returncode, result.stderr.decode()
