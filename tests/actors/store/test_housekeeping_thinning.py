"""Housekeeping drops old renewals in turn, and nothing that somebody changed."""

from __future__ import annotations

from pathlib import Path

import trio
from trio.testing import MockClock

from rewound.actors.store.committer import Committer
from rewound.actors.store.feed import Feed
from rewound.actors.store.housekeeping import Housekeeping, only_renews
from rewound.journal import Event, Journal
from tests.actors.store.test_housekeeping_pace import SECOND, LoopClock

MINUTE = 60 * SECOND


def renewal(offset: int, time: int, *, holder: str = "a", user: str = "u", reason: str = "") -> Event:
    body = (
        b'{"metadata":{"resourceVersion":"%d"},"spec":{"holder":"%b","renewTime":"2030-01-01T00:%02d:00.000001Z"}}'
        % (offset, holder.encode(), offset % 60)
    )
    return Event(
        offset, 1, "update", "ns", "a", offset - 1, False, time, user, "m", b"\x90", body, reason=reason
    )


def test_only_what_changes_nothing_but_times_renews() -> None:
    first = renewal(1, 0)
    assert only_renews(first, renewal(2, 0))
    assert not only_renews(first, renewal(2, 0, holder="b"))
    assert not only_renews(first, renewal(2, 0, user="other"))
    assert not only_renews(first, renewal(2, 0, reason="rollback to 1"))
    later = renewal(2, 0)
    annotated = later.body.replace(b'"spec"', b'"note":"12:00","spec"')
    assert not only_renews(first, later._replace(body=annotated))
    assert not only_renews(
        later._replace(body=annotated), later._replace(body=annotated.replace(b"12:00", b"13:00"))
    )


async def test_renewals_go_after_the_time_of_their_kind(tmp_path: Path, autojump_clock: MockClock) -> None:
    journal = Journal.open(tmp_path, durable=False)
    journal.register_type("leases.coordination.k8s.io")
    journal.append([renewal(offset, offset * MINUTE) for offset in range(1, 101)])
    committer = Committer(journal, Feed(journal.head, journal))
    housekeeping = Housekeeping(
        journal, committer, LoopClock(), 24 * 60 * MINUTE, thinning={"leases": 3600.0, "none": 600.0}
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(committer.run)
        await trio.sleep(100 * 60 + 1)
        await housekeeping.thin()
        with journal.read() as view:
            assert [event.offset for event in view.all_events(0)] == [1, *range(40, 101)]
        await trio.sleep(60)  # not yet a tenth of the hour
        await housekeeping.thin()
        with journal.read() as view:
            assert view.thinned[1].upto == 40
        await trio.sleep(600)
        await housekeeping.thin()
        with journal.read() as view:
            assert [event.offset for event in view.all_events(0)] == [1, *range(51, 101)]
        nursery.cancel_scope.cancel()
    journal.close()
