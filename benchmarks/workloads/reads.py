"""Reading one object, and whole collections of a size that clients list at once."""

from __future__ import annotations

from benchmarks.reports.measurement import Measurement
from benchmarks.servers.site import Site
from benchmarks.workloads.workload import Workload

READERS = 16
LISTERS = 4  # an answer of 2 MB keeps a server busy with few


def get(site: Site) -> Measurement:
    return _get(site, "get", "")


def get_any(site: Site) -> Measurement:
    return _get(site, "get-rv0", "?resourceVersion=0")


def _get(site: Site, work: str, query: str) -> Measurement:
    path = site.collection(site.sizes.objects)
    return site.measure(work, {"plan": "repeat", "paths": [f"{path}/o-000001{query}"]}, READERS)


def list_all(site: Site) -> Measurement:
    return _list(site, "list", "")


def list_any(site: Site) -> Measurement:
    return _list(site, "list-rv0", "?resourceVersion=0")


def list_selected(site: Site) -> Measurement:
    return _list(site, "list-selector", "?labelSelector=shard%3D3")


def _list(site: Site, work: str, query: str) -> Measurement:
    path = site.collection(site.sizes.objects)
    return site.measure(work, {"plan": "repeat", "paths": [f"{path}{query}"]}, LISTERS)


READS: tuple[Workload[Site], ...] = (
    Workload("get", "get one 1 kB object", get),
    Workload("get-rv0", "get one, resourceVersion=0", get_any),
    Workload("list", "list {objects} of 1 kB", list_all),
    Workload("list-rv0", "list {objects}, resourceVersion=0", list_any),
    Workload("list-selector", "list, a label matching 1/16 of {objects}", list_selected),
)
