"""Growth: the cost of a page relative to the first page, and of a delivery relative to one among few watchers.

Both should be about 1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from benchmarks.reports.measurement import Measurement

# Workload -> the workload that it is compared with.
BASES = {
    "page-small-deep": "page-small-first",
    "page-first": "page-small-first",
    "page-middle": "page-small-first",
    "page-deep": "page-small-first",
    "page-behind": "page-small-first",
    "fanout-plain": "fanout-plain-few",
    "fanout-plain-crowd": "fanout-plain-few",
    "fanout": "fanout-few",
    "fanout-crowd": "fanout-few",
}


def with_growth(measured: Mapping[str, Measurement]) -> dict[str, Measurement]:
    return {work: _grown(each, measured.get(BASES.get(work, ""))) for work, each in measured.items()}


def _grown(each: Measurement, base: Measurement | None) -> Measurement:
    # All deliveries of an event share its write, so with the write included the cost would seem to fall.
    figure = "delivery_us" if "delivery_us" in each.figures else "cpu_us"
    if base is None or figure not in each.figures or base.figures.get(figure, 0.0) <= 0:
        return each
    growth = each.figures[figure] / base.figures[figure]
    grown = {"growth": round(growth, 2)}
    if figure == "delivery_us":
        grown["cost_growth"] = round(each.figures["cpu_us"] / base.figures["cpu_us"], 2)
        loops = [one.notes.get("floors", {}).get("bare-loop", 0.0) for one in (each, base)]
        if all(loops):
            grown["own_growth"] = round(growth / (loops[0] / loops[1]), 2)
    return dataclasses.replace(each, figures={**each.figures, **grown})
