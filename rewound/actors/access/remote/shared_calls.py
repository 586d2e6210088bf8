"""Calls whose results several callers use: those that ask meanwhile (`SharedCalls`), and later ones (`ExpiringCache`).

`SharedCalls` makes one call at a time per key: a caller that asks while the call runs waits for its result or failure.
The first caller makes the call in its own task. If that task is cancelled because its client has gone, one of the
waiting callers makes the call instead. All of them wait outside this server (`actors/runtime/outside.py`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

import msgspec
import trio

from rewound.actors.runtime.outside import outside

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class _Call(msgspec.Struct, Generic[V]):
    done: trio.Event = msgspec.field(default_factory=trio.Event)
    results: list[V] = msgspec.field(default_factory=list)  # one, if the call succeeded
    error: Exception | None = None


class SharedCalls(Generic[K, V]):
    def __init__(self) -> None:
        self._running: dict[K, _Call[V]] = {}

    async def result(self, key: K, make: Callable[[], Awaitable[V]]) -> V:
        return await outside(self._result(key, make))

    async def _result(self, key: K, make: Callable[[], Awaitable[V]]) -> V:
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
            call.error = type(error)(
                *error.args
            )  # a copy: the error itself refers to this frame, a cycle that holds the response
            raise
        finally:
            del self._running[key]
            call.done.set()


class ExpiringCache(Generic[K, V]):
    """A bounded cache: entries expire, and the least recently used one is evicted."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: OrderedDict[K, tuple[float, V]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry[0] <= trio.current_time():
            del self._entries[key]
            return None
        self._entries.move_to_end(key)
        return entry[1]

    def put(self, key: K, value: V, seconds: float) -> None:
        """Cache the value for this long; not at all if `seconds` is 0."""
        if seconds <= 0:
            self._entries.pop(key, None)
            return
        self._entries[key] = (trio.current_time() + seconds, value)
        self._entries.move_to_end(key)
        if len(self._entries) > self._limit:
            self._entries.popitem(last=False)
