"""Serves kinds whose objects are computed on every read, and never stored, watched or written.

Their definitions have `Storage(computed=True)`; `server` provides a source for each.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Protocol

from rewound.actors.golang.json import dumps
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.messages import Object
from rewound.actors.selectors import matcher
from rewound.actors.store.document import facts_of
from rewound.actors.store.reads import Listing, ListOptions
from rewound.gateway.memory.budget import SMALL, MemoryBudget
from rewound.gateway.message import Request


class Source(Protocol):
    """Computes current objects, in their storage version; the namespace is "" for cluster-scoped kinds."""

    async def get(self, namespace: str, name: str) -> Object | None: ...

    def each(self, namespace: str) -> AsyncGenerator[Object, None]:
        """The objects of a namespace, or of all for "", in the order of lists; yields to the event loop regularly."""


class FewObjects:
    """The source of a kind without namespaces that has few objects: a function that computes all of them."""

    def __init__(self, compute: Callable[[], Awaitable[Sequence[Object]]]) -> None:
        self._compute = compute

    async def get(self, _: str, name: str) -> Object | None:
        return next((one for one in await self._compute() if one["metadata"]["name"] == name), None)

    async def each(self, _: str) -> AsyncGenerator[Object, None]:
        for one in sorted(await self._compute(), key=lambda one: str(one["metadata"]["name"])):
            yield one


class ComputedObjects:
    def __init__(self, sources: Mapping[str, Source], memory: MemoryBudget) -> None:
        self._sources = sources  # by type name
        self._memory = memory

    async def get(self, definition: Definition, namespace: str, name: str) -> bytes:
        found = await self._sources[definition.type_name].get(namespace, name)
        if found is None:
            raise definition.not_found(name)
        return dumps(found)

    async def listing(
        self, request: Request, definition: Definition, namespace: str, options: ListOptions
    ) -> Listing:
        """All matching objects, counted in the memory budget of the request. Raises TooManyRequests.

        There are no pages: objects are small and have no resourceVersion.
        """
        match = matcher(options.labels, options.fields)
        bodies: list[bytes] = []
        uncounted = 0
        async with aclosing(self._sources[definition.type_name].each(namespace)) as objects:
            async for one in objects:
                if match is not None and not match(_facts(definition, one), b""):
                    continue
                bodies.append(dumps(one))
                uncounted += len(bodies[-1])
                if uncounted > SMALL:
                    self._memory.take(request, uncounted)
                    uncounted = 0
        return Listing(bodies, 0)


def _facts(definition: Definition, one: Object) -> bytes:
    return facts_of(definition, {**one, "metadata": {"uid": "", **one["metadata"]}})
