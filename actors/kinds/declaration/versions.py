"""The versions of one custom kind, and how an object gets from one to another.

Stored objects name the version that they were written in, because the storage version of a definition may change while
old objects stay. Everything between reading and writing an object happens in the version that the client uses:

    stored (v1)  --upgrade-->  as the present schema of v1 shows it  --convert-->  v2: patched, admitted, validated
    written (v2)  --convert-->  the storage version, pruned and defaulted by its schema

With strategy None a conversion changes apiVersion alone, and each version shows the fields that its schema has. With
strategy Webhook only the webhook can convert, which no synchronous function can wait for: `convert` looks among the
results that the command has so far (`Conversions`) and raises `ConversionNeeded` for another one. Whoever decides the
command gets that conversion and decides the command again. If the webhook failed, `convert` raises that then, where the
object was needed: not everything that needs one has to fail without it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import orjson

from actors.errors import ConversionFailed
from actors.messages import Object

Upgrade = Callable[[Object], Object]


def _always() -> bool:
    return True


class VersionSchema(NamedTuple):
    """What conversions need of the schema of one version."""

    upgrade: Upgrade  # prunes and defaults an object that was stored under an earlier schema
    prune: Upgrade
    same: str  # the first version with the same schema
    is_loaded: Callable[[], bool] = (
        _always  # whether the event loop can use both: else they take up to a second
    )


class Versions:
    def __init__(
        self,
        name: str,
        kind: str,
        list_kind: str,
        storage: str,
        since: int,
        schemas: Mapping[str, VersionSchema],
        webhook: Object | None = None,
    ) -> None:
        """`since`: the offset from which on all objects are written in the form of these schemas.

        `webhook` is that of the CustomResourceDefinition; None with strategy None.
        """
        self.name = name  # of the CustomResourceDefinition
        self.kind, self.list_kind = kind, list_kind
        self.storage = storage  # the apiVersion in which objects are written
        self._since = since
        self._schemas = schemas
        self.webhook = webhook

    def __contains__(self, version: str) -> bool:
        return version in self._schemas

    def is_current(self, version: str, offset: int) -> bool:
        """Whether an object that was stored in a version at an offset has the form of the present schema."""
        return version == self.storage and offset >= self._since

    def upgrade(self, stored: Object, version: str) -> Object:
        """A stored object in the form of the present schema of its version."""
        return self._schema(version).upgrade(stored)

    def is_loaded(self, version: str) -> bool:
        """Whether the event loop can upgrade and prune objects of a version; else only a worker thread may."""
        return self._schema(version).is_loaded()

    def same_schema(self, source: str, target: str) -> bool:
        return self._schema(source).same == self._schema(target).same

    def prune(self, converted: Object, version: str) -> Object:
        """An object that was converted to a version, without what its schema does not declare."""
        return self._schema(version).prune(converted)

    def convert(self, one: Object, source: str, target: str) -> Object:
        """ConversionNeeded if the webhook has to convert it, ConversionFailed if it could not."""
        if source == target:
            return one
        if self.webhook is not None:
            return _converted(self, one, source, target)
        return one if self.same_schema(source, target) else self.prune(one, target)

    def to_storage(self, one: Object, source: str) -> Object:
        """An object as it is to be stored. ConversionNeeded."""
        if source == self.storage:
            return one
        converted = self.convert(one, source, self.storage)
        if self.webhook is None and self.same_schema(source, self.storage):
            return converted
        return self.upgrade(converted, self.storage)

    def _schema(self, version: str) -> VersionSchema:
        """Of the storage version for a version that the definition does not have any more."""
        return self._schemas.get(version) or self._schemas[self.storage]


class ConversionNeeded(Exception):
    """An object is needed in another version, and only the webhook of its definition can convert it."""

    def __init__(self, versions: Versions, one: Object, source: str, target: str) -> None:
        super().__init__(f"{versions.name}: from {source} to {target}")
        self.versions, self.object, self.source, self.target = versions, one, source, target

    @property
    def key(self) -> tuple[Any, ...]:
        return _key(self.versions, self.object, self.source, self.target)


class Conversions:
    """What webhooks have converted for one command, or why not. Deciding the command again asks for the same."""

    def __init__(self) -> None:
        self._results: dict[tuple[Any, ...], bytes | ConversionFailed] = {}

    def __len__(self) -> int:
        return len(self._results)

    def add(self, needed: ConversionNeeded, converted: bytes | ConversionFailed) -> None:
        self._results[needed.key] = converted

    def find(self, key: tuple[Any, ...]) -> bytes | ConversionFailed | None:
        return self._results.get(key)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """`Versions.convert` finds these results, in this thread."""
        before = getattr(_local, "conversions", None)
        _local.conversions = self
        try:
            yield
        finally:
            _local.conversions = before


_local = threading.local()


def _converted(versions: Versions, one: Object, source: str, target: str) -> Object:
    known: Conversions | None = getattr(_local, "conversions", None)
    found = known.find(_key(versions, one, source, target)) if known is not None and len(known) else None
    if found is None:
        raise ConversionNeeded(versions, one, source, target)
    if isinstance(found, ConversionFailed):
        raise found
    converted: Object = orjson.loads(found)  # a new one each time, because callers change what they get
    del converted["apiVersion"]
    return converted


def _key(versions: Versions, one: Object, source: str, target: str) -> tuple[Any, ...]:
    """Of other definitions, for which the webhook may be another one, there are other results."""
    return versions, source, target, orjson.dumps(one, option=orjson.OPT_SORT_KEYS)
