"""Quotes texts in messages as Go's `%q` does, because clients know and search for these messages.

Texts that a client chose (names, paths, users, values) can contain quotes, line ends and control characters: every
message that shows such a text quotes it here, and shows its first `LONGEST` characters. `quoted` alone shows the
whole text, for callers that need it or have already bounded it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

_ESCAPES: Final = {
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
    "\\": r"\\",
    '"': r"\"",
}

LONGEST: Final = 1024  # characters of a value in a message; the longest that the API itself defines has 253


def quoted(text: str) -> str:
    """Quote a text like Go's %q: in double quotes, with unprintable characters escaped."""
    if _needs_no_escapes(text):
        return f'"{text}"'
    return '"' + "".join(_escaped(letter) for letter in text) + '"'


def _needs_no_escapes(text: str) -> bool:
    return text.isprintable() and '"' not in text and "\\" not in text


def _escaped(letter: str) -> str:
    if letter in _ESCAPES:
        return _ESCAPES[letter]
    if letter.isprintable():
        return letter
    code = ord(letter)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def quoted_list(values: Sequence[str]) -> str:
    """Quote texts and join them with commas, up to `LONGEST` characters."""
    first = values[: LONGEST // 4]
    if sum(map(len, first)) > LONGEST or not _needs_no_escapes("".join(first)):
        return joined(map(quoted_start, values))
    listed = '", "'.join(first)
    return (f'"{listed}"' if first else "") + (", ..." if len(first) < len(values) else "")


def quoted_start(text: str) -> str:
    """Quote the first `LONGEST` characters of a text, and add its length if there are more."""
    if len(text) <= LONGEST:
        return quoted(text)
    return f"{quoted(text[:LONGEST])}... ({len(text)} characters)"


def cut(text: str, longest: int = LONGEST) -> str:
    """Return the text, or its start and its length if it is too long."""
    return text if len(text) <= longest else f"{text[:longest]}... ({len(text)} characters)"


def joined(parts: Iterable[str], between: str = ", ") -> str:
    """Join as many parts as fit into a message, with an ellipsis for the rest."""
    taken, room = [], LONGEST
    for part in parts:
        if room <= 0:
            taken.append("...")
            break
        taken.append(part)
        room -= len(part) + len(between)
    return between.join(taken)
