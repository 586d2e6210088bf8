"""Quotes texts in messages as Go's `%q` does, because clients know and search for these messages.

What a client chose (names, paths, users, values) can hold quotes, line ends and control characters: every message that
shows such a text quotes it here. A message shows the first `LONGEST` characters of it. `quoted` alone shows all of its
text, for callers that need it whole or have bounded it.
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
    """In double quotes, with unprintable characters escaped, like Go's %q."""
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
    """Texts in double quotes with commas between them, the first `LONGEST` characters."""
    first = values[: LONGEST // 4]
    if sum(map(len, first)) > LONGEST or not _needs_no_escapes("".join(first)):
        return joined(map(quoted_start, values))
    listed = '", "'.join(first)
    return (f'"{listed}"' if first else "") + (", ..." if len(first) < len(values) else "")


def quoted_start(text: str) -> str:
    """In double quotes, the first `LONGEST` characters of it, and then how long it is."""
    if len(text) <= LONGEST:
        return quoted(text)
    return f"{quoted(text[:LONGEST])}... ({len(text)} characters)"


def cut(text: str, longest: int = LONGEST) -> str:
    """The text as it is, or its start and then how long it is."""
    return text if len(text) <= longest else f"{text[:longest]}... ({len(text)} characters)"


def joined(parts: Iterable[str], between: str = ", ") -> str:
    """As many parts as fit into a message, and an ellipsis for those that do not."""
    taken, room = [], LONGEST
    for part in parts:
        if room <= 0:
            taken.append("...")
            break
        taken.append(part)
        room -= len(part) + len(between)
    return between.join(taken)
