"""Semantic versions of expressions: `semver('1.2.3-rc.1+build')`, parsed and compared as the Go library does."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from rewound.actors.cel.values import MAX_INT, MAX_UINT, EvaluationError, no_such_overload
from rewound.actors.golang.quoting import quoted
from rewound.actors.runtime.budget import Budget

_is_number: Final = re.compile("[0-9]*").fullmatch
_is_identifier: Final = re.compile("[-0-9A-Za-z]*").fullmatch


@dataclass(frozen=True, slots=True)
class Semver:
    """`pre` are the identifiers of a release before this version; what describes a build does not compare."""

    numbers: tuple[int, int, int]
    pre: tuple[int | str, ...]

    type_name = "kubernetes.Semver"

    def equals(self, other: Any, _: Budget) -> bool:
        if other.__class__ is not Semver:
            raise other if isinstance(other, EvaluationError) else no_such_overload()
        return self == other

    def number(self, index: int) -> int:
        """Return a number as Go converts it to 64 bits with a sign."""
        found = self.numbers[index]
        return found if found <= MAX_INT else found - 2**64

    def compare(self, other: Semver) -> int:
        mine, theirs = self._order(), other._order()
        return (mine > theirs) - (mine < theirs)

    def _order(self) -> tuple[Any, ...]:
        parts = tuple((isinstance(part, str), part) for part in self.pre)
        return self.numbers, not parts, parts


def parse(text: str, normalize: bool = False) -> Semver:
    if normalize:
        text = _normalized(text)
    if not text:
        raise EvaluationError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise EvaluationError("No Major.Minor.Patch elements found")
    major, minor = _number("major", parts[0]), _number("minor", parts[1])
    patch, plus, build = parts[2].partition("+")
    patch, dash, pre = patch.partition("-")
    numbers = (major, minor, _number("patch", patch))
    before = tuple(map(_pre, pre.split("."))) if dash else ()
    for part in build.split(".") if plus else ():
        if not part:
            raise EvaluationError("Build meta data is empty")
        if not _is_identifier(part):
            raise EvaluationError(f"Invalid character(s) found in build meta data {quoted(part)}")
    return Semver(numbers, before)


def is_semver(text: str, normalize: bool = False) -> bool:
    try:
        parse(text, normalize)
    except EvaluationError:
        return False
    return True


def _normalized(text: str) -> str:
    """Return a version without a v before it, without leading zeros, and with three numbers."""
    parts = text.removeprefix("v").split(".", 2)
    for index, part in enumerate(parts):
        if len(part) > 1:
            stripped = part.lstrip("0")
            parts[index] = stripped if stripped[:1] in tuple("0123456789") else "0" + stripped
    if len(parts) < 3 and ("+" in parts[-1] or "-" in parts[-1]):
        raise EvaluationError("short version cannot contain PreRelease/Build meta data")
    return ".".join(parts + ["0"] * (3 - len(parts)))


def _number(name: str, text: str) -> int:
    if not _is_number(text):
        raise EvaluationError(f"Invalid character(s) found in {name} number {quoted(text)}")
    if len(text) > 1 and text[0] == "0":
        raise EvaluationError(f"{name.capitalize()} number must not contain leading zeroes {quoted(text)}")
    return _unsigned(text)


def _unsigned(text: str) -> int:
    if not text:
        raise EvaluationError('strconv.ParseUint: parsing "": invalid syntax')
    if len(text) > 20 or int(text) > MAX_UINT:
        raise EvaluationError(f"strconv.ParseUint: parsing {quoted(text)}: value out of range")
    return int(text)


def _pre(text: str) -> int | str:
    if not text:
        raise EvaluationError("Prerelease is empty")
    if _is_number(text):
        if len(text) > 1 and text[0] == "0":
            raise EvaluationError(
                f"Numeric PreRelease version must not contain leading zeroes {quoted(text)}"
            )
        return _unsigned(text)
    if not _is_identifier(text):
        raise EvaluationError(f"Invalid character(s) found in prerelease {quoted(text)}")
    return text
