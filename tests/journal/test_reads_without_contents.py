"""Reads that need only who wrote an event, when, or what it follows do not decompress its contents."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rewound.journal import Event, Journal, keys, records, retention
from rewound.journal.recording import Recording
from rewound.journal.view import View
from tests.cases import cases
from tests.journal.decompressions import decompressions
from tests.journal.model import NOON, Model
from tests.journal.test_golden_bytes import EVENT, EVENT_1, EVENT_2, EVENT_3


@pytest.fixture
def filled(journal: Journal, model: Model) -> Journal:
    fill(journal, model)
    return journal


def fill(journal: Journal, model: Model) -> None:
    journal.append([model.put(name) for name in "abcabcabc"])
    journal.append([model.remove("a"), model.put("b")])


def bare(events: list[Event]) -> list[Event]:
    return [event._replace(facts=b"", body=b"") for event in events]


@cases("encoded", [EVENT_1, EVENT_2, EVENT_3])
def test_event_of_every_layout_without_contents(encoded: bytes) -> None:
    with decompressions() as found:
        event = records.decode_event(2024, encoded, contents=False)
    reason = "" if encoded is EVENT_1 else "rollback to 7"
    assert event == EVENT._replace(reason=reason, facts=b"", body=b"")
    assert not found


@cases(
    ("read", "expected"),
    [
        (lambda view: [view.event(4, contents=False)], [4]),
        (lambda view: [view.event_of(keys.of_object(1, "default", "b"), 5, contents=False)], [5]),
        (lambda view: view.events(7, contents=False), [8, 9, 10, 11]),
        (lambda view: view.events(7, type_id=1, contents=False), [8, 9, 10, 11]),
        (lambda view: view.history(1, "default", "a", contents=False), [1, 4, 7, 10]),
    ],
)
def test_events_without_contents(
    filled: Journal, model: Model, read: Callable[[View], list[Event]], expected: list[int]
) -> None:
    with filled.read() as view, decompressions() as found:
        assert [*read(view)] == bare([model.events[offset - 1] for offset in expected])
    assert not found


@cases(
    ("read", "expected"),
    [
        (lambda view: view.offset_at(NOON + 5500), 5),
        (lambda view: view.at(8).count(1), 3),
        (lambda view: view.at(2).get(1, "default", "c"), None),
        (lambda view: [offset for _, offset in view.at(8).references(1, keys.pack_type(1), 9)], [7, 8, 6]),
    ],
)
def test_reads_of_times_and_of_what_follows(
    filled: Journal, model: Model, read: Callable[[View], object], expected: object
) -> None:
    with filled.read() as view, decompressions() as found:
        assert read(view) == expected
    assert not found


def test_object_at_an_old_version_decompresses_only_its_own_event(filled: Journal, model: Model) -> None:
    with filled.read() as view, decompressions() as found:
        row = view.at(5).get(1, "default", "b")
    assert row == model.state(at=5)[1, "default", "b"]
    assert len(found) == 1


def test_list_at_an_old_version_decompresses_what_it_returns(filled: Journal, model: Model) -> None:
    with filled.read() as view, decompressions() as found:
        rows = [*view.at(8).rows(1)]
    assert rows == [*model.rows(1, at=8)]
    assert len(found) == 3


def test_retention_decompresses_nothing(filled: Journal, model: Model) -> None:
    with decompressions() as found:
        assert retention.advance(filled, 9).done
    with filled.read() as view:
        assert (view.floor, [event.offset for event in view.all_events(0)]) == (9, [7, 8, 9, 10, 11])
    assert not found


def test_time_of_a_recording_decompresses_nothing(tmp_path: Path, model: Model) -> None:
    journal = Journal.open(tmp_path)
    fill(journal, model)
    journal.close()
    recording = Recording.open_folder(tmp_path)
    recording.position = 6
    with decompressions() as found:
        assert recording.time == model.events[5].time
    assert not found
    recording.close()
