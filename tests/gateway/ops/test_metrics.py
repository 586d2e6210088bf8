"""Metrics of requests have the labels and buckets of Kubernetes, and the text format that Go writes."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

import pytest
from prometheus_client.parser import text_string_to_metric_families

from rewound.actors.admission.timings import ConditionTimings
from rewound.actors.runtime.mailbox import MailboxStatistics
from rewound.actors.store.committer import CommitterStatistics, WriteDurations
from rewound.actors.versions.features import choose_release
from rewound.gateway.connections.server_state import ServerStatistics
from rewound.gateway.message import Peer, Request
from rewound.gateway.ops.exposition import number_text
from rewound.gateway.ops.meters import (
    meter_committer,
    meter_conditions,
    meter_connections,
    meter_journal,
    meter_mailboxes,
    meter_release,
    meter_requests,
)
from rewound.gateway.ops.metrics import InFlight, Metrics
from rewound.gateway.ops.request_series import MeasuredParts, RequestSeries, Series
from rewound.gateway.pipeline.route import Route, find_route
from rewound.gateway.watch.watched_type import SentEvents
from rewound.journal.records import Event
from tests.cases import cases

Sample = tuple[str, tuple[tuple[str, str], ...]]
MAPS = "/api/v1/namespaces/default/configmaps"
APPLY = {b"content-type": b"application/apply-patch+yaml"}


def known(route: Route) -> bool:
    return route.resource in ("configmaps", "leases", "pods")


def removed(route: Route) -> str | None:
    return "1.26" if route.version == "v1beta1" else None


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(RequestSeries(known, removed))


def samples(metrics: Metrics) -> dict[Sample, float]:
    families = text_string_to_metric_families(metrics.text().decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def labels(**named: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(named.items()))


def of_request(**named: str) -> dict[str, str]:
    usual = {"verb": "GET", "group": "", "version": "v1", "resource": "configmaps", "subresource": ""}
    return {**usual, "scope": "resource", "component": "apiserver", **named}


def series(
    metrics: Metrics,
    method: str,
    target: str,
    status: int = 200,
    headers: dict[bytes, bytes] | None = None,
) -> Series:
    path, _, query = target.partition("?")
    request = Request(method, path, query, headers or {}, b"", Peer("127.0.0.1"))
    return metrics.requests.find(request, find_route(method, path, watch="watch=1" in query), status)


@cases(
    ("method", "target", "headers", "expected"),
    [
        ("GET", f"{MAPS}/a", {}, {}),
        ("HEAD", f"{MAPS}/a", {}, {}),
        ("GET", MAPS, {}, {"verb": "LIST", "scope": "namespace"}),
        ("GET", "/api/v1/configmaps?limit=1", {}, {"verb": "LIST", "scope": "cluster"}),
        ("GET", f"{MAPS}?watch=1", {}, {"verb": "WATCH", "scope": "namespace"}),
        ("POST", MAPS, {}, {"verb": "POST"}),
        ("POST", f"{MAPS}?dryRun=All", {}, {"verb": "POST", "dry_run": "All"}),
        ("POST", f"{MAPS}?dryRun=All&dryRun=All", {}, {"verb": "POST", "dry_run": "All"}),
        ("POST", f"{MAPS}?dryRun=Some", {}, {"verb": "POST", "dry_run": "invalid"}),
        ("PUT", f"{MAPS}/a", {}, {"verb": "PUT"}),
        ("PATCH", f"{MAPS}/a", {}, {"verb": "PATCH"}),
        ("PATCH", f"{MAPS}/a?fieldManager=m", APPLY, {"verb": "APPLY"}),
        ("PATCH", f"{MAPS}/a?dryRun=All", APPLY, {"verb": "APPLY", "dry_run": "All"}),
        ("PATCH", f"{MAPS}/a?dryRun=All", {}, {"verb": "PATCH", "dry_run": "All"}),
        ("DELETE", f"{MAPS}/a", {}, {"verb": "DELETE"}),
        ("DELETE", MAPS, {}, {"verb": "DELETE", "scope": "namespace"}),
        (
            "POST",
            "/api/v1/namespaces/default/pods/p/exec",
            {},
            {"verb": "POST", "resource": "pods", "subresource": "exec"},
        ),
        (
            "PUT",
            "/apis/coordination.cluster.io/v1beta1/namespaces/x/leases/a",
            {},
            {"verb": "PUT", "group": "coordination.cluster.io", "version": "v1beta1", "resource": "leases"},
        ),
        (
            "GET",
            "/readyz",
            {},
            {"version": "", "resource": "", "subresource": "/readyz", "scope": "", "component": ""},
        ),
    ],
)
def test_labels_of_requests(
    method: str, target: str, headers: dict[bytes, bytes], expected: dict[str, str]
) -> None:
    metrics = Metrics(RequestSeries(known, removed))
    for _ in range(2):
        series(metrics, method, target, 200, headers).add(0.001, 10)
    series(metrics, method, target, 404, headers).add(0.001, 10)
    found = samples(metrics)
    shown = of_request(**{"dry_run": "", **expected})
    assert found["apiserver_request_total", labels(**shown, code="200")] == 2
    assert found["apiserver_request_total", labels(**shown, code="404")] == 1
    assert found["apiserver_request_duration_seconds_count", labels(**shown)] == 3
    del shown["dry_run"]
    is_watch = shown["verb"] == "WATCH"
    assert (("apiserver_request_slo_duration_seconds_count", labels(**shown)) in found) != is_watch
    is_read = shown["verb"] in ("GET", "LIST")
    assert (("apiserver_response_sizes_count", labels(**shown)) in found) == is_read


def test_buckets_are_those_of_kubernetes(metrics: Metrics) -> None:
    got = series(metrics, "GET", f"{MAPS}/a")
    for seconds, size in ((0.004, 10), (0.005, 1000), (0.3, 1001), (1.0, 5_000_000), (1000.0, 2_000_000_000)):
        got.add(seconds, size)
    text = metrics.text().decode()
    found = samples(metrics)
    name, of = "apiserver_request_duration_seconds", of_request(dry_run="")
    for bound, count in (("0.005", 2), ("0.2", 2), ("0.4", 3), ("1", 4), ("60", 4), ("+Inf", 5)):
        assert found[f"{name}_bucket", labels(le=bound, **of)] == count
    assert abs(found[f"{name}_sum", labels(**of)] - 1001.309) < 1e-9
    of = of_request()
    for bound, count in (("0.05", 2), ("0.4", 3), ("1", 4), ("+Inf", 5)):
        assert found["apiserver_request_slo_duration_seconds_bucket", labels(le=bound, **of)] == count
    for bound, count in (("1000", 2), ("10000", 3), ("1e+06", 3), ("1e+07", 4), ("1e+09", 4), ("+Inf", 5)):
        assert found["apiserver_response_sizes_bucket", labels(le=bound, **of)] == count
    bounds = [line.split('le="')[1].split('"')[0] for line in text.splitlines() if f"{name}_bucket" in line]
    expected = "0.005 0.025 0.05 0.1 0.2 0.4 0.6 0.8 1 1.25 1.5 2 3 4 5 6 8 10 15 20 30 45 60 +Inf"
    assert bounds == expected.split()


def test_time_of_webhooks_is_not_in_the_slo(metrics: Metrics) -> None:
    made = series(metrics, "POST", MAPS, 201)
    made.add(2.5, 0)
    made.deduct(2.5, 2.4375)
    made.add(0.001, 0)
    found, of = samples(metrics), of_request(verb="POST")
    name = "apiserver_request_slo_duration_seconds"
    assert found[f"{name}_sum", labels(**of)] == pytest.approx(0.0635)
    assert found[f"{name}_bucket", labels(le="0.05", **of)] == 1
    assert found[f"{name}_bucket", labels(le="0.1", **of)] == 2
    assert found["apiserver_request_duration_seconds_bucket", labels(le="2", dry_run="", **of)] == 1


async def test_size_of_a_list_in_parts_is_that_of_all_parts(metrics: Metrics) -> None:
    class CheckedServer:
        left = 3

        async def __anext__(self) -> bytes:
            if not self.left:
                raise StopAsyncIteration
            self.left -= 1
            return b"x" * 1000

    listed = series(metrics, "GET", MAPS)
    listed.add(0.1, 0)
    parts = MeasuredParts(CheckedServer(), listed)
    name, of = "apiserver_response_sizes", of_request(verb="LIST", scope="namespace")
    assert samples(metrics)[f"{name}_count", labels(**of)] == 0
    assert [len(part) async for part in parts] == [1000, 1000, 1000]
    found = samples(metrics)
    assert found[f"{name}_count", labels(**of)] == 1
    assert found[f"{name}_sum", labels(**of)] == 3000
    assert found[f"{name}_bucket", labels(le="1000", **of)] == 0


def test_resources_that_are_not_served_add_no_series(metrics: Metrics) -> None:
    for number in range(100):
        series(metrics, "GET", f"/apis/g{number}.example.com/v1/things{number}", 429).add(0.1, 0)
    assert not [name for name, _ in samples(metrics) if name.startswith("apiserver_request_total")]


def test_series_of_a_resource_that_went_are_forgotten(metrics: Metrics) -> None:
    meter_requests(metrics)
    series(metrics, "GET", f"{MAPS}/a").add(0.1, 0)
    series(metrics, "GET", "/apis/coordination.cluster.io/v1beta1/leases").add(0.1, 0)
    deprecated = labels(
        group="coordination.cluster.io",
        version="v1beta1",
        resource="leases",
        subresource="",
        removed_release="1.26",
    )
    assert samples(metrics)["apiserver_requested_deprecated_apis", deprecated] == 1
    metrics.requests.forget("coordination.cluster.io", "leases")
    text = metrics.text().decode()
    assert "leases" not in text and 'resource="configmaps"' in text


@cases(
    ("value", "text"),
    [
        (0, "0"),
        (1.0, "1"),
        (-3.0, "-3"),
        (2.5, "2.5"),
        (999_999, "999999"),
        (1_000_000, "1e+06"),
        (1_234_567.0, "1.234567e+06"),
        (1234567.25, "1.23456725e+06"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (1794859171.94, "1.79485917194e+09"),
        (2.0**64, "1.8446744073709552e+19"),
    ],
)
def test_numbers_are_written_as_go_writes_them(value: float, text: str) -> None:
    assert number_text(value) == text


def test_labels_are_sorted_and_escaped(metrics: Metrics) -> None:
    metrics.counter("rewound_z_total", "Z.", lambda: {('a"\\\n', "2"): 1, ("b", "1"): 2}, "z", "b")
    metrics.gauge("rewound_a", "A.", lambda: 0.5)
    lines = [line for line in metrics.text().decode().splitlines() if "rewound" in line]
    assert lines == [
        "# HELP rewound_a A.",
        "# TYPE rewound_a gauge",
        "rewound_a 0.5",
        "# HELP rewound_z_total Z.",
        "# TYPE rewound_z_total counter",
        'rewound_z_total{b="2",z="a\\"\\\\\\n"} 1',
        'rewound_z_total{b="1",z="b"} 2',
    ]


def test_readings_are_read_at_each_scrape(metrics: Metrics) -> None:
    values = iter([1.0, 2.0])
    metrics.gauge("rewound_x", "X.", lambda: next(values))
    metrics.counter("rewound_y_total", "Y.", lambda: {"a": 3, "b": 4}, "kind")
    first, second = samples(metrics), samples(metrics)
    assert first["rewound_x", ()] == 1
    assert second["rewound_x", ()] == 2
    assert second["rewound_y_total", labels(kind="b")] == 4


def test_users_are_counted_by_a_few_names(metrics: Metrics) -> None:
    meter_requests(metrics)
    for user in ("admin", "admin", "jane@example.com", "alice", "system:anonymous"):
        metrics.authentications.succeed(user)
    metrics.authentications.refused += 1
    lines = [line for line in metrics.text().decode().splitlines() if line.startswith("authentica")]
    assert lines == [
        'authenticated_user_requests{username="admin"} 2',
        'authenticated_user_requests{username="email_id"} 1',
        'authenticated_user_requests{username="other"} 2',
        'authentication_attempts{result="error"} 1',
        'authentication_attempts{result="success"} 5',
    ]


def test_requests_in_flight_are_the_most_of_the_last_second() -> None:
    running = InFlight()
    running.rotate(100.0)
    running.now = running.peak = 5
    running.now = 1
    running.rotate(101.5)
    assert (running.most_at(101.6), running.most_at(103.6)) == (5, 1)
    running.rotate(103.7)
    assert running.most_at(103.8) == 1


def test_sizes_of_watch_events() -> None:
    sent = SentEvents()
    sent.add([(1, b"x" * 10), (2, b"x" * 3000)], 3010, 4)
    sent.add([], 0)
    total, buckets = sent.distribution()
    assert (sent.count, total) == (8, 12040)
    assert buckets == (4, 0, 4, 0, 0, 0, 0, 0, 0)


def test_durations_of_writes_are_by_type_and_operation() -> None:
    durations = WriteDurations()
    event = partial(Event, 5, user="", manager="", time=0, facts=b"", body=b"", namespace="", name="a")
    made = event(type_id=1, verb="create", previous=0, removed=False)
    changed = event(type_id=1, verb="patch", previous=3, removed=False)
    gone = event(type_id=2, verb="delete", previous=4, removed=True)
    durations.add([made, changed, gone], 0.01)
    durations.add([made], 0.001)
    found = durations.read()
    assert set(found) == {(1, "create"), (1, "update"), (2, "delete")}
    seconds, buckets = found[1, "create"]
    assert (round(seconds, 6), buckets[:3]) == (0.011, (1, 1, 0))


def test_statistics_of_the_server_are_metrics(metrics: Metrics) -> None:
    server = ServerStatistics(
        open=5,
        idle=3,
        accepted=9,
        requests=7,
        refused=1,
        failed=0,
        timed_out=0,
        handshake_failures=2,
        draining=False,
    )
    committer = CommitterStatistics(
        commits=4,
        events=6,
        failures=1,
        waiting=2,
        largest_batch=3,
        seconds=0.5,
        in_thread=False,
        last_failure="",
    )
    journal = {"head": 17, "map_bytes": 4096, "used_bytes": 1024, "readers": 1, "unreadable_events": 3}
    meter_connections(metrics, lambda: server)
    meter_committer(metrics, lambda: committer)
    meter_journal(metrics, lambda: journal)
    meter_mailboxes(metrics, lambda: {"configmaps": MailboxStatistics(1, 10, 20, 3)})
    found = samples(metrics)
    assert found["apiserver_tls_handshake_errors_total", ()] == 2
    assert found["rewound_committed_events_total", ()] == 6
    assert found["rewound_journal_head", ()] == 17
    assert found["rewound_journal_unreadable_events", ()] == 3
    assert found["rewound_mailbox_waiting", labels(type="configmaps")] == 1


def test_process_and_release_are_metrics(metrics: Metrics) -> None:
    fields = ("major", "minor", "gitVersion", "gitCommit", "gitTreeState", "buildDate", "goVersion")
    meter_release(metrics, "1.2.3", dict.fromkeys((*fields, "compiler", "platform"), "x"))
    found = dict(list(samples(metrics)))
    assert ("version", "1.2.3") in found["rewound_build_info"]
    assert ("git_version", "x") in found["kubernetes_build_info"]
    values = samples(metrics)
    for name in ("resident_memory_bytes", "cpu_seconds_total", "open_fds", "max_fds", "start_time_seconds"):
        assert values[f"process_{name}", ()] > 0


def test_scrape_needs_no_client_library() -> None:
    program = (
        "import sys; from rewound.gateway.ops.metrics import Metrics\n"
        "from rewound.gateway.ops.request_series import RequestSeries\n"
        "m = Metrics(RequestSeries(lambda route: True, lambda route: None))\n"
        "import trio; assert b'apiserver_request_total' in trio.run(m.scrape)\n"
        "assert 'prometheus_client' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


@cases(
    ("version", "name", "of_policy", "of_webhook"),
    [
        (
            "1.27",
            "apiserver_admission_admission_match_condition_evaluation_errors_total",
            labels(name="p", type="validatingadmissionpolicy"),
            labels(name="w", type="validating"),
        ),
        (
            "1.28",
            "apiserver_admission_match_condition_evaluation_errors_total",
            labels(name="p", kind="policy", type="validate", operation="CREATE"),
            labels(name="w", kind="webhook", type="admit", operation="CREATE"),
        ),
    ],
)
def test_labels_of_match_conditions(
    version: str, name: str, of_policy: tuple[tuple[str, str], ...], of_webhook: tuple[tuple[str, str], ...]
) -> None:
    metrics, timings = Metrics(RequestSeries(known, removed)), ConditionTimings()
    meter_conditions(metrics, timings, choose_release(version).features)
    timings.evaluated(("p", "policy", "validate", "CREATE"), 2, 0.1)
    timings.evaluated(("w", "webhook", "admit", "CREATE"), 1, 0.1)
    found = samples(metrics)
    assert (found[name, of_policy], found[name, of_webhook]) == (2, 1)
