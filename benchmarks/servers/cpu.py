"""CPU time that a server's processes have used, in nanosecond resolution.

Linux keeps a CPU clock per process that any process may read; its clock id is made of the process id (see
clock_getcpuclockid(3)). It counts user and system time, exact to the nanosecond, and keeps what finished
threads used. Rejected: /proc/<pid>/stat counts in ticks of 10 ms, coarser than a short round needs; the
schedstat files are exact but forget a thread when it ends.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable

from benchmarks.servers.processes import with_children

# The low bits of a CPU clock id: 2 asks for scheduled time (user and system), the third bit unset for a
# whole process rather than one thread. The process id stands above them, inverted.
_SCHEDULED = 2
_TICK = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pids: Iterable[int]) -> float:
    """The sum over all processes and their children; a process that has gone counts nothing."""
    return sum(_of_process(pid) for pid in with_children(pids))


def _of_process(pid: int) -> float:
    try:
        return time.clock_gettime_ns((~pid << 3) | _SCHEDULED) / 1e9
    except OSError:
        return _from_ticks(pid)


def _from_ticks(pid: int) -> float:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICK
