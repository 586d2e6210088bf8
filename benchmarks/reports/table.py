"""The tables of a run on the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from benchmarks.options import Sizes
from benchmarks.reports.measurement import Measurement
from benchmarks.reports.report import Measured, Report
from benchmarks.reports.targets import Bar, Verdict
from benchmarks.workloads.catalog import WATCHES

HEADINGS = ("work", "rate", "CPU per op", "p50", "p95", "p99", "max", "floor", "errors")
WATCHED = (
    *("rate", "seconds", "cpu_us", "delivery_us", "p50_ms", "p99_ms", "last_ms", "all_ms", "others_p99_ms"),
    *("kb", "grown_mb", "p99_ratio", "growth", "floor_ratio"),
)
WATCH_HEADINGS = (
    *("watching", "rate", "takes", "CPU", "no write", "p50", "p99", "last", "all", "others p99"),
    *("holds", "grown", "p99 grown", "growth", "floor"),
)
_WATCHES = frozenset(workload.name for workload in WATCHES)


def tables(report: Report) -> str:
    parts = [_floor_table(report.floors)] if report.floors else []
    parts += [_subject_table(each, report.titles) for each in report.subjects]
    if verdicts := report.verdicts():
        parts.append(_bar_title(report.options.sizes) + _bar_table(verdicts))
    return "\n\n".join(parts)


def _floor_table(floors: Mapping[str, Measurement]) -> str:
    rows = [row(each, name) for name, each in floors.items()]
    return "Floors of this run\n" + grid(HEADINGS, rows)


def _subject_table(subject: Measured, titles: Mapping[str, str]) -> str:
    rows = [row(each, titles[work]) for work, each in subject.measurements.items() if work not in _WATCHES]
    watched = [
        watch_row(each, titles[work]) for work, each in subject.measurements.items() if work in _WATCHES
    ]
    lines = [f"{subject.name} {subject.version}".strip()]
    lines += [grid(HEADINGS, rows)] if rows else []
    lines += [narrowed(WATCH_HEADINGS, watched)] if watched else []
    lines += [f"  left out: {titles[work]} ({why})" for work, why in subject.skipped.items()]
    return "\n".join(lines)


def _bar_title(sizes: Sizes) -> str:
    promised = Sizes()
    counted = ("objects", "large", "events", "few", "watchers", "many", "crowd", "burst")
    smaller = [name for name in counted if getattr(sizes, name) < getattr(promised, name)]
    return f"Bars (no proof, smaller than promised: {', '.join(smaller)})\n" if smaller else "Bars\n"


def _bar_table(verdicts: Iterable[Verdict]) -> str:
    rows = [
        (
            verdict.bar.words,
            _limit(verdict.bar),
            show(verdict.bar.figure, verdict.figure),
            "met" if verdict.met else "NOT MET",
        )
        for verdict in verdicts
    ]
    return grid(("work", "promised", "measured", ""), rows)


def _limit(bar: Bar) -> str:
    if bar.at_least is not None:
        return "from " + show(bar.figure, bar.at_least)
    return "to " + show(bar.figure, bar.at_most)


def row(each: Measurement, title: str) -> tuple[str, ...]:
    """One line of the big table; what is no stream of operations shows its one figure as the rate."""
    figures = each.figures
    first = next((name for name in ("rate", "seconds", "mb") if name in figures), "")
    cells = [title, show(first, figures[first]) if first else ""]
    cells += [show(name, figures.get(name)) for name in ("cpu_us", "p50_ms", "p95_ms", "p99_ms", "max_ms")]
    ratio = figures.get("floor_ratio", figures.get("growth"))
    cells.append(show("floor_ratio", ratio))
    cells.append(str(each.notes["errors"]) if each.notes.get("errors") else "")
    return tuple(cells)


def watch_row(each: Measurement, title: str) -> tuple[str, ...]:
    return (title, *(show(name, each.figures.get(name)) for name in WATCHED))


def show(figure: str, value: float | None) -> str:
    """A figure with its unit, three digits or so."""
    if value is None:
        return ""
    if figure.endswith("_us"):
        return _microseconds(value)
    if figure.endswith("_ms"):
        return f"{value:.1f} ms" if value >= 10 else f"{value:.2f} ms"
    if figure == "rate":
        return f"{value:,.0f}/s" if value >= 100 else f"{value:.1f}/s"
    if figure == "seconds":
        return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.2f} s"
    if figure.endswith("mb"):
        return f"{value:.0f} MB"
    if figure == "kb":
        return f"{value:.1f} kB"
    return f"{value:.2f}x"


def _microseconds(value: float) -> str:
    if value >= 1000:
        return f"{value / 1000:.2f} ms"
    return f"{value:.0f} us" if value >= 20 else f"{value:.1f} us"


def narrowed(headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Without the columns that nothing is in."""
    used = [place for place in range(len(headings)) if not place or any(line[place] for line in rows)]
    return grid(
        tuple(headings[place] for place in used), [tuple(line[place] for place in used) for line in rows]
    )


def grid(headings: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [headings, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings))]
    shown = []
    for line in lines:
        cells = [
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        shown.append("  " + "  ".join(cells).rstrip())
    shown.insert(1, "  " + "  ".join("-" * width for width in widths))
    return "\n".join(shown)
