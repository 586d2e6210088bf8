"""What admission webhooks and policies cost the creates of ConfigMaps: one that matches, many that do not, a slow one.

A server of ours without webhooks takes turns with one that has a validating webhook, then with one that has 200
configurations whose rules match the writes and whose selectors do not. `extra_us` is the difference to the rounds
without webhooks. Two servers at a time, because the one that runs after rounds with a webhook finds its caches cold.
The same with a validating policy that matches, whose expression has ten operations, and with a mutating one that sets
a label.

Then a thousand writes wait for a webhook that responds after seconds: `kb` is the memory that each of them holds, and
`p99_ratio` the latency of other writes to the same kind meanwhile, over that before.
"""

from __future__ import annotations

import base64
import shutil
import socket
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.baselines.certificate import write_certificate
from benchmarks.loads.client import Client, Refused
from benchmarks.loads.job import Job, Lane, LoadResult, run_job, run_lane
from benchmarks.loads.plans import config_map
from benchmarks.options import Options
from benchmarks.reports.measurement import Measurement, cpu_us, from_load
from benchmarks.servers.endpoint import Endpoint
from benchmarks.servers.measured_server import MeasuredServer
from benchmarks.servers.memory import memory
from benchmarks.servers.server_process import ServerProcess, fresh_folder
from benchmarks.servers.webhook_server import webhook_server
from benchmarks.workloads.access import GROUPS
from benchmarks.workloads.workload import Comparison, Skipped, Workload

WRITERS = 16
CONFIGURATIONS = 200
SPLIT = (
    8  # rounds for each of the usual ones, each as much shorter: the differences are a hundredth of a write
)
MAPS = "/api/v1/namespaces/default/configmaps"
WAITING = 1000
# A webhook gets 100 calls at once, so the last of a thousand writes waits ten times as long.
SLOW_SECONDS = 2.0
WRITES = 400
_RULE = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
TEN_OPERATIONS = (
    "object.metadata.name != 'x' && object.metadata.labels.app == 'bench' && object.kind == 'ConfigMap' && "
    "int(object.metadata.labels.shard) < 100 && size(object.data) > 0"
)
LABELED = "Object{metadata: Object.metadata{labels: {'kind': object.kind}}}"


def measure(server: MeasuredServer) -> Sequence[Measurement]:
    options, sizes = startable(server)
    with ExitStack() as stack:
        folder = stack.enter_context(webhook_folder(options))
        port, ca = stack.enter_context(webhook(folder))
        servers = [stack.enter_context(started_server(options, name)) for name in ("without", "one", "many")]
        _configure(servers[1].endpoint, options, "one", _hook(port, ca, "/0"))
        for number in range(CONFIGURATIONS):
            hook = _hook(port, ca, "/0", objectSelector={"matchLabels": {f"team-{number}": "x"}})
            _configure(servers[2].endpoint, options, f"other-{number}", hook)
        endpoints = [each.endpoint for each in servers]
        base, one = _compared(sizes, endpoints[0], endpoints[1], "one-")
        quiet, many = _compared(sizes, endpoints[0], endpoints[2], "many-")
    without, asked, unselected = TITLES
    return [
        _measurement(without, quiet, quiet),
        _measurement(asked, one, base),
        _measurement(unselected, many, quiet),
    ]


def _compared(sizes: Any, first: Endpoint, second: Endpoint, prefix: str) -> list[LoadResult]:
    plan = {"plan": "create", "path": MAPS, "prefix": prefix}
    lanes = tuple(Lane(each, plan, WRITERS) for each in (first, second))
    return run_job(Job(lanes, sizes.seconds / SPLIT, sizes.rounds * SPLIT, warmup=sizes.warmup))


def _measurement(name: str, result: LoadResult, base: LoadResult) -> Measurement:
    found = from_load(name, result, WRITERS)
    rounds = zip(result.rounds, base.rounds, strict=True)
    extra = [cpu_us(own) - cpu_us(other) for own, other in rounds if own.operations and other.operations]
    if result is not base and extra:
        found.figures["extra_us"] = round(statistics.median(extra), 2)
    return found


def policies(server: MeasuredServer) -> Sequence[Measurement]:
    options, sizes = startable(server)
    flags = ("--kubernetes-version", "1.36")
    with ExitStack() as stack:
        without, validating, mutating = (
            stack.enter_context(started_server(options, name, flags)).endpoint
            for name in ("without", "validating", "mutating")
        )
        _set_policy(validating, options, "validating", {"validations": [{"expression": TEN_OPERATIONS}]})
        mutation = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": LABELED}}
        _set_policy(mutating, options, "mutating", {"reinvocationPolicy": "Never", "mutations": [mutation]})
        base, checked = _compared(sizes, without, validating, "checked-")
        quiet, changed = _compared(sizes, without, mutating, "changed-")
    none, one, other = POLICY_TITLES
    return [
        _measurement(none, quiet, quiet),
        _measurement(one, checked, base),
        _measurement(other, changed, quiet),
    ]


def _set_policy(endpoint: Endpoint, options: Options, kind: str, spec: dict[str, Any]) -> None:
    path = f"/apis/admissionregistration.{GROUPS[options.dialect]}/v1/{kind}admissionpolic"
    binding = {"policyName": "bench", **({"validationActions": ["Deny"]} if kind == "validating" else {})}
    spec = {"matchConstraints": {"resourceRules": [_RULE]}, **spec}
    with Client(endpoint) as client:
        client.expect("POST", f"{path}ies", {"metadata": {"name": "bench"}, "spec": spec})
        client.expect("POST", f"{path}ybindings", {"metadata": {"name": "bench"}, "spec": binding})


def slow_webhook(server: MeasuredServer) -> Measurement:
    options, sizes = startable(server)
    count = min(WAITING, sizes.watchers)
    seconds = SLOW_SECONDS * count / WAITING
    with (
        webhook_folder(options) as folder,
        webhook(folder) as (port, ca),
        started_server(options, "slow") as process,
    ):
        hook = _hook(port, ca, f"/{seconds:g}", objectSelector={"matchLabels": {"app": "slow"}})
        _configure(process.endpoint, options, "slow", {**hook, "timeoutSeconds": 30})
        alone = _others(process.endpoint, "before-")
        with _waiting_writes(process.plain_endpoint, count) as sockets:
            _wait_until_called(
                process.endpoint, 0
            )  # what the server loads for its first metrics is not counted
            base = memory(process.endpoint.pids)
            _send(sockets, process.plain_endpoint)
            _wait_until_called(process.endpoint, count)
            grown = memory(process.endpoint.pids)
            beside = _others(process.endpoint, "beside-")
            statuses = _statuses(sockets)
    figures = {
        "kb": round((grown.anonymous_mb - base.anonymous_mb) * 1024 / count, 2),
        "p99_ms": beside.latency_ms["p99"],
        "p99_ratio": round(beside.latency_ms["p99"] / alone.latency_ms["p99"], 2),
    }
    notes = {"waiting": count, "p99_ms_before": alone.latency_ms["p99"], "statuses": statuses}
    return Measurement("webhook-slow", figures, {**notes, "errors": count - statuses.get("201", 0)})


def _others(endpoint: Endpoint, prefix: str) -> LoadResult:
    return run_lane(
        Lane(endpoint, {"plan": "create", "path": MAPS, "prefix": prefix, "total": WRITES}, 1), 30
    )


@contextmanager
def _waiting_writes(endpoint: Endpoint, count: int) -> Iterator[list[socket.socket]]:
    """Connections that have each had a response, so that what they cost by themselves is not counted."""
    sockets: list[socket.socket] = []
    try:
        for _ in range(count):
            sockets.append(socket.create_connection((endpoint.host, endpoint.port), timeout=60))
            sockets[-1].sendall(_request(endpoint, "GET", f"{MAPS}/none", b""))
            sockets[-1].recv(1 << 16)
        yield sockets
    finally:
        for one in sockets:
            one.close()


def _send(sockets: list[socket.socket], endpoint: Endpoint) -> None:
    for number, one in enumerate(sockets):
        body = config_map(f"slow-{number}", number).replace(b'"app":"bench"', b'"app":"slow"')
        one.sendall(_request(endpoint, "POST", MAPS, body))


def _wait_until_called(endpoint: Endpoint, count: int) -> None:
    """Until the server has admitted all writes as far as the webhook: accepting them delays others too."""
    with Client(endpoint) as client:
        for _ in range(100):
            if _calls(client.expect("GET", "/metrics")) >= count:
                return
            time.sleep(0.1)
    raise Refused(f"the server did not begin {count} calls")


def _calls(metrics: str) -> float:
    lines = metrics.splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("rewound_admission_calls_total "))


def _statuses(sockets: list[socket.socket]) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in sockets:
        status = one.recv(1 << 16)[9:12].decode()
        found[status] = found.get(status, 0) + 1
    return found


def _request(endpoint: Endpoint, method: str, path: str, body: bytes) -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {endpoint.token}\r\n"
    return f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def startable(server: MeasuredServer) -> tuple[Options, Any]:
    if server.process is None:
        raise Skipped("only a server that the harness starts can have these webhooks")
    return server.options, server.sizes


@contextmanager
def webhook_folder(options: Options) -> Iterator[Path]:
    folder = fresh_folder(options.scratch, "webhook")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def webhook(folder: Path) -> Iterator[tuple[int, str]]:
    """The port of a webhook, and the caBundle for it."""
    certificate, key = write_certificate(folder, "127.0.0.1")
    with webhook_server(certificate, key) as port:
        yield port, base64.b64encode(certificate.read_bytes()).decode()


@contextmanager
def started_server(options: Options, purpose: str, flags: Sequence[str] = ()) -> Iterator[ServerProcess]:
    folder = fresh_folder(options.scratch, purpose)
    process = ServerProcess(folder, dialect=options.dialect, command=options.rewound, flags=flags)
    try:
        yield process
    finally:
        process.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _hook(port: int, ca: str, path: str, **fields: Any) -> dict[str, Any]:
    return {
        "name": "bench.example.com",
        "clientConfig": {"url": f"https://127.0.0.1:{port}{path}", "caBundle": ca},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "rules": [_RULE],
        **fields,
    }


def _configure(endpoint: Endpoint, options: Options, name: str, hook: dict[str, Any]) -> None:
    path = f"/apis/admissionregistration.{GROUPS[options.dialect]}/v1/validatingwebhookconfigurations"
    with Client(endpoint) as client:
        client.expect("POST", path, {"metadata": {"name": name}, "webhooks": [hook]})


TITLES = {
    "create-no-webhook": "create 1 kB, no webhook",
    "create-webhook": "the same, one webhook is asked",
    "create-webhooks-200": "the same, 200 configurations that do not match",
}
POLICY_TITLES = {
    "create-no-policy": "create 1 kB, no policy",
    "create-policy": "the same, one policy validates it",
    "create-policy-mutating": "the same, one policy changes it",
}
ADMISSION = (
    Comparison("create-webhook", TITLES, measure),
    Comparison("create-policy", POLICY_TITLES, policies),
    Workload("webhook-slow", "{watchers} writes wait for a slow webhook beside others", slow_webhook),
)
