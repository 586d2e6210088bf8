"""The timeline, lifelines and blame decompress no event of which they need only the time, the author or the verb."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rewound.actors.rewind.blame import blame
from rewound.actors.rewind.long_work import run
from rewound.actors.rewind.timeline import Filter, Found, Range, TimelineIndex, patterns, scan
from rewound.actors.rewind.versions import Address, newest
from rewound.journal import Journal
from tests.journal.decompressions import decompressions
from tests.journal.model import NOON, Model

EVENTS = 40


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    """Four objects in turns; bob has written every tenth event."""
    opened, model = Journal.open(tmp_path / "journal"), Model()
    events = [model.put("abcd"[number % 4]) for number in range(EVENTS)]
    opened.append([one._replace(user="alice" if one.offset % 10 else "bob") for one in events])
    yield opened
    opened.close()


def scanned(journal: Journal, sought: Filter, *, events: bool) -> Found:
    index = TimelineIndex(journal)
    run(index.update())
    span = Range(0, EVENTS)
    return run(
        scan(
            journal,
            index.tracks(),
            span,
            sought,
            lambda track: True,
            limit=EVENTS,
            max_bytes=1 << 20,
            events=events,
        )
    )


def test_index_of_the_timeline_and_its_times(journal: Journal) -> None:
    with decompressions() as found:
        index = TimelineIndex(journal)
        run(index.update())
        offsets = run(index.times.offsets_before([NOON + 1000 * at for at in range(1, EVENTS)], 0, EVENTS))
    assert offsets == [*range(EVENTS - 1)]
    assert not found


def test_events_of_one_user(journal: Journal) -> None:
    with decompressions() as found:
        hits = scanned(journal, Filter(user=patterns("bob")), events=False).hits
        assert [hit.offset for hit in hits] == [40, 30, 20, 10]
        assert not found
        hits = scanned(journal, Filter(user=patterns("bob")), events=True).hits
    assert all(hit.event is not None and hit.event.body for hit in hits)
    assert len(found) == len(hits) == 4


def test_blame_reads_each_version_once(journal: Journal) -> None:
    last = run(newest(journal, Address(1, "default", "a"), EVENTS))
    assert last is not None
    with decompressions() as found:
        blamed = run(blame(journal, last))
    assert blamed.events == {at: blamed.events[at]._replace(facts=b"", body=b"") for at in (1, 37)}
    assert len(found) == EVENTS // 4
