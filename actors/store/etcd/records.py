"""The keys and values of a journal in etcd.

Below the prefix of a cluster:

    objects/<type>/<namespace>/<name>   the object: `Change` without type and names; its mod_revision is its version
    head                                the newest change: put last by every transaction that changes an object
    nodes/<node id>                     the epoch of a node (`epoch`)
    leader                              which node runs the controllers (`election`)
    serving/<node id>                   where a node serves, with a lease (`actors.bootstrap.serving`)
    claims/<item>                       an address or port of a Service; deleted with it, or when it has another
    quotas/<namespace>                  put by every change that a quota of the namespace counts
    floor                               the newest version that all nodes may start from, and its time (`copy`)
    cluster                             who the cluster is: id, dialect, layout

A transaction changes one object, so that its revision can be the offset of the event. `head` says which, with the
author and the last content of a deleted object, for which etcd has no value. It is the last operation: a follower
that has it has the whole revision. Type ids are those of one node's journal, so keys have the names of types. No
name has a slash.

    head    msgpack [layout, type, namespace, name, write id, change if the object was deleted]
    object  msgpack [layout, verb, previous, time, user, manager, reason, write id, facts, body]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgpack

from rewound.actors.etcd.api import prefix_end

LAYOUT: Final = 1


class UnknownLayout(Exception):
    """A later release has written it."""

    def __init__(self, what: str, layout: object) -> None:
        super().__init__(
            f"{what} in etcd has layout {layout!r}; this release knows {LAYOUT}: run the release that wrote it"
        )


class Keys:
    """The keys of one cluster."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix.strip("/").encode() + b"/"
        self.end = prefix_end(self.prefix)
        self.objects = self.prefix + b"objects/"
        self.head = self.prefix + b"head"
        self.leader = self.prefix + b"leader"
        self.serving = self.prefix + b"serving/"
        self.floor = self.prefix + b"floor"
        self.cluster = self.prefix + b"cluster"

    def of_object(self, type_name: str, namespace: str, name: str) -> bytes:
        return self.objects + f"{type_name}/{namespace}/{name}".encode()

    def parse_object(self, key: bytes) -> tuple[str, str, str]:
        """Type, namespace and name."""
        type_name, namespace, name = key[len(self.objects) :].decode().split("/")
        return type_name, namespace, name

    def of_node(self, node: str) -> bytes:
        return self.prefix + b"nodes/" + node.encode()

    def of_serving(self, node: str) -> bytes:
        return self.serving + node.encode()

    def of_claim(self, item: str) -> bytes:
        return self.prefix + b"claims/" + item.encode()

    def of_quotas(self, namespace: str) -> bytes:
        return self.prefix + b"quotas/" + namespace.encode()


class Change(NamedTuple):
    """What an object became, and by whom."""

    verb: str
    previous: int  # version of the object before; 0 when it did not exist
    time: int  # microseconds since 1970, by the clock of the node that wrote it
    user: str
    manager: str
    reason: str
    write_id: bytes  # random: by which the node that wrote it knows it again
    facts: bytes
    body: bytes  # with an empty resourceVersion; that of a deleted object is its last content

    def encode(self) -> bytes:
        return _pack((LAYOUT, *self))

    @classmethod
    def decode(cls, value: bytes) -> Change:
        layout, *fields = msgpack.unpackb(value)
        if layout != LAYOUT:
            raise UnknownLayout("an object", layout)
        return cls(*fields)


class Head(NamedTuple):
    """Which object a revision changed."""

    type_name: str
    namespace: str
    name: str
    write_id: bytes
    removal: bytes = b""  # the encoded change if the object was deleted

    def encode(self) -> bytes:
        return _pack((LAYOUT, *self))

    @classmethod
    def decode(cls, value: bytes) -> Head:
        layout, *fields = msgpack.unpackb(value)
        if layout != LAYOUT:
            raise UnknownLayout("the newest change", layout)
        return cls(*fields)


@dataclass(frozen=True, slots=True)
class Floor:
    """All nodes may start from the state at this version, and the event of that version has this time."""

    version: int
    time: int

    def encode(self) -> bytes:
        return _pack((LAYOUT, self.version, self.time))

    @classmethod
    def decode(cls, value: bytes) -> Floor:
        layout, *fields = msgpack.unpackb(value)
        if layout != LAYOUT:
            raise UnknownLayout("the floor", layout)
        return cls(*fields)


@dataclass(frozen=True, slots=True)
class Cluster:
    """Created by the first node, and the same for all."""

    cluster_id: bytes
    dialect: str

    def encode(self) -> bytes:
        return _pack((LAYOUT, self.cluster_id, self.dialect))

    @classmethod
    def decode(cls, value: bytes) -> Cluster:
        layout, *fields = msgpack.unpackb(value)
        if layout != LAYOUT:
            raise UnknownLayout("the cluster", layout)
        return cls(*fields)


@dataclass(frozen=True, slots=True)
class Serving:
    """Where clients reach a node."""

    address: str
    port: int

    def encode(self) -> bytes:
        return _pack((LAYOUT, self.address, self.port))

    @classmethod
    def decode(cls, value: bytes) -> Serving:
        layout, *fields = msgpack.unpackb(value)
        if layout != LAYOUT:
            raise UnknownLayout("a node that serves", layout)
        return cls(*fields)


def _pack(fields: tuple[Any, ...]) -> bytes:
    packed: bytes = msgpack.packb(fields)
    return packed
