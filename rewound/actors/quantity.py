"""Quantities such as 500m, 1.5Gi or 12e6: parsed exactly, written as Kubernetes writes them.

Amounts are whole nano-units, the finest that the API has; finer ones are rounded away from zero. Kubernetes keeps the
text of a quantity that its fast parser accepts as canonical, although it need not be; any other text becomes the
canonical form:

    canonical_quantity("0.5") == "500m"      canonical_quantity("1536Mi") == "1536Mi"
    canonical_quantity("1024Mi") == "1Gi"    canonical_quantity("0.5Ki") == "512"
    canonical_quantity("1.500") == "1.500"   canonical_quantity("+007") == "+007"

Unlike in Kubernetes, an amount of 1000E or more in decimal style keeps its value, where Kubernetes has no suffix for
it and writes 1 for 1000E; and numbers of more than a thousand digits or zeros are refused.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

NANOS: Final = 10**9
LARGEST_BINARY: Final = (2**63 - 1) * NANOS
_MOST_DIGITS: Final = 1000  # more than any real amount; keeps the arithmetic small
_FARTHEST_EXPONENT: Final = 1000
_SHORT: Final = 24  # letters of a quantity that is remembered: a cache of long ones would take memory

_BINARY: Final = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_SUFFIXES: Final = {power: suffix for suffix, power in _BINARY.items()} | {0: ""}
_DECIMAL_SUFFIXES: Final = {power: suffix for suffix, power in _DECIMAL.items()}

# Digits that the fast parser of Kubernetes accepts; the second is for binary suffixes, less three for each power of
# 1024.
_DECIMAL_DIGITS: Final = 18
_BINARY_DIGITS: Final = 14

_PATTERN: Final = r"^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
# Unlike the pattern that errors name, this accepts a text without digits: it is zero. Possessive: after a mismatch,
# backtracking over the four runs of digits cannot help.
_PARTS: Final = re.compile(r"([+-]?+)(0*+)([0-9]*+)\.?+([0-9]*+)([eEinumkKMGTP]*+[-+]?+[0-9]*+)")
_EXPONENT: Final = re.compile(r"[eE]([-+]?[0-9]{1,19})")
# White space around a quantity is ignored if a JSON string can contain it unescaped: Kubernetes parses the text in
# the body, in which other white space is an escape sequence.
_SPACES: Final = " \u0085\u00a0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)


class NotAQuantity(ValueError):
    """The text is not a quantity."""


NOT_IN_FORMAT: Final = f"quantities must match the regular expression '{_PATTERN}'"
_NOT_A_NUMBER: Final = "unable to parse numeric part of quantity"
_NOT_A_SUFFIX: Final = "unable to parse quantity's suffix"


def canonical_quantity(text: str) -> str:
    """Return the text in which a quantity is stored and shown."""
    text = text.strip(_SPACES)
    nanos, style, is_kept = _parse(text)
    return text if is_kept else quantity_text(nanos, style)


def parse_quantity(text: str) -> tuple[int, str]:
    """Return the amount in nano-units and the style of its suffix, for `quantity_text`."""
    return _parse(text)[:2]


def quantity_text(nanos: int, style: str) -> str:
    """Return the canonical form of an amount in a style: binary, decimal or exponent."""
    if not nanos:
        return "0"
    if style == "binary" and abs(nanos) >= 1024 * NANOS and nanos % NANOS == 0:
        return _binary(nanos // NANOS)
    return _decimal(nanos, exponents=style == "exponent")


def nanos_of(text: str) -> int:
    """Return the amount in nano-units, to compare and to add."""
    return _parse(text)[0]


def is_count(text: str) -> bool:
    """Whether a quantity can count things: a whole number, whose thousandths v1.25 finds in 64 bits.

    For larger amounts, such as 1Ei, only the low bits of the thousandths remain, which are rarely a whole number. For
    those that its fast parser accepts, such as 10E, zero remains.
    """
    _, number, scale, style, is_fast, _ = parts_of(text)
    if style == "binary":
        number = min(number, (2**63 - 1) * 10**-scale)
    thousandths = _scaled(number, scale + 3)
    if thousandths >= 2**63:
        if is_fast:
            return True
        low = thousandths % 2**64
        thousandths = low - 2**64 if low >= 2**63 else low
    return thousandths % 1000 == 0


def rounded_to(unit: int, text: str) -> str:
    """Return the quantity itself if it is a multiple of `unit` nano-units, else the next such multiple away from
    zero.
    """
    nanos, style, _ = _parse(text)
    if not nanos % unit:
        return text
    multiple = -(-abs(nanos) // unit) * unit
    return quantity_text(multiple if nanos > 0 else -multiple, style)


class Parts(NamedTuple):
    """A quantity as Kubernetes reads it: number * 10**scale, and the style of its suffix."""

    is_negative: bool
    number: int
    scale: int
    style: str
    is_fast: bool  # the fast parser accepts it
    is_kept: bool  # its text stays unchanged


def parts_of(text: str) -> Parts:
    found = _PARTS.fullmatch(text)
    if found is None or not text:
        raise NotAQuantity(NOT_IN_FORMAT)
    sign, zeros, whole, fraction, suffix = found.groups()
    digits = (whole or "0") + fraction
    if len(digits) > _MOST_DIGITS:
        raise NotAQuantity(_NOT_A_NUMBER)
    style, twos, tens = _suffix(suffix)
    number, scale = int(digits), tens - len(fraction)
    if style == "binary":
        is_fast = not fraction and len(digits) <= _BINARY_DIGITS - 3 * twos
        is_kept = is_fast and number % 8 != 0
    else:
        is_fast = len(digits) <= _DECIMAL_DIGITS and scale >= -9
        is_kept = is_fast and scale % 3 == 0 and digits[0] != "0" and digits[-3:] != "000"
    if not (is_fast or whole or zeros or fraction):
        raise NotAQuantity(_NOT_A_NUMBER)
    return Parts(sign == "-", number << (10 * twos), scale, style, is_fast, is_kept)


def _parse(text: str) -> tuple[int, str, bool]:
    """Return the amount in nano-units, the style, and whether Kubernetes keeps the text unchanged."""
    return _parse_short(text) if len(text) <= _SHORT else _parse_any(text)


def _parse_any(text: str) -> tuple[int, str, bool]:
    is_negative, number, scale, style, _, is_kept = parts_of(text)
    nanos = _scaled(number, scale + 9)
    if style == "binary":
        nanos = min(nanos, LARGEST_BINARY)
        if 0 < nanos < NANOS:
            style = "decimal"
    return (-nanos if is_negative else nanos), style, is_kept


_parse_short: Final = lru_cache(maxsize=1024)(
    _parse_any
)  # every write of a node has the same eight quantities


def _suffix(suffix: str) -> tuple[str, int, int]:
    if suffix in _DECIMAL:
        return "decimal", 0, _DECIMAL[suffix]
    if suffix in _BINARY:
        return "binary", _BINARY[suffix], 0
    found = _EXPONENT.fullmatch(suffix)
    if found is None or abs(int(found[1])) > _FARTHEST_EXPONENT:
        raise NotAQuantity(_NOT_A_SUFFIX)
    return "exponent", 0, int(found[1])


def _scaled(number: int, tens: int) -> int:
    """Return number * 10**tens, rounded up."""
    if tens < 0:
        divisor: int = 10**-tens
        return -(-number // divisor)
    factor: int = 10**tens
    return number * factor


def _binary(number: int) -> str:
    power = 0
    while number % 1024 == 0 and power < 6:
        number, power = number // 1024, power + 1
    return f"{number}{_BINARY_SUFFIXES[power]}"


def _decimal(nanos: int, *, exponents: bool) -> str:
    number, power = nanos, -9
    while number % 1000 == 0 and (exponents or power < 18):
        number, power = number // 1000, power + 3
    if exponents:
        return f"{number}e{power}" if power else str(number)
    return f"{number}{_DECIMAL_SUFFIXES[power]}"
