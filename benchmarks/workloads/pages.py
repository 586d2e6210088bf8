"""Pages of 100: the first, the middle and the last of a large collection and of a small one.

The claim is that a page costs the same everywhere, so every place is measured alone: a walk collects
continue tokens beforehand, and the measured work asks for the page behind one of them again and again.
`page-behind` does the same after further writes, when the pages must still show what the first page saw.
"""

from __future__ import annotations

from functools import partial
from urllib.parse import quote

from benchmarks.loads.client import Client
from benchmarks.loads.job import Job, run_job
from benchmarks.reports.measurement import Measurement
from benchmarks.servers.site import Site
from benchmarks.workloads.workload import Skipped, Workload

PAGE = 100
READERS = 4
TOKENS = 8  # neighbouring pages, so that one hot page does not stand for all


def _tokens(site: Site, path: str, size: int) -> list[str]:
    """Continue tokens from the beginning to the end; at most 200 steps, whatever the size."""
    step = max(PAGE, size // 200)
    tokens: list[str] = []
    with Client(site.target) as client:
        token = ""
        while True:
            page = client.expect("GET", f"{path}?limit={step}&continue={quote(token)}")
            token = page["metadata"].get("continue", "")
            if not token:
                return tokens
            tokens.append(token)


def _around(tokens: list[str], share: float) -> list[str]:
    last = round((len(tokens) - 1) * share)
    return tokens[max(0, last - TOKENS + 1) : last + 1]


def _measure(site: Site, work: str, path: str, tokens: list[str]) -> Measurement:
    paths = [f"{path}?limit={PAGE}&continue={quote(token)}" for token in tokens]
    return site.measure(work, {"plan": "repeat", "paths": paths or [f"{path}?limit={PAGE}"]}, READERS)


def page(site: Site, *, work: str, large: bool, share: float) -> Measurement:
    """The page at this share of the way; the first one needs no token."""
    size = site.sizes.large if large else site.sizes.objects
    path = site.collection(size)
    tokens = _around(_found(_tokens(site, path, size)), share) if share else []
    return _measure(site, work, path, tokens)


def page_behind(site: Site) -> Measurement:
    size = site.sizes.large
    path = site.collection(size)
    tokens = _around(_found(_tokens(site, path, size)), 1.0)
    plan = {"plan": "update", "path": path, "name": "o-000001"}
    run_job(Job(site.target, plan, 1, seconds=600.0, count=site.sizes.behind))
    return _measure(site, "page-behind", path, tokens)


def _found(tokens: list[str]) -> list[str]:
    if not tokens:
        raise Skipped(f"the collection fits into one page of {PAGE}")
    return tokens


PAGES: tuple[Workload[Site], ...] = (
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
