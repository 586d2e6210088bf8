"""What reads of history cost, in this process: lists at an old version, the history of an object, and blame.

The journals have as many events as `Sizes.missed` says (100,000 in full) after the version that is read, and a tenth of
that in versions of one object. No figure includes HTTP.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import orjson

from benchmarks.options import Sizes
from benchmarks.reports.measurement import Measurement
from benchmarks.workloads.workload import Workload
from rewound.actors.rewind.blame import blame
from rewound.actors.rewind.documents import history_page
from rewound.actors.rewind.long_work import run
from rewound.actors.rewind.versions import Address, newest
from rewound.actors.selectors.facts import pack_facts
from rewound.journal import snapshot_writer
from rewound.journal.keys import MAX_OFFSET
from rewound.journal.log import Journal
from rewound.journal.records import Event

TYPE = "pods"
SNAPSHOT_EVERY = 50_000  # as a server takes them
PAGE = 50
BLAMED = 1000  # versions, in full
_UID = "00000000-0000-4000-8000-000000000000"
_BATCH = 1000


def list_at(sizes: Sizes) -> Measurement:
    """All objects half a snapshot's distance from any snapshot, with nothing cached: the worst place."""
    with _journal(sizes, _churn(sizes)) as (journal, offset):
        cpu = min(_timed(lambda: _list(journal, offset, fresh=True)) for _ in range(sizes.rounds))
    return _measured("rewind-list", cpu, {"events": sizes.missed, "objects": sizes.objects})


def list_near(sizes: Sizes) -> Measurement:
    """The same 50 events further, after a look at the first."""
    with _journal(sizes, _churn(sizes)) as (journal, offset):
        _list(journal, offset, fresh=True)
        cpu = min(_timed(lambda at=at: _list(journal, offset + 50 + at)) for at in range(sizes.rounds))  # type: ignore[misc]
    return _measured("rewind-list-near", cpu, {"objects": sizes.objects})


def history(sizes: Sizes) -> Measurement:
    versions = max(sizes.missed // 10, 100)
    with _journal(sizes, [0] * versions) as (journal, _):
        address = Address(journal.type_id(TYPE), "default", _name(0))
        page = lambda: run(history_page(journal, address, MAX_OFFSET, PAGE, managed_fields=True))  # noqa: E731
        cpu = min(_timed(page) for _ in range(sizes.rounds))
    return _measured("rewind-history", cpu, {"versions": versions, "page": PAGE})


def blamed(sizes: Sizes) -> Measurement:
    versions = min(BLAMED, max(sizes.missed // 10, 100))
    with _journal(sizes, [0] * versions) as (journal, _):
        last = run(newest(journal, Address(journal.type_id(TYPE), "default", _name(0)), MAX_OFFSET))
        assert last is not None
        cpu = min(_timed(lambda: run(blame(journal, last))) for _ in range(sizes.rounds))
    return _measured("rewind-blame", cpu, {"versions": versions})


def _list(journal: Journal, offset: int, *, fresh: bool = False) -> None:
    if fresh:
        journal.versions.clear()
    with journal.read() as view:
        view.at(offset).page(journal.type_id(TYPE))


def _timed(work: Callable[[], object]) -> float:
    used = time.process_time()
    work()
    return time.process_time() - used


def _measured(name: str, cpu: float, notes: dict[str, Any]) -> Measurement:
    return Measurement(name, {"cpu_us": round(cpu * 1e6, 1)}, notes)


def _churn(sizes: Sizes) -> list[int]:
    """The objects that events are about, in order: all of them repeatedly."""
    return [number % sizes.objects for number in range(sizes.missed + SNAPSHOT_EVERY // 2)]


@contextmanager
def _journal(sizes: Sizes, order: list[int]) -> Iterator[tuple[Journal, int]]:
    """A journal with an event for each number, and the offset that is `missed` events before its end."""
    with (
        tempfile.TemporaryDirectory() as scratch,
        closing(Journal.open(Path(scratch) / "journal")) as journal,
    ):
        type_id = journal.register_type(TYPE)
        previous: dict[int, int] = {}
        for begin in range(0, len(order), _BATCH):
            batch = []
            for position, number in enumerate(order[begin : begin + _BATCH], begin + 1):
                batch.append(_event(type_id, position, number, previous.get(number, 0)))
                previous[number] = position
            journal.append(batch)
            if journal.head % SNAPSHOT_EVERY == 0:
                for _ in snapshot_writer.take(journal):
                    pass
        yield journal, max(journal.head - sizes.missed, 1)


def _name(number: int) -> str:
    return f"web-{number:05}"


def _event(type_id: int, offset: int, number: int, previous: int) -> Event:
    name = _name(number)
    metadata = {**_METADATA, "name": name, "resourceVersion": str(offset)}
    document = {**_POD, "metadata": metadata, "status": {**_POD["status"], "observed": offset}}
    body = orjson.dumps(document)
    facts = pack_facts({"app": "web"}, {}, _UID, ())
    when = 1_600_000_000_000_000 + offset
    return Event(
        offset, type_id, "patch", "default", name, previous, False, when, "node-7", "kubelet", facts, body
    )


_METADATA: dict[str, Any] = {
    "namespace": "default",
    "uid": _UID,
    "creationTimestamp": "2024-05-01T12:00:00Z",
    "labels": {"app": "web", "tier": "front"},
}
_CONTAINER = {
    "image": "registry.example/web:1.2.3",
    "env": [{"name": f"VARIABLE_{number}", "value": "x" * 20} for number in range(8)],
    "ports": [{"containerPort": 8080, "protocol": "TCP"}],
    "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "100m", "memory": "256Mi"}},
    "volumeMounts": [{"mountPath": "/var/run/secrets", "name": "token", "readOnly": True}],
    "terminationMessagePath": "/dev/termination-log",
    "imagePullPolicy": "IfNotPresent",
}
_POD: dict[str, Any] = {
    "metadata": _METADATA,
    "spec": {
        "containers": [{"name": "web", **_CONTAINER}, {"name": "sidecar", **_CONTAINER}],
        "restartPolicy": "Always",
        "nodeName": "node-7",
        "tolerations": [{"key": "node/not-ready", "operator": "Exists", "tolerationSeconds": 300}],
    },
    "status": {
        "phase": "Running",
        "conditions": [
            {"type": one, "status": "True", "lastTransitionTime": "2024-05-01T12:00:10Z"}
            for one in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
        ],
        "podIP": "10.0.0.7",
    },
}

REWIND: tuple[Workload[Sizes], ...] = (
    Workload("rewind-list", "list {objects} objects, {missed} events back", list_at),
    Workload("rewind-list-near", "list them again, near that version", list_near),
    Workload("rewind-history", "first page of a long history, 50 versions", history),
    Workload("rewind-blame", "blame of a pod with 1,000 versions", blamed),
)
