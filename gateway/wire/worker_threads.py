"""Runs work that would block the event loop for too long in a worker thread.

The caller knows the body size from which a thread pays: below it, the hop to a thread costs more than the work. Most of
this work holds the interpreter lock, so more threads would only take turns; two let a small body overtake a large one.
Request decoding and response encoding use separate thread limits, so slow request bodies cannot delay responses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import trio

T = TypeVar("T")

DECODING = trio.CapacityLimiter(2)
ENCODING = trio.CapacityLimiter(2)


async def decode_in_thread(work: Callable[..., T], *arguments: Any) -> T:
    return await trio.to_thread.run_sync(work, *arguments, limiter=DECODING)


async def encode_in_thread(work: Callable[..., T], *arguments: Any) -> T:
    return await trio.to_thread.run_sync(work, *arguments, limiter=ENCODING)
