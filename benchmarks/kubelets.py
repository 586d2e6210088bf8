"""How long other clients wait while eight kubelets list the pods of their nodes at once, among 40,000.

    python -m benchmarks.kubelets                    five rounds
    python -m benchmarks.kubelets --pods 4000        shows that it runs

A client gets a ConfigMap all the time: first alone, then while the kubelets make the first such lists of the process,
then in rounds in which they list again, and in rounds after 1,600 creates. Printed is its longest get of each, in
milliseconds, and the CPU of the server for the eight lists. One line of JSON is the result.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import trio

from benchmarks.scale.filled_journal import fill
from benchmarks.servers.cpu import cpu_seconds
from benchmarks.servers.server_process import TOKEN, ServerProcess

MAPS = "/api/v1/namespaces/default/configmaps"
KUBELETS = 8
CREATES = 1_600
ALONE = 3.0  # seconds


class Others:
    """A client that gets one object after the other while something else happens."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def longest_during(self, work: Callable[[], Awaitable[None]]) -> float:
        """Milliseconds of its longest get."""
        seconds: list[float] = []
        async with trio.open_nursery() as nursery:

            async def get_all_the_time() -> None:
                while True:
                    began = time.perf_counter()
                    (await self._client.get(f"{MAPS}/other")).raise_for_status()
                    seconds.append(time.perf_counter() - began)

            nursery.start_soon(get_all_the_time)
            await trio.sleep(0.2)
            await work()
            nursery.cancel_scope.cancel()
        return round(max(seconds) * 1000, 1)


async def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    await trio.to_thread.run_sync(lambda: fill(folder, options.pods * 100 // 40, updates=0))
    server = ServerProcess(folder)
    result: dict[str, Any] = {"pods": options.pods, "load": os.getloadavg()[0]}
    headers = {"authorization": f"Bearer {TOKEN}"}
    limits = httpx.Limits(max_connections=64)
    url = server.plain_endpoint.url
    try:
        async with (
            httpx.AsyncClient(base_url=url, headers=headers, timeout=60, trust_env=False) as client,
            httpx.AsyncClient(
                base_url=url, headers=headers, timeout=60, limits=limits, trust_env=False
            ) as kubelets,
        ):
            body = {"metadata": {"name": "other"}, "data": {"k": "v"}}
            (await client.post(MAPS, json=body)).raise_for_status()
            others, lists = Others(client), Lists(kubelets)
            result["alone"] = [
                await others.longest_during(lambda: trio.sleep(ALONE)) for _ in range(options.rounds)
            ]
            pids, first = server.endpoint.pids, cpu_seconds(server.endpoint.pids)
            result["first lists"] = await others.longest_during(lists.all_at_once)
            result["cpu of the first"] = round((cpu_seconds(pids) - first) * 1000)
            result["lists"] = [await others.longest_during(lists.all_at_once) for _ in range(options.rounds)]
            began = cpu_seconds(pids)
            for _ in range(options.rounds):
                await lists.all_at_once()
            result["cpu of eight"] = round((cpu_seconds(pids) - began) / options.rounds * 1000, 1)
            result["after creates"] = []
            for _ in range(options.rounds):
                await lists.create(CREATES)
                result["after creates"].append(await others.longest_during(lists.all_at_once))
    finally:
        server.stop()
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
        if not response.json()["items"]:
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
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="kubelets-"))
    try:
        print(json.dumps(trio.run(measure, options, folder)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
