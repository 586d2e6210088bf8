"""Formats the tables that a run prints on the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from benchmarks.options import Sizes
from benchmarks.reports.comparison import Compared
from benchmarks.reports.figures import show
from benchmarks.reports.measurement import Measurement
from benchmarks.reports.reference import reference_of
from benchmarks.reports.report import Report, SubjectResults
from benchmarks.reports.targets import Target, TargetResult
from benchmarks.reports.transports import HEADINGS as TRANSPORT_HEADINGS
from benchmarks.reports.transports import rows as transport_rows
from benchmarks.workloads.catalog import WATCHES

HEADINGS = ("workload", "rate", "CPU per op", "p50", "p95", "p99", "max", "baseline", "errors")
WATCHED = (
    *("rate", "seconds", "cpu_us", "delivery_us", "p50_ms", "p99_ms", "last_ms", "all_ms", "others_p99_ms"),
    *("kb", "grown_mb", "p99_ratio", "growth", "floor_ratio"),
)
WATCH_HEADINGS = (
    *("workload", "rate", "time", "CPU", "no write", "p50", "p99", "last", "all", "others p99"),
    *("memory", "grown", "p99 ratio", "growth", "baseline"),
)
_WATCHES = frozenset(name for workload in WATCHES for name in workload.titles_for(Sizes()))


def tables(report: Report) -> str:
    parts = [_machine_line(report.machine)] if report.machine else []
    parts += [_baseline_table(report.baselines)] if report.baselines else []
    parts += [_subject_table(each, report.titles) for each in report.subjects]
    if compared := _transports(report):
        parts.append(compared)
    if found := report.compared():
        parts.append(_comparison(found, report))
    if target_results := report.target_results():
        parts.append(_target_title(report.options.sizes) + _target_table(target_results))
    return "\n\n".join(parts)


def _machine_line(machine: Mapping[str, Any]) -> str:
    """What the figures depend on most: an interpreter without profile-guided optimization takes a fifth more CPU."""
    python, build, load = machine["python"], machine["python_build"], machine["load_average_before"]
    return f"Python {python}, {build}; {machine['cores']} cores, load {load} before the run"


def _baseline_table(baselines: Mapping[str, Measurement]) -> str:
    rows = [row(each, name) for name, each in baselines.items()]
    return "Baselines of this run\n" + grid(HEADINGS, rows)


def _subject_table(subject: SubjectResults, titles: Mapping[str, str]) -> str:
    rows = [row(each, titles[work]) for work, each in subject.measurements.items() if work not in _WATCHES]
    watched = [
        watch_row(each, titles[work]) for work, each in subject.measurements.items() if work in _WATCHES
    ]
    lines = [f"{subject.name} {subject.version}".strip()]
    lines += [grid(HEADINGS, rows)] if rows else []
    lines += [without_empty_columns(WATCH_HEADINGS, watched)] if watched else []
    lines += [f"  skipped: {titles[work]} ({why})" for work, why in subject.skipped.items()]
    return "\n".join(lines)


def _comparison(found: Iterable[Compared], report: Report) -> str:
    before = report.before.name if report.before else ""
    rows = [
        (
            report.titles[each.work],
            show(each.figure, each.before),
            show(each.figure, each.now),
            f"{each.ratio:.2f}",
            each.verdict,
        )
        for each in found
    ]
    return f"Beside {before} in this run: CPU, or memory\n" + grid(
        ("workload", "before", "now", "ratio", ""), rows
    )


def _transports(report: Report) -> str:
    """HTTP/1.1 and HTTP/2 side by side; empty when the run did not measure both."""
    ours = report.ours
    found = transport_rows(ours.figures, report.titles, reference_of(report)) if ours else []
    if not found:
        return ""
    table = without_empty_columns(TRANSPORT_HEADINGS, [each.cells() for each in found])
    return (
        "CPU per operation over HTTP/1.1 and HTTP/2 (one and ten requests or watches a connection)\n" + table
    )


def _target_title(sizes: Sizes) -> str:
    defaults = Sizes()
    counted = ("objects", "large", "events", "few", "watchers", "many", "crowd", "burst")
    smaller = [name for name in counted if getattr(sizes, name) < getattr(defaults, name)]
    return f"Targets (not comparable, smaller sizes: {', '.join(smaller)})\n" if smaller else "Targets\n"


def _target_table(target_results: Iterable[TargetResult]) -> str:
    rows = [
        (
            result.target.title,
            _limit(result.target),
            show(result.target.figure, result.measured),
            "met" if result.met else "NOT MET",
        )
        for result in target_results
    ]
    return grid(("workload", "target", "measured", ""), rows)


def _limit(target: Target) -> str:
    if target.at_least is not None:
        return "at least " + show(target.figure, target.at_least)
    return "at most " + show(target.figure, target.at_most)


def row(each: Measurement, title: str) -> tuple[str, ...]:
    """A row of the main table; workloads that are not a stream of operations show their one figure as the rate."""
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


def without_empty_columns(headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A table without its empty columns."""
    used = [column for column in range(len(headings)) if not column or any(line[column] for line in rows)]
    return grid(
        tuple(headings[column] for column in used), [tuple(line[column] for column in used) for line in rows]
    )


def grid(headings: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [headings, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings))]
    formatted = []
    for line in lines:
        cells = [
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        formatted.append("  " + "  ".join(cells).rstrip())
    formatted.insert(1, "  " + "  ".join("-" * width for width in widths))
    return "\n".join(formatted)
