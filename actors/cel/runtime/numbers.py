"""Numbers as Go parses and prints them."""

from __future__ import annotations

import math
import re
from typing import Final

_HEXADECIMAL: Final = re.compile(r"[+-]?0[xX]([0-9a-fA-F]*\.?[0-9a-fA-F]*)[pP][+-]?[0-9]+")
_DECIMAL: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_SPECIAL: Final = {"inf": math.inf, "infinity": math.inf, "nan": math.nan}
_DIGITS: Final = re.compile(r"[+-]?[0-9]+")


def print_double(value: float) -> str:
    """The shortest text that means this number; with an exponent below 0.0001 and from 1000000 on, as %g prints."""
    if value != value:
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    sign = "-" if math.copysign(1, value) < 0 else ""
    digits, exponent = _decompose(abs(value))
    return sign + (_positional if -4 <= exponent < 6 else _scientific)(digits, exponent)


def print_seconds(value: float) -> str:
    """The shortest text without an exponent."""
    sign = "-" if value < 0 else ""
    return sign + _positional(*_decompose(abs(value)))


def _decompose(value: float) -> tuple[str, int]:
    """The digits, of which the first is not 0, and the power of ten of the first one."""
    if not value:
        return "0", 0
    mantissa, _, exponent = repr(value).partition("e")
    whole, _, fraction = mantissa.partition(".")
    power = int(exponent or 0) + len(whole) - 1
    digits = whole + fraction
    stripped = digits.lstrip("0")
    return stripped.rstrip("0") or "0", power - (len(digits) - len(stripped))


def _scientific(digits: str, exponent: int) -> str:
    mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
    return f"{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def _positional(digits: str, exponent: int) -> str:
    if exponent < 0:
        return "0." + "0" * (-exponent - 1) + digits
    whole = digits[: exponent + 1].ljust(exponent + 1, "0")
    fraction = digits[exponent + 1 :]
    return f"{whole}.{fraction}" if fraction else whole


def parse_integer(text: str) -> int | None:
    """A decimal number with or without a sign; None for anything else."""
    return int(text) if _DIGITS.fullmatch(text) and text.isascii() else None


def parse_double(text: str) -> float | None:
    """None for what Go's ParseFloat refuses, which includes numbers that are too large."""
    if _DECIMAL.fullmatch(text):
        value = float(text)
        return None if math.isinf(value) else value
    found = _HEXADECIMAL.fullmatch(text)
    if found and found[1].strip("."):
        try:
            return float.fromhex(text)
        except OverflowError:
            return None
    special = _SPECIAL.get(text.lower().lstrip("+-"))
    if special is None or text[:2] in ("+-", "-+", "++", "--") or (math.isnan(special) and text[0] in "+-"):
        return None
    return -special if text[0] == "-" else special
