"""The output of a command: colours and a width on a terminal, plain text everywhere else.

Text from the journal is escaped: names, users and values come from clients, and may contain control sequences.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from io import TextIOWrapper
from typing import Any, TextIO

import orjson

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}
SIGN_COLORS = {"+": "green", "-": "red", "~": "yellow"}


@dataclass(frozen=True, slots=True)
class Output:
    stream: TextIO
    colored: bool = False
    width: int | None = None  # of the terminal

    @classmethod
    def of(cls, stream: TextIO, color: str, environ: Mapping[str, str] = os.environ) -> Output:
        if isinstance(stream, TextIOWrapper):
            # Escape a character that this terminal cannot show.
            stream.reconfigure(errors="backslashreplace")
        terminal = stream.isatty()
        wanted = terminal and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
        colored = color == "always" or (color == "auto" and bool(wanted))
        return cls(stream, colored, shutil.get_terminal_size().columns if terminal else None)

    def line(self, text: str = "") -> None:
        self.stream.write(text + "\n")

    def json(self, document: Any) -> None:
        """One document in one line."""
        self.stream.write(orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE).decode())

    def flush(self) -> None:
        self.stream.flush()

    def paint(self, text: str, color: str) -> str:
        return f"\x1b[{_CODES[color]}m{text}\x1b[0m" if self.colored and color and text else text

    def fit(self, text: str, used: int = 0) -> str:
        """Cut to the rest of the terminal's width."""
        if self.width is None or used + len(text) <= self.width:
            return text
        return text[: max(0, self.width - used - 1)] + "…"
