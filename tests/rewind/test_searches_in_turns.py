"""Work in threads runs a few jobs at a time, and users take turns."""

from __future__ import annotations

import threading

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from rewound.actors.runtime.turns import user_at_work
from rewound.rewind.turns import ThreadTurns

SECONDS = 60  # a thread that waits longer was never released


class Searches:
    """Jobs that wait in their threads until the test releases them."""

    def __init__(self) -> None:
        self.turns = ThreadTurns(1)
        self.begun: list[str] = []
        self._gate = threading.Semaphore(0)

    async def search(self, user: str) -> None:
        user_at_work.set(user)
        await self.turns.run(lambda: self._in_thread(user))

    def _in_thread(self, user: str) -> None:
        self.begun.append(user)
        assert self._gate.acquire(timeout=SECONDS)

    def end_all(self, count: int) -> None:
        for _ in range(count):
            self._gate.release()


async def test_users_search_one_after_the_other() -> None:
    searches = Searches()
    async with trio.open_nursery() as nursery:
        for user in ("flood", "flood", "flood", "flood", "other"):
            nursery.start_soon(searches.search, user)
            await wait_all_tasks_blocked()
        searches.end_all(5)
    assert searches.begun == ["flood", "flood", "other", "flood", "flood"]


@pytest.mark.parametrize("cancelled", ["first", "last"])
async def test_search_whose_client_disconnected_takes_no_turn(cancelled: str) -> None:
    searches, scope = Searches(), trio.CancelScope()

    async def given_up() -> None:
        with scope:
            await searches.search("gone")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(searches.search, "first")
        await wait_all_tasks_blocked()
        order = [given_up, None] if cancelled == "first" else [None, given_up]
        for one in order:
            if one is None:
                nursery.start_soon(searches.search, "other")
            else:
                nursery.start_soon(one)
            await wait_all_tasks_blocked()
        scope.cancel()
        await wait_all_tasks_blocked()
        searches.end_all(2)
    assert searches.begun == ["first", "other"]
