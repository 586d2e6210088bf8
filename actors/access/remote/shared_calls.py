"""One call at a time per key: who asks for what is being asked already waits for that result, or for its failure.

The first caller makes the call in its own task. If that task is cancelled, because its client has gone, one of those
who wait makes the call instead.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import trio

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(slots=True)
class _Call(Generic[V]):
    done: trio.Event = field(default_factory=trio.Event)
    results: list[V] = field(default_factory=list)  # one, if the call succeeded
    error: Exception | None = None


class SharedCalls(Generic[K, V]):
    def __init__(self) -> None:
        self._running: dict[K, _Call[V]] = {}

    async def result(self, key: K, make: Callable[[], Awaitable[V]]) -> V:
        while True:
            call = self._running.get(key)
            if call is None:
                return await self._lead(key, make)
            await call.done.wait()
            if call.results:
                return call.results[0]
            if call.error is not None:
                raise type(call.error)(*call.error.args)

    async def _lead(self, key: K, make: Callable[[], Awaitable[V]]) -> V:
        call = self._running[key] = _Call()
        try:
            result = await make()
            call.results.append(result)
            return result
        except Exception as error:
            call.error = error
            raise
        finally:
            del self._running[key]
            call.done.set()
