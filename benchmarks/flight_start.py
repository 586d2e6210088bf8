"""What the start of `rewound flight` costs the API server that it records: a server of ours, filled below HTTP.

    python -m benchmarks.flight_start                       150,000 objects
    python -m benchmarks.flight_start --objects 30000

A client reads and writes one ConfigMap, fifty times a second in turns, before the recorder starts (after ten seconds
that do not count), while it lists everything, and afterwards. Without the recorder's lists its p99 is what the machine
gives. The recording is then compared with the journal of the server: how many objects each has. One line of JSON is the
result.
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
from pathlib import Path
from typing import Any

import httpx
import trio

from benchmarks.flight import Process
from benchmarks.scale.filled_journal import fill
from benchmarks.servers.server_process import TOKEN, ServerProcess, free_port
from rewound.journal.log import Journal

MAP = "/api/v1/namespaces/default/configmaps"
PAUSE = 0.02  # seconds between two requests
WARM = 10.0  # seconds of requests that do not count: a new server has caches to fill
PATIENCE = 900.0  # seconds for the recorder's start


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
            finally:
                recorder.send_signal(signal.SIGTERM)
                recorder.wait(120)
    finally:
        server.stop()
    result["load_at_the_end"] = os.getloadavg()[0]
    counts = [_objects(folder / one / "journal") for one in ("data", "flight")]
    result["objects_of_server_and_recording"] = counts
    return result


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
