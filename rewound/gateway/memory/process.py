"""The memory of this process against its limit (`--memory-limit`): the last defence behind `memory.MemoryBudget`.

The budget counts what requests announce that they need. What it cannot count (connections, fragmentation, an estimate
that is too low) shows in the anonymous memory of the process, which `ProcessMemory` reads at most every `PERIOD` while
requests arrive. Pages of the journal are file memory, which the kernel takes back when it needs them: not counted.
The limit is of all processes of a server: a worker counts the memory of the others with its own.
"""

from __future__ import annotations

import ctypes
import os
import re
import time
from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path

from rewound.gateway.settings.settings import least_memory

PERIOD = 0.1
SHORT = 0.75  # of the limit: controllers leave the rest to requests
# Seconds between two calls of malloc_trim, which returns to the kernel what malloc keeps for later.
_TRIM_PERIOD = 5.0
_PAGE = os.sysconf("SC_PAGE_SIZE")


def anonymous_bytes(process: int | str = "self") -> int:
    """Resident memory of a process that no file backs; 0 where /proc does not have it."""
    try:
        with open(f"/proc/{process}/statm", "rb") as file:
            fields = file.read().split()
    except OSError:
        return 0
    if len(fields) < 3:  # it has just ended
        return 0
    return (int(fields[1]) - int(fields[2])) * _PAGE


def default_limit(workers: int = 1, root: Path = Path("/")) -> int:
    """Half of what the machine has or the control group allows, and at least what so many workers need."""
    found = [os.sysconf("SC_PHYS_PAGES") * _PAGE, *_group_limits(root)]
    return max(least_memory(workers), min(found) // 2)


def _group_limits(root: Path) -> list[int]:
    """The memory limits of this process's control groups, of version 1 and 2, and of the groups above them."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    limits: list[int] = []
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if not controllers:
            limits += _limits_above(root / "sys/fs/cgroup", group, "memory.max")
        elif "memory" in controllers.split(","):
            limits += _limits_above(root / "sys/fs/cgroup/memory", group, "memory.limit_in_bytes")
    return limits


def _limits_above(mount: Path, group: str, name: str) -> list[int]:
    """A container sees its own group as the root of the mount: groups that are not there are skipped."""
    folder, limits = mount / group.strip("/"), []
    while True:
        try:
            text = (folder / name).read_text().strip()
        except OSError:
            text = ""
        if re.fullmatch(r"[0-9]+", text):
            limits.append(int(text))
        if folder == mount:
            return limits
        folder = folder.parent


class ProcessMemory:
    """From `next_check` on, a request has to call `is_full`: one comparison on the hot path."""

    __slots__ = (
        "_clock",
        "_others",
        "_read",
        "_read_at",
        "_trim",
        "_trim_at",
        "_used",
        "limit",
        "next_check",
        "refused",
    )

    def __init__(
        self,
        limit: int,
        read: Callable[[], int] = anonymous_bytes,
        clock: Callable[[], float] = time.perf_counter,
        trim: Callable[[], None] | None = None,
    ) -> None:
        self.limit = limit
        self._others: Sequence[int] = ()  # ids of the other processes of the server
        self.refused = 0  # requests, because the process was above its limit
        self.next_check = 0.0
        self._read, self._clock = read, clock
        self._trim = trim or _trim_in_thread
        self._read_at = self._trim_at = 0.0
        self._used = 0

    def count_others(self, processes: Sequence[int]) -> None:
        """From now on the memory of these counts too: those of the same server, by their ids."""
        self._others = processes

    @property
    def used(self) -> int:
        return self._refresh(self._clock())

    def has_room(self, size: int) -> bool:
        """Whether the process stays below its limit if it holds `size` bytes more."""
        now = self._clock()
        if self._refresh(now) + size <= self.limit:
            return True
        self._trim_sometimes(now)
        return False

    def is_short(self) -> bool:
        """Whether the process is so near to its limit that what it does for itself has to wait."""
        return self.used > self.limit * SHORT

    def is_full(self) -> bool:
        """Whether the process is above its limit: new requests are refused until it is not."""
        return not self.has_room(0)

    def _refresh(self, now: float) -> int:
        if now >= self._read_at:
            self._read_at = now + PERIOD
            self._used = self._read() + sum(map(anonymous_bytes, self._others))
            self.next_check = self._read_at if self._used <= self.limit else -inf
        return self._used

    def _trim_sometimes(self, now: float) -> None:
        if now >= self._trim_at:
            self._trim_at = now + _TRIM_PERIOD
            self._trim()


def _trim_in_thread() -> None:
    """malloc_trim may take some milliseconds for a large heap, and needs no lock of the interpreter."""
    import trio  # only a running server needs it

    trio.lowlevel.start_thread_soon(_malloc_trim, lambda _: None)


def _malloc_trim() -> None:
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError):
        pass  # another C library
