"""Events are deleted an hour after their last write, at most a minute later."""

from __future__ import annotations

from pathlib import Path

from trio.testing import MockClock

from rewound.actors.controllers.event_expiry import EventExpiry
from rewound.actors.messages import Object
from tests.actors.controllers.control_plane import ControlPlane, open_control_plane
from tests.actors.controllers.signing_requests import controller_context
from tests.journal.decompressions import decompressions

CONTENT: Object = {"involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}, "reason": "R"}


async def create(cluster: ControlPlane, name: str = "e", **metadata: object) -> Object:
    return await cluster.create("events", name, content=CONTENT, **metadata)


async def test_event_is_deleted_after_an_hour(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await create(cluster)
        await cluster.wait_until_idle(3599)
        assert cluster.names("events") == ["e"]
        await cluster.wait_until_idle(62)
        assert cluster.names("events") == []
        assert cluster.events("events", "e")[-1].removed


async def test_update_postpones_the_deletion(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_control_plane(tmp_path) as cluster:
        created = await create(cluster)
        await cluster.wait_until_idle(1800)
        await cluster.replace("events", {**created, "message": "again"})
        await cluster.wait_until_idle(3599)
        assert cluster.names("events") == ["e"]
        await cluster.wait_until_idle(62)
        assert cluster.names("events") == []


async def test_many_events_of_one_time_are_all_deleted(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_control_plane(tmp_path) as cluster:
        for number in range(150):
            await create(cluster, f"e{number}")
        await cluster.wait_until_idle(3662)
        assert cluster.names("events") == []


async def test_event_that_a_finalizer_keeps_is_deleted_only_once(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await create(cluster, finalizers=["example.com/keep"])
        await cluster.wait_until_idle(3 * 3600)
        assert cluster.is_being_deleted("events", "e")
        assert len(cluster.events("events", "e")) == 2  # created, being deleted


async def test_event_that_changes_during_its_deletion_stays(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async def change() -> None:
        await cluster.replace("events", {**created, "message": "again"})

    async with open_control_plane(tmp_path) as cluster:
        created = await create(cluster)
        cluster.before_write("apiserver", change)
        await cluster.wait_until_idle(3662)
        assert cluster.names("events") == ["e"]
        await cluster.wait_until_idle(3662)
        assert cluster.names("events") == []


async def test_after_a_restart_old_events_go_and_later_ones_stay_for_their_time(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path, controllers=False) as cluster:
        await create(cluster, "old")
        await cluster.wait_until_idle(1800)
        await create(cluster, "later")
        await cluster.wait_until_idle(1900)
    async with open_control_plane(tmp_path) as cluster:
        await cluster.wait_until_idle(1)
        assert cluster.names("events") == ["later"]
        await cluster.wait_until_idle(1690)
        assert cluster.names("events") == ["later"]
        await cluster.wait_until_idle(75)
        assert cluster.names("events") == []


async def test_start_decompresses_no_event_to_find_its_time(tmp_path: Path) -> None:
    async with open_control_plane(tmp_path, controllers=False) as cluster:
        for number in range(3):
            await create(cluster, f"e{number}")
        expiry = EventExpiry(controller_context(cluster))
        with decompressions() as found:
            await expiry.catch_up()
        assert expiry.queue.statistics().delayed == 1
    assert not found
