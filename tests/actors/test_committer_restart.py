"""A committer goes on where the journal ends: offsets and times never go back, whatever the clock says now."""

from __future__ import annotations

from pathlib import Path

from actors.store.committer import Committer
from actors.store.feed import Feed
from journal import Event, Journal, verify

LATE, EARLY = 9_000, 1_000


def write(folder: Path, name: str, time: int) -> tuple[int, int]:
    """One write by a server that is started for it, at a time that its clock gives."""
    journal = Journal.open(folder)
    committer = Committer(journal, Feed(journal.head), inline=True)
    offset, at = committer.reserve(time)
    type_id = journal.register_type("things")
    event = Event(offset, type_id, "create", "ns", name, 0, False, at, "u", "m", b"\x90", b'{"metadata":{}}')
    failures: list[Exception | None] = []
    committer.submit([event], failures.append)
    journal.close()
    assert failures == [None]
    return offset, at


def test_a_clock_that_was_set_back_does_not_reach_the_log(tmp_path: Path) -> None:
    assert write(tmp_path, "a", LATE) == (1, LATE)
    assert write(tmp_path, "b", EARLY) == (2, LATE)
    assert write(tmp_path, "c", LATE + 1) == (3, LATE + 1)
    journal = Journal.open(tmp_path, readonly=True)
    with journal.read() as view:
        assert verify.verify(view).differences == []
    journal.close()
