"""What is doubtful about the fields of a body: unknown and repeated ones, each once, in document order.

Field validation warns of them or refuses the body. The first `MAX_PROBLEMS` are named and the others counted in a
last text: neither a header block nor a message may grow with a hostile body, and Python's `http.client` reads at
most 100 header lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

MAX_PROBLEMS: Final = 50
# Of one text. Names of fields may be megabytes.
LONGEST_TEXT: Final = 1000

_MORE = re.compile(r"and ([0-9]+) more such problems")


class Problems:
    __slots__ = ("_left_out", "_texts")

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._texts: dict[str, None] = {}
        self._left_out = 0
        for text in texts:
            self.add(text)

    def add(self, text: str) -> None:
        if len(text) > LONGEST_TEXT:
            text = f"{text[:LONGEST_TEXT]}..."
        if len(self._texts) < MAX_PROBLEMS:
            self._texts[text] = None
        elif text not in self._texts:
            self._left_out += 1

    def leave_out(self, count: int) -> None:
        """Counts problems that somebody else found and did not keep."""
        self._left_out += count

    def texts(self) -> tuple[str, ...]:
        if not self._left_out:
            return tuple(self._texts)
        return (*self._texts, f"and {self._left_out} more such problems")


def problems_in(text: str) -> int:
    """How many problems a text stands for."""
    more = _MORE.fullmatch(text)
    return int(more[1]) if more else 1
