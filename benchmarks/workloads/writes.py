"""Writing: new objects, one object that many clients change, and deletes."""

from __future__ import annotations

from benchmarks.reports.measurement import Measurement
from benchmarks.servers.site import Site
from benchmarks.workloads.workload import Workload

WRITERS = 16
RIVALS = 8


def create(site: Site) -> Measurement:
    path = site.config_maps("create")
    return site.measure("create", {"plan": "create", "path": path, "prefix": "c-"}, WRITERS)


def update(site: Site) -> Measurement:
    """Everybody replaces the same object; who comes second reads again and retries."""
    path = site.config_maps("update")
    site.fill(path, "u-", 1)
    return site.measure("update", {"plan": "update", "path": path, "name": "u-000000"}, RIVALS)


def delete(site: Site) -> Measurement:
    path, total = site.config_maps("delete"), site.sizes.deletes
    site.fill(path, "d-", total)
    plan = {"plan": "delete", "path": path, "prefix": "d-", "total": total}
    # The warm-up takes a share of its own.
    return site.measure("delete", plan, WRITERS, per_round=max(1, total // (site.sizes.rounds + 1)))


WRITES: tuple[Workload[Site], ...] = (
    Workload("create", "create 1 kB, 16 connections", create),
    Workload("update", "update with conflict retries, 8 clients", update),
    Workload("delete", "delete, 16 connections", delete),
)
