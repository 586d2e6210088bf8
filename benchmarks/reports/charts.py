"""The charts of a run: against a reference, by page position, above the baselines, of watches and of transports.

Each is a function from a report to SVG, or to an empty string when the run has not measured what it shows. Bars are
linear from zero: a logarithmic axis would make every difference look small.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.reports import transports
from benchmarks.reports.figures import show
from benchmarks.reports.measurement import Measurement
from benchmarks.reports.reference import Reference, reference_of
from benchmarks.reports.report import Report, SubjectResults
from benchmarks.reports.svg import WIDTH, Drawing
from benchmarks.reports.targets import TARGETS
from benchmarks.reports.watch_charts import against_watchers

_TOP = 84.0
_ROW = 30.0
_LEFT = 276.0  # where bars begin
_SPAN = 356.0  # length of a full bar

COMPARED = (
    *(("create", "cpu_us"), ("get", "cpu_us"), ("get-rv0", "cpu_us"), ("list", "cpu_us")),
    *(("list-rv0", "cpu_us"), ("list-selector", "cpu_us"), ("page-small-first", "cpu_us")),
    *(("fanout", "cpu_us"), ("idle", "kb")),
    *(("get-h2", "cpu_us"), ("get-h2-10", "cpu_us"), ("fanout-h2", "cpu_us"), ("fanout-h2-10", "cpu_us")),
    *(("memory-idle", "mb"), ("memory-worked", "mb"), ("start", "seconds")),
)
PAGES = ("page-small-first", "page-small-deep", "page-first", "page-middle", "page-deep", "page-behind")


def charts(report: Report) -> dict[str, str]:
    """SVG by the suffix of the file name; the first chart has none."""
    drawings = {
        "": against_reference(report),
        "-pages": by_page(report),
        "-baselines": above_baselines(report),
        "-watchers": against_watchers(report),
        "-transports": by_transport(report),
    }
    return {suffix: chart for suffix, chart in drawings.items() if chart}


@dataclass(frozen=True, slots=True)
class _Pair:
    title: str
    figure: str
    ours: float
    theirs: float

    @property
    def share(self) -> float:
        return self.ours / self.theirs


def against_reference(report: Report) -> str:
    ours = report.ours
    if ours is None:
        return ""
    reference = reference_of(report)
    pairs = _pairs(ours, reference, report.titles)
    if not pairs:
        return ""
    drawing = Drawing("Server CPU per operation, memory and start", f"Rewound against {reference.server}")
    bottom = _TOP + _ROW * len(pairs)
    drawing.text(_LEFT + _SPAN * 0.2, _TOP - 8, "a fifth", "mark small", "middle")
    drawing.text(WIDTH - 24, _TOP - 8, "Rewound / reference", "quiet small", "end")
    for index, pair in enumerate(pairs):
        _draw_pair(drawing, _TOP + _ROW * index, pair)
    drawing.dashed(_LEFT + _SPAN * 0.2, _TOP - 4, bottom - 6)
    drawing.text(24, bottom + 18, _footnote(reference, report), "quiet small")
    return drawing.finish(bottom + 34)


def _pairs(ours: SubjectResults, reference: Reference, titles: dict[str, str]) -> list[_Pair]:
    pairs = []
    for work, figure in COMPARED:
        theirs = reference.figure(work, figure)
        if theirs and work in ours.measurements and figure in ours.measurements[work].figures:
            value = ours.measurements[work].figures[figure]
            pairs.append(_Pair(titles[work], figure, value, theirs))
    return pairs


def _draw_pair(drawing: Drawing, top: float, pair: _Pair) -> None:
    drawing.text(_LEFT - 12, top + 15, pair.title, "ink", "end")
    drawing.box(_LEFT, top + 3, _SPAN, 16, "track")
    drawing.box(_LEFT, top + 3, _SPAN * min(1.0, pair.share), 16, "bar")
    figures = f"{show(pair.figure, pair.ours)} / {show(pair.figure, pair.theirs)}"
    drawing.text(WIDTH - 24, top + 15, f"{figures}  ({pair.share:.0%})", "ink", "end")


def _footnote(reference: Reference, report: Report) -> str:
    here = report.machine
    ours = f"{here['cores']} cores, {here['architecture']}"
    if reference.machine:
        return f"Full bar: the reference, recorded on {reference.machine}. Rewound: {ours}."
    return f"Full bar: the reference, measured in the same run on {ours}."


def by_page(report: Report) -> str:
    ours = report.ours
    found = [work for work in PAGES if ours and "cpu_us" in _figures(ours, work)]
    if ours is None or len(found) < 2:
        return ""
    limit = (
        next(target.at_most for target in TARGETS if target.work == "page-deep" and target.figure == "cpu_us")
        or 0.0
    )
    scale = max(limit * 1.1, *(_figures(ours, work)["cpu_us"] for work in found))
    drawing = Drawing("A page of 100 costs the same everywhere", "Server CPU per page, TLS, 1 kB objects")
    at = _LEFT + _SPAN * limit / scale
    drawing.text(at, _TOP - 8, f"target: {show('cpu_us', limit)}", "mark small", "middle")
    for index, work in enumerate(found):
        top, value = _TOP + _ROW * index, _figures(ours, work)["cpu_us"]
        drawing.text(_LEFT - 12, top + 15, report.titles[work], "ink", "end")
        drawing.box(_LEFT, top + 3, _SPAN * value / scale, 16, "bar")
        drawing.text(WIDTH - 24, top + 15, show("cpu_us", value), "ink", "end")
    drawing.dashed(at, _TOP - 4, _TOP + _ROW * len(found) - 6)
    return drawing.finish(_TOP + _ROW * len(found) + 12)


def by_transport(report: Report) -> str:
    ours = report.ours
    return (
        transports.chart(transports.rows(ours.figures, report.titles, reference_of(report))) if ours else ""
    )


def _figures(subject: SubjectResults, work: str) -> dict[str, float]:
    return subject.measurements.get(work, Measurement(work, {})).figures


@dataclass(frozen=True, slots=True)
class _Stack:
    title: str
    parts: tuple[tuple[str, float], ...]  # CSS class of the colour, microseconds
    label: str


def above_baselines(report: Report) -> str:
    stacks = _stacks(report)
    if not stacks:
        return ""
    drawing = Drawing("CPU above the baseline", "Server CPU per operation, all measured in the same run")
    scale = max(sum(value for _, value in stack.parts) for stack in stacks)
    for index, stack in enumerate(stacks):
        _draw_stack(drawing, _TOP + _ROW * index, stack, scale)
    bottom = _TOP + _ROW * len(stacks)
    x = 24.0
    for classes, label in (
        ("base", "bare echo (httptools on trio)"),
        ("second", "bare LMDB commit, batches of 16"),
        ("bar", "Rewound's own work"),
    ):
        drawing.box(x, bottom + 9, 10, 10, classes)
        drawing.text(x + 16, bottom + 18, label, "quiet small")
        x += 230
    return drawing.finish(bottom + 34)


def _stacks(report: Report) -> list[_Stack]:
    ours, baselines = report.ours, report.baselines
    if ours is None or "echo-tls" not in baselines:
        return []
    stacks = []
    for title, name in (("echo, plain", "echo-plain"), ("echo, TLS", "echo-tls")):
        cpu = baselines[name].figures["cpu_us"]
        stacks.append(_Stack(title, (("base", cpu),), show("cpu_us", cpu)))
    for work in ("get", "create", "delete"):
        if "floor_ratio" in _figures(ours, work):
            stacks.append(_stack(report.titles[work], ours.measurements[work]))
    return stacks


def _stack(title: str, each: Measurement) -> _Stack:
    total, baselines = each.figures["cpu_us"], each.notes["floors"]
    parts = [("base" if name.startswith("echo") else "second", cpu) for name, cpu in baselines.items()]
    parts.append(("bar", max(0.0, total - sum(baselines.values()))))
    label = f"{show('cpu_us', total)}  ({each.figures['floor_ratio']:.1f}x)"
    return _Stack(title, tuple(parts), label)


def _draw_stack(drawing: Drawing, top: float, stack: _Stack, scale: float) -> None:
    drawing.text(_LEFT - 12, top + 15, stack.title, "ink", "end")
    x = _LEFT
    for classes, value in stack.parts:
        if value:
            drawing.box(x, top + 3, _SPAN * value / scale, 16, classes)
            x += _SPAN * value / scale
    drawing.text(WIDTH - 24, top + 15, stack.label, "ink", "end")
