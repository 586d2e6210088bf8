"""Work that must not cost more than other work: any page against the first one of a small collection."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from benchmarks.measurement import Measurement

BASE = "page-small-first"
GROWING = ("page-small-deep", "page-first", "page-middle", "page-deep", "page-behind")


def with_growth(measured: Mapping[str, Measurement]) -> dict[str, Measurement]:
    base = measured[BASE].figures.get("cpu_us") if BASE in measured else None
    return {work: _grown(each, base) for work, each in measured.items()}


def _grown(each: Measurement, base: float | None) -> Measurement:
    if each.work not in GROWING or not base or "cpu_us" not in each.figures:
        return each
    growth = round(each.figures["cpu_us"] / base, 2)
    return dataclasses.replace(each, figures={**each.figures, "growth": growth})
