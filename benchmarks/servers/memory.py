"""Memory of a server's processes: the proportional set size (Pss), in the unit of the reference's figures.

Pss divides a shared page among all processes that map it, so it may be summed over processes. It includes the
currently mapped pages of the journal, which the kernel may drop at any time; `anonymous` leaves them out. A megabyte
here is 1024 kB of /proc.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.servers.processes import with_children


@dataclass(frozen=True, slots=True)
class Memory:
    pss_mb: float
    anonymous_mb: float


def memory(pids: Iterable[int]) -> Memory:
    pss = anonymous = 0
    for pid in with_children(pids):
        rollup = _rollup(pid)
        pss += rollup.get("Pss", 0)
        anonymous += rollup.get("Pss_Anon", 0)
    return Memory(round(pss / 1024, 1), round(anonymous / 1024, 1))


def _rollup(pid: int) -> dict[str, int]:
    try:
        with open(f"/proc/{pid}/smaps_rollup") as text:
            lines = text.read().splitlines()[1:]
    except OSError:
        return {}
    sizes = {}
    for line in lines:
        name, _, size = line.partition(":")
        sizes[name] = int(size.split()[0])
    return sizes
