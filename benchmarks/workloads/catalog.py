"""All workloads in the order in which they run: first those that need an idle server.

Workloads of the large collection come later, and watches last: they write so much history that other workloads should
not have to read past it. `--only` takes the name of a workload, of one of the measurements of a comparison (which it
measures with the others), or of a group.
"""

from __future__ import annotations

from benchmarks.large_journal import LargeJournal
from benchmarks.options import Options, Sizes
from benchmarks.servers.measured_server import MeasuredServer
from benchmarks.workloads.access import ACCESS
from benchmarks.workloads.admission import ADMISSION
from benchmarks.workloads.connecting import CONNECTING
from benchmarks.workloads.conversion import CONVERSION
from benchmarks.workloads.custom.definitions import CUSTOM_DEFINITIONS
from benchmarks.workloads.custom.objects import CUSTOM_OBJECTS
from benchmarks.workloads.http2 import REQUESTS
from benchmarks.workloads.in_process.access_decision import ACCESS_DECISION
from benchmarks.workloads.in_process.admission import IN_PROCESS_ADMISSION
from benchmarks.workloads.in_process.cel_rule import CEL_RULE
from benchmarks.workloads.in_process.message_encoding import MESSAGE_ENCODING
from benchmarks.workloads.in_process.ownership import OWNERSHIP
from benchmarks.workloads.in_process.replay import REPLAY
from benchmarks.workloads.in_process.rewind import REWIND
from benchmarks.workloads.journal import JOURNAL
from benchmarks.workloads.pages import PAGES
from benchmarks.workloads.patches import PATCHES
from benchmarks.workloads.reads import READS
from benchmarks.workloads.record import RECORD
from benchmarks.workloads.servers_of_tests import TEST_SERVERS
from benchmarks.workloads.start_and_memory import AFTER_PAGES, AFTER_READS, ON_IDLE_SERVER
from benchmarks.workloads.watches.fanouts import FANOUTS
from benchmarks.workloads.watches.http2_watches import HTTP2_WATCHES
from benchmarks.workloads.watches.slow_watchers import SLOW_WATCHERS
from benchmarks.workloads.workload import Comparison, Workload
from benchmarks.workloads.writes import WRITES

ServerWorkload = Workload[MeasuredServer] | Comparison[MeasuredServer]

WATCHES: tuple[ServerWorkload, ...] = (*FANOUTS, *SLOW_WATCHERS, *CONNECTING, *HTTP2_WATCHES)
SERVER_WORKLOADS: tuple[ServerWorkload, ...] = (
    *ON_IDLE_SERVER,
    *WRITES,
    *PATCHES,
    *READS,
    *AFTER_READS,
    *ACCESS,
    *ADMISSION,
    *CONVERSION,
    *CUSTOM_OBJECTS,
    *CUSTOM_DEFINITIONS,
    *RECORD,
    *REQUESTS,
    *PAGES,
    *AFTER_PAGES,
    *WATCHES,
)
JOURNAL_WORKLOADS: tuple[Workload[LargeJournal], ...] = JOURNAL
OWNERSHIP_WORKLOADS: tuple[Workload[Sizes] | Comparison[Sizes], ...] = (
    *OWNERSHIP,
    *ACCESS_DECISION,
    *IN_PROCESS_ADMISSION,
    *CEL_RULE,
    *MESSAGE_ENCODING,
    *REWIND,
    *TEST_SERVERS,
    *REPLAY,
)


class NoSuchWorkload(ValueError):
    pass


GROUPS = {"http2": frozenset(each.name for each in (*REQUESTS, *HTTP2_WATCHES))}


def titles(options: Options) -> dict[str, str]:
    """Titles of all measurements."""
    found: dict[str, str] = {}
    for each in (*SERVER_WORKLOADS, *JOURNAL_WORKLOADS, *OWNERSHIP_WORKLOADS):
        found |= each.titles_for(options.sizes)
    return found


def chosen(options: Options) -> frozenset[str]:
    """Names of the measurements to make; of a comparison, one suffices."""
    known = frozenset(titles(options))
    grouped = [GROUPS[name] for name in options.only if name in GROUPS]
    names = (options.only - set(GROUPS)).union(*grouped)
    unknown = names - known
    if unknown:
        raise NoSuchWorkload(f"no such workload: {', '.join(sorted(unknown))} (--list names them)")
    return names or known
