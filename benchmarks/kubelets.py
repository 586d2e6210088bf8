"""How long other clients wait while eight kubelets list the pods of their nodes at once, among 40,000.

    python -m benchmarks.kubelets                    five rounds
    python -m benchmarks.kubelets --pods 4000        shows that it runs

A client in a process of its own gets a ConfigMap all the time: first alone, while the controllers of the new server
scan all objects; then while the kubelets make the first such lists of the process, in rounds in which they list again,
and in rounds after 1,600 creates. Printed is its longest get of each, in milliseconds, and beside it by how much a
process that only sleeps woke up too late: that is the machine, not the server. Printed too is the CPU of the server for
the eight lists. One line of JSON is the result.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import trio

from benchmarks.options import ROOT
from benchmarks.scale.filled_journal import fill
from benchmarks.servers.cpu import cpu_seconds
from benchmarks.servers.server_process import TOKEN, ServerProcess

MAPS = "/api/v1/namespaces/default/configmaps"
KUBELETS = 8
CREATES = 1_600
ALONE = 3.0  # seconds
PAUSE = 0.002  # seconds between two gets


class Beside:
    """A process that does one thing all the time, and says when it began and how long it took.

    Not a task beside the kubelets: that would wait while they decode their lists.
    """

    def __init__(self, what: str, *arguments: str) -> None:
        command = [sys.executable, "-m", "benchmarks.kubelets", "--beside", what, *arguments]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self._process.stdout.readline()  # it has begun
        self._taken: list[tuple[float, float]] = []

    def stop(self) -> None:
        output, _ = self._process.communicate()  # closes its standard input, which ends it
        self._taken = [(began, taken) for began, taken in json.loads(output)]

    def longest(self, span: Span) -> float:
        """Milliseconds of the longest that was under way in a span of time."""
        first, last = span
        found = (taken for began, taken in self._taken if began + taken >= first and began <= last)
        return round(max(found, default=0.0) * 1000, 1)


Span = tuple[float, float]


def beside(what: str, url: str) -> None:
    """What a process beside the kubelets does, until its standard input is closed."""
    gc.disable()
    ended = threading.Event()

    def wait_for_end() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    taken: list[tuple[float, float]] = []
    headers = {"authorization": f"Bearer {TOKEN}"}
    with httpx.Client(base_url=url, headers=headers, timeout=60, trust_env=False) as client:
        print(flush=True)
        while not ended.is_set():
            began = time.monotonic()
            if what == "gets":
                client.get(f"{MAPS}/other").raise_for_status()
                taken.append((began, time.monotonic() - began))
            time.sleep(PAUSE)
            if what == "sleeps":
                taken.append((began, time.monotonic() - began - PAUSE))
    print(json.dumps(taken))


async def during(work: Callable[[], Awaitable[None]]) -> Span:
    began = time.monotonic()
    await work()
    return began, time.monotonic()


async def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    await trio.to_thread.run_sync(lambda: fill(folder, options.pods * 100 // 40, updates=0))
    server = ServerProcess(folder)
    result: dict[str, Any] = {"pods": options.pods, "load": os.getloadavg()[0]}
    spans: list[tuple[str, Span]] = []
    headers = {"authorization": f"Bearer {TOKEN}"}
    limits = httpx.Limits(max_connections=64)
    url, pids = server.plain_endpoint.url, server.endpoint.pids
    try:
        async with httpx.AsyncClient(
            base_url=url, headers=headers, timeout=60, limits=limits, trust_env=False
        ) as client:
            body = {"metadata": {"name": "other"}, "data": {"k": "v"}}
            (await client.post(MAPS, json=body)).raise_for_status()
            processes = {what: Beside(what, url) for what in ("gets", "sleeps")}
            try:
                lists = Lists(client)
                for _ in range(options.rounds):
                    spans.append(("alone", await during(lambda: trio.sleep(ALONE))))
                first = cpu_seconds(pids)
                spans.append(("first lists", await during(lists.all_at_once)))
                result["cpu of the first"] = round((cpu_seconds(pids) - first) * 1000)
                for _ in range(options.rounds):
                    spans.append(("lists", await during(lists.all_at_once)))
                began = cpu_seconds(pids)
                for _ in range(options.rounds):
                    await lists.all_at_once()
                result["cpu of eight"] = round((cpu_seconds(pids) - began) / options.rounds * 1000, 1)
                for _ in range(options.rounds):
                    await lists.create(CREATES)
                    spans.append(("after creates", await during(lists.all_at_once)))
            finally:
                for process in processes.values():
                    await trio.to_thread.run_sync(process.stop)
    finally:
        server.stop()
    for name, span in spans:
        for what, process in processes.items():
            result.setdefault(name, {}).setdefault(what, []).append(process.longest(span))
    return result


class Lists:
    """Kubelets, each of which lists the pods of its node."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client, self._created = client, 0

    async def all_at_once(self) -> None:
        async with trio.open_nursery() as nursery:
            for number in range(KUBELETS):
                nursery.start_soon(self._list, f"nodes-{number:09}")

    async def _list(self, node: str) -> None:
        response = await self._client.get("/api/v1/pods", params={"fieldSelector": f"spec.nodeName={node}"})
        response.raise_for_status()
        if node.encode() not in response.content:
            raise SystemExit(f"no pods on {node}")

    async def create(self, count: int) -> None:
        """Pods on these nodes, by sixteen clients."""
        container = {"name": "c", "image": "example.com/main:1"}

        async def some(first: int) -> None:
            for number in range(first, count, 16):
                pod = {
                    "metadata": {"name": f"new-{self._created}-{number}"},
                    "spec": {
                        "nodeName": f"nodes-{number % KUBELETS:09}",
                        "containers": [container],
                        "automountServiceAccountToken": False,
                    },
                }
                (await self._client.post("/api/v1/namespaces/default/pods", json=pod)).raise_for_status()

        self._created += 1
        async with trio.open_nursery() as nursery:
            for first in range(16):
                nursery.start_soon(some, first)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pods", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--beside", nargs=2, metavar=("WHAT", "URL"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.beside:
        beside(*options.beside)
        return
    folder = Path(tempfile.mkdtemp(prefix="kubelets-"))
    try:
        print(json.dumps(trio.run(measure, options, folder)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
