"""One event that cannot be read costs readers of many events only itself: it is left out, counted and named."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewound.journal import Event, Journal, records
from rewound.journal.errors import Damaged, Unreadable
from rewound.journal.keys import pack_offset
from rewound.journal.recording import Recording
from tests.journal.model import Model
from tests.journal.test_damage import flipped
from tests.journal.test_too_large_contents import claiming, put, stored

WITHOUT_CONTENTS = (claiming(64 << 20), b"no frame", b"")


@pytest.fixture
def events(journal: Journal, model: Model) -> list[Event]:
    journal.register_type("configmaps")
    found = [model.put(name) for name in "abcabc"]
    journal.append(found)
    return found


def damage(journal: Journal, event: Event) -> None:
    put(journal, event, flipped(records.encode_event(pack_offset(event.offset), event)))


def newer(journal: Journal, after: int = 0, count: int = 10) -> list[Event]:
    with journal.read() as view:
        return view.newer_events(after, count, 1 << 20)


@pytest.mark.parametrize("frame", WITHOUT_CONTENTS)
def test_event_without_readable_contents_keeps_everything_else(
    journal: Journal, events: list[Event], frame: bytes
) -> None:
    put(journal, events[1], stored(events[1], frame))
    assert newer(journal) == [events[0], events[1]._replace(facts=b"", body=b""), *events[2:]]
    [text] = journal.unreadable
    assert text.startswith("event 2 has a wrong field (contents: ") and text.endswith(
        ", of configmaps default/b"
    )
    assert not journal.environment.stopped


def test_newest_version_of_an_object_has_the_contents_of_its_row(
    journal: Journal, events: list[Event]
) -> None:
    put(journal, events[5], stored(events[5], b"no frame"))
    assert newer(journal) == events
    assert len(journal.unreadable) == 1


def test_damaged_event_is_left_out_and_stops_writes(
    journal: Journal, events: list[Event], model: Model
) -> None:
    damage(journal, events[1])
    for _ in range(2):
        assert newer(journal) == [events[0], *events[2:]]
    assert list(journal.unreadable) == ["event 2 does not match its checksum, of configmaps default/b"]
    with pytest.raises(Damaged), journal.read() as view:
        view.event(2)
    assert "event 2" in journal.environment.stopped


def test_reading_goes_on_behind_more_damaged_events_than_are_read_at_once(
    journal: Journal, events: list[Event]
) -> None:
    for event in events[1:5]:
        damage(journal, event)
    assert [event.offset for event in newer(journal, 0, 2)] == [1, 6]
    assert [event.offset for event in newer(journal, 1, 2)] == [6]
    assert newer(journal, 6, 2) == []


def test_events_of_given_offsets(journal: Journal, events: list[Event]) -> None:
    put(journal, events[0], stored(events[0], b"no frame"))
    damage(journal, events[3])
    with journal.read() as view:
        found = view.events_at([1, 3, 4, 5, 9], 1 << 20)
        assert [event.offset for event in found] == [1, 3, 5]
        assert view.readable(4) is None and view.readable(9) is None
        assert view.has_event(4) and not view.has_event(9)


def test_old_state_has_the_object_without_contents(journal: Journal, events: list[Event]) -> None:
    put(journal, events[1], stored(events[1], b"no frame"))
    with journal.read() as view:
        assert [(name, row.offset, bool(row.body)) for _, name, row in view.at(3).rows(1)] == [
            ("a", 1, True),
            ("b", 2, False),
            ("c", 3, True),
        ]
        assert view.at(3).get(1, "default", "b").body == b""  # type: ignore[union-attr]
        with pytest.raises(Unreadable):
            view.event(2)


def test_recording_is_followed_past_it(tmp_path: Path, model: Model) -> None:
    journal = Journal.open(tmp_path / "journal")
    journal.register_type("configmaps")
    found = [model.put(name) for name in "abcabc"]
    journal.append(found)
    put(journal, found[2], stored(found[2], b"no frame"))
    journal.close()
    recording = Recording.open_folder(tmp_path / "journal")
    recording.position = 1
    assert [(event.offset, bool(event.body)) for event in recording.following(4, 1 << 20)] == [
        (2, True),
        (3, False),
        (4, True),
        (5, True),
    ]
    recording.close()


def test_each_is_reported_once(journal: Journal, events: list[Event]) -> None:
    put(journal, events[1], stored(events[1], b"no frame"))
    newer(journal)
    reported: list[str] = []
    journal.unreadable.report_to(reported.append)
    journal.unreadable.report_to(reported.append)
    damage(journal, events[2])
    for _ in range(3):
        newer(journal)
    assert [text.split()[1] for text in reported] == ["2", "3"]
    assert journal.statistics()["unreadable_events"] == 2
