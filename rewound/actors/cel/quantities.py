"""Quantities of expressions: `quantity('1.5Gi').add(20).isGreaterThan(quantity('1G'))`.

Kubernetes keeps most quantities as a number of 64 bits and a power of ten, and the others as exact decimals. Clients
can see which: only the first kind are integers, and sums become the second kind where the first would overflow. The
sum of two quantities is the right operand of no comparison: cel-go does not recognise it there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from rewound.actors.cel.values import MAX_INT, MIN_INT, EvaluationError, no_such_overload
from rewound.actors.quantity import LARGEST_BINARY, NANOS, NotAQuantity, nanos_of, parts_of
from rewound.actors.runtime.budget import Budget


@dataclass(frozen=True, slots=True)
class Quantity:
    """number * 10**scale."""

    number: int
    scale: int
    is_fixed: bool  # kept in 64 bits
    is_result: bool = False

    type_name = "kubernetes.Quantity"

    def equals(self, other: Any, _: Budget) -> bool:
        if other.__class__ is not Quantity or other.is_result:
            raise other if isinstance(other, EvaluationError) else no_such_overload()
        return self.compare(other) == 0

    def compare(self, other: Quantity) -> int:
        left, right, _ = _aligned(self, other)
        return (left > right) - (left < right)

    def sign(self) -> int:
        return (self.number > 0) - (self.number < 0)

    def integer(self) -> int | None:
        """Return the whole number, or None if it is kept as a fraction or in more than 64 bits."""
        if not self.is_fixed or self.scale < 0:
            return None
        found = self.number * 10 ** min(self.scale, 19 if self.number else 0)
        return found if MIN_INT <= found <= MAX_INT else None

    def approximate(self) -> float:
        base = _float(self.number)
        return base * _power_of_ten(self.scale) if self.scale else base

    def plus(self, other: Quantity) -> Quantity:
        if self.is_fixed and other.is_fixed:
            found = _fixed_sum(self, other)
            if found is not None:
                return found
        left, right, scale = _aligned(self, other)
        return Quantity(left + right, scale, is_fixed=False, is_result=True)

    def minus(self, other: Quantity) -> Quantity:
        # Go cannot negate the smallest number of 64 bits.
        negative = other.number if other.is_fixed and other.number == MIN_INT else -other.number
        if self.is_fixed and other.is_fixed:
            found = _fixed_sum(self, replace(other, number=negative))
            if found is not None:
                return found
        left, right, scale = _aligned(self, other)
        return Quantity(left - right, scale, is_fixed=False, is_result=True)


def _aligned(left: Quantity, right: Quantity) -> tuple[int, int, int]:
    """Return both numbers as multiples of the same power of ten, and that power."""
    scale = min(left.scale, right.scale)
    first: int = left.number * 10 ** (left.scale - scale)
    second: int = right.number * 10 ** (right.scale - scale)
    return first, second, scale


def _fixed_sum(left: Quantity, right: Quantity) -> Quantity | None:
    """Return the sum if 64 bits hold it and its operands."""
    if not right.number:
        return replace(left, is_result=True)
    if not left.number:
        return replace(right, is_result=True)
    first, second, scale = _aligned(left, right)
    if all(MIN_INT <= number <= MAX_INT for number in (first, second, first + second)):
        return Quantity(first + second, scale, is_fixed=True, is_result=True)
    return None


def _float(number: int) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _power_of_ten(exponent: int) -> float:
    """Return 10**exponent as Go's math.Pow10 rounds it."""
    if exponent >= 309:
        return math.inf
    if exponent < -323:
        return 0.0
    large, small = divmod(abs(exponent), 32)
    if exponent < 0:
        return float(f"1e-{32 * large}") / float(f"1e{small}")
    return float(f"1e{32 * large}") * float(f"1e{small}")


def parse(text: str) -> Quantity:
    try:
        negative, number, scale, style, is_fixed, _ = parts_of(text)
        sign = -1 if negative else 1
        if is_fixed or not number:
            return Quantity(sign * number, scale, is_fixed)
        nanos = nanos_of(text)
    except NotAQuantity as wrong:
        raise EvaluationError(str(wrong)) from None
    if style == "binary" and abs(nanos) == LARGEST_BINARY:
        return Quantity(sign * (LARGEST_BINARY // NANOS), 0, is_fixed=False)
    return Quantity(nanos, -9, is_fixed=False)


def of_integer(number: int) -> Quantity:
    return Quantity(number, 0, is_fixed=True)


def is_quantity(text: str) -> bool:
    try:
        parse(text)
    except EvaluationError:
        return False
    return True


def as_integer(given: Quantity) -> int:
    found = given.integer()
    if found is None:
        raise EvaluationError("cannot convert value to integer")
    return found
