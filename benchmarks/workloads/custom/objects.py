"""What a custom resource of 1 kB costs beside a ConfigMap, created and read: the rounds take turns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from benchmarks.loads.job import Job, Lane, LoadResult, run_job
from benchmarks.reports.measurement import Measurement, cpu_us, from_load, ratio_of_rounds
from benchmarks.servers.measured_server import MeasuredServer
from benchmarks.workloads.access import SPLIT
from benchmarks.workloads.custom.samples import GROUP, WIDGET, WIDGET_SPEC, WIDGETS, define, definition
from benchmarks.workloads.custom.server import own_server
from benchmarks.workloads.workload import Comparison

CONNECTIONS = 16
MAPS = "/api/v1/namespaces/default/configmaps"
Plans = tuple[dict[str, Any], dict[str, Any]]  # for ConfigMaps, for custom resources


def creates() -> Plans:
    return (
        {"plan": "create", "path": MAPS, "prefix": "c-"},
        {"plan": "create", "path": WIDGETS, "prefix": "c-", "body": WIDGET},
    )


def gets() -> Plans:
    return (
        {"plan": "repeat", "paths": [f"{MAPS}/o-000000"]},
        {"plan": "repeat", "paths": [f"{WIDGETS}/o-000000"]},
    )


def measure(titles: dict[str, str], plans: Plans, server: MeasuredServer) -> Sequence[Measurement]:
    sizes = server.sizes
    with own_server(server) as process:
        define(process.endpoint, server.options, definition(GROUP, "widgets", "Widget", WIDGET_SPEC))
        _create_one_of_each(process.endpoint)
        lanes = tuple(Lane(process.endpoint, plan, CONNECTIONS) for plan in plans)
        job = Job(lanes, sizes.seconds / SPLIT, sizes.rounds * SPLIT, warmup=sizes.warmup)
        results = run_job(job)
    found = [from_load(*each, CONNECTIONS) for each in zip(titles, results, strict=True)]
    maps, custom = map(_costs, results)
    found[1].figures["config_map_ratio"] = ratio_of_rounds(custom, maps)
    return found


def _create_one_of_each(endpoint: Any) -> None:
    for plan in creates():
        run_job(Job((Lane(endpoint, {**plan, "prefix": "o-", "total": 1}, 1),), 10))


def _costs(result: LoadResult) -> list[float]:
    return [cpu_us(each) if each.operations else 0.0 for each in result.rounds]


CREATES = {
    "create-config-map": "create a ConfigMap of 1 kB, beside custom resources",
    "create-custom": "create a custom resource of 1 kB",
}
GETS = {
    "get-config-map": "get a ConfigMap of 1 kB, beside custom resources",
    "get-custom": "get a custom resource of 1 kB",
}
CUSTOM_OBJECTS = (
    Comparison("create-custom", CREATES, partial(measure, CREATES, creates())),
    Comparison("get-custom", GETS, partial(measure, GETS, gets())),
)
