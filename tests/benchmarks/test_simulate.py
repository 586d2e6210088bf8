"""The model: its stations behave as queueing theory predicts, runs are repeatable, and it names a cluster's
bottleneck.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.simulate import (
    Clock,
    Cluster,
    Costs,
    Layout,
    Load,
    NotEnough,
    Station,
    machines_for,
    main,
    search,
)
from tests.cases import cases

COSTS = Costs(
    get_us=100,
    write_us=200,
    apply_us=40,
    deliver_us=10,
    connect_us=1000,
    watch_us=250,
    commit_us=1_000,
    relist_us=1_000_000,
    watcher_kb=20,
    base_mb=50,
    object_bytes=150,
)
SMALL = Load(nodes=2_000, reads=0.2)


def mean_wait(servers: int, utilization: float, *, deterministic: bool, customers: int = 60_000) -> float:
    """The mean time in the queue of customers who need one second each, on average."""
    clock = Clock(seed=7)
    station = Station(clock, servers)
    waits: list[float] = []

    def arrive() -> None:
        begun, service = clock.now, 1.0 if deterministic else clock.random.expovariate(1.0)
        station.submit(service, lambda: waits.append(clock.now - begun - service))

    rate = utilization * servers
    clock.arrivals(rate, arrive)
    clock.run(customers / rate)
    assert station.utilization(clock.now) == pytest.approx(utilization, rel=0.03)
    return sum(waits) / len(waits)


def erlang_c(servers: int, load: float) -> float:
    """The probability that a customer of M/M/c has to wait."""
    terms = [load**k / math.factorial(k) for k in range(servers)]
    waiting = load**servers / math.factorial(servers) * servers / (servers - load)
    return waiting / (sum(terms) + waiting)


@cases("case", [(1, 0.5), (2, 0.7), (4, 0.8)])
def test_station_waits_as_m_m_c_does(case: tuple[int, float]) -> None:
    servers, utilization = case
    load = servers * utilization
    assert mean_wait(servers, utilization, deterministic=False) == pytest.approx(
        erlang_c(servers, load) / (servers - load), rel=0.12
    )


@cases("utilization", [0.3, 0.8])
def test_station_waits_as_m_d_1_does(utilization: float) -> None:
    expected = utilization / (2 * (1 - utilization))
    assert mean_wait(1, utilization, deterministic=True) == pytest.approx(expected, rel=0.1)


def test_utilizations_are_rates_times_costs() -> None:
    report = Cluster(SMALL, Layout(2, workers=2, etcd_limit=5_000), replace(COSTS, commit_us=0.0)).run(20.0)
    assert report.etcd == pytest.approx(SMALL.writes / 5_000, rel=0.1)
    assert report.followers == pytest.approx(SMALL.writes * 40e-6, rel=0.1)
    deliveries = 2_000 / 10 + 2_000 / 300 * 10 + 20 * 11 + 2_000 * SMALL.broadcasts
    cpu = SMALL.writes * 200e-6 + 400 * 100e-6 + deliveries * 10e-6
    assert report.workers[0] == pytest.approx(cpu / 4, rel=0.1)


def test_latency_without_queues_is_the_sum_of_its_parts() -> None:
    load = Load(nodes=10, reads=0.5, broadcasts=0)
    report = Cluster(load, Layout(1, rtt_ms=4.0, commit_ms=5.0), COSTS).run(200.0)
    fresh = 4.0 + 0.5  # to etcd and back, and its read
    assert report.latency_ms["reads"]["p50"] == pytest.approx(4.0 + fresh + 0.1, abs=0.01)
    # Eight tenths of a commit are constant, the rest is exponential; then the machine stores the event itself.
    assert report.latency_ms["writes"]["p50"] == pytest.approx(
        4.0 + fresh + 0.2 + 4.0 + 0.05 + 4.0 + math.log(2) + 1.0 + 0.04, abs=0.5
    )
    assert report.latency_ms["deliveries"]["p50"] > report.latency_ms["reads"]["p50"]


def test_reads_share_a_question_for_the_newest_version() -> None:
    """Requests that arrive while one is in progress wait for the next: one and a half of them on average."""
    load = Load(nodes=1_000, reads=10.0, lease_interval=1e9, status_interval=1e9, pod_changes=0, broadcasts=0)
    report = Cluster(load, Layout(1, rtt_ms=4.0), replace(COSTS, get_us=1.0)).run(5.0)
    assert report.latency_ms["reads"]["p50"] == pytest.approx(4.0 + 1.5 * 4.5, rel=0.1)
    assert report.latency_ms["reads"]["p99"] < 4.0 + 2 * 4.5 + 1.0


def test_a_read_waits_until_its_machine_has_stored_what_was_written_before() -> None:
    load = Load(nodes=1_000, reads=1.0, controllers=0)
    quick, slow = (
        Cluster(load, Layout(2), replace(COSTS, commit_us=commit)).run(20.0).latency_ms["reads"]["p99"]
        for commit in (0.0, 20_000.0)
    )
    assert slow > quick + 10


def test_commits_to_a_disk_take_all_writes_that_wait() -> None:
    """Writes that would not fit into a second with a commit each fit when commits include those that wait."""
    load = Load(nodes=10_000, reads=0.0, broadcasts=0, controllers=0)
    one = Layout(1, workers=1, journal="disk")
    few = Cluster(replace(load, nodes=3_000), one, COSTS).run(5.0)
    assert few.latency_ms["writes"]["p50"] == pytest.approx(1.0 + 0.2 + 1.0 + 0.04, abs=0.5)
    many = Cluster(load, one, COSTS).run(5.0)
    assert load.writes * (COSTS.write_us + COSTS.commit_us) > 1.3e6
    assert many.workers[0] < 1.0
    assert many.latency_ms["writes"]["p99"] < 50


def test_reads_do_not_wait_for_a_slow_disk() -> None:
    load, one = Load(nodes=1_000, broadcasts=0), Layout(1, workers=1, journal="disk")
    fast = Cluster(load, one, replace(COSTS, commit_us=3_900)).run(10.0)
    slow = Cluster(load, one, replace(COSTS, commit_us=8_000)).run(10.0)
    assert slow.latency_ms["reads"]["p99"] < fast.latency_ms["reads"]["p99"]
    assert slow.latency_ms["writes"]["p50"] > fast.latency_ms["writes"]["p50"]


def test_same_seed_gives_the_same_run() -> None:
    runs = [Cluster(SMALL, Layout(2), COSTS, seed).run(3.0).latency_ms for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


def test_clients_of_a_failed_machine_come_back_to_the_others() -> None:
    run = Cluster(SMALL, Layout(4), COSTS)
    report = run.run(20.0, fail_at=5.0, spread=5.0)
    assert report.latency_ms["returns"]["count"] == SMALL.nodes // 4
    assert not run.machines[0].up
    before = run.machines[0].workers[0].busy
    run.clock.run(25.0)
    assert run.machines[0].workers[0].busy == before, "a failed machine serves nothing"
    relisting = Cluster(SMALL, Layout(4), COSTS).run(20.0, fail_at=5.0, spread=5.0, relists=1.0)
    assert relisting.latency_ms["returns"]["p99"] > 10 * report.latency_ms["returns"]["p99"]


def test_search_finds_the_least_number_of_machines() -> None:
    load = Load(nodes=30_000, reads=1.0)
    needed, report = search(load, Layout(0), COSTS, seconds=1.0)
    assert needed == report.machines + 1
    assert report.problem(1000.0, 0.8) == ""
    fewer = Cluster(load, Layout(report.machines - 1), COSTS).run(1.0)
    assert fewer.problem(1000.0, 0.8) != ""


def test_limits_that_no_machine_removes_are_named() -> None:
    with pytest.raises(NotEnough, match="etcd would be busy 113%"):
        machines_for(Load(nodes=100_000), Layout(0, etcd_limit=10_000), COSTS, 0.8)
    with pytest.raises(NotEnough, match="--workers 2"):
        machines_for(Load(nodes=10_000), Layout(0, workers=1), COSTS, 0.8)
    with pytest.raises(NotEnough, match="events of all machines"):
        machines_for(Load(nodes=300_000), Layout(0, etcd_limit=100_000), COSTS, 0.8)


def scale_figures() -> dict[str, Any]:
    objects = {
        "get_us": 100,
        "write_us": 200,
        "commit_us": 1_000,
        "append_us": 40,
        "watch_start_us": 250,
        "node_pods_us": 100_000,
        "collections": {"pods": 4_000},
        "rest_anonymous_mb": 50,
        "anonymous_bytes_per_object": 150,
    }
    watchers = {"watchers": 1_000, "workers": 1, "delivery_us": 10, "connect_us": 1_000, "kb": 20}
    return {
        "objects": {"results": {"10000": objects}},
        "watchers": {"results": {shape: {**watchers, "shape": shape} for shape in ("tls", "own")}},
    }


def test_command_prints_the_machines_that_are_needed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "scale.json"
    file.write_text(json.dumps(scale_figures()))
    assert main(["--costs", str(file), "--nodes", "3000", "--seconds", "0.5"]) == 0
    assert "2 machines are needed, of which one may fail" in capsys.readouterr().out
    assert main(["--costs", str(file), "--nodes", "3000", "--machines", "2", "--seconds", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    # 90,000 pods instead of 4,000: a relist reads so many more.
    assert found["costs"]["relist_us"] == pytest.approx(100_000 * 90_000 / 4_000)
    assert found["costs"]["write_us"] == 200


def test_layouts_that_cannot_be_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "scale.json"
    file.write_text(json.dumps(scale_figures()))
    assert main(["--costs", str(file), "--journal", "disk", "--machines", "2"]) == 1
    assert "--machines 1 --workers 1" in capsys.readouterr().err
    assert main(["--costs", str(file), "--journal", "tape"]) == 1
    assert "must be etcd or disk" in capsys.readouterr().err


def test_missing_figures_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "scale.json"
    file.write_text("{}")
    assert main(["--costs", str(file)]) == 1
    assert "python -m benchmarks.scale" in capsys.readouterr().err
