"""Fills a data folder with any number of objects, below HTTP: a million take a minute instead of an hour.

A server creates one object of each kind, so that what is stored is what this release stores; the journal's own append
then writes copies with other names, uids and versions. Pods have owners and nodes, as those of a cluster do, because
controllers follow both. All of it lies in a folder of the caller, who deletes it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgpack

from benchmarks.loads.client import Client
from benchmarks.servers.memory import memory
from benchmarks.servers.server_process import ServerProcess
from rewound.actors.selectors.facts import pack
from rewound.journal.log import Journal
from rewound.journal.records import Event

BATCH = 2000  # events per commit
NAMESPACES = 100
PODS_OF_AN_OWNER = 10
# What copies replace.
TEMPLATE = "template-0000000"
NAMESPACE = "scale-000"
OWNER, OWNER_UID = "template-owner", "00000000-0000-4000-8000-00000000000a"
NODE = "template-node"
_VERSION = re.compile(rb'"resourceVersion":"\d+"')


@dataclass(frozen=True, slots=True)
class Kind:
    path: str  # of the collection, below the group version; {ns} is the namespace
    share: int  # percent of all objects
    body: dict[str, Any]

    @property
    def plural(self) -> str:
        return self.path.rsplit("/", 1)[1]


LABELS = {"app": "scale", "tier": "front"}
CONTAINER = {
    "name": "main",
    "image": "example.com/main:1",
    "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "100m", "memory": "64Mi"}},
}
POD = {"containers": [CONTAINER]}


def kinds(group: str) -> tuple[Kind, ...]:
    """`group` is the suffix of the API groups of the dialect, k8s.io or cluster.io."""
    core = "/api/v1/namespaces/{ns}"
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": OWNER,
        "uid": OWNER_UID,
        "controller": True,
    }
    template = {"metadata": {"labels": LABELS}, "spec": POD}
    return (
        Kind("/api/v1/nodes", 1, {"status": {"capacity": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}),
        Kind(
            "/apis/apps/v1/namespaces/{ns}/replicasets",
            4,
            {"spec": {"replicas": 10, "selector": {"matchLabels": LABELS}, "template": template}},
        ),
        Kind(
            f"{core}/pods",
            40,
            {
                "metadata": {"labels": LABELS, "ownerReferences": [owner]},
                "spec": {**POD, "nodeName": NODE, "automountServiceAccountToken": False},
            },
        ),
        Kind(f"{core}/configmaps", 25, {"data": {"payload": "x" * 700}}),
        Kind(f"{core}/secrets", 20, {"data": {"payload": "eHh4" * 170}}),
        Kind(
            f"/apis/coordination.{group}/v1/namespaces/{{ns}}/leases",
            10,
            {"spec": {"holderIdentity": TEMPLATE, "leaseDurationSeconds": 40}},
        ),
    )


@dataclass(frozen=True, slots=True)
class Filling:
    objects: int
    events: int
    seconds: float
    cpu: float


def fill(folder: Path, objects: int, *, updates: float = 0.2) -> tuple[Filling, dict[str, Any]]:
    """Fill the data folder of a new server; `updates` is the share of objects that get a second event.

    Returns what was written, and the bytes of the data file before and after the updates.
    """
    server = ServerProcess(folder)
    try:
        with Client(server.endpoint) as client:
            declared = kinds("cluster.io")
            for number in range(NAMESPACES):
                client.expect("POST", "/api/v1/namespaces", {"metadata": {"name": f"scale-{number:03}"}})
            for kind in declared:
                client.expect("POST", kind.path.format(ns=NAMESPACE), _named(kind.body))
        empty = memory(server.endpoint.pids).anonymous_mb
    finally:
        server.stop()
    filling, sizes = _copy(folder / "data" / "journal", declared, objects, updates)
    return filling, {**sizes, "empty_anonymous_mb": empty}


def _named(body: dict[str, Any]) -> dict[str, Any]:
    return {**body, "metadata": {"name": TEMPLATE, **body.get("metadata", {})}}


def _copy(
    path: Path, declared: tuple[Kind, ...], objects: int, updates: float
) -> tuple[Filling, dict[str, Any]]:
    begin, cpu = time.perf_counter(), time.process_time()
    journal = Journal.open(path)
    try:
        copies = Copies(journal, declared, objects)
        empty = stored_bytes(journal)
        for batch in copies.created():
            journal.append(batch)
        full = stored_bytes(journal)
        for batch in copies.updated(round(objects * updates)):
            journal.append(batch)
        after = stored_bytes(journal)
    finally:
        journal.close()
    filling = Filling(
        copies.made, copies.events, round(time.perf_counter() - begin, 1), round(time.process_time() - cpu, 1)
    )
    updated = copies.events - copies.made
    sizes = {
        "object_json_bytes": round(copies.json_bytes / copies.events),
        "bytes_per_object": round((full - empty) / copies.made),
        "bytes_per_update": round((after - full) / max(updated, 1)),
        "file_bytes": after,
        "collections": copies.counts,
    }
    return filling, sizes


def stored_bytes(journal: Journal) -> int:
    """Pages of the data file that hold something, without free ones."""
    return journal.environment.statistics()["used_bytes"]


class Copies:
    """Events that create copies of the templates, kind by kind and namespace by namespace, then update some."""

    def __init__(self, journal: Journal, declared: tuple[Kind, ...], objects: int) -> None:
        self._templates = [_Template.read(journal, kind) for kind in declared]
        self._objects = objects
        self._offset, self._time = journal.head, journal.time
        self._latest: list[int] = []
        self.made = self.events = self.json_bytes = 0
        self.counts: dict[str, int] = {}

    def created(self) -> Iterator[list[Event]]:
        for template in self._templates:
            count = max(1, self._objects * template.kind.share // 100)
            self.counts[template.kind.plural] = count
            self.made += count
            yield from self._batches(template, range(count), [0] * count)

    def updated(self, count: int) -> Iterator[list[Event]]:
        """Updates of the first objects of each kind, each kind by its share."""
        first = 0
        for template in self._templates:
            made = self.counts[template.kind.plural]
            some = min(made, count * template.kind.share // 100)
            yield from self._batches(template, range(some), self._latest[first : first + some])
            first += made

    def _batches(self, template: _Template, numbers: range, previous: list[int]) -> Iterator[list[Event]]:
        batch: list[Event] = []
        for number, before in zip(numbers, previous, strict=True):
            self._offset += 1
            self._time += 1
            event = template.copy(self._replaced(template, number), self._offset, self._time, before)
            self.json_bytes += len(event.body)
            self.events += 1
            if not before:
                self._latest.append(self._offset)
            batch.append(event)
            if len(batch) == BATCH:
                yield batch
                batch = []
        if batch:
            yield batch

    def _replaced(self, template: _Template, number: int) -> dict[str, str]:
        """Neighbours in number are in different namespaces; an owner is in the namespace of its pods."""
        owners, nodes = self._templates[1], self._templates[0]
        owner = number // NAMESPACES // PODS_OF_AN_OWNER * NAMESPACES + number % NAMESPACES
        return {
            TEMPLATE: template.name(number),
            template.uid: template.uid_of(number),
            OWNER: owners.name(owner),
            OWNER_UID: owners.uid_of(owner),
            NODE: nodes.name(number % self.counts[nodes.kind.plural]),
            NAMESPACE: f"scale-{number % NAMESPACES:03}",
        }


def _with_version(body: bytes, offset: int) -> bytes:
    return _VERSION.sub(b'"resourceVersion":"%d"' % offset, body, 1)


def updated(event: Event, offset: int, now: int) -> Event:
    """The event that writes the same object again."""
    body = _with_version(event.body, offset)
    return event._replace(offset=offset, verb="update", previous=event.offset, time=now, body=body)


@dataclass(frozen=True, slots=True)
class _Template:
    kind: Kind
    event: Event
    uid: str

    @classmethod
    def read(cls, journal: Journal, kind: Kind) -> _Template:
        types = {name.split(".")[0]: number for name, number in journal.types().items()}
        namespace = NAMESPACE if "{ns}" in kind.path else ""
        with journal.read() as view:
            row = view.get(types[kind.plural], namespace, TEMPLATE)
            event = view.event(row.offset) if row is not None else None
        if event is None:
            raise LookupError(f"the server stored no {kind.plural} {TEMPLATE}")
        return cls(kind, event, msgpack.unpackb(event.facts)[2])

    def name(self, number: int) -> str:
        return f"{self.kind.plural[:6]}-{number:09}"

    def uid_of(self, number: int) -> str:
        return f"{self.event.type_id:08}-0000-4000-8000-{number:012}"

    def copy(self, replaced: dict[str, str], offset: int, now: int, previous: int) -> Event:
        original = self.event
        body = _with_version(original.body, offset)
        for old, new in replaced.items():
            body = body.replace(old.encode(), new.encode())
        labels, fields, uid, *rest, owners = msgpack.unpackb(original.facts)
        fields = [replaced.get(part, part) for part in fields]
        facts = pack((labels, fields, replaced[uid], *rest, [replaced[each] for each in owners]))
        return original._replace(
            offset=offset,
            verb="update" if previous else "create",
            namespace=replaced[NAMESPACE] if original.namespace else "",
            name=replaced[TEMPLATE],
            previous=previous,
            time=now,
            facts=facts,
            body=body,
        )
