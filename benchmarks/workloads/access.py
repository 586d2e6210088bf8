"""What access control costs: requests of an administrator, an ordinary user, a service account, and with an audit log.

Two servers of ours have 500 cluster roles and 500 bindings of other users besides the one that lets the ordinary user
and the service account read and create; the second one has an audit log of all requests at level Metadata. The rounds
take turns. `extra_us` is the difference to the ordinary user's rounds; that of the user, to the administrator's, who is
allowed before any role is read and exempt from flow control.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from benchmarks.loads.client import Client
from benchmarks.loads.job import Job, Lane, LoadResult, run_job
from benchmarks.loads.plans import config_map
from benchmarks.options import Options
from benchmarks.reports.measurement import Measurement, cpu_us, from_load
from benchmarks.servers.endpoint import Endpoint
from benchmarks.servers.measured_server import MeasuredServer
from benchmarks.servers.server_process import ServerProcess, fresh_folder
from benchmarks.workloads.reads import READERS
from benchmarks.workloads.workload import Comparison, Skipped
from benchmarks.workloads.writes import WRITERS

SPLIT = 3  # rounds for each of the usual ones, each as much shorter
USER_TOKEN = "benchmark-user"
OBJECTS = "/api/v1/namespaces/default/configmaps"
GROUPS = {"cluster": "cluster.io", "kubernetes": "k8s.io"}


def measure_gets(server: MeasuredServer) -> Sequence[Measurement]:
    plan = {"plan": "repeat", "paths": [f"{OBJECTS}/one"]}
    with _servers(server) as (plain, audited):
        lanes = (
            _lane(plain, plain.token, plan, READERS),
            _lane(plain, USER_TOKEN, plan, READERS),
            _lane(plain, _account_token(plain), plan, READERS),
            _lane(audited, USER_TOKEN, plan, READERS),
        )
        masters, user, account, audit = _run(server, lanes)
    pairs = ((masters, masters), (user, masters), (account, user), (audit, user))
    return [_measurement(name, READERS, *pair) for name, pair in zip(GETS, pairs, strict=True)]


def measure_creates(server: MeasuredServer) -> Sequence[Measurement]:
    with _servers(server) as (plain, audited):
        lanes = (
            _lane(plain, plain.token, _creating("masters"), WRITERS),
            _lane(plain, USER_TOKEN, _creating("user"), WRITERS),
            _lane(audited, USER_TOKEN, _creating("user"), WRITERS),
        )
        masters, user, audit = _run(server, lanes)
    pairs = ((masters, masters), (user, masters), (audit, user))
    return [_measurement(name, WRITERS, *pair) for name, pair in zip(CREATES, pairs, strict=True)]


def _creating(prefix: str) -> dict[str, object]:
    return {"plan": "create", "path": OBJECTS, "prefix": f"{prefix}-"}


def _run(server: MeasuredServer, lanes: tuple[Lane, ...]) -> Sequence[LoadResult]:
    sizes = server.sizes
    return run_job(Job(lanes, sizes.seconds / SPLIT, sizes.rounds * SPLIT, warmup=sizes.warmup))


def _lane(endpoint: Endpoint, token: str, plan: dict[str, object], connections: int) -> Lane:
    return Lane(dataclasses.replace(endpoint, token=token), plan, connections)


def _measurement(name: str, connections: int, result: LoadResult, base: LoadResult) -> Measurement:
    found = from_load(name, result, connections)
    rounds = zip(result.rounds, base.rounds, strict=True)
    extra = [cpu_us(own) - cpu_us(other) for own, other in rounds if own.operations and other.operations]
    if result is not base and extra:
        found.figures["extra_us"] = round(statistics.median(extra), 2)
    return found


@contextmanager
def _servers(server: MeasuredServer) -> Iterator[tuple[Endpoint, Endpoint]]:
    """Two servers, the second one with an audit log."""
    if server.process is None:
        raise Skipped("only a server that the harness starts can have these users and flags")
    with _server(server.options) as plain, _server(server.options, audit=True) as audited:
        yield plain.endpoint, audited.endpoint


@contextmanager
def _server(options: Options, *, audit: bool = False) -> Iterator[ServerProcess]:
    folder, dialect = fresh_folder(options.scratch, "access"), options.dialect
    flags: list[str] = []
    group = GROUPS[dialect]
    if audit:
        policy = folder / "policy.yaml"
        policy.write_text(f"apiVersion: audit.{group}/v1\nkind: Policy\nrules:\n- level: Metadata\n")
        flags = ["--audit-policy-file", str(policy), "--audit-log-path", str(folder / "audit.log")]
    process = ServerProcess(
        folder,
        dialect=dialect,
        command=options.rewound,
        flags=flags,
        users=[f"{USER_TOKEN},reader,reader-uid"],
    )
    try:
        _fill(process.endpoint, f"rbac.authorization.{group}", options.sizes.roles)
        yield process
    finally:
        process.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _fill(endpoint: Endpoint, group: str, roles: int) -> None:
    with Client(endpoint) as client:
        client.expect("POST", OBJECTS, json.loads(config_map("one", 1)))
        client.expect("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "reader"}})
        for number in range(roles):
            _create_role(client, group, f"other-{number}", [{"kind": "User", "name": f"user-{number}"}])
        account = {"kind": "ServiceAccount", "name": "reader", "namespace": "default"}
        _create_role(client, group, "reader", [{"kind": "User", "name": "reader"}, account])


def _create_role(client: Client, group: str, name: str, subjects: list[dict[str, str]]) -> None:
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch", "create"]}
    metadata = {"name": name}
    client.expect("POST", f"/apis/{group}/v1/clusterroles", {"metadata": metadata, "rules": [rule]})
    role = {"apiGroup": group, "kind": "ClusterRole", "name": name}
    for subject in subjects:
        if subject["kind"] != "ServiceAccount":
            subject["apiGroup"] = group
    client.expect(
        "POST",
        f"/apis/{group}/v1/clusterrolebindings",
        {"metadata": metadata, "subjects": subjects, "roleRef": role},
    )


def _account_token(endpoint: Endpoint) -> str:
    path = "/api/v1/namespaces/default/serviceaccounts/reader/token"
    with Client(endpoint) as client:
        token: str = client.expect("POST", path, {"spec": {}})["status"]["token"]
        return token


GETS = {
    "get-masters": "get as an administrator",
    "get-user": "get as an ordinary user, 500 roles and bindings",
    "get-jwt": "the same with a service account's token",
    "get-audit": "the same as the user, with audit at Metadata",
}
CREATES = {
    "create-masters": "create 1 kB as an administrator, 16 connections",
    "create-user": "create 1 kB as an ordinary user, 500 roles and bindings",
    "create-audit": "the same, with audit at Metadata",
}
ACCESS = (
    Comparison("get-user", GETS, measure_gets),
    Comparison("create-user", CREATES, measure_creates),
)
