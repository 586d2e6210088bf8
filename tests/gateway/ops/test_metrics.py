from __future__ import annotations

import subprocess
import sys

from prometheus_client.parser import text_string_to_metric_families

from actors.mailbox import MailboxStatistics
from actors.store.committer import CommitterStatistics
from gateway.connections.server_state import ServerStatistics
from gateway.ops.exposition import exposition
from gateway.ops.meters import meter_committer, meter_journal, meter_mailboxes, meter_server
from gateway.ops.metrics import Metrics

Sample = tuple[str, tuple[tuple[str, str], ...]]


def known(group: str, resource: str) -> bool:
    return (group, resource) in {("", "configmaps"), ("coordination.cluster.io", "leases")}


def samples(metrics: Metrics) -> dict[Sample, float]:
    families = text_string_to_metric_families(exposition(metrics.snapshot()).decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def labels(**named: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(named.items()))


def test_requests_are_counted_by_verb_resource_and_code() -> None:
    metrics = Metrics("1.2.3", known)
    metrics.observe("get", "", "configmaps", 200, 0.001)
    metrics.observe("get", "", "configmaps", 200, 0.001)
    metrics.observe("get", "", "configmaps", 404, 0.001)
    metrics.observe("create", "coordination.cluster.io", "leases", 201, 0.001)
    metrics.observe("get", "", "", 200, 0.001)
    found = samples(metrics)
    total = "apiserver_request_total"
    assert found[total, labels(verb="GET", group="", resource="configmaps", code="200")] == 2
    assert found[total, labels(verb="GET", group="", resource="configmaps", code="404")] == 1
    leases = labels(verb="POST", group="coordination.cluster.io", resource="leases", code="201")
    assert found[total, leases] == 1
    assert found[total, labels(verb="GET", group="", resource="", code="200")] == 1


def test_durations_have_no_code_label() -> None:
    metrics = Metrics("1.2.3", known)
    metrics.observe("get", "", "configmaps", 200, 0.0004)
    metrics.observe("get", "", "configmaps", 404, 0.0005)
    metrics.observe("get", "", "configmaps", 200, 0.3)
    metrics.observe("get", "", "configmaps", 200, 1000.0)
    found = samples(metrics)
    name, of = "apiserver_request_duration_seconds", {"verb": "GET", "group": "", "resource": "configmaps"}
    assert found[f"{name}_count", labels(**of)] == 4
    assert abs(found[f"{name}_sum", labels(**of)] - 1000.3009) < 1e-9
    assert found[f"{name}_bucket", labels(le="0.0005", **of)] == 2
    assert found[f"{name}_bucket", labels(le="0.25", **of)] == 2
    assert found[f"{name}_bucket", labels(le="0.5", **of)] == 3
    assert found[f"{name}_bucket", labels(le="+Inf", **of)] == 4


def test_unknown_verbs_and_resources_add_no_series() -> None:
    metrics = Metrics("1.2.3", known)
    for number in range(1000):
        metrics.observe("get", f"g{number}.example.com", f"things{number}", 404, 0.001)
        metrics.observe(f"method{number}", "", "", 405, 0.001)
    found = {key: value for key, value in samples(metrics).items() if key[0] == "apiserver_request_total"}
    assert found == {
        ("apiserver_request_total", labels(verb="GET", group="", resource="other", code="404")): 1000,
        ("apiserver_request_total", labels(verb="other", group="", resource="", code="405")): 1000,
    }


def test_method_and_its_verb_are_one_series() -> None:
    metrics = Metrics("1.2.3", known)
    metrics.observe("create", "", "", 403, 0.001)
    metrics.observe("post", "", "", 403, 0.001)
    name = "apiserver_request_total"
    assert samples(metrics)[name, labels(verb="POST", group="", resource="", code="403")] == 2


def test_readings_are_read_at_each_scrape() -> None:
    metrics = Metrics("1.2.3", known)
    values = iter([1.0, 2.0])
    metrics.gauge("rewound_x", "X.", lambda: next(values))
    metrics.counter("rewound_y_total", "Y.", lambda: {"a": 3, "b": 4}, "kind")
    first, second = samples(metrics), samples(metrics)
    assert first["rewound_x", ()] == 1
    assert second["rewound_x", ()] == 2
    assert second["rewound_y_total", labels(kind="b")] == 4


def test_statistics_of_the_server_are_metrics() -> None:
    metrics = Metrics("1.2.3", known)
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
    journal = {"head": 17, "map_bytes": 4096, "used_bytes": 1024, "readers": 1}
    meter_server(metrics, lambda: server)
    meter_committer(metrics, lambda: committer)
    meter_journal(metrics, lambda: journal)
    meter_mailboxes(metrics, lambda: {"configmaps": MailboxStatistics(1, 10, 20, 3)})
    found = samples(metrics)
    assert found["apiserver_current_inflight_requests", ()] == 2
    assert found["rewound_committed_events_total", ()] == 6
    assert found["rewound_journal_head", ()] == 17
    assert found["rewound_mailbox_waiting", labels(type="configmaps")] == 1


def test_process_and_release_are_metrics() -> None:
    found = dict(list(samples(Metrics("1.2.3", known))))
    assert ("version", "1.2.3") in found["rewound_build_info"]
    assert {"process_resident_memory_bytes", "process_cpu_seconds_total", "process_open_fds"} <= set(found)


def test_first_scrape_imports_the_client_library() -> None:
    program = (
        "import sys; from gateway.ops.metrics import Metrics\n"
        "m = Metrics('1', lambda group, resource: True); m.observe('get', '', 'configmaps', 200, 0.1)\n"
        "assert 'prometheus_client' not in sys.modules\n"
        "import trio; assert b'apiserver_request_total' in trio.run(m.scrape)\n"
        "assert 'prometheus_client' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
