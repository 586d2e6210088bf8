"""What a write costs the server beside few and many watches with distinct selectors, each write matching one of them.

    python -m benchmarks.decisions.watch_selectors [--few 50] [--many 5000] [--rounds 7] [--json FILE]

Two servers, whose rounds take turns, so that the ratio is of one machine in one state. The watches are HTTP/2 streams.
"""

from __future__ import annotations

import argparse
import json
import select
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.loads.client import Client
from benchmarks.loads.request import Request
from benchmarks.servers.cpu import cpu_seconds
from benchmarks.servers.memory import memory
from benchmarks.servers.server_process import ServerProcess
from benchmarks.watchers.http2_watches import Http2Watches
from benchmarks.watchers.watcher import NotServed, Watcher

STREAMS = 200  # on one connection; the server allows 250
WRITES = 200  # in one round
TIMEOUT = 60.0  # seconds until the watches have received their events
PATH = "/api/v1/namespaces/default/configmaps"


class Subject:
    """A server with this many watches, each with a selector of its own."""

    def __init__(self, folder: Path, selectors: int, stack: ExitStack) -> None:
        self.selectors = selectors
        self.process = ServerProcess(folder)
        stack.callback(self.process.stop)
        self.client = stack.enter_context(Client(self.process.plain_endpoint))
        self._connections: list[Http2Watches] = []
        self._written = 0
        before = memory(self.process.plain_endpoint.pids).anonymous_mb
        self._watch()
        grown = memory(self.process.plain_endpoint.pids).anonymous_mb - before
        self.bytes_per_watch = grown * 2**20 / selectors

    def _watch(self) -> None:
        version = self.client.expect("GET", PATH)["metadata"]["resourceVersion"]
        for first in range(0, self.selectors, STREAMS):
            numbers = range(first, min(first + STREAMS, self.selectors))
            requests = tuple(
                Request("GET", f"{PATH}?watch=1&resourceVersion={version}&labelSelector=app%3Da{number}")
                for number in numbers
            )
            watchers = [Watcher(number, 0, stalled=False) for number in numbers]
            connection = Http2Watches(
                watchers,
                self.process.plain_endpoint,
                requests,
                None,
                bytearray(1 << 18),
                _counted,
                by_window=False,
            )
            _open(connection)
            self._connections.append(connection)

    def round(self) -> float:
        """Return the CPU seconds of one write."""
        pids = self.process.plain_endpoint.pids
        begin = cpu_seconds(pids)
        for _ in range(WRITES):
            self._written += 1
            number = self._written % self.selectors
            metadata = {"name": f"c-{self._written}", "labels": {"app": f"a{number}", "tier": "front"}}
            self.client.expect("POST", PATH, {"metadata": metadata, "data": {"mark": "^"}})
        self._await_events()
        return (cpu_seconds(pids) - begin) / WRITES

    def _await_events(self) -> None:
        end = time.monotonic() + TIMEOUT
        while (received := self._received()) != self._written:
            if received > self._written or time.monotonic() > end:
                raise NotServed(f"{received} events of {self._written} writes were received")
            for connection in self._connections:
                connection.read()

    def _received(self) -> int:
        return sum(watcher.got for connection in self._connections for watcher in connection.watchers)


def _counted(watcher: Watcher, events: int) -> None:
    watcher.got += events


def _open(connection: Http2Watches) -> None:
    while wanted := connection.advance():
        poll = select.poll()
        poll.register(connection.fileno(), select.POLLIN if wanted == select.EPOLLIN else select.POLLOUT)
        poll.poll(60_000)


def compare(few: int, many: int, rounds: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        subjects = [Subject(Path(folder) / str(count), count, stack) for count in (few, many)]
        for subject in subjects:
            subject.round()
        found = [[subject.round() for subject in subjects] for _ in range(rounds)]
    ratios = [after / before for before, after in found]
    return {
        "selectors": [few, many],
        "microseconds of CPU per write": [round(1e6 * one) for one in _medians(found)],
        "ratio": round(statistics.median(ratios), 3),
        "ratios": [round(ratio, 3) for ratio in ratios],
        "bytes per watch": round(subjects[1].bytes_per_watch),
    }


def _medians(found: list[list[float]]) -> Iterator[float]:
    for column in zip(*found, strict=True):
        yield statistics.median(column)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--few", type=int, default=50)
    parser.add_argument("--many", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    result = compare(options.few, options.many, options.rounds)
    text = json.dumps(result, indent=2)
    print(text)
    if options.json:
        options.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
