"""Waits until the server has nothing left to do, as far as it does not wait for clients or for time to pass."""

from __future__ import annotations

from typing import Final

import trio

# trio.testing has it under a public name, but importing that module imports pytest, where it is installed.
from trio._core._run import wait_all_tasks_blocked

_LONGEST: Final = 0.1  # seconds: a server with constant traffic is never idle


async def wait_until_idle() -> None:
    """Let tasks run until all of them wait: controllers have followed what was written."""
    with trio.move_on_after(_LONGEST):
        await wait_all_tasks_blocked()
