"""POST /debug/rewound/clock moves the wall clock and all deadlines of the server together."""

from __future__ import annotations

import orjson
import pytest
import trio

from rewound.testing.clock import AdvancingClock, wait_until_idle
from tests.gateway.api import ALICE, config_map
from tests.testing.advancing import CLOCK, served


@pytest.fixture
def clock() -> AdvancingClock:
    return AdvancingClock()


@pytest.fixture
def deadlines(clock: AdvancingClock) -> trio.abc.Clock:
    """pytest-trio runs the test with it."""
    return clock.deadlines


async def test_objects_carry_the_advanced_time(clock: AdvancingClock, deadlines: trio.abc.Clock) -> None:
    async with served(clock) as api:
        before = clock.now()
        moved = (await api.ask("POST", CLOCK, {"advance": 7200})).expect(200)
        assert moved["advanced"] == 7200
        assert clock.now() - before >= 7200 * 1_000_000
        made = await api.create("configmaps", config_map("later"))
        await api.ask("POST", CLOCK, {"advance": 3600.5})
        again = await api.create("configmaps", config_map("later-still"))
        assert again["metadata"]["creationTimestamp"] > made["metadata"]["creationTimestamp"]


async def test_events_expire_when_the_clock_is_advanced(
    clock: AdvancingClock, deadlines: trio.abc.Clock
) -> None:
    async with served(clock) as api:
        event = {"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}, "reason": "Tested"}
        assert (await api.ask("POST", "/api/v1/namespaces/default/events", event)).status == 201
        await api.ask("POST", CLOCK, {"advance": 3000})
        assert (await api.ask("GET", "/api/v1/namespaces/default/events/e")).status == 200
        await api.ask("POST", CLOCK, {"advance": 1200})
        assert (await api.ask("GET", "/api/v1/namespaces/default/events/e")).status == 404


async def test_token_of_a_service_account_expires(clock: AdvancingClock, deadlines: trio.abc.Clock) -> None:
    async with served(clock) as api:
        path = "/api/v1/namespaces/default/serviceaccounts/default/token"
        made = (await api.ask("POST", path, {"spec": {"expirationSeconds": 600}})).expect(201)
        token = made["status"]["token"]
        assert (await api.ask("GET", "/version", token=token)).status == 200
        await api.ask("POST", CLOCK, {"advance": 500})
        assert (await api.ask("GET", "/version", token=token)).status == 200
        # A minute more than the requested lifetime of the token.
        await api.ask("POST", CLOCK, {"advance": 161})
        assert (await api.ask("GET", "/version", token=token)).status == 401


async def test_watch_gets_bookmarks_and_ends_at_its_timeout(
    clock: AdvancingClock, deadlines: trio.abc.Clock
) -> None:
    async with served(clock) as api:
        watched: list[str] = []
        done = trio.Event()

        async def watch() -> None:
            query = "?watch=true&allowWatchBookmarks=true&timeoutSeconds=300"
            headers = {"authorization": "Bearer admin-token"}
            path = f"/api/v1/namespaces/default/configmaps{query}"
            async with api.client.stream("GET", path, headers=headers, timeout=None) as response:
                watched.append("OPEN")
                async for line in response.aiter_lines():
                    watched.append(orjson.loads(line)["type"])
            done.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            with trio.fail_after(60):
                while not watched:
                    await trio.lowlevel.checkpoint()
            assert not done.is_set()
            await api.ask("POST", CLOCK, {"advance": 301})
            await done.wait()
        assert "BOOKMARK" in watched


async def test_timers_fire_in_order_and_again(clock: AdvancingClock, deadlines: trio.abc.Clock) -> None:
    fired: list[tuple[str, int]] = []
    began = trio.current_time()

    async def tick(name: str, seconds: float) -> None:
        while True:
            await trio.sleep(seconds)
            fired.append((name, round(trio.current_time() - began)))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(tick, "often", 10)
        nursery.start_soon(tick, "seldom", 25)
        await trio.lowlevel.checkpoint()
        await clock.advance(55)
        nursery.cancel_scope.cancel()
    expected = [("often", 10), ("often", 20), ("seldom", 25), ("often", 30), ("often", 40)]
    assert fired[:5] == expected
    assert set(fired[5:]) == {("often", 50), ("seldom", 50)}


async def test_wrong_amounts_are_refused(clock: AdvancingClock, deadlines: trio.abc.Clock) -> None:
    async with served(clock) as api:
        for body in (
            b"",
            b"{}",
            b"[]",
            b'{"advance": -1}',
            b'{"advance": "1h"}',
            b'{"advance": 1e300}',
            b"{",
        ):
            assert (await api.ask("POST", CLOCK, body)).status == 400, body
        assert (await api.ask("POST", CLOCK, {"advance": 1}, token=ALICE)).status == 403
        assert clock.offset == 0
        century = {"advance": 100 * 365 * 86400}
        (await api.ask("POST", CLOCK, century)).expect(200)
        assert (await api.ask("POST", CLOCK, {"advance": 86400})).status == 400


async def test_clock_waits_as_long_as_controllers_have_work_and_not_for_clients() -> None:
    left = 500

    async def work() -> None:
        nonlocal left
        while left:
            left -= 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(work)
        assert not await wait_until_idle(0)
        assert left > 0
        await wait_until_idle(0, lambda: left > 0)
        assert left == 0


async def test_clock_waits_for_commits_before_it_moves_on(
    clock: AdvancingClock, deadlines: trio.abc.Clock
) -> None:
    """A commit that a server on another machine decides: neither a task that runs nor a thread."""
    begun, moved = clock.offset, []
    asked = 0

    def committing() -> bool:
        nonlocal asked
        asked += 1
        moved.append(clock.offset)
        return asked < 5

    async def wake() -> None:
        await trio.sleep(30)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wake)
        await trio.lowlevel.checkpoint()
        await clock.advance(60, committing=committing)
    assert moved[:5] == [begun] * 5
    assert clock.offset == begun + 60
