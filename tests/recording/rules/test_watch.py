"""A watch hands the alerts of a growing journal to its sinks: each once, also after a kill at any step."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import trio
import trio.testing

from rewound.recording.rules.delivery import GRACE, MOST_WAITING, NotSent, Sink
from rewound.recording.rules.engine import Alert
from rewound.recording.rules.feed import Feed, WantsKind
from rewound.recording.rules.occurrence import Occurrence
from rewound.recording.rules.watch import FILE, Watch
from tests.recording.rules.story import DEPLOYMENT, POD, SECOND, START, Story, rules_of

RULES = """
rules:
- {name: any-pod, expression: event.kind == "Pod", resolveAfter: 2m}
- {name: many, expression: 'count(event.kind == "Pod", "5m") >= 4', groupBy: [event.kind]}
- {name: unavailable, expression: 'event.kind == "Deployment" && object.replicas == 0', for: 3m}
builtIn: {mass-deletes: {deletes: 5}}
"""


class Memory(Feed):
    """The events of a story, up to a moment."""

    def __init__(self, occurrences: Sequence[Occurrence]) -> None:
        self._all = occurrences
        self.now = 0

    def _events(self) -> list[Occurrence]:
        return [one for one in self._all if one.refused is None and one.time <= self.now]

    def ends(self) -> tuple[int, int]:
        return 0, max((one.event.offset for one in self._events()), default=0)

    def version_at(self, time: int) -> int:
        return max((one.event.offset for one in self._events() if one.time <= time), default=0)

    def existing(self, version: int, wanted: WantsKind) -> Iterator[Occurrence]:
        newest: dict[tuple[str, str, str], Occurrence] = {}
        for one in self.events(0, version):
            newest[one.object_key] = one
        for one in newest.values():
            if not one.event.removed and wanted(one.kind):
                yield Occurrence(one.kind, one.event, one.contents, exists=True)

    def events(self, after: int, upto: int) -> Iterator[Occurrence]:
        yield from (one for one in self._events() if after < one.event.offset <= upto)

    def refused(self, start: int, end: int) -> list[Occurrence]:
        return [
            one for one in self._all if one.refused is not None and start <= one.time < min(end, self.now)
        ]


class Remembering(Sink):
    def __init__(self, name: str = "memory") -> None:
        self.name = name
        self.got: list[Alert] = []
        self.problems: list[NotSent] = []

    async def send(self, alerts: Sequence[Alert]) -> None:
        if self.problems:
            raise self.problems.pop(0)
        self.got += alerts

    def announced(self) -> list[tuple[str, str]]:
        return [(one.id, one.state) for one in self.got]


class Hanging(Sink):
    name = "hanging"

    async def send(self, alerts: Sequence[Alert]) -> None:
        await trio.sleep_forever()


def story() -> Story:
    told = Story(rules_of(RULES))
    for at in range(8):
        told.write(POD, f"pod-{at % 3}", {}, by="kubelet")
        told.wait(50)
        told.write(DEPLOYMENT, "web", {"replicas": at % 5})
        told.wait(40)
        told.delete(POD, f"pod-{at % 3}", by="alice")
        told.wait(150 if at % 2 else 5)
    told.wait(900)
    return told


async def watch(
    feed: Memory,
    folder: Path,
    sinks: Sequence[Sink],
    seconds: range,
    *,
    kill_after: int = -1,
    rules: str = RULES,
) -> None:
    """Let some seconds of the story pass; after a kill nothing is saved, whatever is going on."""
    one = Watch(rules_of(rules), feed, sinks, folder, lambda: feed.now)
    feed.now = START + seconds.start * SECOND
    await one.begin()
    async with trio.open_nursery() as nursery:
        for queue in one.queues:
            nursery.start_soon(queue.run)
        for number, second in enumerate(seconds):
            feed.now = START + second * SECOND
            await one.step()
            await trio.testing.wait_all_tasks_blocked()
            if number == kill_after:
                break
        nursery.cancel_scope.cancel()


LENGTH = 2800


async def test_alerts_are_those_of_the_past(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    told, sink = story(), Remembering()
    await watch(Memory(told.occurrences), tmp_path, [sink], range(-20, LENGTH, 7))
    expected = {(one.id, one.state) for one in told.alerts}
    assert len(expected) > 15
    assert set(sink.announced()) == expected
    assert len(sink.announced()) == len(expected)


async def test_kills(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    """A process is killed after each number of steps, and the next one goes on."""
    told = story()
    expected = {(one.id, one.state) for one in told.alerts}
    for every in (40, 97, 251, 600):
        folder, sink = tmp_path / str(every), Remembering()
        folder.mkdir()
        feed = Memory(told.occurrences)
        for start in range(-20, LENGTH, every):
            await watch(feed, folder, [sink], range(start, min(start + every, LENGTH), 7))
        assert len(sink.announced()) == len(set(sink.announced())), every
        assert set(sink.announced()) == expected, every


async def test_a_sink_that_hangs(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    told, sink = story(), Remembering()
    await watch(Memory(told.occurrences), tmp_path, [Hanging(), sink], range(-20, LENGTH, 7))
    assert len(sink.got) == len(told.alerts)
    later = Remembering("hanging")  # gets what waited, after a restart
    await watch(Memory(told.occurrences), tmp_path, [later, sink], range(LENGTH, LENGTH + 7, 7))
    assert set(later.announced()) == set(sink.announced())
    assert len(sink.got) == len(told.alerts)


async def test_retries(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    feed, sink = Memory(story().occurrences), Remembering()
    sink.problems = [NotSent("unreachable")] * 5 + [NotSent("bad request", again=False)]
    one = Watch(rules_of(RULES), feed, [sink], tmp_path, lambda: feed.now)
    feed.now = START - SECOND
    await one.begin()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.queues[0].run)
        feed.now = START + SECOND
        await one.step()
        began = trio.current_time()
        await trio.testing.wait_all_tasks_blocked()
        assert (
            one.statistics()["sinks"][0] | {"waiting": 1, "sent": 0, "problem": "unreachable"}
            == (one.statistics()["sinks"][0])
        )
        with trio.fail_after(60):
            while one.queues[0].waiting:
                await trio.sleep(1)
        assert 30 < trio.current_time() - began < 35  # 1 + 2 + 4 + 8 + 16
        assert (one.queues[0].refused, sink.got) == (1, [])
        nursery.cancel_scope.cancel()


async def test_a_full_queue_drops_the_oldest(tmp_path: Path) -> None:
    feed = Memory(story().occurrences)
    one = Watch(rules_of(RULES), feed, [Hanging()], tmp_path, lambda: feed.now)
    alerts = story().alerts
    for _ in range(MOST_WAITING // len(alerts) + 2):
        one.queues[0].add(alerts)
    assert len(one.queues[0].waiting) == MOST_WAITING
    assert one.queues[0].dropped > 0


async def test_a_damaged_state(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FILE).write_bytes(b"{")
    with caplog.at_level(logging.WARNING):
        await watch(Memory(story().occurrences), tmp_path, [Remembering()], range(0, 14, 7))
    assert ": rules begin at the newest event" in caplog.text
    assert GRACE == 10 * SECOND


LIMITED = """
rules:
- {name: limited, expression: event.kind == "Pod", resolveAfter: 30m, rateLimit: {alerts: 3, per: 1h}}
- {name: brief, expression: event.kind == "Pod", resolveAfter: 1m, rateLimit: {alerts: 4, per: 20m}}
- name: held
  expression: event.kind == "Deployment" && object.replicas == 0
  for: 1m
  rateLimit: {alerts: 1, per: 1h}
"""


async def test_limits_outlast_kills(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    """What the limit of a rule left out does not fire because the process is another one."""
    told = Story(rules_of(LIMITED))
    for at in range(30):
        told.write(POD, f"pod-{at % 13}", {}, by="kubelet")
        told.write(DEPLOYMENT, f"web-{at % 5}", {"replicas": at % 2})
        told.wait(100 + 30 * (at % 7))
    told.wait(4000)
    expected = [(one.id, one.state, one.left_out) for one in told.alerts]
    assert sum(left_out for _, _, left_out in expected) > 10
    length = (told.now - START) // SECOND
    for every in (70, 350, 5000):
        folder, sink = tmp_path / str(every), Remembering()
        folder.mkdir()
        feed = Memory(told.occurrences)
        for start in range(-20, length, every):
            await watch(feed, folder, [sink], range(start, min(start + every, length), 7), rules=LIMITED)
        found = [(one.id, one.state, one.left_out) for one in sink.got]
        assert sorted(found) == sorted(expected), every


async def test_state_that_cannot_be_written_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    sink = Remembering()
    await watch(Memory(story().occurrences), tmp_path / "missing", [sink], range(0, 2000, 20))
    assert sink.got
    assert caplog.text.count("after a kill, alerts may come again") == 1
