"""Writes: creates, updates of one object by many clients, and deletes."""

from __future__ import annotations

from benchmarks.reports.measurement import Measurement
from benchmarks.servers.measured_server import MeasuredServer
from benchmarks.workloads.workload import Workload

WRITERS = 16
UPDATERS = 8


def create(server: MeasuredServer) -> Measurement:
    path = server.config_maps("create")
    return server.measure("create", {"plan": "create", "path": path, "prefix": "c-"}, WRITERS)


def update(server: MeasuredServer) -> Measurement:
    """All clients replace the same object; a client that gets a conflict reads again and retries."""
    path = server.config_maps("update")
    server.fill(path, "u-", 1)
    return server.measure("update", {"plan": "update", "path": path, "name": "u-000000"}, UPDATERS)


def delete(server: MeasuredServer) -> Measurement:
    path, total = server.config_maps("delete"), server.sizes.deletes
    server.fill(path, "d-", total)
    plan = {"plan": "delete", "path": path, "prefix": "d-", "total": total}
    # The warm-up deletes as many as a round.
    return server.measure("delete", plan, WRITERS, per_round=max(1, total // (server.sizes.rounds + 1)))


WRITES: tuple[Workload[MeasuredServer], ...] = (
    Workload("create", "create 1 kB, 16 connections", create),
    Workload("update", "update with conflict retries, 8 clients", update),
    Workload("delete", "delete, 16 connections", delete),
)
