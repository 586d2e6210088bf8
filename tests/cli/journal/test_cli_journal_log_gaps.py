"""`rewound log` has a line where a recording may have missed something, so that nobody reads over it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewound.cli.journal.log import Missed
from rewound.recording.query.entries import Selection
from rewound.recording.query.folder import open_folder
from rewound.recording.query.folder_source import FolderSource
from rewound.recording.query.moments import micros_of
from rewound.recording.record.gaps import EXPIRED, STOPPED, UNREACHABLE, Gaps
from tests.gateway.journal_commands import put, run_journal, write_history

STORY = [put("web", {"n": "1"}), put("web", {"n": "2"}), put("web", {"n": "3"}), put("web", {"n": "4"})]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_history(tmp_path, STORY)
    return tmp_path


def documents(folder: Path, *flags: str) -> list[object]:
    result = run_journal("log", f"--data-dir={folder}", "-o", "json", *flags)
    assert (result.code, result.err) == (0, "")
    return [one["version"] if "version" in one else one["why"] for one in result.documents]


def times(folder: Path) -> list[int]:
    result = run_journal("log", f"--data-dir={folder}", "-o", "json")
    return [micros_of(one["time"]) for one in result.documents if "time" in one]


def test_a_gap_is_where_it_begins(folder: Path) -> None:
    first, second, third, last = times(folder)
    gaps = Gaps(folder)
    gaps.add(STOPPED, first + 1, second - 1, "", "", missing=False)
    gaps.add(EXPIRED, third, last - 1, "configmaps", "", missing=True)
    assert documents(folder) == ["1", STOPPED, "2", "3", EXPIRED, "4"] or documents(folder) == [
        *("1", STOPPED, "2", EXPIRED, "3", "4")
    ]
    assert documents(folder, "--reverse") == documents(folder)[::-1]
    assert documents(folder, "--limit", "2") == documents(folder)[3:]
    assert documents(folder, "--limit", "1", "--reverse") == ["4"]
    assert documents(folder, "--since", "4") == ["4"]
    assert documents(folder, "--until", "1") == ["1"]


def test_other_kinds_do_not_count(folder: Path) -> None:
    first, *_ = times(folder)
    Gaps(folder).add(EXPIRED, first + 1, first + 2, "pods", "", missing=True)
    assert EXPIRED in documents(folder)
    assert EXPIRED not in documents(folder, "configmaps")
    assert EXPIRED in documents(folder, "--user", "nobody")  # who knows?


def test_kinds_with_the_same_gap_are_one_line(folder: Path) -> None:
    first, second, *_ = times(folder)
    for number, kind in enumerate(("pods", "nodes", "configmaps", "leases", "secrets")):
        Gaps(folder).add(EXPIRED, first + 1 + number, second - 10 + number, kind, "", missing=True)
    result = run_journal("log", f"--data-dir={folder}")
    (line,) = (one for one in result.lines if " gap " in one)
    assert (
        "configmaps, leases, nodes and 2 more kinds: the watch had expired, so versions are missing" in line
    )
    assert line.split()[0] == "-"


def test_a_gap_that_lasts_is_the_end(folder: Path) -> None:
    *_, last = times(folder)
    Gaps(folder).begin(UNREACHABLE, last + 5, ["configmaps"], "connection refused")
    result = run_journal("log", f"--data-dir={folder}")
    assert "until now: configmaps: the API server did not respond" in result.lines[-1]
    assert documents(folder, "--limit", "1") == ["4", UNREACHABLE]


def test_followers_get_gaps_as_they_begin_and_end(folder: Path) -> None:
    *_, last = times(folder)
    gaps = Gaps(folder)
    with open_folder(folder) as opened:
        missed = Missed(FolderSource(opened), Selection())
        assert not missed.new()
        gaps.begin(UNREACHABLE, last + 5, ["configmaps"])
        assert [one["why"] for one in missed.new()] == [UNREACHABLE]
        assert not missed.new()
        gaps.end(UNREACHABLE, last + 9)
        assert [one["toMicros"] for one in missed.new()] == [last + 9]
        assert not missed.new()
