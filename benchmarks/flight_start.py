"""What `rewound flight` costs the API server that it records, and how it follows: a server of ours, filled below HTTP.

    python -m benchmarks.flight_start                       150,000 objects
    python -m benchmarks.flight_start --objects 30000

A client reads and writes one ConfigMap, fifty times a second in turns, before the recorder starts (after ten seconds
that do not count), while it lists everything, and afterwards. Without the recorder's lists its p99 is what the machine
gives. Then other clients patch leases and pods and create Events, in the proportions 6, 3 and 1, 500 times a second,
and a watch of pods from the recorder measures the lag. The recording is then compared with the journal of the server:
how many objects each has. One line of JSON is the result.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Any

import httpx
import trio

from benchmarks.flight import Process, follow
from benchmarks.scale.filled_journal import NAMESPACES, fill
from benchmarks.servers.server_process import TOKEN, ServerProcess, free_port
from rewound.journal.log import Journal

MAP = "/api/v1/namespaces/default/configmaps"
LEASES = "/apis/coordination.cluster.io/v1"
PAUSE = 0.02  # seconds between two requests
WARM = 10.0  # seconds of requests that do not count: a new server has caches to fill
PATIENCE = 900.0  # seconds for the recorder's start


class Changes:
    """Clients that change objects at a rate: sixteen connections in turns."""

    def __init__(self, url: str, rate: float, objects: int) -> None:
        headers = {"authorization": f"Bearer {TOKEN}"}
        self._client = httpx.AsyncClient(
            base_url=url,
            headers=headers,
            timeout=60,
            limits=httpx.Limits(max_connections=16),
            trust_env=False,
        )
        self._rate, self._pods, self._leases = rate, objects * 40 // 100, objects * 10 // 100
        self._kinds, self._random = cycle("llplpllepl"), Random(46)
        self._connections = trio.CapacityLimiter(16)
        self.made = 0

    async def run(self, seconds: float) -> None:
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            while (passed := trio.current_time() - began) < seconds:
                for _ in range(round(passed * self._rate) - self.made):
                    self.made += 1
                    nursery.start_soon(self._change_in_turn, self.made, next(self._kinds))
                await trio.sleep(PAUSE)

    async def _change_in_turn(self, made: int, kind: str) -> None:
        async with self._connections:  # what waits here has not been sent
            await self._change(made, kind)

    async def _change(self, made: int, kind: str) -> None:
        sent = {"metadata": {"annotations": {"bench/sent": f"{time.time():.6f}"}}}
        if kind == "e":
            involved = {"kind": "Pod", "namespace": "default", "name": f"web-{made}"}
            event = {"metadata": {"name": f"web-{made}"}, "involvedObject": involved, "reason": "Unhealthy"}
            response = await self._client.post("/api/v1/namespaces/default/events", json=event)
        else:
            number = self._random.randrange(self._pods if kind == "p" else self._leases)
            group, plural = ("/api/v1", "pods") if kind == "p" else (LEASES, "leases")
            path = f"{group}/namespaces/scale-{number % NAMESPACES:03}/{plural}/{plural[:6]}-{number:09}"
            merge = {"content-type": "application/merge-patch+json"}
            response = await self._client.patch(path, json=sent, headers=merge)
        response.raise_for_status()


class Probe:
    """A client whose latencies are those of everybody else."""

    def __init__(self, url: str) -> None:
        headers = {"authorization": f"Bearer {TOKEN}"}
        self._client = httpx.AsyncClient(base_url=url, headers=headers, timeout=60, trust_env=False)
        self._number = 0

    async def run(self, until: Callable[[], bool]) -> dict[str, Any]:
        """Read and write in turns until a condition holds; the percentiles of both, in milliseconds."""
        found: dict[str, list[float]] = {"get": [], "put": []}
        while not until():
            for verb, seconds in found.items():
                began = time.perf_counter()
                await self._request(verb)
                seconds.append(time.perf_counter() - began)
                await trio.sleep(PAUSE)
        return {f"{verb}_ms": _percentiles(seconds) for verb, seconds in found.items()}

    async def _request(self, verb: str) -> None:
        self._number += 1
        body = {"metadata": {"name": "probe"}, "data": {"n": str(self._number)}}
        if self._number == 1:
            (await self._client.post(MAP, json=body)).raise_for_status()
        path = f"{MAP}/probe"
        response = await (self._client.put(path, json=body) if verb == "put" else self._client.get(path))
        response.raise_for_status()


def _percentiles(seconds: list[float]) -> dict[str, Any]:
    ordered = sorted(seconds)
    found: dict[str, Any] = {
        name: round(ordered[int(share * (len(ordered) - 1))] * 1000, 1)
        for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
    }
    return {**found, "count": len(ordered)}


async def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    await trio.to_thread.run_sync(lambda: fill(folder, options.objects, updates=0))
    server = ServerProcess(folder)
    result: dict[str, Any] = {"objects": options.objects, "load": os.getloadavg()[0]}
    try:
        url, port = server.plain_endpoint.url, free_port()
        probe, served = Probe(url), Process(server.endpoint.pids[0])
        await probe.run(_after(WARM))
        result["before"] = await probe.run(_after(options.seconds))
        command = [sys.executable, "-m", "rewound", "flight", str(folder / "flight"), "--server", url]
        flags = ["--token", TOKEN, "--insecure-port", str(port), "--secure-port", "0", "--page-for-everyone"]
        began, cost = time.monotonic(), served.seconds()
        with subprocess.Popen([*command, *flags], stdout=subprocess.DEVNULL) as recorder:
            own = Process(recorder.pid)
            try:
                result["while_listing"] = await probe.run(_listed(port, recorder))
                result |= {
                    "start_seconds": round(time.monotonic() - began, 1),
                    "recorder_processor_seconds": round(own.seconds(), 1),
                    "server_processor_seconds": round(served.seconds() - cost, 1),
                    "recorder_peak_mb": own.kilobytes("VmHWM") >> 10,
                    "recorder_anonymous_mb": own.kilobytes("RssAnon") >> 10,
                }
                result["after"] = await probe.run(_after(options.seconds))
                result["changes"] = await _follow(options, url, port, own)
            finally:
                recorder.send_signal(signal.SIGTERM)
                recorder.wait(120)
    finally:
        server.stop()
    result["load_at_the_end"] = os.getloadavg()[0]
    counts = [_objects(folder / one / "journal") for one in ("data", "flight")]
    result["objects_of_server_and_recording"] = counts
    return result


async def _follow(options: argparse.Namespace, url: str, port: int, own: Process) -> dict[str, Any]:
    """How the recorder follows the changes of the server."""
    changes, lags, began = Changes(url, options.rate, options.objects), list[float](), [time.time()]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(follow, f"http://127.0.0.1:{port}", lags, began)
        await trio.sleep(1)
        cost = own.seconds()
        await changes.run(options.seconds)
        await trio.sleep(3)  # what is held back for the order of versions
        nursery.cancel_scope.cancel()
    found = _percentiles(lags)
    lag = {name: round(found[name] / 1000, 2) for name in ("p50", "p99", "max")}
    return {
        "changes": changes.made,
        "changes_a_second": round(changes.made / options.seconds),
        "lag_seconds": lag,
        "pods_seen": len(lags),
        "microseconds_a_change": round((own.seconds() - cost) / changes.made * 1e6),
        "anonymous_mb": own.kilobytes("RssAnon") >> 10,
    }


def _after(seconds: float) -> Callable[[], bool]:
    end = time.monotonic() + seconds
    return lambda: time.monotonic() > end


def _listed(port: int, recorder: subprocess.Popen[bytes]) -> Callable[[], bool]:
    """Whether the first lists are in the recording; looks twice a second."""
    looked, end = time.monotonic(), time.monotonic() + PATIENCE

    def listed() -> bool:
        nonlocal looked
        if recorder.poll() is not None or time.monotonic() > end:
            raise SystemExit("the recorder ended, or took too long")
        if time.monotonic() - looked < 0.5:
            return False
        looked = time.monotonic()
        try:
            return httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=5, trust_env=False).status_code == 200
        except httpx.HTTPError:
            return False

    return listed


def _objects(path: Path) -> int:
    journal = Journal.open(path, readonly=True)
    try:
        with journal.read() as view:
            return sum(view.count(number) for number in view.types().values())
    finally:
        journal.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--objects", type=int, default=150_000)
    parser.add_argument("--seconds", type=float, default=30, help="of measurement before and after the start")
    parser.add_argument("--rate", type=float, default=500, help="of the changes, a second")
    parser.add_argument(
        "--folder", help="in which everything is made, and removed (default: temporary files)"
    )
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="flight-start-", dir=options.folder))
    try:
        print(json.dumps(trio.run(measure, options, folder)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
