"""Runs many small writes concurrently, so that one commit carries them; a failed one does not stop the others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from typing import TypeVar

import trio

from actors.errors import RequestError

# As many as one commit should carry, far below the capacity of a mailbox.
BATCH = 64

T = TypeVar("T")


async def run_concurrently(work: Callable[[T], Awaitable[None]], items: Sequence[T]) -> list[RequestError]:
    """Call `work` for every item; returns the errors."""
    errors: list[RequestError] = []

    async def attempt(item: T) -> None:
        try:
            await work(item)
        except RequestError as error:
            errors.append(error)

    remaining = iter(items)
    while batch := list(islice(remaining, BATCH)):
        async with trio.open_nursery() as nursery:
            for item in batch:
                nursery.start_soon(attempt, item)
    return errors
