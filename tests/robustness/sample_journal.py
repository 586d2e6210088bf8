"""A small journal with known contents, of which tests damage copies.

It has objects of three types in two namespaces, changed and removed in many commits, values on overflow pages, a
retention floor and a snapshot. `Sample.events` has everything that was ever written.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rewound.journal import Event, Journal, Row, retention, snapshot_writer
from rewound.journal.files import identity
from rewound.journal.files.data_file import DATA

Name = tuple[int, str, str]  # type id, namespace, name
TYPES = ("configmaps", "secrets", "widgets.example.com")
COMMITS = 90
NAMES = 40
TIME = 1_700_000_000_000_000


@dataclass
class Sample:
    """What was written. `live` is the state at the head."""

    data: bytes = b""
    identity: bytes = b""
    head: int = 0
    floor: int = 0
    events: dict[int, Event] = field(default_factory=dict)
    live: dict[Name, Row] = field(default_factory=dict)

    def write_to(self, folder: Path, data: bytes | bytearray | None = None) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / identity.FILE).write_bytes(self.identity)
        (folder / DATA).write_bytes(self.data if data is None else data)
        return folder

    def names(self) -> list[Name]:
        """All objects that ever existed."""
        return sorted({(event.type_id, event.namespace, event.name) for event in self.events.values()})

    def state(self, at: int) -> dict[Name, Row]:
        live: dict[Name, Row] = {}
        for event in self.events.values():
            if event.offset > at:
                break
            name = (event.type_id, event.namespace, event.name)
            if event.removed:
                live.pop(name, None)
            else:
                live[name] = Row(event.offset, event.facts, event.body)
        return live


def make_sample(
    folder: Path, seed: int = 1, commits: int = COMMITS, observe: Callable[[Journal], None] = lambda _: None
) -> Sample:
    """Write a sample; `observe` is called after every transaction."""
    sample, rng = Sample(), random.Random(seed)
    journal = Journal.open(folder)
    journal.register_types(TYPES)
    observe(journal)
    for number in range(commits):
        journal.append([_event(sample, rng) for _ in range(rng.choice([1, 1, 2, 6]))])
        observe(journal)
        if number % 10 == 9:
            retention.advance(journal, journal.head - 60)
            observe(journal)
        if number == commits * 2 // 3:
            for _ in snapshot_writer.take(journal, chunk_rows=20):
                observe(journal)
    with journal.read() as view:
        sample.floor = view.floor
    journal.close()
    sample.data = (folder / DATA).read_bytes()
    sample.identity = (folder / identity.FILE).read_bytes()
    return sample


def _event(sample: Sample, rng: random.Random) -> Event:
    sample.head = offset = sample.head + 1
    number = rng.randrange(NAMES)
    type_id, namespace, own_name = 1 + number % 3, ("default", "kube-system")[number % 2], f"name-{number:02}"
    name = (type_id, namespace, own_name)
    before = sample.live.get(name)
    removed = before is not None and rng.random() < 0.2
    size = rng.choice([20, 200, 900, 900, 3000, 9000])
    text = rng.randbytes(size // 2).hex()
    body = b'{"metadata":{"name":"%b","resourceVersion":"%d"},"data":{"text":"%b"}}' % (
        own_name.encode(),
        offset,
        text.encode(),
    )
    event = Event(
        offset=offset,
        type_id=type_id,
        verb="delete" if removed else "update" if before else "create",
        namespace=namespace,
        name=own_name,
        previous=before.offset if before else 0,
        removed=removed,
        time=TIME + offset,
        user="alice",
        manager="tests",
        facts=b"facts",
        body=body,
        reason="to test" if offset % 8 == 0 else "",
    )
    sample.events[offset] = event
    if removed:
        del sample.live[name]
    else:
        sample.live[name] = Row(offset, b"facts", body)
    return event
