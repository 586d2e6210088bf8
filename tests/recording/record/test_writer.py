"""Versions of another server become offsets of a journal: the same where they ascend, otherwise the reason names
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rewound.actors.kinds.built_in import built_in
from rewound.actors.names import NAMES
from rewound.journal.log import Journal
from rewound.recording.record.changes import Change, change_of, removal
from rewound.recording.record.kinds import RecordedKind, recordable
from rewound.recording.record.recorder import HOLD_SECONDS, Reordering
from rewound.recording.record.writer import RecordingWriter
from tests.actors.object_store import memory_folder

STORAGE = built_in(NAMES["kubernetes"]).storage("configmaps")
KIND = RecordedKind(
    "configmaps", "", "v1", "configmaps", "ConfigMap", True, definition=STORAGE, storage=STORAGE
)


@pytest.fixture
def journal() -> Iterator[Journal]:
    with memory_folder() as folder:
        opened = Journal.open(Path(folder), dialect="kubernetes")
        opened.register_types(["configmaps"])
        yield opened
        opened.close()


def change(
    name: str, version: str, *, removed: bool = False, uid: str = "1", arrived: int = 50, written: str = ""
) -> Change:
    entries = [{"manager": "m", "operation": "Update", "time": written}] if written else []
    metadata = {
        "name": name,
        "namespace": "n",
        "uid": uid,
        "resourceVersion": version,
        "managedFields": entries,
    }
    return change_of(KIND, {"metadata": metadata}, arrived, removed=removed, with_secrets=False)


def stored(journal: Journal) -> list[tuple[int, str, str, int, str]]:
    with journal.read() as view:
        return [(one.offset, one.verb, one.name, one.previous, one.reason) for one in view.all_events(0)]


def test_versions_are_offsets(journal: Journal) -> None:
    writer = RecordingWriter(journal)
    writer.write([change("b", "900"), change("a", "17")])
    writer.write([change("a", "905"), change("b", "901", removed=True)])
    assert stored(journal) == [
        (17, "create", "a", 0, ""),
        (900, "create", "b", 0, ""),
        (901, "delete", "b", 900, ""),
        (905, "update", "a", 17, ""),
    ]
    with journal.read() as view:
        row = view.get(journal.type_id("configmaps"), "n", "a")
    assert row is not None and b'"resourceVersion":"905"' in row.body


@pytest.mark.parametrize("version", [1 << 62, (1 << 62) + 1, (1 << 63) - 1, 10**30])
def test_versions_that_no_journal_can_have_get_the_next_offset(journal: Journal, version: int) -> None:
    """A log, and so whoever wrote it, may have any: the journal stays readable, and goes on after it."""
    writer = RecordingWriter(journal)
    writer.write([change("a", "20")])
    writer.write([change("b", str(version))])
    writer.write([change("c", "30")])
    assert stored(journal)[1:] == [
        (21, "create", "b", 0, f"recorded as version {version}"),
        (30, "create", "c", 0, ""),
    ]


def test_late_changes_get_the_next_offset(journal: Journal) -> None:
    writer = RecordingWriter(journal)
    writer.write([change("a", "20")])
    writer.write([change("b", "19"), change("c", "21"), change("d", "30")])
    assert stored(journal)[1:] == [
        (21, "create", "b", 0, "recorded as version 19"),
        (22, "create", "c", 0, "recorded as version 21"),
        (30, "create", "d", 0, ""),
    ]
    assert writer.renumbered == 2
    assert RecordingWriter(journal).newest_version("configmaps") == "30"


def test_versions_that_are_no_numbers_are_counted(journal: Journal) -> None:
    writer = RecordingWriter(journal)
    writer.write([change("b", "x-2"), change("a", "x-1")])
    writer.write([change("b", "x-2"), change("b", "x-3")])
    assert stored(journal) == [
        (1, "create", "b", 0, "recorded as version x-2"),
        (2, "create", "a", 0, "recorded as version x-1"),
        (3, "update", "b", 1, "recorded as version x-3"),
    ]
    assert RecordingWriter(journal).newest_version("configmaps") == "x-3"


def test_changes_without_a_version_go_into_gaps(journal: Journal) -> None:
    writer = RecordingWriter(journal)
    writer.write([change(name, version) for name, version in (("a", "1"), ("b", "2"), ("c", "3"))])
    gone = [removal(KIND, "n", name, "9", 50) for name in ("a", "b")]
    writer.write([*gone, change("d", "4"), change("e", "6"), change("f", "7")])
    reason = "found to be deleted by the list at version 9"
    assert stored(journal)[3:] == [
        (4, "create", "d", 0, ""),
        (5, "delete", "a", 1, reason),
        (6, "create", "e", 0, ""),
        (7, "create", "f", 0, ""),
        (8, "delete", "b", 2, reason),
    ]


def test_object_that_was_replaced_unseen_is_deleted_first(journal: Journal) -> None:
    writer = RecordingWriter(journal)
    writer.write([change("a", "5")])
    writer.write([change("a", "9", uid="2")])
    assert stored(journal)[1:] == [
        (6, "delete", "a", 5, "found to be deleted before version 9"),
        (9, "create", "a", 0, ""),
    ]


def test_what_is_recorded_is_not_recorded_again(journal: Journal) -> None:
    RecordingWriter(journal).write([change("a", "5"), change("a", "7"), change("b", "8")])
    writer = RecordingWriter(journal)
    writer.write([change("a", "5"), change("a", "7"), change("c", "6", removed=True)])
    assert (writer.events, journal.head) == (0, 8)


def test_times_never_decrease(journal: Journal) -> None:
    second = 1_000_000
    writer = RecordingWriter(journal)
    writer.write(
        [
            change("a", "1", arrived=900 * second, written="1970-01-01T00:01:40Z"),
            change("b", "2", arrived=900 * second, written="1970-01-01T00:00:10Z"),
            change("c", "3", arrived=900 * second + 5, written="1970-01-01T00:14:59Z"),
            change("d", "4", arrived=900 * second + 6, written="1970-01-02T00:00:00Z"),
        ]
    )
    with journal.read() as view:
        times = [one.time for one in view.all_events(0)]
    assert times == [100 * second, 100 * second, 900 * second + 5, 900 * second + 6]


async def test_state_before_the_first_lists_is_forgotten(journal: Journal) -> None:
    writer = RecordingWriter(journal)
    writer.write([change("a", "5"), change("b", "7"), change("b", "8", removed=True), change("a", "9")])
    await writer.forget_before(8)
    with journal.read() as view:
        assert view.floor == 8
        assert [one.offset for one in view.all_events(0)] == [5, 9]


def test_changes_wait_for_lower_versions() -> None:
    now = 0.0
    reordering = Reordering(lambda: now)
    reordering.add(change("a", "5"))
    assert reordering.due() == []
    reordering.open = True
    now = HOLD_SECONDS / 2
    reordering.add(change("b", "3"))
    reordering.add(change("c", "9"))
    now = HOLD_SECONDS
    assert sorted(one.version for one in reordering.due()) == ["3", "5"]
    assert len(reordering) == 1
    now = 2 * HOLD_SECONDS
    assert [one.version for one in reordering.due()] == ["9"]


def test_unknown_version_of_a_known_kind_is_stored_like_the_known_ones() -> None:
    """A newer server has flow control only in v1, which this release does not have."""
    group = "flowcontrol.apiserver.k8s.io"
    listed = [{"name": "flowschemas", "kind": "FlowSchema", "namespaced": False, "verbs": ["list", "watch"]}]
    catalog = built_in(NAMES["kubernetes"])
    (kind,) = recordable(listed, group, "v1", catalog, {})
    assert kind.path("") == f"/apis/{group}/v1/flowschemas"
    given = {"apiVersion": f"{group}/v1", "kind": "FlowSchema", "metadata": {"name": "a"}, "spec": {"new": 1}}
    made = change_of(kind, given, 0, removed=False, with_secrets=False)
    assert made.body == b'{"metadata":{"name":"a","resourceVersion":""},"spec":{"new":1}}'
    (other,) = recordable([{**listed[0], "name": "gadgets"}], "example.com", "v1", catalog, {})
    made = change_of(other, {**given, "apiVersion": "example.com/v1"}, 0, removed=False, with_secrets=False)
    assert made.body.startswith(b'{"apiVersion":"example.com/v1","metadata":')
