"""A page of memory that all processes of a server map: numbers that one process stores and the others read.

    0           the newest offset: the writer process stores it right before LMDB makes the commit visible; workers
                read it before each request
    1 + index   how many connections a process has: all accept from the same sockets, and the one with fewer should

Numbers are aligned, so that one store of the processor writes all eight bytes.
"""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Final

import trio

from rewound.gateway.connections.limits import AcceptShare

_SIZE: Final = mmap.PAGESIZE
_NEWEST: Final = 0
_CONNECTIONS: Final = 1
WRITER_INDEX: Final = 0
# By this fraction a process may have more connections than another one and still accept: many clients at once are not
# slowed down, and few clients are spread evenly.
_TOLERANCE: Final = 16


class SharedPage:
    """The page. Every process maps the same file, which the parent makes with `create`."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _SIZE)
        self._numbers = memoryview(self._map).cast("Q")

    @staticmethod
    def create(path: Path) -> None:
        path.touch(0o600)
        with path.open("r+b") as file:
            file.truncate(_SIZE)

    def newest(self) -> int:
        return self._numbers[_NEWEST]

    def store_newest(self, offset: int) -> None:
        self._numbers[_NEWEST] = offset

    def accept_share(self, index: int, processes: int, begin: trio.Event | None = None) -> AcceptShare:
        """The share of one of `processes`, the first of which is the writer. It accepts nothing before `begin` is set.

        With more processes, the writer does more work for the writes of others, which only it can do. So each of its
        connections counts as one for each other process: of two processes both have the same, of four it has a tenth.
        """
        numbers, own = self._numbers, _CONNECTIONS + index
        weight = processes - 1 if index == WRITER_INDEX else 1
        others = [
            (_CONNECTIONS + other, processes - 1 if other == WRITER_INDEX else 1)
            for other in range(processes)
            if other != index
        ]

        def record(count: int) -> None:
            numbers[own] = count

        def is_ahead() -> bool:
            count = numbers[own] * weight
            return any(count - count // _TOLERANCE > numbers[other] * each for other, each in others)

        record(0)
        return AcceptShare(record, is_ahead, begin)
