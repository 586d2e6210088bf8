"""Runs a client as a process and collects the lines of its standard output.

async with program(["kubectl", "get", "--watch", ...]) as client:
    await client.until(lambda lines: len(lines) == 3)
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

import trio

# Seconds until a client has what a test waits for: many times what it takes, for a busy machine.
TIMEOUT = 90
NOTHING: Mapping[str, str] = {}


class Program:
    def __init__(self, process: trio.Process) -> None:
        self.process = process
        self.lines: list[str] = []
        self.errors = ""
        self._open = 2  # standard output and standard error, until the client closes them
        self._more = trio.Condition()

    async def until(self, done: Callable[[list[str]], bool]) -> None:
        """Wait until the lines satisfy a condition."""
        with trio.move_on_after(TIMEOUT):
            async with self._more:
                while not done(self.lines) and self._open:
                    await self._more.wait()
        assert done(self.lines), f"the client did not get there; it printed:\n{self._printed()}"

    def _printed(self) -> str:
        return "\n".join([*self.lines[-50:], self.errors[-4000:]])

    async def ended(self) -> int:
        """Wait until the client has ended and all of its output is read; returns its exit code."""
        await self.until(lambda _: self._open == 0)
        with trio.fail_after(TIMEOUT):
            return await self.process.wait()

    async def read_output(self) -> None:
        assert self.process.stdout is not None
        rest = b""
        async for data in self.process.stdout:
            *lines, rest = (rest + data).split(b"\n")
            self.lines += [line.decode() for line in lines]
            await self._wake()
        await self._close()

    async def _wake(self) -> None:
        async with self._more:
            self._more.notify_all()

    async def read_errors(self) -> None:
        assert self.process.stderr is not None
        async for data in self.process.stderr:
            self.errors += data.decode(errors="replace")
        await self._close()

    async def _close(self) -> None:
        self._open -= 1
        await self._wake()


@asynccontextmanager
async def program(command: Sequence[str], environment: Mapping[str, str] = NOTHING) -> AsyncIterator[Program]:
    """Run a client until the end of the block."""
    process = await trio.lowlevel.open_process(
        list(command),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **environment},
    )
    running = Program(process)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(running.read_output)
            nursery.start_soon(running.read_errors)
            yield running
            process.kill()
    finally:
        with trio.CancelScope(shield=True):
            process.kill()
            await process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                assert stream is not None
                await stream.aclose()
