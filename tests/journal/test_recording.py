"""A recording is a journal that ends at a movable position."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewound.journal import Journal
from rewound.journal.errors import FutureVersion, NotWritable
from rewound.journal.recording import Recording
from rewound.journal.view import View
from tests.gateway.journal_commands import delete, put, write_history


def contents(view: View, type_id: int) -> list[tuple[str, str, int]]:
    return [(namespace, name, row.offset) for namespace, name, row in view.rows(type_id)]


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    steps = [put(f"c{number % 5}", {"n": str(number)}) for number in range(40)]
    steps[12:12] = [delete("c1"), delete("c3", namespace="default")]
    write_history(tmp_path, steps)
    return Recording.open_folder(tmp_path / "journal")


def test_every_position_shows_what_the_journal_shows_at_it(recording: Recording) -> None:
    type_id = recording.type_id("configmaps")
    for position in [*range(recording.end + 1), *range(recording.end, -1, -3)]:
        recording.position = position
        with recording.read() as limited, recording.read_all() as whole:
            past = whole.at(position)
            assert limited.head == recording.head == position
            assert contents(limited, type_id) == contents(past, type_id)  # type: ignore[arg-type]
            assert limited.count(type_id) == past.count(type_id)
            for name in ("c0", "c1", "c4"):
                assert limited.get(type_id, "default", name) == past.get(type_id, "default", name)
            assert [event.offset for event in limited.events(0)] == list(range(1, position + 1))
            assert [event.offset for event in limited.events(0, type_id=type_id)] == list(
                range(1, position + 1)
            )
            assert all(event.offset <= position for event in limited.history(type_id, "default", "c1"))
            assert limited.event(position + 1) is None
            assert limited.offset_at(10**18) == position
    recording.close()


def test_versions_after_the_position_are_in_the_future(recording: Recording) -> None:
    recording.position = 5
    with recording.read() as view:
        assert view.at(4).head == 4
        with pytest.raises(FutureVersion):
            view.at(6)
    recording.close()


def test_following_events_end_where_the_recording_did(tmp_path: Path) -> None:
    write_history(tmp_path, [put("a", {"text": "x" * 100}) for _ in range(10)])
    recording = Recording.open_folder(tmp_path / "journal")
    recording.end, recording.position = 8, 2
    assert [event.offset for event in recording.following(3, 1 << 20)] == [3, 4, 5]
    assert [event.offset for event in recording.following(30, 1 << 20)] == [3, 4, 5, 6, 7, 8]
    assert [event.offset for event in recording.following(30, 150)] == [3]
    recording.close()


def test_nothing_is_written(tmp_path: Path) -> None:
    write_history(tmp_path, [put("a")])
    recording = Recording.open_folder(tmp_path / "journal")
    recording.register_types(["widgets.example.com", "pods"])
    assert recording.type_id("pods") > recording.type_id("configmaps")
    with pytest.raises(NotWritable):
        recording.append([])
    recording.close()
    journal = Journal.open(tmp_path / "journal", readonly=True)
    assert journal.types() == {"configmaps": 1}
    journal.close()
