"""Patches: a merge patch, a server-side apply, and one object that all clients patch at once."""

from __future__ import annotations

from benchmarks.loads.plans import PAYLOAD
from benchmarks.reports.measurement import Measurement
from benchmarks.servers.measured_server import MeasuredServer
from benchmarks.workloads.workload import Workload

WRITERS = 16
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
CHANGE = '{"data":{"number":"NUMBER"}}'


def patch(server: MeasuredServer) -> Measurement:
    """Each connection patches its own object."""
    return _patch(server, "patch", WRITERS, MERGE, CHANGE)


def contended(server: MeasuredServer) -> Measurement:
    """All clients patch one object; none gets a conflict, because the server applies one patch after the other."""
    return _patch(server, "patch-contended", 1, MERGE, CHANGE)


def apply(server: MeasuredServer) -> Measurement:
    """Each request applies a whole object with one new value."""
    kind = '"apiVersion":"v1","kind":"ConfigMap"'
    body = f'{{{kind},"data":{{"payload":"{PAYLOAD}","number":"NUMBER"}}}}'
    return _patch(server, "apply", WRITERS, APPLY, body, "?fieldManager=bench-apply&force=true")


def _patch(
    server: MeasuredServer, work: str, objects: int, media: str, body: str, query: str = ""
) -> Measurement:
    path = server.config_maps(work)
    server.fill(path, "p-", objects)
    paths = [f"{path}/p-{number:06}{query}" for number in range(objects)]
    return server.measure(work, {"plan": "patch", "paths": paths, "media": media, "body": body}, WRITERS)


PATCHES: tuple[Workload[MeasuredServer], ...] = (
    Workload("patch", "merge patch of a 1 kB object, 16 connections", patch),
    Workload("apply", "apply of a 1 kB object, 16 connections", apply),
    Workload("patch-contended", "merge patch of one object by 16 clients", contended),
)
