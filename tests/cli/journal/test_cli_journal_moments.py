from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rewound.journal import Journal
from rewound.recording.query.moments import Moment, parse_moment
from tests.gateway.journal_commands import NOON, HistoryWriter, put, run_journal, write_history


@pytest.fixture(autouse=True)
def zone() -> Iterator[None]:
    """Two hours ahead of UTC in summer, one in winter, whatever this machine is set to."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "CET-1CEST,M3.5.0,M10.5.0/3"
    time.tzset()
    yield
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


def at(text: str) -> str:
    """The UTC time of a text, at ten past two in the afternoon of a summer day."""
    now = datetime(2024, 5, 1, 14, 10, 30).astimezone()
    moment = parse_moment(text, now)
    assert moment.time is not None
    return datetime.fromtimestamp(moment.time / 1_000_000, UTC).isoformat(" ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-05-01T12:03:00Z", "2024-05-01 12:03:00+00:00"),
        ("2024-05-01t12:03:00.5z", "2024-05-01 12:03:00.500000+00:00"),
        ("2024-05-01T12:03:00+05:30", "2024-05-01 06:33:00+00:00"),
        ("2024-05-01 12:03", "2024-05-01 10:03:00+00:00"),
        ("2024-01-15 12:03", "2024-01-15 11:03:00+00:00"),
        ("2024-05-01", "2024-04-30 22:00:00+00:00"),
        ("12:03", "2024-05-01 10:03:00+00:00"),
        ("9:03", "2024-05-01 07:03:00+00:00"),
        ("14:10:30", "2024-05-01 12:10:30+00:00"),
        ("14:10:31", "2024-04-30 12:10:31+00:00"),
        ("23:59", "2024-04-30 21:59:00+00:00"),
        ("10m", "2024-05-01 12:00:30+00:00"),
        ("1h30m", "2024-05-01 10:40:30+00:00"),
    ],
)
def test_times_are_parsed(text: str, expected: str) -> None:
    assert at(text) == expected


def test_offsets_and_now_are_parsed() -> None:
    assert parse_moment("1042") == Moment(offset=1042)
    assert parse_moment("0") == Moment(offset=0)
    assert parse_moment("9" * 400).offset == 2**64 - 1
    assert parse_moment("now") == Moment()


@pytest.mark.parametrize(
    "text", ["", "foo", "-5", "12:60", "25:00", "2024-13-01", "2024-05-01T", "٥", "1.5", "0001-01-01"]
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a moment; write a version \(1042\)"):
        parse_moment(text)


def test_moments_resolve_to_offsets(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path)
    HistoryWriter(journal).write([put("a"), put("b"), put("c")])
    with journal.read() as view:
        second = Moment(time=NOON + 2_000_000)
        between = Moment(time=NOON + 2_500_000)
        assert [second.version(view), second.first(view)] == [2, 2]
        assert [between.version(view), between.first(view)] == [2, 3]
        assert [Moment(time=0).version(view), Moment(time=0).first(view)] == [0, 1]
        assert [Moment(offset=2).version(view), Moment(offset=2).first(view)] == [2, 2]
        assert [Moment().version(view), Moment().first(view)] == [3, 3]
    journal.close()


def test_a_journal_whose_clock_is_fast_has_moments_that_are_still_to_come_here(tmp_path: Path) -> None:
    """As that of a test, in which hours pass at once."""
    start = datetime(2524, 1, 1, 12, tzinfo=UTC)
    write_history(tmp_path, [put("a"), put("b"), put("c")], start=round(start.timestamp()) * 1_000_000)
    folder, second, later = f"--data-dir={tmp_path}", "2524-01-01T12:00:02Z", "2524-01-01T12:00:04Z"
    logged = run_journal("log", folder, "--since", second, "-o", "json")
    assert [one["offset"] for one in logged.documents] == [2, 3]
    there = run_journal("at", second, "cm", folder, "-o", "json").documents[0]
    assert [one["metadata"]["name"] for one in there["items"]] == ["a", "b"]
    since = run_journal("since", second, folder)
    assert (since.code, "b" in since.out.split(), since.err) == (0, False, "")
    for command in (("log", folder, "--since", later), ("at", later, "cm", folder), ("since", later, folder)):
        assert " is in the future; take a time that has passed" in run_journal(*command).err
