"""`lagWatch`: watches get their events some events or seconds late, as long as the rule exists."""

from __future__ import annotations

from math import inf
from pathlib import Path

import orjson
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rewound.gateway.watch.framing import unframed
from rewound.gateway.watch.watch import Watch
from rewound.testing.clock import AdvancingClock
from rewound.testing.faults.held_watches import HeldWatches
from rewound.testing.faults.older_versions import OlderVersions
from rewound.testing.faults.rules import FaultRequest, LagWatch
from tests.actors.object_store import Document
from tests.gateway.api import Api
from tests.gateway.api import served as running
from tests.gateway.watch.memory_hub import FakePipe, memory_hub
from tests.gateway.watch.watching import watching
from tests.testing.advancing import CLOCK, served
from tests.testing.faults.injecting import PATH, injecting, on_config_maps, set_faults
from tests.testing.faults.test_held_watches import created, texts, write

transports = pytest.mark.parametrize("transport", ["plain", "ws", "h2"])


@pytest.fixture
def clock() -> AdvancingClock:
    return AdvancingClock()


@pytest.fixture
def deadlines(clock: AdvancingClock) -> trio.abc.Clock:
    """pytest-trio runs the test with it."""
    return clock.deadlines


def by_events(events: int) -> Document:
    return on_config_maps({"lagWatch": {"events": events}}, name="lag")


@transports
async def test_watch_is_some_events_behind(transport: str) -> None:
    async with injecting(by_events(2)) as api:
        version = await created(api)
        async with watching(api, PATH, transport, resourceVersion=version) as watch:
            if transport == "plain":
                assert watch.headers[b"rewound-fault"] == b"lag"
            await write(api, "1", "2", "3")
            assert texts(await watch.take(1)) == ["1"]
            await write(api, "4")
            assert texts(await watch.take(1)) == ["2"]
            await set_faults(api)  # the lag ends with its rule
            assert texts(await watch.take(2)) == ["3", "4"]


async def test_reconnect_lags_on_where_it_ended() -> None:
    async with injecting(by_events(1)) as api:
        seen = await created(api)
        await write(api, "1", "2", "3", "4")
        found = []
        for _ in range(3):
            async with watching(api, PATH, resourceVersion=seen) as watch:
                (event,) = await watch.take(1)
                found += texts([event])
                seen = event["object"]["metadata"]["resourceVersion"]
        assert found == ["1", "2", "3"]
        async with watching(api, PATH, resourceVersion=seen) as watch:
            await write(api, "5")
            assert texts(await watch.take(1)) == ["4"]


async def test_initial_events_lag_too() -> None:
    async with injecting(by_events(2)) as api:
        await created(api)
        await write(api, "1", "2", "3")
        async with watching(api, PATH) as watch:
            assert texts(await watch.take(1)) == ["1"]
            await write(api, "4")
            assert texts(await watch.take(1)) == ["2"]


async def test_running_watches_lag_when_the_rule_is_set() -> None:
    async with injecting() as api, watching(api, PATH, resourceVersion=await created(api)) as watch:
        await write(api, "1")
        assert texts(await watch.take(1)) == ["1"]
        rules = await set_faults(api, by_events(1))
        assert rules["rules"][0]["applied"] == 1
        await write(api, "2", "3")
        assert texts(await watch.take(1)) == ["2"]


async def test_lag_is_applied_in_addition_to_another_fault() -> None:
    cut = on_config_maps({"cutWatch": {"afterEvents": 1}}, name="cut")
    async with (
        injecting(cut, by_events(1)) as api,
        watching(api, PATH, resourceVersion=await created(api)) as watch,
    ):
        assert watch.headers[b"rewound-fault"] == b"lag,cut"
        await write(api, "1", "2")
        assert texts(await watch.end()) == ["1"]


async def advance(api: Api, seconds: float) -> None:
    (await api.ask("POST", CLOCK, {"advance": seconds})).expect(200)


async def test_watch_is_some_seconds_behind(clock: AdvancingClock, deadlines: trio.abc.Clock) -> None:
    async with served(clock) as api:
        version = await created(api)
        lag = on_config_maps({"lagWatch": {"seconds": 200}})
        await set_faults(api, lag)
        async with watching(api, PATH, resourceVersion=version) as watch:
            await write(api, "1", "2")
            await advance(api, 120)
            await write(api, "3")
            assert not watch.events
            await advance(api, 81)
            assert texts(await watch.take(2)) == ["1", "2"]
            await advance(api, 40)
            assert not watch.untaken
            await advance(api, 80)
            assert texts(await watch.take(1)) == ["3"]


async def test_each_commit_is_late_by_the_same_time(clock: AdvancingClock, deadlines: trio.abc.Clock) -> None:
    secrets = "/api/v1/namespaces/default/secrets"
    async with served(clock) as api:
        version = await created(api)
        await set_faults(api, {"fault": {"lagWatch": {"seconds": 100}}})
        async with (
            watching(api, secrets, resourceVersion=version) as others,
            watching(api, PATH, resourceVersion=version) as maps,
        ):
            for number in range(3):
                await write(api, f"n{number}")
                await api.create("secrets", {"metadata": {"name": f"s{number}"}})
                await advance(api, 10)
            for number, seconds in enumerate((71, 10, 10)):
                assert not maps.untaken and not others.untaken
                await advance(api, seconds)
                assert texts(await maps.take(1)) == [f"n{number}"]
                assert await others.types_and_names(1) == [("ADDED", f"s{number}")]


async def test_lag_by_seconds_of_initial_events(clock: AdvancingClock, deadlines: trio.abc.Clock) -> None:
    async with served(clock) as api:
        await created(api)
        await advance(api, 100)
        await write(api, "1")
        await set_faults(api, on_config_maps({"lagWatch": {"seconds": 50}}))
        async with watching(api, PATH) as watch:
            assert texts(await watch.take(1)) == ["0"]
            await advance(api, 51)
            assert [(one["type"], *texts([one])) for one in await watch.take(1)] == [("MODIFIED", "1")]


async def test_rules_of_the_flag_lag_watches_without_test_controls(tmp_path: Path) -> None:
    rules = tmp_path / "faults.json"
    rules.write_bytes(orjson.dumps({"rules": [by_events(1)]}))
    async with running(faults=rules) as api:
        assert (await api.ask("GET", "/debug/rewound/holds")).status == 404
        async with watching(api, PATH, resourceVersion=await created(api)) as watch:
            await write(api, "1", "2")
            assert texts(await watch.take(1)) == ["1"]


async def test_late_events_are_sent_in_the_order_of_commits(mock_clock: MockClock) -> None:
    """To each watch that gets one, in the order in which the watches began; then the next."""
    order: list[tuple[str, bytes]] = []
    now = 0

    class Recorded(FakePipe):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def transmit(self, data: bytes | memoryview) -> int:
            order.extend((self.name, line) for line in bytes(data).splitlines())
            return super().transmit(data)

    async with memory_hub() as base:
        older = OlderVersions(base.journal, lambda: 0, lambda: now)
        held = HeldWatches(base.hub, base.journal, base.feed, older, lambda: now)
        for name in ("first", "second", "third"):
            watch = Watch(base.hub, base.interest(), base.feed.head, inf)
            held.follow(FaultRequest("u", name, "watch", "", "things", "", "", ""), watch)
            held.lag(watch, LagWatch(seconds=100))
            await watch.start(Recorded(name), unframed)
        versions = [base.put(name) for name in "abc"]
        await wait_all_tasks_blocked()
        assert not order
        now = (versions[-1] + 100) * 1_000_000
        mock_clock.jump(200)
        await wait_all_tasks_blocked()
        found = [(name, orjson.loads(line)["object"]["metadata"]["name"]) for name, line in order]
        assert found == [(name, one) for one in "abc" for name in ("first", "second", "third")]


async def test_wrong_lags_are_refused() -> None:
    async with injecting() as api:
        for lag, message in (
            ({}, "rules[0].fault.lagWatch: must have either events or seconds"),
            ({"events": 1, "seconds": 1}, "rules[0].fault.lagWatch: must have either events or seconds"),
            ({"events": 0}, "rules[0].fault.lagWatch.events: must be a whole number from 1 to 1000"),
            ({"seconds": -1}, "rules[0].fault.lagWatch.seconds: must be a number from 0"),
        ):
            rules = {"rules": [on_config_maps({"lagWatch": lag})]}
            assert message in (await api.ask("POST", "/debug/rewound/faults", rules)).expect(400)["message"]
        rules = {"rules": [{"match": {"verbs": ["list"]}, "fault": {"lagWatch": {"events": 1}}}]}
        refused = (await api.ask("POST", "/debug/rewound/faults", rules)).expect(400)
        assert "'list' cannot have this fault; it happens to watch" in refused["message"]
