"""All workloads in the order in which they run: first those that need an idle server.

Workloads of the large collection come later, and watches last: they write so much history that other workloads should
not have to read past it.
"""

from __future__ import annotations

from benchmarks.large_journal import LargeJournal
from benchmarks.options import Options, Sizes
from benchmarks.servers.measured_server import MeasuredServer
from benchmarks.workloads.connecting import CONNECTING
from benchmarks.workloads.fanouts import FANOUTS
from benchmarks.workloads.journal import JOURNAL
from benchmarks.workloads.ownership import OWNERSHIP
from benchmarks.workloads.pages import PAGES
from benchmarks.workloads.patches import PATCHES
from benchmarks.workloads.reads import READS
from benchmarks.workloads.slow_watchers import SLOW_WATCHERS
from benchmarks.workloads.start_and_memory import AFTER_PAGES, AFTER_READS, ON_IDLE_SERVER
from benchmarks.workloads.workload import Workload
from benchmarks.workloads.writes import WRITES

WATCHES: tuple[Workload[MeasuredServer], ...] = (*FANOUTS, *SLOW_WATCHERS, *CONNECTING)
SERVER_WORKLOADS: tuple[Workload[MeasuredServer], ...] = (
    *ON_IDLE_SERVER,
    *WRITES,
    *PATCHES,
    *READS,
    *AFTER_READS,
    *PAGES,
    *AFTER_PAGES,
    *WATCHES,
)
JOURNAL_WORKLOADS: tuple[Workload[LargeJournal], ...] = JOURNAL
OWNERSHIP_WORKLOADS: tuple[Workload[Sizes], ...] = OWNERSHIP


class NoSuchWorkload(ValueError):
    pass


def titles(options: Options) -> dict[str, str]:
    of_servers = {each.name: each.title_for(options.sizes) for each in SERVER_WORKLOADS}
    of_components = {
        each.name: each.title_for(options.sizes) for each in (*JOURNAL_WORKLOADS, *OWNERSHIP_WORKLOADS)
    }
    return of_servers | of_components


def chosen(options: Options) -> frozenset[str]:
    known = frozenset(titles(options))
    unknown = options.only - known
    if unknown:
        raise NoSuchWorkload(f"no such workload: {', '.join(sorted(unknown))} (--list names them)")
    return options.only or known
