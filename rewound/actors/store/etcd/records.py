"""The keys and values of a journal in etcd.

Below the prefix of a cluster:

    objects/<type>/<namespace>/<name>   the object: `Change` without type and names
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

A transaction changes up to `PER_REVISION` objects, each once. `head` names them in order, with the author and the last
content of each deleted object, for which etcd has no value. It is the last operation: a follower that has `head` has
the whole revision. The version of a change, which is the offset of its event, is its revision times `PER_REVISION` plus
its place in that order. Type ids are those of one node's journal, so keys have the names of types. No name has a slash.

    head    msgpack [2, [[type, namespace, name, write id, change if the object was deleted], ...]]
            without a change: another program has changed `head`, and a node has put it again
    object  msgpack [2, verb, previous, time, user, manager, reason, write id, facts, body, place]

In a cluster that release 0.11 or an earlier one created, a transaction changes one object, and its revision is the
version: nodes of both releases follow it. Its records have layout 1, without place and with one change in `head`. The
id of the cluster says which of the two it is (`is_batched`).

Anyone who can write to etcd can put anything under these keys: `decode` checks every field, and raises `Unreadable`
for a value that no node has written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import urandom
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgpack

from rewound.actors.etcd.api import prefix_end
from rewound.actors.store.document import EMPTY_VERSION
from rewound.journal.contents import fits
from rewound.journal.keys import MAX_NAMES, MAX_TYPE_NAME, find_object
from rewound.journal.records import MAX_TIME

LAYOUT: Final = 1
# Layout of changes, `head` and `cluster` where a transaction may change several objects. No other record has had it:
# the next layout of any record is 3.
BATCHED: Final = 2
# Changes of one revision. Their comparisons and operations are below etcd's limit of 128 in a transaction.
PER_REVISION: Final = 32


class UnknownLayout(Exception):
    """A later release has written it."""

    def __init__(self, what: str, layout: int) -> None:
        super().__init__(
            f"{what} in etcd has layout {layout}, which this release does not know: run the release that wrote it"
        )
        self.layout = layout


class Unreadable(Exception):
    """No release has written this value."""


def new_cluster_id() -> bytes:
    """The id of a new cluster, whose transactions may change several objects: a random UUID of version 8."""
    fields = bytearray(urandom(16))
    fields[6], fields[8] = fields[6] & 0x0F | 0x80, fields[8] & 0x3F | 0x80
    return bytes(fields)


def is_batched(cluster_id: bytes) -> bool:
    """Whether a transaction of this cluster may change several objects. Earlier releases made UUIDs of version 4."""
    return cluster_id[6] >> 4 == 8


class Keys:
    """The keys of one cluster, and how the versions of changes follow from revisions of etcd."""

    def __init__(self, prefix: str, *, batched: bool = True) -> None:
        self.layout = BATCHED if batched else LAYOUT  # of changes and `head`
        self.per_revision = PER_REVISION if batched else 1
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

    def of_cluster(self, cluster_id: bytes) -> Keys:
        """The same keys for a known cluster."""
        return Keys(self.prefix.decode(), batched=is_batched(cluster_id))

    def version(self, revision: int, place: int = 0) -> int:
        """The version of a change. That of a whole revision is its first one: a journal has all of them, or none."""
        return revision * self.per_revision + place

    def revision(self, version: int) -> int:
        """The revision that made a version."""
        return version // self.per_revision

    def last_version(self, revision: int) -> int:
        """The last version that a change of this revision could have."""
        return self.version(revision, self.per_revision - 1)

    def has_place(self, place: int) -> bool:
        return 0 <= place < self.per_revision

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
    place: int = 0  # among the changes of its revision

    def encode(self, layout: int = BATCHED) -> bytes:
        return _pack((layout, *(self if layout == BATCHED else self[:-1])))

    @classmethod
    def decode(cls, value: bytes) -> Change:
        """Raises Unreadable or UnknownLayout."""
        return cls(*_unpack("an object", value, _CHANGE, {BATCHED: _PLACED_CHANGE}))

    def can_be_stored(self, revision: int, keys: Keys) -> bool:
        """Whether a journal accepts it as a change of this revision."""
        return (
            keys.has_place(self.place)
            and 0 <= self.previous < keys.version(revision)
            and 0 <= self.time <= MAX_TIME
            and EMPTY_VERSION in self.body
            and fits(self.facts, self.body)
        )


class Head(NamedTuple):
    """Which object a change is of."""

    type_name: str
    namespace: str
    name: str
    write_id: bytes
    removal: bytes = b""  # the encoded change if the object was deleted


def encode_heads(heads: Sequence[Head], layout: int = BATCHED) -> bytes:
    """The value of `head`, with the changes of a revision in order; none: nothing has changed."""
    if layout == BATCHED:
        return _pack((layout, heads))
    [only] = heads or (Head("", "", "", b""),)
    return _pack((layout, *only))


def decode_heads(value: bytes) -> tuple[Head, ...]:
    """Raises Unreadable or UnknownLayout."""
    fields = _unpack("the newest change", value, _HEAD, {BATCHED: _HEADS})
    if len(fields) > 1:
        return (Head._make(fields),) if fields[0] else ()
    for one in fields[0]:
        if type(one) is not list or list(map(type, one)) != _HEAD[1:]:
            raise Unreadable("it is another record than this key has")
    return tuple(map(Head._make, fields[0]))


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
        layout = BATCHED if is_batched(self.cluster_id) else LAYOUT  # which earlier releases refuse, or know
        return _pack((layout, self.cluster_id, self.dialect))

    @classmethod
    def decode(cls, value: bytes) -> Cluster:
        """Raises Unreadable or UnknownLayout."""
        cluster_id, dialect = _unpack("the cluster", value, _CLUSTER, {BATCHED: _CLUSTER})
        if len(cluster_id) != 16:
            raise Unreadable("its id is no UUID")
        return cls(cluster_id, dialect)


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
_PLACED_CHANGE: Final[list[type]] = [*_CHANGE, int]
_HEAD: Final[list[type]] = [int, str, str, str, bytes, bytes]
_HEADS: Final[list[type]] = [int, list]
_FLOOR: Final[list[type]] = [int, int, int]
_CLUSTER: Final[list[type]] = [int, bytes, str]
_SERVING: Final[list[type]] = [int, str, int]
_QUARANTINED: Final[list[type]] = [int, int, int, str, bytes]
_SEALED_KEY: Final[list[type]] = [int, str, bytes]


# Lists of a record, and items of each: `head` has one for each change of its revision. More would only take memory: a
# list of nothing takes one byte here and 56 there, and one that claims to be long reserves room for all its items.
_LONGEST: Final = 128
_MOST_LISTS: Final = 1 + _LONGEST


class _Lists:
    """Counts the lists of a value while it is unpacked. Raises ValueError for too many."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, made: list[Any]) -> list[Any]:
        self._count += 1
        if self._count > _MOST_LISTS:
            raise ValueError("it has more lists than a record")
        return made


def _unpack(
    what: str, value: bytes, types: list[type], others: Mapping[int, list[type]] = MappingProxyType({})
) -> list[Any]:
    """The fields of a record, checked for the types of its layout. Raises Unreadable or UnknownLayout."""
    try:
        unpacked = msgpack.unpackb(value, max_array_len=_LONGEST, max_map_len=0, list_hook=_Lists())
    except Exception as error:  # msgpack has no common class for bytes that it cannot read
        raise Unreadable(f"it is not msgpack ({type(error).__name__})") from None
    if type(unpacked) is not list or not unpacked or type(unpacked[0]) is not int:
        raise Unreadable("it is no record of a node")
    layout = unpacked[0]
    expected = types if layout == LAYOUT else others.get(layout)
    if layout > BATCHED:
        raise UnknownLayout(what, layout)
    if list(map(type, unpacked)) != expected:
        raise Unreadable("it is another record than this key has")
    del unpacked[0]
    return unpacked


def _pack(fields: tuple[Any, ...]) -> bytes:
    packed: bytes = msgpack.packb(fields)
    return packed
