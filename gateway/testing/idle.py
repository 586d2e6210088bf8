"""Waits until the server has nothing left to do, as far as it does not wait for clients or for time to pass."""

from __future__ import annotations

from typing import Final

import trio

LONGEST: Final = 5.0  # seconds: a server with constant traffic is never idle
_PAUSE: Final = 0.001  # seconds between two looks at threads


async def wait_until_idle(longest: float = LONGEST) -> bool:
    """Let tasks and threads run until all of them wait: controllers have followed what was written.

    False if they still run after so many seconds.
    """
    from trio.testing import wait_all_tasks_blocked  # imports pytest, where it is installed

    threads = trio.to_thread.current_default_thread_limiter()
    with trio.move_on_after(longest):
        await wait_all_tasks_blocked()
        while threads.borrowed_tokens:  # a task that waits for a thread, such as a commit, counts as blocked
            await trio.sleep(_PAUSE)
            await wait_all_tasks_blocked()
        return True
    return False
