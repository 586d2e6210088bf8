"""Regular expressions of rules: matches, and all matches in a text as Go finds them."""

from __future__ import annotations

import functools
from typing import Any, Final

from actors.cel.library.go_regexp import compile_re2, is_large

_LONGEST_REMEMBERED: Final = 256  # characters
_MOST_REMEMBERED: Final = 64


class Expression:
    """A compiled regular expression."""

    __slots__ = ("_found", "_matches", "_pattern", "is_large")

    def __init__(self, pattern: Any) -> None:
        self._pattern = pattern
        self.is_large = is_large(pattern)
        self._matches: dict[str, bool] = {}
        self._found: dict[tuple[str, int], list[Any]] = {}

    def matches(self, text: str) -> bool:
        """Whether the expression matches somewhere in the text."""
        known = self._matches.get(text)
        if known is None:
            known = self._pattern.search(_encode(text)) is not None
            _remember(self._matches, text, text, known)
        return known

    def find(self, text: str) -> str:
        found = self.find_all(text, 1)
        return str(found[0]) if found else ""

    def find_all(self, text: str, limit: int = -1) -> list[Any]:
        """All matches that do not overlap, without an empty one right after another match."""
        known = self._found.get((text, limit))
        if known is None:
            known = self._search(text, limit)
            _remember(self._found, (text, limit), text, known)
        return known

    def _search(self, text: str, limit: int) -> list[Any]:
        data = _encode(text)
        results: list[Any] = []
        position, previous = 0, -1
        while len(results) != limit and position <= len(data):
            found = self._pattern.search(data, position)
            if not found:
                break
            start, end = found.span()
            if end > position or start != previous:
                results.append(found.group().decode())
            position = end if end > position else _next_character(data, position)
            previous = end
        return results


def _remember(known: dict[Any, Any], key: Any, text: str, result: Any) -> None:
    """Loops of a rule ask for the same few texts again and again."""
    if len(text) <= _LONGEST_REMEMBERED:
        if len(known) >= _MOST_REMEMBERED:
            known.clear()
        known[key] = result


def _encode(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _next_character(data: bytes, position: int) -> int:
    position += 1
    while position < len(data) and data[position] & 0xC0 == 0x80:
        position += 1
    return position


def expression_of_object(source: str) -> Expression:
    """One that is no constant of the rule. The last short ones are remembered; a loop uses one again and again."""
    return _recent(source) if len(source) <= _LONGEST_REMEMBERED else compile_expression(source)


@functools.lru_cache(maxsize=16)
def _recent(source: str) -> Expression:
    return compile_expression(source)


def compile_expression(source: str) -> Expression:
    """Raises InvalidExpression."""
    return Expression(compile_re2(_encode(source)))
