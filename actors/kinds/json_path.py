"""JSONPath, as printer columns use it: parses a path once, and finds its values in objects.

    .spec.replicas        .metadata.labels.app\\.example\\.com/name        .metadata.annotations['a b']
    .spec.list[0]         .spec.list[-1:]        .spec.list[*].name        .status..name
    .status.conditions[?(@.type=="Ready")].status

A missing member is no result; an index that a list does not have and a step into a scalar end the search, as they do in
Kubernetes. A path may ask for much (`..` at every step), so that a search has a bound.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

MAX_STEPS: Final = 64
MAX_VISITS: Final = 2_000  # values that one search may look at

Find = Callable[[Any, "Search"], Iterator[Any]]

_ENDS: Final = frozenset(" \t\r\n.,[]$@{}")
_INTEGER: Final = re.compile(r"-?[0-9]+")
_SLICE: Final = re.compile(r"(-?[0-9]*)(:-?[0-9]*)?(:-?[0-9]*)?")
_KEY: Final = re.compile(r"'([^']*)'")
_COMPARISON: Final = re.compile(r"([^!<>=]+)([!<>=]+)(.+)", re.DOTALL)
_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}


class NotAPath(ValueError):
    """The text is no path of this language."""


class NoResult(Exception):
    """The path does not fit the object, or asks for too much of it."""


class Search:
    """One search: how many more values it may look at."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_VISITS

    def visit(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise NoResult


class JsonPath:
    def __init__(self, text: str) -> None:
        """NotAPath."""
        self._steps = _Parser(text).steps()

    def first(self, value: Any) -> Any:
        """The first value; None if there is none."""
        try:
            return next(_walk(self._steps, value, Search()), None)
        except (NoResult, RecursionError):
            return None


_NOTHING: Final = object()  # no value, where None would mean null


def _walk(steps: tuple[Find, ...], value: Any, search: Search) -> Iterator[Any]:
    if not steps:
        yield value
        return
    for found in steps[0](value, search):
        search.visit()
        try:
            yield from _walk(steps[1:], found, search)
        except NoResult:
            if steps[0] is not _everything_inside or search.left < 0:
                raise  # of all that is inside, most has not what comes next


class _Parser:
    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0

    def steps(self) -> tuple[Find, ...]:
        found: list[Find] = []
        while self._at < len(self._text):
            step = self._step()
            if step is not None:
                found.append(step)
            if len(found) > MAX_STEPS:
                raise NotAPath("too many steps")
        return tuple(found)

    def _step(self) -> Find | None:
        text, at = self._text, self._at
        if text.startswith("..", at):
            self._at += 2
            return _everything_inside
        if text[at] in "@$":
            self._at += 1
            return None
        if text[at] == ".":
            self._at += 1
            name = self._name()  # empty behind a single dot, which is therefore not the value itself
            return _everything if name == "*" else _member(name.replace("\\", ""))
        if text[at] == "[":
            return self._brackets()
        if text[at].isspace():
            self._at += 1
            return None
        name = self._name()
        if not name:
            raise NotAPath(f"unrecognized character {text[at]!r}")
        return _everything if name == "*" else _member(name.replace("\\", ""))

    def _name(self) -> str:
        text, start = self._text, self._at
        while self._at < len(text) and text[self._at] not in _ENDS:
            self._at += 2 if text[self._at] == "\\" else 1
        return text[start : self._at]

    def _brackets(self) -> Find:
        if self._text.startswith("[?(", self._at):
            return _filter(self._filter_text())
        end = self._text.find("]", self._at)
        if end < 0:
            raise NotAPath("unterminated array")
        inside = self._text[self._at + 1 : end]
        self._at = end + 1
        parts = inside.split(",")
        if len(parts) > MAX_STEPS:
            raise NotAPath("too many parts of a union")
        found = [_bracket(part.strip()) for part in parts]
        return found[0] if len(found) == 1 else _union(found)

    def _filter_text(self) -> str:
        """What stands between `[?(` and `)]`; quoted text may hold brackets."""
        start, quote, depth = self._at + 3, "", 1
        for at in range(start, len(self._text)):
            character = self._text[at]
            if quote:
                quote = "" if character == quote else quote
            elif character in "'\"":
                quote = character
            elif character in "()":
                depth += 1 if character == "(" else -1
                if not depth:
                    if not self._text.startswith(")]", at):
                        raise NotAPath("unclosed filter")
                    self._at = at + 2
                    return self._text[start:at]
        raise NotAPath("unterminated filter")


def _bracket(text: str) -> Find:
    if text == "*":
        return _everything
    if key := _KEY.fullmatch(text):
        return _member(key[1])
    if _INTEGER.fullmatch(text):
        return _index(int(text[:20]))
    found = _SLICE.fullmatch(text)
    if found is None or not text:
        raise NotAPath(f"invalid array index {text}")
    first, last, step = (
        int(part.lstrip(":")[:20]) if part and part != ":" else None for part in found.groups()
    )
    if step is not None and step <= 0:
        raise NotAPath("step must be > 0")
    return _slice(slice(first, last, step))


def _member(name: str) -> Find:
    def find(value: Any, _: Search) -> Iterator[Any]:
        if isinstance(value, dict):
            if name in value:
                yield value[name]
        elif value is not None:
            raise NoResult

    return find


def _index(index: int) -> Find:
    def find(value: Any, _: Search) -> Iterator[Any]:
        if not isinstance(value, list) or not -len(value) <= index < len(value):
            raise NoResult
        yield value[index]

    return find


def _slice(part: slice) -> Find:
    def find(value: Any, _: Search) -> Iterator[Any]:
        if not isinstance(value, list):
            raise NoResult
        yield from value[part]

    return find


def _union(parts: list[Find]) -> Find:
    def find(value: Any, search: Search) -> Iterator[Any]:
        for part in parts:
            yield from part(value, search)

    return find


def _everything(value: Any, _: Search) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _everything_inside(value: Any, search: Search) -> Iterator[Any]:
    """The value itself and all maps and lists inside, in which the next step looks for its name."""
    search.visit()
    if isinstance(value, (dict, list)):
        yield value
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _everything_inside(inner, search)


def _filter(text: str) -> Find:
    comparison = _COMPARISON.fullmatch(text)
    if comparison is None:
        exists = _operand(text)
        return _selection(lambda item, search: next(exists(item, search), _NOTHING) is not _NOTHING)
    left, right = _operand(comparison[1].strip()), _operand(comparison[3].strip())
    compare = _OPERATORS.get(comparison[2])
    if compare is None:
        raise NotAPath(f"unrecognized filter operator {comparison[2]}")
    return _selection(lambda item, search: _compare(compare, left, right, item, search))


def _selection(matches: Callable[[Any, Search], bool]) -> Find:
    def find(value: Any, search: Search) -> Iterator[Any]:
        if not isinstance(value, list):
            raise NoResult
        for item in value:
            search.visit()
            if matches(item, search):
                yield item

    return find


def _compare(compare: Callable[[Any, Any], bool], left: Find, right: Find, item: Any, search: Search) -> bool:
    one, other = next(left(item, search), _NOTHING), next(right(item, search), _NOTHING)
    if one is _NOTHING or other is _NOTHING:
        return False
    try:
        return bool(compare(one, other))
    except TypeError:
        raise NoResult from None


def _operand(text: str) -> Find:
    """A literal, or a path that begins at the item."""
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return _constant(text[1:-1])
    if text in ("true", "false"):
        return _constant(text == "true")
    try:
        return _constant(int(text) if _INTEGER.fullmatch(text) else float(text))
    except ValueError:
        pass
    steps = _Parser(text).steps()

    def find(value: Any, search: Search) -> Iterator[Any]:
        try:
            yield from _walk(steps, value, search)
        except NoResult:
            if search.left < 0:
                raise

    return find


def _constant(value: Any) -> Find:
    def find(_: Any, __: Search) -> Iterator[Any]:
        yield value

    return find
