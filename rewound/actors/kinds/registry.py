"""Which kinds there are now: holds the current catalog and publishes the next one when kinds come or go.

    await registry.register(*definitions)     all definitions of their types; a type that is there is replaced
    registry.retire("crontabs.example.io")    no longer served; stored objects stay, and can still be deleted

Requests take `current` once and keep to it. Whoever keeps something derived (actors, watches, metrics) follows: a
follower is a synchronous callback with the catalog before and the one after. A type has its number in the journal
before it is published, so that no read ever has to write.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence

from rewound.actors.kinds.catalog import Catalog
from rewound.actors.kinds.declaration.definition import Definition

logger = logging.getLogger(__name__)

Follower = Callable[[Catalog, Catalog], None]  # the snapshot before, and the one after
RegisterTypes = Callable[[Sequence[str]], Awaitable[None]]  # gives types their numbers in the journal


class Registry:
    def __init__(self, built_in: Catalog, register_types: RegisterTypes) -> None:
        """The types of `built_in` have their numbers already."""
        self.built_in = built_in
        self.current = built_in
        self.version = 0  # of the current catalog
        self._register_types = register_types
        self._followers: list[Follower] = []
        # Snapshots that followers have not got yet: more than one while one of them publishes another.
        self._changes: deque[tuple[Catalog, Catalog]] = deque()

    def follow(self, follower: Follower) -> None:
        self._followers.append(follower)

    async def register(self, *definitions: Definition, unserved: Iterable[Definition] = ()) -> None:
        """Declare definitions, which are then all there are of their types; `unserved` are not shown to clients."""
        hidden = tuple(unserved)
        every = (*definitions, *hidden)
        self.current.adding(every)  # refuses what cannot be before anything is written
        await self.reserve(*(one.type_name for one in every if one.is_stored))
        self.publish(definitions, hidden)

    async def reserve(self, *type_names: str) -> None:
        """Give types their numbers in the journal, so that `publish` can follow at any time."""
        await self._register_types(list(dict.fromkeys(type_names)))

    def publish(self, definitions: Iterable[Definition], unserved: Iterable[Definition] = ()) -> None:
        """As `register`, at once: for types that have their numbers in the journal already."""
        hidden = frozenset(unserved)
        self._publish(self.current.adding((*definitions, *hidden), lambda one: one not in hidden))

    def retire(self, type_name: str) -> None:
        """Stop serving a type; KeyError if there is none."""
        self._publish(self.current.retiring(type_name))

    def remove(self, type_name: str) -> None:
        """Drop the declaration too: for a type of which nothing is stored."""
        self._publish(self.current.without(type_name))

    def _publish(self, following: Catalog) -> None:
        self._changes.append((self.current, following))
        self.current = following
        self.version += 1
        if len(self._changes) > 1:
            return  # by a follower: all get this one after the one that they are getting
        while self._changes:
            self._notify(*self._changes[0])
            self._changes.popleft()

    def _notify(self, previous: Catalog, following: Catalog) -> None:
        for follower in tuple(self._followers):
            try:
                follower(previous, following)
            except Exception:
                logger.exception("a follower of the registry failed; the others go on")
