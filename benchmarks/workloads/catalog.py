"""Every workload in the order it runs: what must find an idle server first, the largest collection at the end.

Watches come last of a server's works: what they write is history that nobody else should have to walk past.
"""

from __future__ import annotations

from benchmarks.archive import Archive
from benchmarks.options import Options, Sizes
from benchmarks.servers.site import Site
from benchmarks.workloads.arrivals import ARRIVALS
from benchmarks.workloads.fanouts import FANOUTS
from benchmarks.workloads.journal import JOURNAL
from benchmarks.workloads.laggards import LAGGARDS
from benchmarks.workloads.ownership import OWNERSHIP
from benchmarks.workloads.pages import PAGES
from benchmarks.workloads.patches import PATCHES
from benchmarks.workloads.reads import READS
from benchmarks.workloads.standing import AFTER, BEFORE, BETWEEN
from benchmarks.workloads.workload import Workload
from benchmarks.workloads.writes import WRITES

WATCHES: tuple[Workload[Site], ...] = (*FANOUTS, *LAGGARDS, *ARRIVALS)
OF_SERVERS: tuple[Workload[Site], ...] = (
    *BEFORE,
    *WRITES,
    *PATCHES,
    *READS,
    *BETWEEN,
    *PAGES,
    *AFTER,
    *WATCHES,
)
OF_JOURNALS: tuple[Workload[Archive], ...] = JOURNAL
OF_BOOKS: tuple[Workload[Sizes], ...] = OWNERSHIP


class NoSuchWorkload(ValueError):
    pass


def titles(options: Options) -> dict[str, str]:
    served = {each.name: each.words(options.sizes) for each in OF_SERVERS}
    alone = {each.name: each.words(options.sizes) for each in (*OF_JOURNALS, *OF_BOOKS)}
    return served | alone


def chosen(options: Options) -> frozenset[str]:
    known = frozenset(titles(options))
    unknown = options.only - known
    if unknown:
        raise NoSuchWorkload(f"no such workload: {', '.join(sorted(unknown))} (--list names them)")
    return options.only or known
