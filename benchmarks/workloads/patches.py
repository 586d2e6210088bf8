"""Changing parts of objects: a merge patch, an apply, and one object that everybody patches at once."""

from __future__ import annotations

from benchmarks.loads.plans import PAYLOAD
from benchmarks.reports.measurement import Measurement
from benchmarks.servers.site import Site
from benchmarks.workloads.workload import Workload

WRITERS = 16
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
CHANGE = '{"data":{"number":"NUMBER"}}'


def patch(site: Site) -> Measurement:
    """Each connection has an object of its own."""
    return _patch(site, "patch", WRITERS, MERGE, CHANGE)


def contended(site: Site) -> Measurement:
    """No client is told of a conflict: the server applies one patch after the other."""
    return _patch(site, "patch-contended", 1, MERGE, CHANGE)


def apply(site: Site) -> Measurement:
    """All of an object is said each time, and one value of it is new."""
    kind = '"apiVersion":"v1","kind":"ConfigMap"'
    body = f'{{{kind},"data":{{"payload":"{PAYLOAD}","number":"NUMBER"}}}}'
    return _patch(site, "apply", WRITERS, APPLY, body, "?fieldManager=bench-apply&force=true")


def _patch(site: Site, work: str, objects: int, media: str, body: str, query: str = "") -> Measurement:
    path = site.config_maps(work)
    site.fill(path, "p-", objects)
    paths = [f"{path}/p-{number:06}{query}" for number in range(objects)]
    return site.measure(work, {"plan": "patch", "paths": paths, "media": media, "body": body}, WRITERS)


PATCHES: tuple[Workload[Site], ...] = (
    Workload("patch", "merge patch of a 1 kB object, 16 connections", patch),
    Workload("apply", "apply of a 1 kB object, 16 connections", apply),
    Workload("patch-contended", "merge patch of one object by 16 clients", contended),
)
