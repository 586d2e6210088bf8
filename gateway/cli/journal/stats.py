"""`rewound journal stats`: how large the journal is, per type, and how fast it grows.

The bytes of a type are those of its events. Every version from the retention floor to the head can be shown.

    rewound journal stats
    rewound journal stats -o json --data-dir backup
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

from rewound.gateway.cli.journal.printing import Columns, Output, rate, size
from rewound.gateway.cli.journal.query.flags import Options, Parser, add_output
from rewound.gateway.cli.journal.query.folder import Folder, open_folder
from rewound.gateway.cli.journal.query.moments import exact, rfc3339, span
from rewound.gateway.cli.progress import Progress
from rewound.journal import history, keys, snapshots
from rewound.journal.files.data_file import DATA
from rewound.journal.view import View

STEP = 1000  # events between two steps of the progress bar
MINUTE, HOUR = 60, 3600


@dataclass(frozen=True, slots=True)
class TypeStats:
    kind: str
    resource: str
    events: int
    bytes: int
    live: int


@dataclass(frozen=True, slots=True)
class Stats:
    folder: str
    dialect: str
    head: int
    floor: int
    oldest: int  # times of events, in microseconds; 0 without one
    newest: int
    rates: dict[str, float]  # events a second
    snapshots: list[tuple[int, int]]  # offset and rows
    map_bytes: int
    used_bytes: int
    file_bytes: int
    readers: int
    types: list[TypeStats]


def add_flags(parser: Parser) -> None:
    add_output(parser, "json")


def run(options: Options, output: Output) -> int:
    with open_folder(options.data_dir) as folder, folder.journal.read() as view:
        stats = _stats(folder, view)
    (_print_document if options.output == "json" else _print)(output, stats)
    return 0


def _stats(folder: Folder, view: View) -> Stats:
    journal, memory = folder.journal, folder.journal.environment.statistics()
    return Stats(
        str(journal.path),
        journal.dialect,
        view.head,
        view.floor,
        _time_of(view, next(history.ascending(view, history.whole_log(view), 0), 0)),
        _time_of(view, view.head),
        _rates(view, time.time_ns() // 1000),
        [(at, snapshots.header(view, at).rows) for at in snapshots.finished(view)],
        memory["map_bytes"],
        memory["used_bytes"],
        (journal.path / DATA).stat().st_size,
        memory["readers"],
        _types(folder, view),
    )


def _time_of(view: View, offset: int) -> int:
    event = view.event(offset)
    return event.time if event is not None else 0


def _rates(view: View, now: int) -> dict[str, float]:
    """Over the last minute, the last hour, and since the floor. Offsets count events, except for rare gaps."""
    rates = {
        name: (view.head - max(view.offset_at(now - seconds * 1_000_000), view.floor)) / seconds
        for name, seconds in (("minute", MINUTE), ("hour", HOUR))
    }
    first = next(history.ascending(view, history.whole_log(view), view.floor + 1), 0)
    passed = (_time_of(view, view.head) - _time_of(view, first)) / 1_000_000
    return {**rates, "kept": (view.head - view.floor) / passed if passed else 0.0}


def _types(folder: Folder, view: View) -> list[TypeStats]:
    databases = view.databases
    found, done = [], 0
    with Progress("stats", view.txn.stat(databases.events)["entries"]) as progress:
        for kind in folder.kinds.all():
            number, events, total = folder.kinds.type_id(kind), 0, 0
            for offset in history.ascending(view, history.of_type(view, number), 0):
                events += 1
                total += len(view.txn.get(keys.pack_offset(offset), b"", databases.events))
                if events % STEP == 0:
                    progress(done + events)
            done += events
            found.append(TypeStats(kind.kind, kind.type_name, events, total, view.count(number)))
    return found


def _print(output: Output, stats: Stats) -> None:
    newest = exact(stats.newest) if stats.newest else "none"
    passed = f", {span((stats.newest - stats.oldest) / 1_000_000)} before" if stats.newest else ""
    rates = stats.rates
    fields = {
        "folder": f"{stats.folder} (dialect {stats.dialect})",
        "head": str(stats.head),
        "floor": f"{stats.floor}" + ("" if stats.floor else " (nothing was removed)"),
        "newest": newest,
        "oldest": (exact(stats.oldest) if stats.oldest else "none") + passed,
        "rate": f"{rate(rates['minute'])} in the last minute, {rate(rates['hour'])} in the last hour, "
        f"{rate(rates['kept'])} since the floor",
        "snapshots": ", ".join(f"{at} ({rows} objects)" for at, rows in stats.snapshots) or "none",
        "file": f"{size(stats.file_bytes)}, {size(stats.used_bytes)} in use, map {size(stats.map_bytes)}",
    }
    for name, value in fields.items():
        output.line(f"{output.paint(f'{name:10}', 'dim')} {value}")
    output.line()
    _print_types(output, stats.types)


def _print_types(output: Output, types: list[TypeStats]) -> None:
    titles = ("KIND", "RESOURCE", "EVENTS", "BYTES", "LIVE")
    columns = Columns(output, titles, titles[2:])
    written = [one for one in types if one.events]
    columns.rows(
        [(one.kind, one.resource, str(one.events), size(one.bytes), str(one.live)) for one in written]
    )
    events, total, live = (sum(getattr(one, name) for one in types) for name in ("events", "bytes", "live"))
    columns.rows([("all", "", str(events), size(total), str(live))], [["bold"] * 5])


def _print_document(output: Output, stats: Stats) -> None:
    document: dict[str, Any] = asdict(stats)
    document["oldest"] = rfc3339(stats.oldest) if stats.oldest else None
    document["newest"] = rfc3339(stats.newest) if stats.newest else None
    document["snapshots"] = [{"offset": at, "objects": rows} for at, rows in stats.snapshots]
    output.json(document)
