"""The chart of watches: the cost of a delivery by number of watchers, above a bare loop of sends to as many sockets.

Linear from zero like the others. The share of the write is shown separately: the server pays it once per event, so it
shrinks as watchers are added and would make a delivery look cheaper.
"""

from __future__ import annotations

from benchmarks.reports.figures import show
from benchmarks.reports.measurement import Measurement
from benchmarks.reports.reference import recorded
from benchmarks.reports.report import Report
from benchmarks.reports.svg import WIDTH, Drawing

SHOWN = (
    *("fanout-plain-few", "fanout-plain", "fanout-plain-crowd"),
    *("fanout-few", "fanout", "fanout-crowd", "fanout-websocket", "fanout-groups"),
)
_TOP = 84.0
_ROW = 30.0
_LEFT = 320.0
_SPAN = 300.0


def against_watchers(report: Report) -> str:
    measured = report.ours.measurements if report.ours else {}
    found = [measured[work] for work in SHOWN if "delivery_us" in _figures(measured.get(work))]
    if not found:
        return ""
    drawing = Drawing(
        "A delivery costs about a bare send, however many watch",
        "Server CPU per event and watcher, one event at a time, all measured in the same run",
    )
    scale = max(each.figures["cpu_us"] for each in found)
    for index, each in enumerate(found):
        _draw(drawing, _TOP + _ROW * index, report.titles[each.work], each, scale)
    bottom = _TOP + _ROW * len(found)
    _draw_legend(drawing, bottom)
    return drawing.finish(bottom + 54)


def _figures(each: Measurement | None) -> dict[str, float]:
    return each.figures if each is not None else {}


def _draw(drawing: Drawing, top: float, title: str, each: Measurement, scale: float) -> None:
    figures, bare = each.figures, each.notes["floors"]["bare-loop"]
    delivery = max(figures["delivery_us"], 0.0)
    drawing.text(_LEFT - 12, top + 15, title, "ink", "end")
    at = _LEFT
    for value, classes in (
        (min(bare, delivery), "base"),
        (max(delivery - bare, 0.0), "bar"),
        (figures["cpu_us"] - delivery, "second"),
    ):
        width = _SPAN * max(value, 0.0) / scale
        drawing.box(at, top + 3, width, 16, classes)
        at += width
    label = f"{show('delivery_us', delivery)}  ({figures['floor_ratio']:.2f}x)"
    drawing.text(WIDTH - 24, top + 15, label, "ink", "end")


def _draw_legend(drawing: Drawing, bottom: float) -> None:
    x = 24.0
    for classes, label in (
        ("base", "bare loop of sends"),
        ("bar", "Rewound's own work (figures: with the loop)"),
        ("second", "share of the write"),
    ):
        drawing.box(x, bottom + 9, 10, 10, classes)
        drawing.text(x + 16, bottom + 18, label, "quiet small")
        x += 60 + 6.2 * len(label)
    theirs = recorded()
    cost = show("cpu_us", theirs.figure("fanout", "cpu_us"))
    text = f"{theirs.server}, 1,000 watchers over TLS: {cost} with the write."
    drawing.text(24, bottom + 38, text, "quiet small")
