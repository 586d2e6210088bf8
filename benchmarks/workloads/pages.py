"""Pages of 100: the first, the middle and the last of a large collection and of a small one.

A page should cost the same everywhere, so each position is measured separately: the workload first pages through the
list to collect continue tokens, and then repeats the request with one of them. `page-behind` does the same after
further writes; its pages must still show the state of the first page.
"""

from __future__ import annotations

from functools import partial
from urllib.parse import quote

from benchmarks.loads.client import Client
from benchmarks.loads.job import Lane, run_lane
from benchmarks.reports.measurement import Measurement
from benchmarks.servers.measured_server import MeasuredServer
from benchmarks.workloads.workload import Skipped, Workload

PAGE = 100
READERS = 4
TOKENS = 8  # neighbouring pages, so that the figure is not that of one cached page


def _tokens(server: MeasuredServer, path: str, size: int) -> list[str]:
    """Continue tokens from the beginning to the end of the list, from at most 200 requests."""
    step = max(PAGE, size // 200)
    tokens: list[str] = []
    with Client(server.endpoint) as client:
        token = ""
        while True:
            page = client.expect("GET", f"{path}?limit={step}&continue={quote(token)}")
            token = page["metadata"].get("continue", "")
            if not token:
                return tokens
            tokens.append(token)


def _up_to(tokens: list[str], share: float) -> list[str]:
    last = round((len(tokens) - 1) * share)
    return tokens[max(0, last - TOKENS + 1) : last + 1]


def _measure(server: MeasuredServer, work: str, path: str, tokens: list[str]) -> Measurement:
    paths = [f"{path}?limit={PAGE}&continue={quote(token)}" for token in tokens]
    return server.measure(work, {"plan": "repeat", "paths": paths or [f"{path}?limit={PAGE}"]}, READERS)


def page(server: MeasuredServer, *, work: str, large: bool, share: float) -> Measurement:
    """The page at this share of the collection; the first page needs no token."""
    size = server.sizes.large if large else server.sizes.objects
    path = server.collection(size)
    tokens = _up_to(_at_least_one(_tokens(server, path, size)), share) if share else []
    return _measure(server, work, path, tokens)


def page_behind(server: MeasuredServer) -> Measurement:
    size = server.sizes.large
    path = server.collection(size)
    tokens = _up_to(_at_least_one(_tokens(server, path, size)), 1.0)
    plan = {"plan": "update", "path": path, "name": "o-000001"}
    run_lane(Lane(server.endpoint, plan, 1), 600.0, count=server.sizes.behind)
    return _measure(server, "page-behind", path, tokens)


def _at_least_one(tokens: list[str]) -> list[str]:
    if not tokens:
        raise Skipped(f"the collection fits into one page of {PAGE}")
    return tokens


PAGES: tuple[Workload[MeasuredServer], ...] = (
    Workload(
        "page-small-first",
        "page of 100, first of {objects}",
        partial(page, work="page-small-first", large=False, share=0),
    ),
    Workload(
        "page-small-deep",
        "page of 100, end of {objects}",
        partial(page, work="page-small-deep", large=False, share=1.0),
    ),
    Workload(
        "page-first", "page of 100, first of {large}", partial(page, work="page-first", large=True, share=0)
    ),
    Workload(
        "page-middle",
        "page of 100, middle of {large}",
        partial(page, work="page-middle", large=True, share=0.5),
    ),
    Workload(
        "page-deep", "page of 100, end of {large}", partial(page, work="page-deep", large=True, share=1.0)
    ),
    Workload("page-behind", "the same, {behind} writes later", page_behind),
)
