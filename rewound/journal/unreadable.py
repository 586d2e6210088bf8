"""Which events of a journal could not be read, and why: each is reported once.

Readers of many events (the page's index, rules, replays, the log) go on without such an event, or without its contents
(`ReadTransaction.instead`), and note it here; opening notes those among the newest. Servers report them in their log,
commands on stderr (`report_to`). Threads share it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

MOST: Final = 1000  # texts that are kept; more are counted


class UnreadableEvents:
    def __init__(self) -> None:
        self._texts: dict[int, str] = {}  # by offset
        self._more: set[int] = set()
        self._unreported: list[str] = []
        self._report: Callable[[str], object] = self._unreported.append

    def report_to(self, report: Callable[[str], object]) -> None:
        """Call `report` with the text of each, also of those that are known but were not reported yet."""
        self._report = report
        while self._unreported:
            report(self._unreported.pop(0))

    def note(self, offset: int, text: str) -> None:
        if offset in self._texts or offset in self._more:
            return
        if len(self._texts) >= MOST:
            self._more.add(offset)
            return
        self._texts[offset] = text
        self._report(text)

    def __len__(self) -> int:
        return len(self._texts) + len(self._more)

    def __iter__(self) -> Iterator[str]:
        """What is wrong with each, in the order in which they were noted; only the first `MOST`."""
        return iter(list(self._texts.values()))
