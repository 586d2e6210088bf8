"""HTTP/1.1 and HTTP/2 side by side: a table, a chart, and the table in Markdown from a saved document.

    python -m benchmarks.reports.transports docs/benchmarks/http2.json

Costs are CPU per operation as the reference was measured; ratios are those of rounds that took turns (`h1_ratio`).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.reports.figures import show
from benchmarks.reports.reference import Reference, recorded
from benchmarks.reports.svg import WIDTH, Drawing

WORKS = (
    *("get", "create", "list", "page-small-first"),
    *("fanout", "burst", "fanout-plain", "burst-plain"),
)
HEADINGS = (
    *("workload", "HTTP/1.1", "HTTP/2", "ratio", "HTTP/2, ten", "ratio"),
    *("reference, HTTP/2", "reference, ten"),
)
_TOP = 84.0
_ROW = 26.0
_LEFT = 372.0
_SPAN = 300.0

Figures = Mapping[str, Mapping[str, float]]  # by workload


@dataclass(frozen=True, slots=True)
class Row:
    title: str
    http1: float
    http2: float
    http2_ratio: float | None
    ten: float | None
    ten_ratio: float | None
    reference: float | None
    reference_ten: float | None

    def cells(self) -> tuple[str, ...]:
        costs = (self.http1, self.http2, self.ten, self.reference, self.reference_ten)
        http1, http2, ten, reference, reference_ten = (show("cpu_us", cost) for cost in costs)
        ratio, ten_ratio = (show("h1_ratio", ratio) for ratio in (self.http2_ratio, self.ten_ratio))
        return self.title, http1, http2, ratio, ten, ten_ratio, reference, reference_ten


def rows(measured: Figures, titles: Mapping[str, str], reference: Reference) -> list[Row]:
    """A row for each work that was measured over both transports."""
    found = []
    for work in WORKS:
        http1, http2, ten = (measured.get(f"{work}-{suffix}", {}) for suffix in ("h1", "h2", "h2-10"))
        if "cpu_us" not in http1 or "cpu_us" not in http2:
            continue
        found.append(
            Row(
                titles[f"{work}-h2"].removesuffix(", HTTP/2"),
                http1["cpu_us"],
                http2["cpu_us"],
                http2.get("h1_ratio"),
                ten.get("cpu_us"),
                ten.get("h1_ratio"),
                reference.figure(f"{work}-h2", "cpu_us"),
                reference.figure(f"{work}-h2-10", "cpu_us"),
            )
        )
    return found


def chart(found: list[Row]) -> str:
    """Each cost as a share of that over HTTP/1.1; empty when there is none."""
    bars = [bar for row in found for bar in _bars(row)]
    if not bars:
        return ""
    drawing = Drawing(
        "HTTP/2 beside HTTP/1.1", "Server CPU per operation over HTTP/1.1's, rounds of both took turns"
    )
    scale = max(1.4, *(ratio for _, _, ratio in bars))
    one = _LEFT + _SPAN / scale
    drawing.text(one, _TOP - 8, "HTTP/1.1", "mark small", "middle")
    for index, (title, cost, ratio) in enumerate(bars):
        top = _TOP + _ROW * index
        drawing.text(_LEFT - 12, top + 15, title, "ink", "end")
        drawing.box(_LEFT, top + 3, _SPAN * max(ratio, 0.0) / scale, 16, "bar")
        drawing.text(WIDTH - 24, top + 15, f"{show('cpu_us', cost)}  ({ratio:.2f}x)", "ink", "end")
    bottom = _TOP + _ROW * len(bars)
    drawing.dashed(one, _TOP - 4, bottom - 4)
    return drawing.finish(bottom + 12)


def _bars(row: Row) -> list[tuple[str, float, float]]:
    """Title, cost and ratio of each bar."""
    bars = []
    if row.http2_ratio is not None:
        bars.append((row.title, row.http2, row.http2_ratio))
    if row.ten is not None and row.ten_ratio is not None:
        bars.append(("the same, ten a connection", row.ten, row.ten_ratio))
    return bars


def markdown(found: list[Row]) -> str:
    lines = [HEADINGS, ("---",) * len(HEADINGS), *(row.cells() for row in found)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    document = json.loads(Path(sys.argv[1]).read_text())
    measured = document["subjects"][0]["measurements"]
    titles = {work: each["title"] for work, each in measured.items()}
    figures = {work: each["figures"] for work, each in measured.items()}
    print(markdown(rows(figures, titles, recorded())))


if __name__ == "__main__":
    main()
