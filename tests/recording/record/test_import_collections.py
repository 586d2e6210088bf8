"""Collections deleted while other clients write: an import has the versions of the server, and marks guesses."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest

from rewound.actors.names import NAMES
from rewound.cli.main import main
from rewound.journal.log import Journal
from rewound.journal.records import Event
from tests.actors.object_store import memory_folder
from tests.gateway.audit.auditing import audited, rules
from tests.recording.record.racing_writes import RacingWrites
from tests.recording.record.test_import_audit import events, state, who
from tests.recording.record.test_import_command import TIME, audit, config_map, gone, imported, write

MARKS = ("version assumed", "existed before the log", "found to be deleted")
UNLOGGED = "its request is not in the log"


@pytest.fixture
def folder() -> Iterator[Path]:
    with memory_folder() as found:
        yield found


def collection(received: int, second: int, *items: dict[str, Any], version: str = "") -> dict[str, Any]:
    """`version`: of the list that the deletecollection found."""
    listed = [{key: one for key, one in item.items() if key not in ("kind", "apiVersion")} for item in items]
    metadata = {"resourceVersion": version} if version else {}
    found = {"kind": "ConfigMapList", "apiVersion": "v1", "metadata": metadata, "items": listed}
    times = {"requestReceivedTimestamp": TIME.format(received)}
    return audit("deletecollection", second, "", responseObject=found, **times)


def shown(out: Path) -> list[tuple[int, str, str, bool, str]]:
    return [
        (one.offset, one.verb, one.name, one.removed, one.reason.partition("with ")[0].rstrip("; "))
        for one in imported(out)
    ]


def test_an_object_is_created_again_before_the_line_of_the_deletecollection(tmp_path: Path) -> None:
    """Like kube-root-ca.crt: four requests become four events plus the deletes, at the server's versions."""
    log = write(
        tmp_path / "audit.log",
        audit("create", 1, "ca", code=201, responseObject=config_map(10, "old", "ca")),
        audit("create", 1, "web", code=201, responseObject=config_map(11, "web", "web")),
        audit("create", 3, "ca", code=201, responseObject=config_map(13, "new", "ca", uid="new")),
        collection(2, 4, config_map(10, "old", "ca"), config_map(11, "web", "web")),
        audit("update", 5, "ca", responseObject=config_map(15, "newer", "ca", uid="new")),
    )
    assert main(["import", "audit", log, str(tmp_path / "out")]) == 0
    assert shown(tmp_path / "out") == [
        (10, "create", "ca", False, ""),
        (11, "create", "web", False, ""),
        (12, "deletecollection", "ca", True, "version assumed"),
        (13, "create", "ca", False, ""),
        (14, "deletecollection", "web", True, "version assumed"),
        (15, "update", "ca", False, ""),
    ]
    # A delete of seconds 2 to 4 does not delay the times of what follows it.
    times = [one.time // 1_000_000 % 60 for one in imported(tmp_path / "out")]
    assert times == [1, 1, 2, 3, 3, 5]


def test_objects_from_before_the_log_take_no_version_of_others(tmp_path: Path) -> None:
    """One version is free between two requests: that of the delete."""
    log = write(
        tmp_path / "audit.log",
        audit("create", 1, "a", code=201, responseObject=config_map(10, "a", "a")),
        collection(2, 2, config_map(3, "old", "old"), config_map(4, "old", "older")),
        audit("create", 3, "b", code=201, responseObject=config_map(13, "b", "b")),
        audit("delete", 4, "never", **gone("uid-never")),
        audit("create", 5, "c", code=201, responseObject=config_map(15, "c", "c")),
    )
    out = tmp_path / "out"
    assert main(["import", "audit", log, str(out)]) == 0
    assert shown(out) == [
        (3, "create", "old", False, UNLOGGED),
        (4, "create", "older", False, UNLOGGED),
        (10, "create", "a", False, ""),
        (11, "deletecollection", "old", True, "version assumed"),
        (12, "deletecollection", "older", True, "version assumed"),
        (13, "create", "b", False, ""),
        (14, "delete", "never", True, "version assumed, existed before the log, content unknown"),
        (15, "create", "c", False, ""),
    ]
    assert main(["export", str(tmp_path / "out.journal"), "--data-dir", str(out)]) == 0
    assert main(["import", str(tmp_path / "out.journal"), "--data-dir", str(tmp_path / "again")]) == 0
    for journal in (out, tmp_path / "again"):
        assert main(["verify", "--data-dir", str(journal)]) == 0


def test_a_collection_deletes_after_the_version_at_which_it_found_its_objects(tmp_path: Path) -> None:
    """Another delete, whose line comes later, has that version."""
    other = audit("delete", 4, "a", **gone("uid-a"))
    other["requestReceivedTimestamp"] = TIME.format(2)
    log = write(
        tmp_path / "audit.log",
        audit("create", 1, "a", code=201, responseObject=config_map(10, "a", "a", uid="uid-a")),
        audit("create", 1, "b", code=201, responseObject=config_map(11, "b", "b")),
        collection(2, 3, config_map(11, "b", "b"), version="12"),
        other,
        audit("create", 5, "c", code=201, responseObject=config_map(14, "c", "c")),
    )
    assert main(["import", "audit", log, str(tmp_path / "out")]) == 0
    assert [(offset, name) for offset, _, name, *_ in shown(tmp_path / "out")][2:4] == [(12, "a"), (13, "b")]


def test_a_delete_that_changed_nothing_is_not_the_author_of_the_mark(tmp_path: Path) -> None:
    plain = config_map(10, "web", finalizers=["a/b"])
    marked = config_map(11, "web", finalizers=["a/b"], deletionTimestamp="2026-11-17T10:00:02Z")
    for name, received, user, guessed in (("after", 4, "alice", False), ("meanwhile", 2, "bob", True)):
        late = audit("delete", 4, responseObject=marked, user={"username": "bob"})
        late["requestReceivedTimestamp"] = TIME.format(received)
        create = audit("create", 1, code=201, responseObject=plain)
        log = write(tmp_path / f"{name}.log", create, collection(2, 3, plain), late)
        assert main(["import", "audit", log, str(tmp_path / name)]) == 0
        _, mark = imported(tmp_path / name)
        assert (mark.offset, mark.user, "user guessed" in mark.reason) == (11, user, guessed), name


def uid_of(event: Event) -> str:
    return str(orjson.loads(event.body)["metadata"]["uid"])


async def raced(folder: Path, seed: int, level: str, dialect: str) -> tuple[Any, Any, Any, Any]:
    """The events and the final state of the server, and of the journal imported from its log."""
    policy = rules(f"level: {level}").replace("audit.cluster.io", NAMES[dialect].group("audit"))
    async with audited(policy, dialect=dialect) as server:
        assert server.api.store is not None
        await RacingWrites(server.api, Random(seed)).run(2)
        journal = server.api.store.journal
        written, end = events(journal), state(journal)
        await server.api.finish()
        assert main(["import", "audit", "--with-secrets", str(server.path), str(folder / "out")]) == 0
    assert main(["verify", "--data-dir", str(folder / "out")]) == 0
    journal = Journal.open(folder / "out" / "journal", readonly=True)
    found = events(journal), state(journal)
    journal.close()
    return written, end, *found


def check_versions(written: dict[int, Event], found: dict[int, Event]) -> None:
    """Events with a version equal the server's events; all others are marked as guesses."""
    for offset, event in found.items():
        if event.reason.startswith(UNLOGGED):
            assert who(event)[3:] == who(written[offset])[3:], event
        elif not event.reason.startswith(MARKS):
            assert not event.reason.startswith("recorded as version"), event
            same = who(event) == who(written[offset])
            assert same or ("user guessed" in event.reason and who(event)[3:] == who(written[offset])[3:]), (
                event
            )


SEEDS = [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 40))]


@pytest.mark.parametrize("seed", SEEDS)
async def test_deletes_by_the_items_of_responses(
    folder: Path, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    written, end, found, found_end = await raced(folder, seed, "RequestResponse", "kubernetes")
    check_versions(written, found)

    def of(events: dict[int, Event]) -> list[Event]:
        return [one for one in events.values() if one.namespace.startswith("race") and one.removed]

    unknown = Counter(map(uid_of, of(written)))
    unknown.subtract(map(uid_of, of(found)))
    assert min(unknown.values()) >= 0, "it was not removed on the server"
    # A collection is deleted name by name: it may delete an object that was created after its list.
    said = re.search(r"(\d+) requests .* what was created while it ran", capsys.readouterr().err)
    replaced = [one for one in found.values() if "found to be deleted" in one.reason and not one.removed]
    assert unknown.total() <= (int(said[1]) if said else 0) + len(replaced)
    authors = {uid_of(one): (one.user, one.verb) for one in of(written)}
    named = [one for one in of(found) if one.user != "recorded" and "user guessed" not in one.reason]
    assert [one for one in named if (one.user, one.verb) != authors[uid_of(one)]] == []
    # Controllers of the server write service accounts without requests.
    unlogged = {key for key in end.keys() - found_end.keys() if key[1].startswith("race")}
    assert {key[0] for key in unlogged} <= {"serviceaccounts"}
    assert len(found_end.keys() - end.keys()) <= unknown.total()


async def test_deletes_that_responses_do_not_name(folder: Path) -> None:
    written, _, found, _ = await raced(folder, 5, "RequestResponse", "cluster")
    check_versions(written, found)


async def test_deletes_without_responses(folder: Path) -> None:
    _, _, found, _ = await raced(folder, 6, "Metadata", "kubernetes")
    assert [one for one in found.values() if not one.reason.startswith(MARKS)] == []
    deletes = [one for one in found.values() if one.verb == "deletecollection" and one.removed]
    assert all("deletion assumed" in one.reason or "user guessed" in one.reason for one in deletes)
