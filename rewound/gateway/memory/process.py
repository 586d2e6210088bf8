"""Compares the memory of this process with its limit (`--memory-limit`): the last defence behind
`memory.MemoryBudget`.

The budget counts what requests announce that they need. What it cannot count (connections, fragmentation, estimates
that are too low) shows in the anonymous memory of the process, which `ProcessMemory` reads at most every `PERIOD`
while requests arrive. Pages of the journal are file-backed, and the kernel reclaims them when needed, so they are not
counted. The limit is for all processes of a server: a worker adds the memory of the others to its own.
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
SHORT = 0.75  # part of the limit above which controllers leave the rest to requests
# Seconds between two calls of malloc_trim, which returns free memory of malloc to the kernel.
_TRIM_PERIOD = 5.0
_PAGE = os.sysconf("SC_PAGE_SIZE")


def anonymous_bytes(process: int | str = "self") -> int:
    """The resident anonymous memory of a process; 0 if /proc does not have it."""
    try:
        with open(f"/proc/{process}/statm", "rb") as file:
            fields = file.read().split()
    except OSError:
        return 0
    if len(fields) < 3:  # the process has just ended
        return 0
    return (int(fields[1]) - int(fields[2])) * _PAGE


def default_limit(workers: int = 1, root: Path = Path("/")) -> int:
    """Half of the memory of the machine or the control group, and at least what so many workers need."""
    found = [os.sysconf("SC_PHYS_PAGES") * _PAGE, *_group_limits(root)]
    return max(least_memory(workers), min(found) // 2)


def _group_limits(root: Path) -> list[int]:
    """The memory limits of this process's control groups (versions 1 and 2), and of their parents."""
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
    """Limits of a group and its parents; a container does not see those above its own, which are skipped."""
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
    """After `next_check`, a request must call `is_full`: one comparison on the hot path."""

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
        self.refused = 0  # requests refused because the process was above its limit
        self.next_check = 0.0
        self._read, self._clock = read, clock
        self._trim = trim or _trim_in_thread
        self._read_at = self._trim_at = 0.0
        self._used = 0

    def count_others(self, processes: Sequence[int]) -> None:
        """Also count the memory of the server's other processes, by their ids."""
        self._others = processes

    @property
    def used(self) -> int:
        return self._refresh(self._clock())

    def has_room(self, size: int) -> bool:
        """Whether the process stays below its limit with `size` more bytes."""
        now = self._clock()
        if self._refresh(now) + size <= self.limit:
            return True
        self._trim_sometimes(now)
        return False

    def is_short(self) -> bool:
        """Whether the process is so close to its limit that its own background work must wait."""
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
            self.trim()

    def trim(self) -> None:
        """Return the free memory of malloc to the kernel, in a thread."""
        self._trim_at = self._clock() + _TRIM_PERIOD
        self._trim()


def _trim_in_thread() -> None:
    """Run malloc_trim in a thread: it may take some milliseconds for a large heap, and releases the GIL."""
    import trio  # only a running server needs it

    trio.lowlevel.start_thread_soon(_malloc_trim, lambda _: None)


def _malloc_trim() -> None:
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError):
        pass  # another C library
