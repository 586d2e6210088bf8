"""The numbers of several processes as one: each metric by its rule, and no counter goes backwards with a process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families

from gateway.ops.exposition import Family, Histogram, Snapshot, Value, exposition
from gateway.ops.metrics import Metrics
from gateway.ops.processes import ANSWER_SECONDS, Members, decode, encode, merged
from gateway.ops.request_series import RequestSeries
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
def test_values_together(across: str, values: Sequence[Value], together: Value) -> None:
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
        members.join(self, self.numbers)

    async def numbers(self) -> bytes:
        if not self.answers:
            await trio.sleep_forever()
        return encode(snapshot({("200", "GET"): self.served}, self.running))


@pytest.fixture
def members() -> Members:
    async def own() -> bytes:
        return encode(Snapshot([(RUNNING, 0), (Family("writers", "", "gauge", across="writer"), 1)]))

    return Members(own)


async def test_scrape_has_all_processes(members: Members) -> None:
    Worker(members, 3), Worker(members, 4, running=5)
    found = shown(await members.collect())
    assert found["requests_total 200 GET"] == 7
    assert found["running"] == 6
    assert found["writers"] == 1


async def test_counters_stay_when_a_process_is_replaced(members: Members) -> None:
    killed, ended = Worker(members, 3), Worker(members, 4)
    await members.collect()
    killed.served = ended.served = 10
    members.leave(killed)  # those of the last scrape
    members.report(ended, await ended.numbers())
    members.leave(ended)
    members.leave(ended)
    assert shown(await members.collect())["requests_total 200 GET"] == 13
    Worker(members, 1)
    found = shown(await members.collect())
    assert found["requests_total 200 GET"] == 14
    assert found["seconds_count GET"] == 17
    assert found["running"] == 1  # a gauge ends with its process
    assert (len(members), members.ended) == (1, 2)


async def test_report_of_a_process_that_is_gone_counts_nothing(members: Members) -> None:
    gone = Worker(members, 3)
    members.leave(gone)
    members.report(gone, await gone.numbers())
    assert "requests_total 200 GET" not in shown(await members.collect())


async def test_process_that_does_not_answer_is_left_out(members: Members, autojump_clock: object) -> None:
    Worker(members, 3)
    hanging = Worker(members, 4, running=5)
    await members.collect()
    hanging.answers = False
    began = trio.current_time()
    found = shown(await members.collect())
    assert trio.current_time() - began == pytest.approx(ANSWER_SECONDS)
    assert found["requests_total 200 GET"] == 7  # counters as they were
    assert found["running"] == 1
    assert members.unanswered == 1


async def test_process_that_fails_is_left_out(members: Members) -> None:
    async def fail() -> bytes:
        raise ConnectionError

    members.join("failing", fail)
    assert "requests_total 200 GET" not in shown(await members.collect())
    assert members.unanswered == 1


async def test_process_that_ends_during_a_scrape_counts_once(
    members: Members, autojump_clock: object
) -> None:
    hanging, answering = Worker(members, 3), Worker(members, 4)
    await members.collect()
    hanging.answers = False
    async with trio.open_nursery() as nursery:

        async def end() -> None:
            await trio.sleep(ANSWER_SECONDS / 2)
            members.leave(hanging)
            members.leave(answering)

        nursery.start_soon(end)
        found = shown(await members.collect())
    assert found["requests_total 200 GET"] == 7
    assert "running" in found and found["running"] == 0


async def test_metrics_of_a_process_are_the_numbers_that_it_sends() -> None:
    read: list[str] = []

    def journal() -> float:
        read.append("journal")
        return 1

    metrics = Metrics(RequestSeries(lambda _: True, lambda _: None))
    metrics.gauge("of_the_writer", "", journal, across="writer")
    metrics.counter("of_all", "", lambda: 3)
    names = [family.name for family, _ in decode(await metrics.numbers(of_writer=False)).values]
    assert "of_all" in names and "of_the_writer" not in names and read == []
    names = [family.name for family, _ in decode(await metrics.numbers(of_writer=True)).values]
    assert "of_the_writer" in names

    async def collect() -> list[bytes]:
        return [await metrics.numbers(of_writer=True), await metrics.numbers(of_writer=False)]

    text = await Metrics(metrics.requests, collect).scrape()
    assert b"of_all 6\n" in text and b"of_the_writer 1\n" in text
