"""How large an object may be: as large as etcd accepts it from kube-apiserver, so that what is stored here fits there.

etcd limits the request that writes an object to 1.5 MiB (--max-request-bytes), and the client of kube-apiserver to
2 MiB. The request has the object as it is stored there, which is protobuf for most built-in kinds and JSON for custom
ones, without a resourceVersion; its key, twice for a create and three times for a change; and a few more bytes.
kube-apiserver leaves managedFields out of an object that would be too large with them, except after an apply, and so
does `fitting`. Changes that a delete makes are not limited, nor are dry runs. An object that was stored with a larger
limit can still lose its finalizers: while it is being deleted, an update may not make it larger.

With any limit, also none, an object has no more JSON than the journal reads again (`journal.contents`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rewound.actors.errors import RequestTooLarge
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.messages import Command, Delete, Object, Patch
from rewound.actors.names import NAMES, Names
from rewound.actors.resource.current import Current
from rewound.actors.store.document import (
    encode_unversioned,
    kind_prefix,
    type_prefix,
    typed,
    without_empty_version,
)
from rewound.actors.store.proposal import Proposal
from rewound.journal.contents import LARGEST_OBJECT

_CLIENT_LIMIT: Final = 2 << 20
# Of a create with its key twice, and what a change has in addition to a third key.
_CREATE: Final = 22
_CHANGE: Final = 6
_SERVER: Final = 17  # etcd stores the request inside another message
_LONG_LENGTHS: Final = 3  # lengths of 2 MiB and more have a fourth byte, in three places
_LARGEST_OVERHEAD: Final = 2048  # more than three keys and the rest

Measure = Callable[
    [bytes], int | None
]  # JSON of an object with its type -> bytes in protobuf; None: it has none


class ObjectSizes:
    """A `limit` of 0 means none. `in_protobuf` measures objects of kinds that kube-apiserver stores in protobuf."""

    __slots__ = ("_in_json", "_in_protobuf", "_limit", "smallest")

    def __init__(self, limit: int, names: Names, in_protobuf: Measure) -> None:
        self._limit = limit
        self._in_json = (names.group("apiextensions"), names.group("apiregistration"))
        self._in_protobuf = in_protobuf
        # Shorter bodies are not measured: in protobuf, objects of this size are shorter than in JSON.
        self.smallest = min(max(limit - _LARGEST_OVERHEAD, 1), LARGEST_OBJECT) if limit else LARGEST_OBJECT

    def fitting(
        self,
        storage: Definition,
        stored: Object,
        api_version: str,
        previous: int | Proposal,
        current: Current | None,
        command: Command,
    ) -> bytes:
        """The object's bytes, without managedFields if it is too large with them. Raises RequestTooLarge."""
        body = encode_unversioned(stored, api_version)
        if isinstance(command, Delete):
            return body
        metadata = stored["metadata"]
        key = _key(storage, metadata, by_group=storage.is_custom or storage.group in self._in_json)
        size = self._request(storage, key, body, previous)
        if self._fits(size, body):
            return body
        if "managedFields" in metadata and not (isinstance(command, Patch) and command.format == "apply"):
            rest = {name: value for name, value in metadata.items() if name != "managedFields"}
            body = encode_unversioned({**stored, "metadata": rest}, api_version)
            size = self._request(storage, key, body, previous)
            if self._fits(size, body):
                return body
        if current is not None and "deletionTimestamp" in metadata:
            before = encode_unversioned(current.stored or current.object, current.api_version)
            if len(body) <= len(before):
                return body
        raise RequestTooLarge(_message(size))

    def _fits(self, size: int, body: bytes) -> bool:
        return (not self._limit or size + _SERVER <= self._limit) and len(body) <= LARGEST_OBJECT

    def _request(self, storage: Definition, key: str, body: bytes, previous: int | Proposal) -> int:
        """Bytes of the request that would write the object to etcd."""
        value = self._value(storage, without_empty_version(body))
        size = value + 2 * len(key) + _CREATE
        if previous != 0:
            offset = previous if isinstance(previous, int) else 1 << 14
            size += len(key) + _CHANGE + (offset.bit_length() - 1) // 7
        return size + _LONG_LENGTHS if value >= _CLIENT_LIMIT else size

    def _value(self, storage: Definition, body: bytes) -> int:
        if storage.is_custom:
            return len(typed(kind_prefix(storage.kind), body)) + 1
        document = typed(type_prefix(storage.kind, storage.api_version), body)
        size = None if storage.group in self._in_json else self._in_protobuf(document)
        return len(document) + 1 if size is None else size


UNLIMITED: Final = ObjectSizes(0, NAMES["cluster"], lambda _: None)


def _key(storage: Definition, metadata: Object, *, by_group: bool) -> str:
    """The key in etcd. A few built-in kinds have another prefix of about this length."""
    parts = ["/registry", *([storage.group] if by_group else []), storage.plural]
    if storage.namespaced:
        parts.append(metadata["namespace"])
    return "/".join([*parts, metadata["name"]])


def _message(size: int) -> str:
    if size > _CLIENT_LIMIT:
        return (
            "rpc error: code = ResourceExhausted desc = trying to send message larger than max "
            f"({size} vs. {_CLIENT_LIMIT})"
        )
    return "etcdserver: request is too large"
