r"""JSONPath of printer columns, the language of Kubernetes' own library: parses a path once, and finds its values.

    .spec.replicas        .metadata.labels.app\.example\.com/name        .metadata.labels['app\.example\.com/name']
    .spec.list[0]         .spec.list[-1:]        .spec.list[*].name        .status..name
    .status.conditions[?(@.type=="Ready")].status

It is not the language of RFC 9535: a key in brackets is itself a path, an integer and a float cannot be compared, and
an error at one value leaves the whole path without a result (docs/decisions/0033-jsonpath.md has the cases).

A path is a list of steps; a step gets all values that the one before it found, and returns those that it finds. A
path may look at very many values (`..` at every step, a filter of a long list), so a search is bounded, unlike in
Kubernetes: it counts every value that a step gets, looks at or finds, and every step. The Budget is that of a row.
"""

from __future__ import annotations

import operator
import re
import unicodedata
from collections.abc import Callable, Iterable
from time import thread_time
from typing import Any, Final

from rewound.actors.runtime.budget import Budget, OverBudget

MAX_STEPS: Final = 64
MAX_LENGTH: Final = 4096  # characters of a path: parsing takes a microsecond for each
MAX_VISITS: Final = 10_000  # values that one search may look at, over all its steps: about three milliseconds

Values = list[Any]
Step = Callable[[Values, "Search"], Values]

_ENDS: Final = frozenset(" \t\r\n.,[]$@{}")
_NUMBER: Final = re.compile(r"[-+]?[0-9.]*")
_SLICE: Final = re.compile(r"(-?[0-9]*)(:-?[0-9]*)?(:-?[0-9]*)?")
_KEY: Final = re.compile(r"'([^']*)'")
_COMPARISON: Final = re.compile(r"([^!<>=]+)([!<>=]+)(.+)")
_ESCAPES: Final = dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True))
_MOST: Final = 2**63
_ORDERED: Final = {"<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge}


class NotAPath(ValueError):
    """The text is not a path of this language."""


class NoResult(Exception):
    """The path does not fit the object, or finds too many values in it."""

    def __init__(self, left: Values) -> None:
        super().__init__()
        self.left = left  # what an existence filter takes as the result instead


class PathBudget(Budget):
    """`seconds` of this thread's processor time, of all paths of a table, or of all searches for a row of it."""

    __slots__ = ("_end",)

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._end = thread_time() + seconds

    def pause(self) -> None:
        if thread_time() > self._end:
            raise OverBudget("the paths take too much processor time")


class Search:
    """One search, and how many more values it may look at."""

    __slots__ = ("_budget", "left")

    def __init__(self, budget: Budget) -> None:
        self.left, self._budget = MAX_VISITS, budget

    def visit(self, count: int) -> None:
        """Count values before a step looks at them, or copies them."""
        self.left -= count
        if self.left < 0:
            raise NoResult([])
        self._budget.visit(count)


class JsonPath:
    def __init__(self, text: str, budget: Budget) -> None:
        """Parse a path. Raises NotAPath if it is none, or has more than MAX_LENGTH characters."""
        if len(text) > MAX_LENGTH:
            raise NotAPath(f"a path may have at most {MAX_LENGTH} characters")
        budget.visit(len(text))
        self._steps, *self._others = _actions(text)

    def first(self, value: Any, budget: Budget) -> Any:
        """Return the first value, or None if there is none. Raises OverBudget."""
        search = Search(budget)
        try:
            found = _walk(self._steps, [value], search)
            for others in self._others:
                _walk(others, [value], search)
        except (NoResult, RecursionError):
            return None
        return found[0] if found else None


def _walk(steps: list[Step], values: Values, search: Search) -> Values:
    for step in steps:
        search.visit(1 + len(values))
        values = step(values, search)
    return values


def _actions(text: str) -> list[list[Step]]:
    """Split a path at braces, which end it: what follows is text up to the next action, which must be a path too."""
    text += "}"
    found: list[list[Step]] = []
    at = 0
    while at >= 0:
        parser = _Parser(text, at)
        found.append(parser.steps())
        opened = text.find("{", parser.at)
        at = opened + 1 if opened >= 0 else -1
    return found


class _Parser:
    """Parses up to the next closing brace."""

    def __init__(self, text: str, at: int) -> None:
        self._text, self.at = text, at

    def steps(self) -> list[Step]:
        found: list[Step] = []
        recursive = False
        while not self._text.startswith("}", self.at):
            if self._text.startswith("..", self.at):
                if recursive:
                    raise NotAPath("invalid multiple recursive descent")
                self.at += 2
                recursive = True
                found.append(_everything_inside)
                if _is_name(self._text[self.at]):
                    found.append(self._field())
                    recursive = False
                continue
            steps = self._steps()
            recursive = recursive and not steps
            found += steps
            if len(found) > MAX_STEPS:
                raise NotAPath("too many steps")
        self.at += 1
        return found

    def _steps(self) -> list[Step]:
        if self._text.startswith("[?(", self.at):
            return [self._filter()]
        if self.at >= len(self._text):
            raise NotAPath("unclosed action")
        character = self._text[self.at]
        if character in " @$":
            self.at += 1
            return []
        if character == "[":
            return self._brackets()
        if character in "\"'":
            return [_text(self._quoted(character))]
        if character == ".":
            self.at += 1
            return [self._field()]
        if character in "+-" or unicodedata.category(character) == "Nd":
            return [self._number()]
        if _is_name(character):
            return [_identifier(self._name(escapes=False))]
        raise NotAPath(f"unrecognized character {character!r}")

    def _field(self) -> Step:
        name = self._name(escapes=True)
        return _everything if name == "*" else _member(name.replace("\\", ""))

    def _name(self, *, escapes: bool) -> str:
        text, start = self._text, self.at
        while self.at < len(text) and text[self.at] not in _ENDS:
            self.at += 2 if escapes and text[self.at] == "\\" else 1
        self.at = min(self.at, len(text))
        return text[start : self.at]

    def _number(self) -> Step:
        found = _NUMBER.match(self._text, self.at)
        assert found is not None
        self.at = found.end()
        try:
            if "." not in found[0] and -_MOST <= int(found[0]) < _MOST:
                return _each(int(found[0]))
            return _each(float(found[0]))
        except ValueError:
            raise NotAPath(f"cannot parse number {found[0]}") from None

    def _quoted(self, quote: str) -> str:
        start = self.at
        self.at = self._closing(quote, start + 1) + 1
        content = self._text[start + 1 : self.at - 1]
        return content if "\\" not in content else _unescaped(content, quote)

    def _closing(self, quote: str, at: int) -> int:
        while True:
            at = self._text.find(quote, at)
            if at < 0 or "\n" in self._text[self.at : at]:
                raise NotAPath("unterminated quoted string")
            if self._text[at - 1] != "\\":
                return at
            at += 1

    def _brackets(self) -> list[Step]:
        end = self._text.find("]", self.at)
        inside = self._text[self.at + 1 : max(end, 0)]
        if end < 0 or "\n" in inside:
            raise NotAPath("unterminated array")
        self.at = end + 1
        parts = inside.split(",")
        if len(parts) > MAX_STEPS:
            raise NotAPath("too many parts of a union")
        if len(parts) == 1:
            return _bracket(inside)
        return [_union([_actions(f"[{part.strip(' ')}]")[0] for part in parts])]

    def _filter(self) -> Step:
        """Parse what is between `[?(` and `)]`; the first quoted text may contain parentheses."""
        start, quote, quotes = self.at + 3, "", 0
        for at in range(start, len(self._text)):
            character = self._text[at]
            if character == "\n":
                break
            if character in "\"'" and not quotes:
                quote, quotes = character, 1
            elif character == quote and self._text[at - 1] != "\\":
                quotes = 2
            elif character == ")" and quotes != 1:
                if not self._text.startswith(")]", at):
                    raise NotAPath("unclosed array")
                self.at = at + 2
                return _filter(self._text[start:at])
        raise NotAPath("unterminated filter")


def _is_name(character: str) -> bool:
    return character == "_" or character.isalpha() or unicodedata.category(character) == "Nd"


def _unescaped(content: str, quote: str) -> str:
    # Rare: compiled when needed, and cached by `re`.
    escape = re.compile(
        r"""\\([abfnrtv\\'"])|\\x([0-9a-fA-F]{2})|\\u([0-9a-fA-F]{4})|\\U([0-9a-fA-F]{8})|\\([0-7]{3})|[^\\]"""
    )
    found = bytearray()
    at = 0
    while at < len(content):
        part = escape.match(content, at)
        if part is None or part[0] == quote or (part[1] in ("'", '"') and part[1] != quote):
            raise NotAPath("invalid escape in a quoted string")
        at = part.end()
        letter, byte, short, long, octal = part.groups()
        try:
            if byte or octal:
                found.append(int(byte, 16) if byte else int(octal, 8))
            elif short or long:
                found += chr(int(short or long, 16)).encode()
            else:
                found += (_ESCAPES.get(letter, letter) if letter else part[0]).encode()
        except (ValueError, OverflowError):
            raise NotAPath("invalid escape in a quoted string") from None
    return found.decode(errors="replace")


def _bracket(text: str) -> list[Step]:
    if key := _KEY.fullmatch(text):
        return _actions(f".{key[1]}")[0]
    found = _SLICE.fullmatch(":" if text == "*" else text)
    if found is None:
        raise NotAPath(f"invalid array index {text}")
    first, last, step = (_integer(part.lstrip(":")) if part else None for part in found.groups())
    single = found[2] is None
    return [_slice(first or 0, (first or 0) + 1 if single else last, step, single=single)]


def _integer(text: str) -> int | None:
    if not text:
        return None
    if text == "-" or len(text) > 20 or not -_MOST <= int(text) < _MOST:
        raise NotAPath(f"array index {text} is not a number")
    return int(text)


def _member(name: str) -> Step:
    return lambda values, _: [value[name] for value in values if isinstance(value, dict) and name in value]


def _each(constant: Any) -> Step:
    return lambda values, _: [constant] * len(values)


def _text(text: str) -> Step:
    return lambda *_: [text]


def _identifier(name: str) -> Step:
    if name in ("true", "false"):
        return _each(name == "true")

    def find(values: Values, _: Search) -> Values:
        raise NoResult(values)  # `range` and `end`, which only print, find nothing

    return find


def _slice(first: int, last: int | None, step: int | None, *, single: bool) -> Step:
    def find(values: Values, search: Search) -> Values:
        found: Values = []
        for value in values:
            if value is None:
                continue
            if not isinstance(value, list):
                raise NoResult(values)
            size = len(value)
            start = first + size if first < 0 else first
            end = size if last is None else last
            if end < 0 or (end == 0 and single):
                end += size
            if start == end:
                return found  # skips the remaining values too
            if not 0 <= start < size or not start <= end <= size or (step is not None and step <= 0):
                raise NoResult(values)
            search.visit(len(range(start, end, step or 1)))
            found += value[start : end : step or 1]
        return found

    return find


def _union(parts: list[list[Step]]) -> Step:
    def find(values: Values, search: Search) -> Values:
        try:
            return [one for part in parts for one in _walk(part, values, search)]
        except NoResult:
            raise NoResult(values) from None

    return find


def _everything(values: Values, search: Search) -> Values:
    return [inner for value in values for inner in _contents(value, search)]


def _everything_inside(values: Values, search: Search) -> Values:
    """Return each value that has contents, and everything inside it that has some: maps, lists and texts."""
    found: Values = []
    for value in values:
        if value and isinstance(value, (dict, list, str)):
            found.append(value)
            if not isinstance(value, str):
                found += _everything_inside(list(_contents(value, search)), search)
    return found


def _contents(value: Any, search: Search) -> Iterable[Any]:
    """Return the contents of a value; those of a text are its bytes, as in Go."""
    if isinstance(value, (dict, str, list)):
        search.visit(len(value))
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, str):
        return value.encode()
    return value if isinstance(value, list) else ()


def _filter(text: str) -> Step:
    comparison = _COMPARISON.fullmatch(text)
    if comparison is None:
        steps = _actions(text)[0]
        return _selection(lambda item, search: _exists(steps, item, search))
    left, right, sign = _actions(comparison[1])[0], _actions(comparison[3])[0], comparison[2]
    return _selection(lambda item, search: _compare(sign, left, right, item, search))


def _selection(matches: Callable[[Any, Search], bool]) -> Step:
    def find(values: Values, search: Search) -> Values:
        found: Values = []
        for value in values:
            if not isinstance(value, list):
                raise NoResult(values)
            search.visit(len(value))
            found += [item for item in value if matches(item, search)]
        return found

    return find


def _exists(steps: list[Step], item: Any, search: Search) -> bool:
    try:
        return bool(_walk(steps, [item], search))
    except NoResult as error:
        if search.left < 0:
            raise
        return bool(error.left)


def _compare(sign: str, left: list[Step], right: list[Step], item: Any, search: Search) -> bool:
    pair: Values = []
    for steps in (left, right):
        found = _walk(steps, [item], search)
        if len(found) > 1:
            raise NoResult([item])
        if not found:
            return False
        pair += found
    one, other = pair
    kind = type(one)
    if kind is not type(other) or kind not in (bool, int, float, str):
        raise NoResult([])
    if sign in ("==", "!="):
        return bool((one == other) == (sign == "=="))
    if kind is bool or sign not in _ORDERED:
        raise NoResult([])
    return bool(_ORDERED[sign](one, other))
