"""What lists with selectors of 40,000 pods cost, with and without columns of facts, and what a column costs.

    python -m benchmarks.decisions.selected_lists [--pods 40000] [--rounds 5] [--quick]

One process without HTTP: each list is read by `ListReader` in turns, as for a client. Without columns is the same code
with a cache of no bytes, which scans.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import orjson

from benchmarks.decisions.measure import cpu_seconds, show
from benchmarks.decisions.samples import definition, pod
from rewound.actors.selectors import FieldSelector, LabelSelector, search
from rewound.actors.store.document import encode, facts_of
from rewound.actors.store.reads import ListReader, Start
from rewound.journal.columns import Columns
from rewound.journal.log import Journal
from rewound.journal.records import Event
from rewound.journal.search import Search

PER_NODE = 30
BATCH = 1000
NOBODY = search(LabelSelector.parse("team=nobody"), None)


class Clock:
    def now(self) -> int:
        return time.time_ns() // 1000


class Pods:
    """A journal of pods, 30 on each node."""

    def __init__(self, folder: Path, pods: int) -> None:
        self.journal = Journal.open(folder, durable=False)
        self.type_id = self.journal.register_type("pods")
        self.kind = definition("pods")
        self._offsets: dict[int, int] = {}
        self._heads = count(1)
        self.nodes = max(1, pods // PER_NODE)
        for first in range(0, pods, BATCH):
            self.write(range(first, min(first + BATCH, pods)))

    def write(self, numbers: range) -> None:
        """Create pods, or change them."""
        self.journal.append([self._event(number) for number in numbers])

    def _event(self, number: int) -> Event:
        offset, name = next(self._heads), f"web-{number // 100}-5d4f9c7b8f-{number:06d}"
        stored: Any = orjson.loads(orjson.dumps(pod(2)))
        labels = {"app": f"web-{number // 100}", "pod-template-hash": "5d4f9c7b8f", "tier": "front"}
        namespace = f"team-{number % 40}"
        stored["metadata"] |= {
            "name": name,
            "namespace": namespace,
            "uid": f"{number:036x}",
            "labels": labels,
        }
        stored["spec"] |= {
            "nodeName": f"node-{number % self.nodes}",
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
        }
        stored["status"] = {"phase": "Running", "podIP": f"10.0.{number >> 8 & 255}.{number & 255}"}
        for unused in ("kind", "apiVersion"):
            stored.pop(unused, None)
        previous = self._offsets.get(number, 0)
        self._offsets[number] = offset
        verb = "update" if previous else "create"
        body = encode(stored, offset)
        facts = facts_of(self.kind, stored)
        return Event(
            offset, self.type_id, verb, namespace, name, previous, False, offset, "u", "m", facts, body
        )

    def list(self, wanted: Search | None, version: int | None = None) -> int:
        """Read a list in turns; return the number of its objects."""
        start = Start(version, None, -1)
        reader = ListReader(self.journal, Clock(), self.type_id, None, 0, wanted, start)
        found = 0
        while not reader.complete:
            found += len(reader.step())
        return found

    def of_node(self, number: int) -> Search | None:
        return search(None, FieldSelector.parse(f"spec.nodeName=node-{number % self.nodes}"))


def medians(works: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Milliseconds of CPU; alternatives take turns."""
    found: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            found[name].append(cpu_seconds(work) * 1e3)
    return {name: statistics.median(times) for name, times in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pods", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a few pods, once: shows that it works")
    options = parser.parse_args()
    pods, rounds = (600, 1) if options.quick else (options.pods, options.rounds)
    with tempfile.TemporaryDirectory() as folder:
        stored = Pods(Path(folder) / "journal", pods)
        nodes, none, filled = count(), Columns(0), stored.journal.columns

        def first() -> None:
            stored.journal.columns = Columns()
            stored.list(stored.of_node(next(nodes)))
            stored.journal.columns = none  # frees the column

        def scan(wanted: Search | None) -> None:
            stored.journal.columns = none
            stored.list(wanted)

        def with_column(wanted: Search | None, version: int | None = None) -> None:
            stored.journal.columns = filled
            stored.list(wanted, version)

        with_column(stored.of_node(0))
        with_column(NOBODY)
        size = filled.statistics()["column_bytes"] / pods
        show(
            f"lists of {pods} pods; a column takes {size:.0f} bytes an object",
            medians(
                {
                    "pods of a node, scan": lambda: scan(stored.of_node(next(nodes))),
                    "pods of a node, the first list of a process": first,
                    "pods of a node, column": lambda: with_column(stored.of_node(next(nodes))),
                    "a label that nobody has, scan": lambda: scan(NOBODY),
                    "a label that nobody has, column": lambda: with_column(NOBODY),
                },
                rounds,
            ),
            "ms",
        )
        version = stored.journal.head
        changed = range(0, pods, max(1, pods // BATCH))
        stored.write(changed)
        with_column(NOBODY, version)
        show(
            f"after {len(changed)} changes, of the version before them",
            medians(
                {
                    "pods of a node, scan": lambda: (
                        setattr(stored.journal, "columns", none),
                        stored.list(stored.of_node(next(nodes)), version),
                    ),
                    "pods of a node, column": lambda: with_column(stored.of_node(next(nodes)), version),
                },
                rounds,
            ),
            "ms",
        )

        def change_one() -> None:
            stored.write(range(7, 8))

        def follow() -> None:
            change_one()
            with_column(stored.of_node(3))

        show(
            "what a change costs the next list",
            medians({"a change": change_one, "a change, and a list": follow}, 20 * rounds),
            "ms",
        )
        stored.journal.close()


if __name__ == "__main__":
    main()
