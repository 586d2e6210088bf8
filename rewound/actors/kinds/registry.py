"""The kinds that exist now: holds the current catalog and publishes the next one when kinds are added or removed.

    await registry.register(*definitions)     all definitions of their types; an existing type is replaced
    registry.retire("crontabs.example.io")    no longer served; stored objects stay, and can still be deleted

A request takes `current` once and uses it to its end. Code that keeps something derived (actors, watches, metrics)
follows: a follower is a synchronous callback with the previous catalog and the next one. A type has its number in the
journal before it is published, so that no read ever has to write.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence

from rewound.actors.kinds.catalog import Catalog
from rewound.actors.kinds.declaration.definition import Definition

logger = logging.getLogger(__name__)

Follower = Callable[[Catalog, Catalog], None]  # (previous snapshot, next snapshot)
RegisterTypes = Callable[[Sequence[str]], Awaitable[None]]  # assigns types their numbers in the journal


class Registry:
    def __init__(self, built_in: Catalog, register_types: RegisterTypes) -> None:
        """The types of `built_in` already have their numbers."""
        self.built_in = built_in
        self.current = built_in
        self.version = 0  # of the current catalog
        self._register_types = register_types
        self._followers: list[Follower] = []
        # Changes that followers have not seen yet: more than one if a follower publishes another.
        self._changes: deque[tuple[Catalog, Catalog]] = deque()

    def follow(self, follower: Follower) -> None:
        self._followers.append(follower)

    async def register(self, *definitions: Definition, unserved: Iterable[Definition] = ()) -> None:
        """Declare all definitions of some types; clients do not see those in `unserved`."""
        hidden = tuple(unserved)
        every = (*definitions, *hidden)
        self.current.adding(every)  # refuses invalid definitions before anything is written
        await self.reserve(*(one.type_name for one in every if one.is_stored))
        self.publish(definitions, hidden)

    async def reserve(self, *type_names: str) -> None:
        """Assign types their numbers in the journal, so that `publish` can follow at any time."""
        await self._register_types(list(dict.fromkeys(type_names)))

    def publish(self, definitions: Iterable[Definition], unserved: Iterable[Definition] = ()) -> None:
        """Publish definitions at once, for types that already have their numbers in the journal."""
        hidden = frozenset(unserved)
        self._publish(self.current.adding((*definitions, *hidden), lambda one: one not in hidden))

    def retire(self, type_name: str) -> None:
        """Stop serving a type. Raises KeyError if there is none."""
        self._publish(self.current.retiring(type_name))

    def remove(self, type_name: str) -> None:
        """Drop the declaration too, for a type without stored objects."""
        self._publish(self.current.without(type_name))

    def _publish(self, following: Catalog) -> None:
        self._changes.append((self.current, following))
        self.current = following
        self.version += 1
        if len(self._changes) > 1:
            return  # a follower published it: all followers get it after the current change
        while self._changes:
            self._notify(*self._changes[0])
            self._changes.popleft()

    def _notify(self, previous: Catalog, following: Catalog) -> None:
        for follower in tuple(self._followers):
            try:
                follower(previous, following)
            except Exception:
                logger.exception("a follower of the registry failed; the others continue")
