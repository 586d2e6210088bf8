"""Many small writes side by side, so that one commit carries them; each by itself, all of them tried."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from typing import TypeVar

import trio

from actors.errors import RequestError

# One commit's worth, far below a mailbox's capacity.
TOGETHER = 64

T = TypeVar("T")


async def together(work: Callable[[T], Awaitable[None]], items: Sequence[T]) -> list[RequestError]:
    """Do the work for every item; answers what was refused."""
    refusals: list[RequestError] = []

    async def attempt(item: T) -> None:
        try:
            await work(item)
        except RequestError as refused:
            refusals.append(refused)

    remaining = iter(items)
    while batch := list(islice(remaining, TOGETHER)):
        async with trio.open_nursery() as nursery:
            for item in batch:
                nursery.start_soon(attempt, item)
    return refusals
