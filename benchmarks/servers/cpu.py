"""CPU time that a server's processes have used, with nanosecond resolution.

Linux has a CPU clock per process that any process may read; its clock id is derived from the process id (see
clock_getcpuclockid(3)). It counts user and system time, including that of finished threads. Rejected:
/proc/<pid>/stat counts in ticks of 10 ms, too coarse for a short round; the schedstat files are exact but lose a
thread's time when it ends.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable

from benchmarks.servers.processes import with_children

# The low bits of a CPU clock id: 2 selects scheduled time (user and system); the third bit, unset, selects the
# whole process rather than one thread. The bits above hold the inverted process id.
_SCHEDULED = 2
_TICK = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pids: Iterable[int]) -> float:
    """The sum over all processes and their children; a process that has ended counts as zero."""
    return sum(_of_process(pid) for pid in with_children(pids))


def cpu_of_each(pids: Iterable[int]) -> dict[int, float]:
    """The same by process id."""
    return {pid: _of_process(pid) for pid in with_children(pids)}


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
