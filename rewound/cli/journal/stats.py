"""`rewound stats`: how large the journal is, per type, and how fast it grows.

The bytes of a type are those of its events; a server reports none. Every version from the retention floor to the head
can be shown.

    rewound stats
    rewound stats -o json --data-dir backup
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rewound.cli.journal.flags import Options, Parser, add_output, add_source
from rewound.cli.journal.opening import open_source
from rewound.cli.journal.printing import Columns, Output, rate, version
from rewound.client.errors import UsageError
from rewound.recording.progress import Progress
from rewound.recording.query.entries import size
from rewound.recording.query.moments import exact, rfc3339, span
from rewound.recording.query.source import Stats, TypeStats

_ALWAYS = ("oldest", "newest")  # null without an event


def add_flags(parser: Parser) -> None:
    add_output(parser, "json")
    add_source(parser, "has no effect here")


def run(options: Options, output: Output) -> int:
    if options.namespace:
        raise UsageError("--namespace: the sizes are those of the whole journal; leave it out")
    with open_source(options) as source, Progress("stats") as progress:
        stats = source.stats(progress)
    (_print_document if options.output == "json" else _print)(output, stats)
    return 0


def _print(output: Output, stats: Stats) -> None:
    newest = exact(stats.newest) if stats.newest else "none"
    passed = f", {span((stats.newest - stats.oldest) / 1_000_000)} before" if stats.newest else ""
    rates = stats.rates
    fields = {
        "source": f"{stats.source} (dialect {stats.dialect})",
        "head": str(stats.head),
        "floor": f"{stats.floor}" + ("" if stats.floor else " (nothing was removed)"),
        "newest": newest,
        "oldest": (exact(stats.oldest) if stats.oldest else "none") + passed,
        "rate": f"{rate(rates['minute'])} in the last minute, {rate(rates['hour'])} in the last hour, "
        f"{rate(rates['sinceFloor'])} since the floor",
    }
    if stats.snapshots is not None:
        snapshots = ", ".join(f"{at} ({rows} objects)" for at, rows in stats.snapshots)
        fields["snapshots"] = snapshots or "none"
    if stats.file_bytes is not None and stats.used_bytes is not None and stats.map_bytes is not None:
        used = f"{size(stats.used_bytes)} in use, map {size(stats.map_bytes)}"
        fields["file"] = f"{size(stats.file_bytes)}, {used}"
    for name, value in fields.items():
        output.line(f"{output.paint(f'{name:10}', 'dim')} {value}")
    output.line()
    _print_types(output, stats.types)


def _print_types(output: Output, types: list[TypeStats]) -> None:
    titles = ("KIND", "RESOURCE", "EVENTS", "BYTES", "LIVE")
    columns = Columns(output, titles, titles[2:])
    written = [one for one in types if one.events]
    columns.rows(
        [(one.kind, one.resource, str(one.events), _bytes(one.bytes), str(one.live)) for one in written]
    )
    events, live = sum(one.events for one in types), sum(one.live for one in types)
    known = [one.bytes for one in types if one.bytes is not None]
    total = sum(known) if len(known) == len(types) else None
    columns.rows([("all", "", str(events), _bytes(total), str(live))], [["bold"] * 5])


def _bytes(count: int | None) -> str:
    return "" if count is None else size(count)


def _print_document(output: Output, stats: Stats) -> None:
    document: dict[str, Any] = asdict(stats)
    document["oldest"] = rfc3339(stats.oldest) if stats.oldest else None
    document["newest"] = rfc3339(stats.newest) if stats.newest else None
    if stats.snapshots is not None:
        document["snapshots"] = [{**version(at), "objects": rows} for at, rows in stats.snapshots]
    output.json({name: value for name, value in document.items() if value is not None or name in _ALWAYS})
