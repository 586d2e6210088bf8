"""Serves kinds whose objects are computed on every read, and never stored, watched or written.

Their definitions have `Storage(computed=True)`; `gateway.composition` provides a source for each.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from rewound.actors.golang.json import dumps
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.messages import Object
from rewound.actors.selectors import matcher
from rewound.actors.store.addressing import not_found
from rewound.actors.store.document import facts_of
from rewound.actors.store.reads import Listing, ListOptions

# The current objects of a namespace, in their storage version; "" for all, and where there are no namespaces.
Source = Callable[[str], Awaitable[Sequence[Object]]]


class ComputedObjects:
    def __init__(self, sources: Mapping[str, Source]) -> None:
        self._sources = sources  # by type name

    async def get(self, definition: Definition, namespace: str, name: str) -> bytes:
        for one in await self._sources[definition.type_name](namespace):
            if one["metadata"]["name"] == name:
                return dumps(one)
        raise not_found(definition, name)

    async def listing(self, definition: Definition, namespace: str, options: ListOptions) -> Listing:
        """All matching objects by name. There are no pages: objects are few, and have no resourceVersion to page at."""
        match = matcher(options.labels, options.fields)
        objects = await self._sources[definition.type_name](namespace)
        found = sorted(objects, key=_place)
        bodies = [dumps(one) for one in found if match is None or match(_facts(definition, one))]
        return Listing(bodies, 0)


def _place(one: Object) -> tuple[str, str]:
    return one["metadata"].get("namespace", ""), one["metadata"]["name"]


def _facts(definition: Definition, one: Object) -> bytes:
    return facts_of(definition, {**one, "metadata": {"uid": "", **one["metadata"]}})
