"""Quantities such as 500m, 1.5Gi or 12e6: parsed exactly, written in one canonical form.

Amounts are whole nano-units, the finest that the API has; finer ones are rounded away from zero.

    canonical_quantity("0.5") == "500m"    canonical_quantity("1536Mi") == "1536Mi"
    canonical_quantity("1024Mi") == "1Gi"  canonical_quantity("0.5Ki") == "512"
"""

from __future__ import annotations

import re
from typing import Final

NANOS: Final = 10**9
_LARGEST_BINARY: Final = (2**63 - 1) * NANOS
_MOST_DIGITS: Final = 64  # enough for every machine; keeps the arithmetic small
_FARTHEST_EXPONENT: Final = 64

_BINARY: Final = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_SUFFIXES: Final = {power: suffix for suffix, power in _BINARY.items()} | {0: ""}
_DECIMAL_SUFFIXES: Final = {power: suffix for suffix, power in _DECIMAL.items()}

_PATTERN: Final = r"^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
# Possessive: after a mismatch there is nothing to gain from giving back digits, and there are three runs of them.
_PARTS: Final = re.compile(r"([+-]?+)([0-9]*+)\.?+([0-9]*+)([A-Za-z]*+[-+]?+[0-9]*+)")
_EXPONENT: Final = re.compile(r"[eE]([-+]?[0-9]{1,3})")


class NotAQuantity(ValueError):
    """The text is not a quantity."""


def canonical_quantity(text: str) -> str:
    return quantity_text(*_parse(text.strip()))


def parse_quantity(text: str) -> tuple[int, str]:
    """The amount in nano-units and the style of its suffix, for `quantity_text`."""
    return _parse(text)


def quantity_text(nanos: int, style: str) -> str:
    """The canonical form of an amount in a style: binary, decimal or exponent."""
    if not nanos:
        return "0"
    if style == "binary" and abs(nanos) >= 1024 * NANOS and nanos % NANOS == 0:
        return _binary(nanos // NANOS)
    return _decimal(nanos, exponents=style == "exponent")


def nanos_of(text: str) -> int:
    """The amount in nano-units, to compare and to add."""
    return _parse(text)[0]


def _parse(text: str) -> tuple[int, str]:
    found = _PARTS.fullmatch(text)
    if found is None or not (found[2] or found[3]):
        raise NotAQuantity(f"quantities must match the regular expression '{_PATTERN}'")
    sign, whole, fraction, suffix = found.groups()
    if len(whole) + len(fraction) > _MOST_DIGITS:
        raise NotAQuantity("unable to parse numeric part of quantity")
    digits = int(whole + fraction)
    style, twos, tens = _suffix(suffix)
    nanos = _scaled(digits << (10 * twos), tens - len(fraction) + 9)
    if style == "binary":
        nanos = min(nanos, _LARGEST_BINARY)
    return (-nanos if sign == "-" else nanos), style


def _suffix(suffix: str) -> tuple[str, int, int]:
    if suffix in _DECIMAL:
        return "decimal", 0, _DECIMAL[suffix]
    if suffix in _BINARY:
        return "binary", _BINARY[suffix], 0
    found = _EXPONENT.fullmatch(suffix)
    if found is None or abs(int(found[1])) > _FARTHEST_EXPONENT:
        raise NotAQuantity("unable to parse quantity's suffix")
    return "exponent", 0, int(found[1])


def _scaled(number: int, tens: int) -> int:
    """number * 10**tens, rounded up."""
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
