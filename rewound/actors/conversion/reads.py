"""Stored objects in the version that a client asked for, where a webhook converts them.

Objects that are already in that version need no call; one call converts all others of a list or page.
`RecentConversions` is for watches: several watch groups need the same events, and each event is converted once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

import trio

from rewound.actors.conversion.converter import Converter
from rewound.actors.golang.json import dumps
from rewound.actors.kinds.declaration.definition import Definition, Versions
from rewound.actors.runtime.turns import Turn, next_turn
from rewound.actors.store.document import api_version_of, decode, version_of, with_api_version

CACHED_BYTES: Final = 8 << 20


class ConvertedObjects:
    def __init__(self, converter: Converter) -> None:
        self._converter = converter

    async def one(self, definition: Definition, body: bytes) -> bytes:
        """Return one object in the requested version. Raises ConversionFailed if the webhook fails."""
        [converted] = await self._converted(definition, [body], listed=False)
        return converted

    async def all(self, definition: Definition, bodies: Sequence[bytes]) -> list[bytes]:
        """Return the objects of a list, or of a part of it. Raises ConversionFailed if the webhook fails."""
        return await self._converted(definition, bodies, listed=True)

    async def _converted(
        self, definition: Definition, bodies: Sequence[bytes], *, listed: bool
    ) -> list[bytes]:
        versions, target = definition.storage.versions, definition.api_version
        assert versions is not None
        converted, others = list[bytes](), list[int]()
        turn = Turn()
        for index, body in enumerate(bodies):
            converted.append(_upgraded(versions, body))
            if api_version_of(converted[index]) != target:
                others.append(index)
            if turn.over():
                await next_turn()
                turn = Turn()
        if others:
            documents = [converted[index] for index in others]
            results = await self._converter.convert(versions, documents, target, listed=listed)
            for index, one in zip(others, results, strict=True):
                converted[index] = one
        return converted


def _upgraded(versions: Versions, body: bytes) -> bytes:
    """Return a stored object in the form of the current schema of its version."""
    version = api_version_of(body)
    if not version:
        version = versions.storage
        body = with_api_version(body, version)
    if versions.is_current(version, version_of(body)):
        return body
    stored = decode(body)
    del stored["apiVersion"]
    return dumps({"apiVersion": version, **versions.upgrade(stored, version)})


class RecentConversions:
    """Converts events for watches. Caches recent results, and never converts the same event twice at once."""

    def __init__(self, converted: ConvertedObjects, limit: int = CACHED_BYTES) -> None:
        self._converted = converted
        self._limit = limit
        self._cached: OrderedDict[tuple[Definition, bytes], bytes] = OrderedDict()
        self._size = 0
        self._running: dict[tuple[Definition, bytes], trio.Event] = {}

    async def all(self, definition: Definition, bodies: Sequence[bytes]) -> list[bytes]:
        """Return the events in the requested version. Raises ConversionFailed if the webhook fails."""
        results: dict[bytes, bytes] = {}
        while True:
            missing = list[bytes]()
            for body in dict.fromkeys(bodies):
                if body in results:
                    continue
                cached = self._cached.get((definition, body))
                if cached is None:
                    missing.append(body)
                else:
                    results[body] = cached
            if not missing:
                return [results[body] for body in bodies]
            free = [body for body in missing if (definition, body) not in self._running]
            if free:
                results.update(await self._convert(definition, free))
            else:
                await self._running[definition, missing[0]].wait()

    async def _convert(self, definition: Definition, bodies: list[bytes]) -> dict[bytes, bytes]:
        done = trio.Event()
        self._running.update(dict.fromkeys([(definition, body) for body in bodies], done))
        try:
            converted = await self._converted.all(definition, bodies)
        finally:
            for body in bodies:
                del self._running[definition, body]
            done.set()
        found = dict(zip(bodies, converted, strict=True))
        for body, one in found.items():
            self._cache((definition, body), one)
        return found

    def _cache(self, key: tuple[Definition, bytes], converted: bytes) -> None:
        self._cached[key] = converted
        self._size += len(key[1]) + len(converted)
        while self._size > self._limit:
            (_, body), dropped = self._cached.popitem(last=False)
            self._size -= len(body) + len(dropped)
