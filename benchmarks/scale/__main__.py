"""`python -m benchmarks.scale TOOL` measures objects, watchers, workers, consistency or the model; stores JSON.

Results of one tool replace only its own part of the file, so that each can be repeated when the machine is quiet.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.options import SAVED
from benchmarks.scale import model_check, nodes, objects, read_after_write, watchers, workers
from benchmarks.servers.machine import file_system, machine
from tests.etcd_members import ETCD
from tests.local_cluster import INSTALL

SIZES = (10_000, 100_000, 1_000_000)
WATCHERS = (1_000, 5_000, 20_000)


def _objects(options: argparse.Namespace) -> dict[str, Any]:
    sizes = options.count or SIZES
    return {str(size): objects.measure(options.scratch, size, options.seconds, _log) for size in sizes}


def _watchers(options: argparse.Namespace) -> dict[str, Any]:
    """Every number of watchers in every shape, with one process and with --workers."""
    counts, shapes = options.count or WATCHERS, options.shape or watchers.SHAPES
    return dict(
        watchers.measure(options.scratch, count, shape, number, _log, options.rewound)
        for count in counts
        for shape in shapes
        for number in options.workers or (1,)
    )


def _consistency(options: argparse.Namespace) -> dict[str, Any]:
    return {
        str(number): read_after_write.measure(options.scratch, options.checks, number, _log, options.rewound)
        for number in options.workers or (1,)
    }


def _workers(options: argparse.Namespace) -> dict[str, Any]:
    return {
        str(number): workers.measure(
            options.scratch, number, options.rounds, options.seconds, _log, options.rewound
        )
        for number in options.workers or (2,)
    }


def _model(options: argparse.Namespace) -> dict[str, Any]:
    return model_check.measure(options.scratch, options.seconds, _log)


def _nodes(options: argparse.Namespace) -> dict[str, Any]:
    if ETCD is None:
        raise SystemExit(INSTALL)
    return nodes.measure(options.scratch, options.seconds, options.rounds, _log)


TOOLS = {
    "nodes": _nodes,
    "model": _model,
    "objects": _objects,
    "watchers": _watchers,
    "workers": _workers,
    "consistency": _consistency,
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("tool", choices=TOOLS)
    parser.add_argument("--count", type=int, action="append", help="objects or watchers; repeatable")
    parser.add_argument(
        "--shape", choices=watchers.SHAPES, action="append", help="of watchers; repeatable (default all)"
    )
    parser.add_argument("--workers", type=int, action="append", help="repeatable (default 1; of workers 2)")
    parser.add_argument(
        "--rounds", type=int, default=5, help="of workers and nodes, each with both servers (default 5)"
    )
    parser.add_argument("--checks", type=int, default=100_000, help="of consistency (default 100,000)")
    parser.add_argument("--seconds", type=float, default=2.0, help="length of one round (default 2)")
    parser.add_argument("--rewound", default="", metavar="COMMAND", help="the command of another release")
    parser.add_argument("--scratch", type=Path, default=Path(tempfile.gettempdir()), help="folder for data")
    parser.add_argument("--save", type=Path, default=SAVED / "scale.json", help="JSON file of the results")
    options = parser.parse_args(arguments)
    if file_system(options.scratch) == "tmpfs":
        _log("warning: the scratch folder is on tmpfs, where fsync costs nothing; use --scratch DIR")
    found = TOOLS[options.tool](options)
    _store(options.save, options.tool, {"machine": machine(options.scratch), "results": found})
    print(json.dumps(found, indent=1))
    missed = any(each.get("missed") for each in found.values())
    return 1 if missed else 0


def _store(file: Path, tool: str, found: dict[str, Any]) -> None:
    stored = json.loads(file.read_text()) if file.exists() else {}
    results = {**stored.get(tool, {}).get("results", {}), **found["results"]}
    file.write_text(json.dumps({**stored, tool: {**found, "results": results}}, indent=1) + "\n")


def _log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
