"""Reads of one object and of a whole collection."""

from __future__ import annotations

from benchmarks.reports.measurement import Measurement
from benchmarks.servers.measured_server import MeasuredServer
from benchmarks.workloads.workload import Workload

READERS = 16
LISTERS = 4  # responses of 2 MB keep a server busy with few connections


def get(server: MeasuredServer) -> Measurement:
    return _get(server, "get", "")


def get_any(server: MeasuredServer) -> Measurement:
    return _get(server, "get-rv0", "?resourceVersion=0")


def _get(server: MeasuredServer, work: str, query: str) -> Measurement:
    path = server.collection(server.sizes.objects)
    return server.measure(work, {"plan": "repeat", "paths": [f"{path}/o-000001{query}"]}, READERS)


def list_all(server: MeasuredServer) -> Measurement:
    return _list(server, "list", "")


def list_any(server: MeasuredServer) -> Measurement:
    return _list(server, "list-rv0", "?resourceVersion=0")


def list_selected(server: MeasuredServer) -> Measurement:
    return _list(server, "list-selector", "?labelSelector=shard%3D3")


def _list(server: MeasuredServer, work: str, query: str) -> Measurement:
    path = server.collection(server.sizes.objects)
    return server.measure(work, {"plan": "repeat", "paths": [f"{path}{query}"]}, LISTERS)


READS: tuple[Workload[MeasuredServer], ...] = (
    Workload("get", "get one 1 kB object", get),
    Workload("get-rv0", "get one, resourceVersion=0", get_any),
    Workload("list", "list {objects} of 1 kB", list_all),
    Workload("list-rv0", "list {objects}, resourceVersion=0", list_any),
    Workload("list-selector", "list, a label matching 1/16 of {objects}", list_selected),
)
