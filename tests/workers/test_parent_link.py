"""A parent asks its child to drain or to stop; the child notices when the parent ends."""

from __future__ import annotations

import socket

import trio

from rewound.workers.parent_link import DRAIN, READY, ParentLink
from tests.settling import settled


async def test_child_drains_when_asked_and_stops_when_the_parent_ends() -> None:
    ours, theirs = socket.socketpair()
    link = ParentLink(theirs)
    with ours, theirs, trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(link.follow)
            await link.report_ready()
            assert ours.recv(100) == READY
            await settled()
            assert not link.drain.is_set()
            ours.send(DRAIN)
            await link.drain.wait()
            assert not link.stop.is_set()
            ours.close()
            await link.stop.wait()
