"""Metrics of several processes are combined, each by its own rule; no counter decreases when a process ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families

from rewound.gateway.ops.exposition import Family, Histogram, Snapshot, Value, exposition
from rewound.gateway.ops.metrics import Metrics
from rewound.gateway.ops.processes import ANSWER_SECONDS, Members, NumbersOfAll, decode, encode, merged
from rewound.gateway.ops.request_series import RequestSeries
from tests.cases import cases

REQUESTS = Family("requests_total", "Requests.", "counter", ("code", "verb"))
RUNNING = Family("running", "Requests that run.", "gauge")
SECONDS = Histogram("seconds", "Durations.", (0.1, 1.0), ("verb",))


def snapshot(requests: Mapping[tuple[str, ...], float], running: float = 0) -> Snapshot:
    count = int(sum(requests.values()))
    return Snapshot([(REQUESTS, requests), (RUNNING, running)], [(SECONDS, {("GET",): (0.5, (count, 1, 0))})])


def shown(parts: Sequence[bytes]) -> dict[str, float]:
    """The samples of a scrape: the name and the values of labels, by name of the label."""
    text = exposition(merged(map(decode, parts))).decode()
    return {
        " ".join([sample.name, *(value for _, value in sorted(sample.labels.items()))]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_numbers_are_the_same_when_they_were_sent() -> None:
    sent = snapshot({("200", "GET"): 3, ("404", 'a"\n'): 1}, 2)
    assert exposition(decode(encode(sent))) == exposition(sent)


@cases(
    ("across", "values", "together"),
    [
        ("sum", (1, 2.5, 4), 7.5),
        ("max", (1, 4, 2), 4),
        ("min", (3, 1, 2), 1),
        ("writer", (5, 7, 9), 5),  # that of the first
        ("max", ({"a": 1}, {"a": 0, "b": 1}), {"a": 1, "b": 1}),
        ("sum", ({("a", "b"): 1}, {}, {("a", "b"): 2, ("b", "a"): 1}), {("a", "b"): 3, ("b", "a"): 1}),
    ],
)
def test_values_of_processes_are_combined(across: str, values: Sequence[Value], together: Value) -> None:
    labels = ("x",) if isinstance(together, dict) and "a" in together else ("x", "y")
    family = Family("name", "text", "gauge", labels, across)  # type: ignore[arg-type]
    one = merged(decode(encode(Snapshot([(family, value)]))) for value in values)
    assert exposition(one) == exposition(Snapshot([(family, together)]))


def test_histograms_add_up() -> None:
    found = shown([encode(snapshot({("200", "GET"): 2})), encode(snapshot({("200", "GET"): 5}))])
    assert found["seconds_bucket 0.1 GET"] == 7
    assert found["seconds_bucket 1 GET"] == found["seconds_count GET"] == 9
    assert found["seconds_sum GET"] == 1


def test_metric_that_another_release_describes_otherwise_is_left_out() -> None:
    other = Family("requests_total", "Requests.", "counter", ("code",))
    bounds = Histogram("seconds", "Durations.", (0.1,), ("verb",))
    parts = [
        snapshot({("200", "GET"): 2}),
        Snapshot([(other, {"200": 1})], [(bounds, {("GET",): (1, (1, 1))})]),
    ]
    assert exposition(merged(parts)) == exposition(parts[0])


class Worker:
    """A process whose numbers a test sets."""

    def __init__(self, members: Members, served: int, running: int = 1) -> None:
        self.served, self.running = served, running
        self.answers = True
        self.members: Members | None = members
        self.of_all = NumbersOfAll(self._collect)
        members.join(self, self.numbers)

    async def numbers(self) -> bytes:
        if not self.answers:
            await trio.sleep_forever()
        return encode(snapshot({("200", "GET"): self.served}, self.running), b"%d" % id(self))

    async def _collect(self, own: bytes) -> bytes:
        if self.members is None:
            raise ConnectionError
        return await self.members.collect(self, own)

    async def scrape(self) -> dict[str, float]:
        return shown(await self.of_all.collect(await self.numbers()))


def new_members(commits: float = 0) -> Members:
    async def own() -> bytes:
        values: list[tuple[Family, Value]] = [
            (RUNNING, 0),
            (Family("commits_total", "", "counter"), commits),
            (Family("head", "", "gauge", across="writer"), 1),
        ]
        return encode(Snapshot(values))

    return Members(own)


@pytest.fixture
def members() -> Members:
    return new_members()


async def test_scrape_of_any_worker_has_all_processes(members: Members) -> None:
    one, other = Worker(members, 3), Worker(members, 4, running=5)
    for worker in (one, other):
        found = await worker.scrape()
        assert found["requests_total 200 GET"] == 7
        assert found["running"] == 6
        assert found["head"] == 1


async def test_counters_stay_when_a_process_is_replaced(members: Members) -> None:
    killed, ended, third = Worker(members, 3), Worker(members, 4), Worker(members, 5)
    await third.scrape()
    killed.served = ended.served = 10
    members.leave(killed)  # those of the last scrape
    members.report(ended, await ended.numbers())
    members.leave(ended)
    members.leave(ended)
    assert (await third.scrape())["requests_total 200 GET"] == 18
    found = await Worker(members, 1).scrape()
    assert found["requests_total 200 GET"] == 19
    assert found["seconds_count GET"] == 23
    assert found["running"] == 2  # a gauge ends with its process
    assert (len(members), members.ended) == (2, 2)


async def test_process_that_asked_counts_after_its_end(members: Members) -> None:
    asking, other = Worker(members, 3), Worker(members, 4)
    await asking.scrape()
    members.leave(asking)
    assert (await other.scrape())["requests_total 200 GET"] == 7


async def test_late_report_of_an_ended_process_is_ignored(members: Members) -> None:
    gone, other = Worker(members, 3), Worker(members, 4)
    members.leave(gone)
    members.report(gone, await gone.numbers())
    assert (await other.scrape())["requests_total 200 GET"] == 4


async def test_process_that_does_not_answer_is_left_out(members: Members, autojump_clock: object) -> None:
    asking, hanging = Worker(members, 3), Worker(members, 4, running=5)
    await asking.scrape()
    hanging.answers = False
    began = trio.current_time()
    found = await asking.scrape()
    assert trio.current_time() - began == pytest.approx(ANSWER_SECONDS)
    assert found["requests_total 200 GET"] == 7  # counters as they were
    assert found["running"] == 1
    assert members.unanswered == 1


async def test_process_that_fails_is_left_out(members: Members) -> None:
    async def fail() -> bytes:
        raise ConnectionError

    members.join("failing", fail)
    assert (await Worker(members, 3).scrape())["requests_total 200 GET"] == 3
    assert members.unanswered == 1


async def test_process_that_ends_during_a_scrape_counts_once(
    members: Members, autojump_clock: object
) -> None:
    asking, hanging, answering = Worker(members, 1), Worker(members, 3), Worker(members, 4)
    await asking.scrape()
    hanging.answers = False
    async with trio.open_nursery() as nursery:

        async def end() -> None:
            await trio.sleep(ANSWER_SECONDS / 2)
            members.leave(hanging)
            members.leave(answering)

        nursery.start_soon(end)
        found = await asking.scrape()
    assert found["requests_total 200 GET"] == 8
    assert found["running"] == 1


async def test_counters_of_others_stay_while_the_process_that_writes_is_away() -> None:
    members = new_members(commits=5)
    asking = Worker(members, 3)
    Worker(members, 4, running=5)
    await asking.scrape()
    asking.members = None
    asking.served = 10
    found = await asking.scrape()
    assert found["requests_total 200 GET"] == 14
    assert found["commits_total"] == 5
    assert found["running"] == 1
    assert "head" not in found


async def test_workers_keep_what_the_process_that_writes_collected_for_itself() -> None:
    members = new_members(commits=5)
    one, other = Worker(members, 3), Worker(members, 4)
    parts, kept = await members.collect_own(encode(snapshot({("200", "GET"): 10})))
    assert shown(parts)["requests_total 200 GET"] == 17
    for worker in (one, other):
        worker.of_all.keep(kept)
        worker.members = None
        worker.served += 100
    assert (await one.scrape())["requests_total 200 GET"] == 117
    second = new_members()
    second.join(one, one.numbers)
    second.inherit(one.of_all.inheritance() or b"")
    one.members = second
    assert (await one.scrape())["requests_total 200 GET"] == 117


async def test_process_that_never_scraped_has_its_own_numbers_alone(members: Members) -> None:
    alone = Worker(members, 3)
    alone.members = None
    assert alone.of_all.inheritance() is None
    assert (await alone.scrape())["requests_total 200 GET"] == 3


async def test_next_process_that_writes_inherits_the_newest_totals() -> None:
    first = new_members(commits=5)
    ended, stale, newest = (Worker(first, served) for served in (1, 2, 4))
    await stale.scrape()
    await ended.scrape()
    first.leave(ended)
    await newest.scrape()
    second = new_members(commits=2)
    for worker in (newest, stale):
        worker.members = second
        second.join(worker, worker.numbers)
        inheritance = worker.of_all.inheritance()
        assert inheritance is not None
        second.inherit(inheritance)
    found = await stale.scrape()
    assert found["commits_total"] == 7
    assert found["requests_total 200 GET"] == 7
    third = new_members(commits=1)
    for worker in (stale, newest):
        worker.members = third
        third.join(worker, worker.numbers)
        third.inherit(worker.of_all.inheritance() or b"")
    found = await newest.scrape()
    assert found["commits_total"] == 8
    assert found["requests_total 200 GET"] == 7


async def test_worker_counts_before_it_has_connected_to_the_next_process_that_writes() -> None:
    first = new_members()
    asking, late, killed = (Worker(first, served) for served in (1, 2, 4))
    await asking.scrape()
    second = new_members()
    asking.members = late.members = second
    second.join(asking, asking.numbers)
    second.inherit(asking.of_all.inheritance() or b"")
    assert (await asking.scrape())["requests_total 200 GET"] == 7
    second.join(late, late.numbers)
    late.served = 3
    assert (await asking.scrape())["requests_total 200 GET"] == 8
    second.leave(late)
    assert (await asking.scrape())["requests_total 200 GET"] == 8
    assert killed.served == 4  # killed together with the process that wrote: its counts remain


async def test_metrics_of_a_process_are_the_numbers_that_it_sends() -> None:
    read: list[str] = []

    def journal() -> float:
        read.append("journal")
        return 1

    writer = Metrics(RequestSeries(lambda _: True, lambda _: None))
    writer.gauge("of_the_writer", "", lambda: 2, across="writer")
    writer.counter("of_all", "", lambda: 3)

    async def collect(own: bytes) -> list[bytes]:
        return [await writer.numbers(), own]

    worker = Metrics(writer.requests, collect, of_writer=False)
    worker.gauge("of_the_writer", "", journal, across="writer")
    worker.counter("of_all", "", lambda: 4)
    names = [family.name for family, _ in decode(await worker.numbers()).values]
    assert "of_all" in names and "of_the_writer" not in names
    text = await worker.scrape()
    assert b"of_all 7\n" in text and b"of_the_writer 2\n" in text and read == []
