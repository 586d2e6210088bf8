"""A journal imported from an audit log has the same objects, authors and versions as the server that wrote the log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest

from rewound.actors.kinds.apiextensions import definition_type
from rewound.actors.names import NAMES
from rewound.cli.main import main
from rewound.journal.log import Journal
from rewound.journal.records import Event
from rewound.recording.record.audit_import import ASSUMED_VERSION
from rewound.recording.record.changes import ADDED
from rewound.rewind.page.refused import refused_in
from tests.actors.object_store import memory_folder
from tests.gateway.audit.auditing import audited, rules
from tests.recording.record.random_writes import USERS, RandomWrites

Key = tuple[str, str, str]


@pytest.fixture
def folder() -> Iterator[Path]:
    with memory_folder() as found:
        yield found


def state(journal: Journal) -> dict[Key, bytes]:
    with journal.read() as view:
        return {
            (type_name, namespace, name): row.body
            for type_name, type_id in journal.types().items()
            for namespace, name, row in view.rows(type_id)
        }


def events(journal: Journal) -> dict[int, Event]:
    with journal.read() as view:
        return {one.offset: one for one in view.all_events(0)}


def compared(body: bytes | None) -> Any:
    """Without what the log of a scale lacks: the response is a Scale, without the object's managedFields."""
    if body is None or b'"name":"deployments' not in body:
        return body
    document = orjson.loads(body)
    document["metadata"].pop("managedFields", None)
    return document


def who(event: Event) -> tuple[Any, ...]:
    place = event.namespace, event.name, event.removed
    return event.user, event.verb, event.manager, *place, compared(event.body)


@pytest.mark.parametrize(("dialect", "version"), [("cluster", "1.25"), ("kubernetes", "1.36")])
async def test_same_end_state_and_authors_as_the_server(folder: Path, dialect: str, version: str) -> None:
    policy = rules("level: RequestResponse").replace("audit.cluster.io", NAMES[dialect].group("audit"))
    async with audited(policy, dialect=dialect, kubernetes_version=version) as server:
        assert server.api.store is not None
        writes = RandomWrites(server.api, Random(11))
        await writes.run(120)
        journal = server.api.store.journal
        expected, written = state(journal), events(journal)
        await server.api.finish()
        assert main(["import", "audit", "--with-secrets", str(server.path), str(folder / "out")]) == 0
    assert main(["verify", "--data-dir", str(folder / "out")]) == 0
    imported = Journal.open(folder / "out" / "journal", readonly=True)
    found = state(imported)
    for key in sorted(writes.touched):
        assert compared(found.get(key)) == compared(expected.get(key)), key
    # The controller of definitions writes their status inside the server, without a request.
    assert {key[0] for key in found.keys() - writes.touched} == {definition_type(NAMES[dialect])}
    assumed = []
    for offset, event in events(imported).items():
        if event.reason.startswith(ADDED):
            continue
        if ASSUMED_VERSION in event.reason:
            assumed.append(event)
            continue
        assert who(event) == who(written.pop(offset)), event
    # No response has their versions: several deletes between two versions may be in any order.
    left = [who(event)[:-1] for event in written.values()]
    for event in assumed:
        left.remove(who(event)[:-1])
    refused = list(refused_in(folder / "out"))
    assert len(refused) == writes.refused
    assert {one["user"] for one in refused if one["code"] == 403} == {"mallory"}
    imported.close()


SET_BY_SERVER = ("uid", "managedFields", "generation", "resourceVersion", "creationTimestamp")


def as_sent(body: bytes | None) -> Any:
    """The part that a log without responses can show."""
    if body is None:
        return None
    document = orjson.loads(body)
    for name in SET_BY_SERVER:
        document["metadata"].pop(name, None)
    document.pop("status", None)
    return document


async def test_contents_by_what_was_sent(folder: Path) -> None:
    async with audited(rules("level: Request")) as server:
        assert server.api.store is not None
        writes = RandomWrites(server.api, Random(31))
        await writes.run(120)
        expected = state(server.api.store.journal)
        await server.api.finish()
        assert main(["import", "audit", "--with-secrets", str(server.path), str(folder / "out")]) == 0
    imported = Journal.open(folder / "out" / "journal", readonly=True)
    found = state(imported)
    for key in sorted(writes.touched):
        if key[0] == "pods":
            continue  # admission adds to them
        assert as_sent(found.get(key)) == as_sent(expected.get(key)), key
    imported.close()


async def test_names_and_authors_by_metadata(folder: Path) -> None:
    async with audited(rules("level: Metadata")) as server:
        assert server.api.store is not None
        writes = RandomWrites(server.api, Random(31))
        await writes.run(120)
        written = [one for one in events(server.api.store.journal).values() if one.user in USERS]
        await server.api.finish()
        assert main(["import", "audit", str(server.path), str(folder / "out")]) == 0
    imported = Journal.open(folder / "out" / "journal", readonly=True)
    found = [one for one in events(imported).values() if not one.reason.startswith(ADDED)]
    assert all("content unknown" in one.reason or one.removed for one in found)
    assert {(one.user, one.name) for one in found} >= {
        (one.user, one.name) for one in written if one.verb == "create"
    }
    imported.close()
