"""Encodes large responses in worker threads, so that they do not block the event loop.

The caller knows from which body size on a thread pays: below it, the hop costs more than the work. Most of this work
holds the GIL, so more threads would only take turns; two let a small body overtake a large one. Large requests have a
thread of their own (`actors/runtime/large_work.py`), so that they cannot delay responses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import trio

from rewound.actors.runtime.threads import run_in_thread

T = TypeVar("T")

ENCODING = trio.CapacityLimiter(2)


async def encode_in_thread(work: Callable[..., T], *arguments: Any) -> T:
    return await run_in_thread(work, *arguments, limiter=ENCODING)
