"""Notes what a recording missed or may have missed, in a file of JSON lines beside the journal.

`rewind.gaps` reads the file, and says what the lines mean. A later line with the same id replaces an earlier one,
so that a gap is in the file from its beginning on, whatever ends the process.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from rewound.rewind.gap_texts import EXPIRED, FAILING, GONE, LEFT_OUT, REFUSED, STOPPED, UNLISTED, UNREACHABLE
from rewound.rewind.gaps import FILE, Gap, gaps_in

logger = logging.getLogger(__name__)

__all__ = [
    "EXPIRED",
    "FAILING",
    "FILE",
    "GONE",
    "LEFT_OUT",
    "REFUSED",
    "STOPPED",
    "UNLISTED",
    "UNREACHABLE",
    "Gap",
    "Gaps",
    "gaps_in",
]

NEWEST: Final = 1000  # gaps that are kept; the file is written anew when it has twice as many lines
MESSAGE: Final = 500  # characters
# Microseconds: a gap that begins again so soon is the same one, so that no object that changes between two states
# displaces all other gaps.
SOON: Final = 600_000_000


class Gaps:
    """The gaps of one folder."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._gaps: dict[int, Gap] = {}
        self._lines = 0
        for gap in gaps_in(folder):
            self._gaps[gap.id] = gap
        self._next = max(self._gaps, default=0) + 1

    def documents(self, newest: int = 100) -> list[dict[str, Any]]:
        """The newest gaps, oldest first."""
        return [one.document() for one in deque(self._gaps.values(), maxlen=newest)]

    def lasting(self) -> list[Gap]:
        return [one for one in self._gaps.values() if not one.end]

    def lasts(self, why: str, kind: str) -> bool:
        """Whether a gap of a kind lasts for a reason."""
        return any(one.why == why and kind in one.kinds for one in self.lasting())

    def count(self) -> int:
        """How many stretches are known to miss versions."""
        return sum(one.missing for one in self._gaps.values())

    def begin(
        self, why: str, now: int, kinds: Iterable[str] = (), message: str = "", *, missing: bool = False
    ) -> None:
        """Begin a gap, or add kinds to the one that lasts for the same reason."""
        found = next((one for one in self.lasting() if one.why == why), None)
        if found is None:
            found = self._gaps[self._next] = Gap(
                self._next, now, why, missing=missing, message=message[:MESSAGE]
            )
            self._next += 1
        elif found.kinds >= set(kinds):
            return
        found.kinds |= set(kinds)
        self._store(found)

    def begin_again(self, why: str, now: int, kind: str, message: str) -> None:
        """Begin a gap of one kind in which versions are missing, or go on with the one that has just ended."""
        mine = [one for one in self._gaps.values() if one.why == why and one.kinds == {kind}]
        if not mine or (mine[-1].end and now - mine[-1].end > SOON):
            gap = self._gaps[self._next] = Gap(
                self._next, now, why, kinds={kind}, missing=True, message=message[:MESSAGE]
            )
            self._next += 1
            self._store(gap)
        elif mine[-1].end:
            mine[-1].end = 0
            self._store(mine[-1])

    def end(self, why: str, now: int, kind: str = "") -> None:
        """End the gap that lasts for a reason, of one kind or of all."""
        for one in self.lasting():
            if one.why != why or (kind and kind not in one.kinds):
                continue
            if kind and len(one.kinds) > 1:
                self._gaps[self._next] = part = Gap(
                    self._next, one.begin, why, now, {kind}, one.missing, one.message
                )
                self._next += 1
                one.kinds.discard(kind)
                self._store(part)
            else:
                one.end = max(now, one.begin)
            self._store(one)

    def add(self, why: str, begin: int, end: int, kind: str, message: str, *, missing: bool) -> None:
        """Store a gap that is over."""
        gap = self._gaps[self._next] = Gap(
            self._next, min(begin, end), why, end, {kind}, missing, message[:MESSAGE]
        )
        self._next += 1
        self._store(gap)

    def _store(self, gap: Gap) -> None:
        try:
            if self._lines >= 2 * NEWEST or len(self._gaps) > 2 * NEWEST:
                self._write_anew()
            with open(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "wb") as stream:
                stream.write(gap.line())
            self._lines += 1
        except OSError as error:
            logger.warning("a gap is not stored: %s", error)

    def _write_anew(self) -> None:
        """Leave out what later lines replaced, and the oldest gaps that are over."""
        over = [one.id for one in self._gaps.values() if one.end]
        for number in over[: max(0, len(self._gaps) - NEWEST)]:
            del self._gaps[number]
        building = self._path.with_suffix(".jsonl.new")
        with open(os.open(building, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as stream:
            stream.writelines(one.line() for one in self._gaps.values())
        os.replace(building, self._path)
        self._lines = len(self._gaps)
