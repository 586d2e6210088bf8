"""What a conversion webhook costs a list of 500 custom objects of 1 kB, over the same list in the storage version.

`extra_us` is the CPU of the server over that of the other list. `calls` is how often the webhook was called for a list.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from benchmarks.loads.client import Client
from benchmarks.loads.job import Job, Lane, run_job
from benchmarks.options import Options
from benchmarks.reports.measurement import Measurement, cpu_us, from_load
from benchmarks.servers.endpoint import Endpoint
from benchmarks.servers.measured_server import MeasuredServer
from benchmarks.workloads.access import GROUPS
from benchmarks.workloads.admission import startable, started_server, webhook, webhook_folder
from benchmarks.workloads.workload import Comparison

OBJECTS = 500
LISTERS = 2
GROUP = "bench.example.com"
_CALLS = re.compile(r"conversion_duration_seconds_count{[^}]*} ([0-9.]+)")


def measure(server: MeasuredServer) -> Sequence[Measurement]:
    options, sizes = startable(server)
    with ExitStack() as stack:
        folder = stack.enter_context(webhook_folder(options))
        port, ca = stack.enter_context(webhook(folder))
        process = stack.enter_context(started_server(options, "conversion"))
        _define(process.endpoint, options, port, ca)
        paths = [_path("v1"), _path("v2")]
        lanes = tuple(Lane(process.endpoint, {"plan": "repeat", "paths": [path]}, LISTERS) for path in paths)
        calls = _calls_of_one_list(process.endpoint)
        results = run_job(Job(lanes, sizes.seconds, sizes.rounds, warmup=sizes.warmup))
    stored, converted = (from_load(name, one, LISTERS) for name, one in zip(TITLES, results, strict=True))
    own, base = ([cpu_us(one) for one in each.rounds if one.operations] for each in reversed(results))
    if own and base:
        converted.figures["extra_us"] = round(min(own) - min(base), 2)
    converted.figures["calls"] = calls
    return stored, converted


def _define(endpoint: Endpoint, options: Options, port: int, ca: str) -> None:
    api = f"/apis/apiextensions.{GROUPS[options.dialect]}/v1/customresourcedefinitions"
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": _TEXTS}}}
    versions = [
        {"name": name, "served": True, "storage": name == "v1", "schema": {"openAPIV3Schema": schema}}
        for name in ("v1", "v2")
    ]
    config = {"url": f"https://127.0.0.1:{port}/0", "caBundle": ca}
    conversion = {
        "strategy": "Webhook",
        "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": config},
    }
    names = {"plural": "things", "kind": "Thing"}
    spec: dict[str, Any] = {"group": GROUP, "scope": "Namespaced", "names": names, "versions": versions}
    definition = {"metadata": {"name": f"things.{GROUP}"}, "spec": {**spec, "conversion": conversion}}
    with Client(endpoint) as client:
        client.expect("POST", api, definition)
        while client.call("GET", _path("v1"))[0] != 200:
            time.sleep(0.01)
        for number in range(OBJECTS):
            texts = dict.fromkeys(_TEXTS, f"{number:0200}")
            one = {"apiVersion": f"{GROUP}/v1", "kind": "Thing", "metadata": {"name": f"t-{number:03}"}}
            client.expect("POST", _path("v1"), {**one, "spec": texts})


def _path(version: str) -> str:
    return f"/apis/{GROUP}/{version}/namespaces/default/things"


def _calls_of_one_list(endpoint: Endpoint) -> float:
    before = _calls(endpoint)
    with Client(endpoint) as client:
        client.expect("GET", _path("v2"))
    return _calls(endpoint) - before


def _calls(endpoint: Endpoint) -> float:
    with Client(endpoint) as client:
        text = str(client.call("GET", "/metrics")[1])
    return sum(float(one) for one in _CALLS.findall(text))


_TEXTS: dict[str, Any] = {name: {"type": "string"} for name in ("a", "b", "c")}
TITLES = {
    "list-stored": f"list {OBJECTS} custom objects of 1 kB in their storage version",
    "list-converted": "the same in a version that a webhook converts",
}
CONVERSION = (Comparison("list-converted", TITLES, measure),)
