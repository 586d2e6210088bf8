"""The keys and values of a journal in etcd.

Below the prefix of a cluster:

    objects/<type>/<namespace>/<name>   the object: `Change` without type and names; its mod_revision is its version
    head                                the newest change: put last by every transaction that changes an object
    nodes/<node id>                     the epoch of a node (`epoch`)
    leader                              the node that runs the controllers (`election`)
    serving/<node id>                   the address of a node, with a lease (`actors.bootstrap.serving`)
    claims/<item>                       an address or port of a Service; deleted when the Service no longer has it
    quotas/<namespace>                  put by every change that a quota of the namespace counts
    floor                               the version that all nodes may start from, and its time (`copy`)
    cluster                             the identity of the cluster: id, dialect, layout
    kubernetes                          the version of Kubernetes that all nodes are; absent: 1.25
    migrating                           until all objects have the form of that version (`migration`)
    adopted                             put by every transaction that settles a change of another program (`foreign`)
    quarantine/<key below the prefix>   a value of another program that no node can use (`foreign`)
    keys/service-accounts               the sealed key that signs tokens (`cluster.account_key`)

No key starts with a slash: the prefix /registry of --journal is `registry/` in etcd.

A transaction changes one object, so that its revision can be the offset of the event. `head` names it, with the
author and the last content of a deleted object, for which etcd has no value. It is the last operation: a follower
that has `head` has the whole revision. Type ids are those of one node's journal, so keys have the names of types. No
name has a slash.

    head    msgpack [layout, type, namespace, name, write id, change if the object was deleted]
            without a type: no change (`foreign` puts it if another program has changed `head`)
    object  msgpack [layout, verb, previous, time, user, manager, reason, write id, facts, body]

Anyone who can write to etcd can put anything under these keys: `decode` checks every field, and raises `Unreadable`
for a value that no node has written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgpack

from rewound.actors.etcd.api import prefix_end
from rewound.actors.store.document import EMPTY_VERSION
from rewound.journal.keys import MAX_NAMES, MAX_TYPE_NAME, find_object
from rewound.journal.records import MAX_TIME

LAYOUT: Final = 1


class UnknownLayout(Exception):
    """A later release has written it."""

    def __init__(self, what: str, layout: int) -> None:
        super().__init__(
            f"{what} in etcd has layout {layout}; this release knows {LAYOUT}: run the release that wrote it"
        )
        self.layout = layout


class Unreadable(Exception):
    """No release has written this value."""


class Keys:
    """The keys of one cluster."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix.strip("/").encode() + b"/"
        self.end = prefix_end(self.prefix)
        self.objects = self.prefix + b"objects/"
        self.head = self.prefix + b"head"
        self.leader = self.prefix + b"leader"
        self.serving = self.prefix + b"serving/"
        self.claims = self.prefix + b"claims/"
        self.quotas = self.prefix + b"quotas/"
        self.floor = self.prefix + b"floor"
        self.cluster = self.prefix + b"cluster"
        self.kubernetes = self.prefix + b"kubernetes"
        self.migrating = self.prefix + b"migrating"
        self.adopted = self.prefix + b"adopted"
        self.quarantine = self.prefix + b"quarantine/"
        self.account_key = self.prefix + b"keys/service-accounts"
        self._is_of_object = re.compile(re.escape(self.objects) + rb"[^/\0]+/[^/\0]*/[^/\0]+").fullmatch
        self._always_short = len(self.objects) + min(MAX_NAMES, MAX_TYPE_NAME)

    def of_object(self, type_name: str, namespace: str, name: str) -> bytes:
        return self.objects + f"{type_name}/{namespace}/{name}".encode()

    def parse_object(self, key: bytes) -> tuple[str, str, str]:
        """Type, namespace and name. Raises Unreadable if it is not the key of an object."""
        try:
            type_name, namespace, name = key[len(self.objects) :].decode().split("/")
        except ValueError:
            raise Unreadable("its key is not objects/<type>/<namespace>/<name>") from None
        if not type_name or not name:
            raise Unreadable("its key has no type or no name")
        return type_name, namespace, name

    def of_head(self, head: Head) -> bytes:
        """The key of the object that a revision changed. Raises Unreadable if no object can have these names."""
        key = self.of_object(head.type_name, head.namespace, head.name)
        if self._is_of_object(key) is None:
            raise Unreadable("it names no object")
        if len(key) > self._always_short and not _can_be_stored(head):
            raise Unreadable("its names are too long")
        return key

    def of_quarantine(self, key: bytes) -> bytes:
        return self.quarantine + key[len(self.prefix) :]

    def quarantined(self, key: bytes) -> bytes:
        """The original key of a key in the quarantine."""
        return self.prefix + key[len(self.quarantine) :]

    def of_node(self, node: str) -> bytes:
        return self.prefix + b"nodes/" + node.encode()

    def of_serving(self, node: str) -> bytes:
        return self.serving + node.encode()

    def of_claim(self, item: str) -> bytes:
        return self.claims + item.encode()

    def claimed_item(self, key: bytes) -> str:
        """The claimed item; empty if the key is no claim."""
        return key[len(self.claims) :].decode() if key.startswith(self.claims) else ""

    def of_quotas(self, namespace: str) -> bytes:
        return self.quotas + namespace.encode()

    def is_mark(self, key: bytes) -> bool:
        """Whether only the existence of the key matters: a claim or the quotas of a namespace."""
        return key.startswith((self.claims, self.quotas))


class Change(NamedTuple):
    """The new state of an object, and who changed it."""

    verb: str
    previous: int  # version of the object before; 0 if it did not exist
    time: int  # microseconds since 1970, by the clock of the node that wrote it
    user: str
    manager: str
    reason: str
    write_id: bytes  # random; the node that wrote it recognizes it by this
    facts: bytes
    body: bytes  # with an empty resourceVersion; for a deleted object, its last content

    def encode(self) -> bytes:
        return _pack((LAYOUT, *self))

    @classmethod
    def decode(cls, value: bytes) -> Change:
        """Raises Unreadable or UnknownLayout."""
        return cls._make(_unpack("an object", value, _CHANGE))

    def can_be_stored(self, revision: int) -> bool:
        """Whether a journal accepts it as the change of this revision."""
        return 0 <= self.previous < revision and 0 <= self.time <= MAX_TIME and EMPTY_VERSION in self.body


class Head(NamedTuple):
    """Which object a revision changed."""

    type_name: str
    namespace: str
    name: str
    write_id: bytes
    removal: bytes = b""  # the encoded change if the object was deleted

    @property
    def is_no_change(self) -> bool:
        return not self.type_name

    def encode(self) -> bytes:
        return _pack((LAYOUT, *self))

    @classmethod
    def decode(cls, value: bytes) -> Head:
        """Raises Unreadable or UnknownLayout."""
        return cls._make(_unpack("the newest change", value, _HEAD))


@dataclass(frozen=True, slots=True)
class Floor:
    """A version from whose state all nodes may start, and the time of its event."""

    version: int
    time: int

    def encode(self) -> bytes:
        return _pack((LAYOUT, self.version, self.time))

    @classmethod
    def decode(cls, value: bytes) -> Floor:
        """Raises Unreadable or UnknownLayout."""
        return cls(*_unpack("the floor", value, _FLOOR))


@dataclass(frozen=True, slots=True)
class Cluster:
    """The identity of the cluster. The first node creates it."""

    cluster_id: bytes
    dialect: str

    def encode(self) -> bytes:
        return _pack((LAYOUT, self.cluster_id, self.dialect))

    @classmethod
    def decode(cls, value: bytes) -> Cluster:
        """Raises Unreadable or UnknownLayout."""
        return cls(*_unpack("the cluster", value, _CLUSTER))


@dataclass(frozen=True, slots=True)
class Serving:
    """Where clients reach a node."""

    address: str
    port: int

    def encode(self) -> bytes:
        return _pack((LAYOUT, self.address, self.port))

    @classmethod
    def decode(cls, value: bytes) -> Serving:
        """Raises Unreadable or UnknownLayout."""
        return cls(*_unpack("a node that serves", value, _SERVING))


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A value that another program put under a key and no node can use."""

    revision: int  # that wrote it
    time: int  # microseconds since 1970, when a node found it
    why: str
    value: bytes  # truncated if it is large

    def encode(self) -> bytes:
        return _pack((LAYOUT, self.revision, self.time, self.why, self.value))

    @classmethod
    def decode(cls, value: bytes) -> Quarantined:
        """Raises Unreadable or UnknownLayout."""
        return cls(*_unpack("a value in quarantine", value, _QUARANTINED))


@dataclass(frozen=True, slots=True)
class SealedKey:
    """The key that signs the tokens of service accounts, encrypted."""

    key_id: str  # of its public part
    sealed: bytes

    def encode(self) -> bytes:
        return _pack((LAYOUT, self.key_id, self.sealed))

    @classmethod
    def decode(cls, value: bytes) -> SealedKey:
        """Raises Unreadable or UnknownLayout."""
        return cls(*_unpack("the key of service account tokens", value, _SEALED_KEY))


def _can_be_stored(head: Head) -> bool:
    is_object = find_object(1, head.namespace, head.name) is not None
    return is_object and len(head.type_name.encode()) <= MAX_TYPE_NAME


# The types of the layout and of the fields.
_CHANGE: Final[list[type]] = [int, str, int, int, str, str, str, bytes, bytes, bytes]
_HEAD: Final[list[type]] = [int, str, str, str, bytes, bytes]
_FLOOR: Final[list[type]] = [int, int, int]
_CLUSTER: Final[list[type]] = [int, bytes, str]
_SERVING: Final[list[type]] = [int, str, int]
_QUARANTINED: Final[list[type]] = [int, int, int, str, bytes]
_SEALED_KEY: Final[list[type]] = [int, str, bytes]


def _unpack(what: str, value: bytes, types: list[type]) -> list[Any]:
    """The fields of a record, checked for these types. Raises Unreadable or UnknownLayout."""
    try:
        unpacked = msgpack.unpackb(value)
    except Exception as error:  # msgpack has no common class for bytes that it cannot read
        raise Unreadable(f"it is not msgpack ({type(error).__name__})") from None
    if type(unpacked) is list and list(map(type, unpacked)) == types and unpacked[0] == LAYOUT:
        del unpacked[0]
        return unpacked
    if type(unpacked) is not list or not unpacked or type(unpacked[0]) is not int:
        raise Unreadable("it is no record of a node")
    if unpacked[0] > LAYOUT:
        raise UnknownLayout(what, unpacked[0])
    raise Unreadable("it is another record than this key has")


def _pack(fields: tuple[Any, ...]) -> bytes:
    packed: bytes = msgpack.packb(fields)
    return packed
