"""Resolves plain scalars: YAML 1.1 as Go's yaml.v2 reads it, which clients test their manifests with.

    yes, On, y -> true    0x1F, 0b11, 017, 0o17, 1_000 -> integers    08, 1e3, .5 -> floats    ~, "" -> null

Base-60 numbers (12:30) and timestamps stay text. A whole float becomes an integer, because JSON does not distinguish
them. The length of a number is checked before its conversion, so a million digits cost nothing.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

Scalar = str | int | float | bool | None

# The longest useful number has some 300 digits (a float without an exponent).
LONGEST_NUMBER: Final = 1000
NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})

_WORDS: Final[dict[str, Scalar]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(NULLS),
}
_NOT_FINITE: Final = frozenset(
    sign + word for sign in ("", "+", "-") for word in (".inf", ".Inf", ".INF")
) | frozenset((".nan", ".NaN", ".NAN"))
_FIRST: Final = frozenset("0123456789+-.~yYnNtTfFoO")
_DIGITS: Final = frozenset("0123456789+-.")

_common_integer = re.compile("[1-9][0-9]{0,17}|0", re.ASCII).fullmatch
_integer = re.compile(
    r"([+-]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|([1-9][0-9]*|0))", re.ASCII
).fullmatch
_float = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII).fullmatch
_base60 = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?", re.ASCII).fullmatch
_timestamp = re.compile(
    r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})"
    r"(?:[Tt]([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:\.[0-9]+)?(?:Z|[+-][0-9]{2}:[0-9]{2})"
    r"| ([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:\.[0-9]+)?)?",
    re.ASCII,
).fullmatch


class BadNumber(ValueError):
    """A number that JSON cannot represent."""


def resolve(text: str) -> Scalar:
    """The value of a scalar without quotes or a tag."""
    if text[:1] not in _FIRST:
        return text if text else None
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _DIGITS:
        return text
    if _common_integer(text):
        return int(text)
    if text in _NOT_FINITE:
        raise BadNumber(f"{text} is not a number that JSON can hold")
    number = _number(text)
    return text if number is None else number


def _number(text: str) -> int | float | None:
    # Underscores separate digits, except in a number that starts with a point.
    plain = text if text[0] == "." else text.replace("_", "")
    if len(plain) > LONGEST_NUMBER:
        if _integer(plain) or _float(plain):
            raise BadNumber(f"a number of {len(plain)} characters is out of range")
        return None
    integer = _int64(plain)
    if integer is not None:
        return integer
    return whole(float(plain)) if _float(plain) and _finite(plain) else None


def _finite(plain: str) -> bool:
    """The float; with too large an exponent the scalar is text, not infinity: 12e4567 may be a commit hash."""
    return float(plain) not in (float("inf"), float("-inf"))


def _int64(plain: str) -> int | None:
    match = _integer(plain)
    if match is None:
        return None
    sign, hexadecimal, binary, octal, decimal = match.groups()
    digits, base = next(
        (digits, base)
        for digits, base in ((hexadecimal, 16), (binary, 2), (octal, 8), (decimal, 10))
        if digits is not None
    )
    value = -int(digits, base) if sign == "-" else int(digits, base)
    return value if -(1 << 63) <= value < (1 << (63 if sign else 64)) else None


def whole(value: float) -> int | float:
    """The float as an integer, if it is whole and fits 64 bits."""
    return int(value) if value.is_integer() and -(2.0**63) <= value < 2.0**64 else value


def is_timestamp(text: str) -> bool:
    match = _timestamp(text)
    if match is None:
        return False
    try:
        datetime(*(int(part) for part in match.groups() if part is not None))  # type: ignore[arg-type]
    except ValueError:
        return False
    return True


def needs_quotes(text: str) -> bool:
    """Whether this or another YAML reader would read the text, written plain, as something else."""
    if text[:1] not in _FIRST:
        return text in ("", "<<")
    if text in _WORDS or text in _NOT_FINITE:
        return True
    if text[0] not in _DIGITS:
        return False
    return _looks_numeric(text) or is_timestamp(text) or _base60(text) is not None


def _looks_numeric(text: str) -> bool:
    try:
        return _number(text) is not None
    except BadNumber:
        return True
