"""Amounts of resources: sums keep the style (binary or decimal suffixes) of their first addend that is not zero."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from actors.kinds.values.quantity import NANOS, parse_quantity, quantity_text

Amount = tuple[int, str]  # nano-units and style
Usage = Mapping[str, Amount]  # by the name of the resource

ZERO: Final[Amount] = (0, "decimal")
ONE: Final[Amount] = (NANOS, "decimal")
NOTHING: Final[Usage] = {}

amount_of = lru_cache(maxsize=1024)(parse_quantity)


def whole(number: int) -> Amount:
    return number * NANOS, "decimal"


def rounded_up(amount: Amount) -> Amount:
    """In whole units."""
    return -(-amount[0] // NANOS) * NANOS, amount[1]


def parse_amounts(texts: Mapping[str, str]) -> dict[str, Amount]:
    return {name: amount_of(text) for name, text in texts.items()}


def texts_of(amounts: Usage) -> dict[str, str]:
    return {name: quantity_text(*amounts[name]) for name in sorted(amounts)}


def add(total: dict[str, Amount], usage: Usage) -> None:
    for name, amount in usage.items():
        before = total.get(name, ZERO)
        total[name] = before[0] + amount[0], before[1] if before[0] else amount[1]


def subtract(total: dict[str, Amount], usage: Usage) -> None:
    for name, (nanos, _) in usage.items():
        before = total[name]
        total[name] = before[0] - nanos, before[1]


def largest(total: dict[str, Amount], usage: Usage) -> None:
    """Raise each amount to that of the other."""
    for name, amount in usage.items():
        if name not in total or total[name][0] <= amount[0]:
            total[name] = amount


def increase(new: Usage, old: Usage) -> dict[str, Amount]:
    """What the new usage has more than the old one."""
    more = {name: (amount[0] - old.get(name, ZERO)[0], amount[1]) for name, amount in new.items()}
    return {name: amount for name, amount in more.items() if amount[0] > 0}


def select(usage: Usage, names: Iterable[str]) -> Usage:
    return {name: usage[name] for name in names if name in usage}
