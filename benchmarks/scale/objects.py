"""What a server costs by the number of objects in its journal: start, memory, reads, writes, snapshots, retention.

Each size has its own folder, which is deleted afterwards. Costs are CPU seconds, because the wall time of a shared
machine says little; where somebody waits (a start, a list of everything), the wall time is there too.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

from benchmarks.loads.client import Client
from benchmarks.loads.job import Lane, LoadResult, run_lane
from benchmarks.reports.measurement import from_load
from benchmarks.scale.filled_journal import Filling, fill, kinds, updated
from benchmarks.servers.cpu import cpu_seconds
from benchmarks.servers.endpoint import Endpoint
from benchmarks.servers.memory import memory
from benchmarks.servers.server_process import ServerProcess, fresh_folder
from benchmarks.watchers.background_gets import BackgroundGets
from benchmarks.watchers.commands import Assignment, Open
from benchmarks.watchers.watcher_process import WatcherProcess
from rewound.journal import retention, snapshot_writer
from rewound.journal.log import Journal

Figures = dict[str, Any]
CONNECTIONS, READERS, PAGE = 16, 4, 500
WATCHES = 200
# A server is at rest when it used less than this much CPU in as many seconds.
REST_CPU, REST_SECONDS, REST_TIMEOUT = 0.01, 0.5, 300.0
# Retention passes this many events in one transaction, as housekeeping does.
STEP = 500
APPENDED = 3200  # events


def measure(scratch: Path, objects: int, seconds: float, report: Callable[[str], None]) -> Figures:
    folder = fresh_folder(scratch, f"scale-{objects}")
    try:
        filling, sizes = fill(folder, objects)
        report(f"{objects:,} objects: filled in {filling.seconds:.0f} s")
        figures = {**_filled(filling), **sizes, **_of_journal(folder)}
        _of_server(figures, folder, seconds)
        report(f"{objects:,} objects: server measured")
        return figures | _retention(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _filled(filling: Filling) -> Figures:
    return {f"fill_{name}": value for name, value in asdict(filling).items()} | {"objects": filling.objects}


class Cpu:
    """CPU and wall seconds of this process, or of a server, in a block."""

    def __init__(self, pids: tuple[int, ...] = ()) -> None:
        self._pids = pids
        self.cpu = self.seconds = 0.0

    def _now(self) -> float:
        return cpu_seconds(self._pids) if self._pids else time.process_time()

    def __enter__(self) -> Cpu:
        self._begin, self._used = time.perf_counter(), self._now()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds, self.cpu = time.perf_counter() - self._begin, self._now() - self._used


def _of_journal(folder: Path) -> Figures:
    with Cpu() as opening:
        journal = Journal.open(folder / "data" / "journal")
    try:
        append_us = _append(journal)
        with Cpu() as snapshot:
            rows = max(snapshot_writer.take(journal), default=0)
        with journal.read() as view:
            pages = view.txn.stat(view.databases.snapshots)
    finally:
        journal.close()
    return {
        "append_us": append_us,
        "open_cpu_ms": round(opening.cpu * 1e3, 1),
        "snapshot_cpu_s": round(snapshot.cpu, 3),
        "snapshot_us_per_object": round(snapshot.cpu / max(rows, 1) * 1e6, 2),
        "snapshot_bytes": _bytes(pages),
    }


def _append(journal: Journal) -> float:
    """CPU of an event in durable batches, as group commit gathers them: updates of existing ConfigMaps."""
    type_id = journal.type_id("configmaps")
    with journal.read() as view:
        rows = list(islice(view.rows(type_id, "scale-002"), APPENDED))
        events = [event for _, _, row in rows if (event := view.event(row.offset)) is not None]
    used, offset = 0.0, journal.head
    for first in range(0, len(events), CONNECTIONS):
        some = enumerate(events[first : first + CONNECTIONS], offset + 1)
        batch = [updated(event, offset, journal.time) for offset, event in some]
        offset += len(batch)
        with Cpu() as appending:
            journal.append(batch)
        used += appending.cpu
    return round(used / len(events) * 1e6, 1)


def _bytes(pages: dict[str, int]) -> int:
    """The size of one database of LMDB."""
    return pages["psize"] * (pages["branch_pages"] + pages["leaf_pages"] + pages["overflow_pages"])


def _retention(folder: Path) -> Figures:
    """Move the floor over everything: each update makes the event before it unnecessary."""
    journal = Journal.open(folder / "data" / "journal")
    passed = deleted = 0
    try:
        with Cpu() as advancing:
            done = False
            while not done:
                progress = retention.advance(journal, journal.head, STEP)
                passed, deleted, done = passed + progress.passed, deleted + progress.deleted, progress.done
    finally:
        journal.close()
    return {
        "retention_cpu_s": round(advancing.cpu, 3),
        "retention_us_per_event": round(advancing.cpu / max(passed, 1) * 1e6, 2),
        "retention_deleted": deleted,
    }


def _of_server(figures: Figures, folder: Path, seconds: float) -> None:
    server = ServerProcess(folder)
    try:
        figures |= {"ready_s": round(server.ready_seconds, 3), "ready_cpu_s": round(server.ready_cpu, 3)}
        figures |= _at_rest(server)
        grown = (figures["rest_anonymous_mb"] - figures["empty_anonymous_mb"]) * (1 << 20)
        figures["anonymous_bytes_per_object"] = round(grown / figures["objects"], 1)
        _measure_requests(figures, server, seconds)
        after = memory(server.endpoint.pids)
        figures |= {"worked_pss_mb": after.pss_mb, "worked_anonymous_mb": after.anonymous_mb}
    finally:
        server.stop()


def _at_rest(server: ServerProcess) -> Figures:
    """What controllers used after the start until they had seen every object, and the memory then."""
    pids, deadline = server.endpoint.pids, time.perf_counter() + REST_TIMEOUT
    used, before, latencies = 1.0, cpu_seconds(pids), list[float]()
    with Client(server.endpoint) as client:
        while used > REST_CPU and time.perf_counter() < deadline:
            begin = time.perf_counter()
            client.expect("GET", "/api/v1/namespaces/scale-000")
            latencies.append(time.perf_counter() - begin)
            time.sleep(REST_SECONDS)
            now = cpu_seconds(pids)
            used, before = now - before, now
    found = memory(pids)
    return {
        "catching_up_others_max_ms": round(max(latencies) * 1e3, 1),
        "rest_cpu_s": round(before, 3),
        "rest_pss_mb": found.pss_mb,
        "rest_anonymous_mb": found.anonymous_mb,
    }


def _measure_requests(figures: Figures, server: ServerProcess, seconds: float) -> None:
    endpoint = server.endpoint
    paths = {kind.plural: kind.path for kind in kinds("cluster.io")}
    some, everything = paths["configmaps"].format(ns="scale-001"), "/api/v1/configmaps"
    with Client(endpoint) as client:
        objects = [item["metadata"]["name"] for item in client.expect("GET", f"{some}?limit=50")["items"]]
        last = _last_token(client, everything)
        client.expect("POST", "/api/v1/namespaces", {"metadata": {"name": "created"}})
    gets = {"plan": "repeat", "paths": [f"{some}/{name}" for name in objects]}
    first_page = {"plan": "repeat", "paths": [f"{everything}?limit={PAGE}"]}
    deep_page = {"plan": "repeat", "paths": [f"{everything}?limit={PAGE}&continue={quote(last)}"]}
    new = {"plan": "create", "path": "/api/v1/namespaces/created/configmaps", "prefix": "c-"}
    figures |= _list_of_all(server, everything, f"{some}/{objects[0]}")
    figures |= _list_of_a_node(server, figures["collections"])
    figures |= _watch_starts(server.plain_endpoint, some)
    for work, plan, connections in (
        ("get", gets, CONNECTIONS),
        ("page", first_page, READERS),
        ("page_deep", deep_page, READERS),
        ("create", new, CONNECTIONS),
        ("get_one", gets, 1),
        ("create_one", {**new, "prefix": "one-"}, 1),
    ):
        done = run_lane(Lane(endpoint, plan, connections), seconds, rounds=3, warmup=seconds / 4)
        measured = from_load(work, done, connections).figures
        figures[f"{work}_us"] = measured["cpu_us"]
        figures |= {f"{work}_{part}_ms": measured[f"{part}_ms"] for part in ("p50", "p99")}
    figures |= parts_of_a_write(figures)


def parts_of_a_write(figures: Figures) -> Figures:
    """What a write costs by itself, and what each commit adds: CPU, and time that the event loop stands still.

    Over 16 connections about 16 writes share a commit, over one connection each has its own.
    """
    fixed = (figures["create_one_us"] - figures["create_us"]) * CONNECTIONS / (CONNECTIONS - 1)
    alone = figures["create_us"] - fixed / CONNECTIONS
    held = (figures["create_one_p50_ms"] - figures["get_one_p50_ms"]) * 1e3 + figures["get_one_us"] - alone
    return {
        "write_us": round(alone - figures["append_us"], 1),
        "commit_cpu_us": round(fixed, 1),
        "commit_us": round(held, 1),
    }


def _last_token(client: Client, path: str) -> str:
    """The continue token of the last page, from few and long pages."""
    token = last = ""
    while True:
        page = client.expect("GET", f"{path}?limit=20000&continue={quote(token)}")
        last, token = token, page["metadata"].get("continue", "")
        if not token:
            return last


def _list_of_all(server: ServerProcess, path: str, other: str) -> Figures:
    """One list of a whole kind over all namespaces, and what another client's gets wait meanwhile."""
    endpoint, results = server.endpoint, list[LoadResult]()
    plan = {"plan": "repeat", "paths": [path]}
    before = memory(endpoint.pids).anonymous_mb
    load = threading.Thread(target=lambda: results.append(run_lane(Lane(endpoint, plan, 1), 600.0, count=1)))
    gets, most = BackgroundGets(endpoint, other), before
    with Cpu(endpoint.pids) as listing:
        load.start()
        while load.is_alive():
            gets()
            most = max(most, memory(endpoint.pids).anonymous_mb)
    gets.close()
    (result,) = results
    return {
        "list_all_bytes": result.bytes_received,
        "list_all_s": result.latency_ms["max"] / 1e3,
        "list_all_cpu_s": round(listing.cpu, 3),
        "list_all_others_p99_ms": gets.summary()["p99"],
        "list_all_grown_mb": round(most - before, 1),
    }


def _list_of_a_node(server: ServerProcess, collections: dict[str, int]) -> Figures:
    """The list that a kubelet begins with: the pods of its node."""
    path = "/api/v1/pods?fieldSelector=spec.nodeName%3Dnodes-000000007"
    with Client(server.endpoint) as client, Cpu(server.endpoint.pids) as listing:
        found = [len(client.expect("GET", path)["items"]) for _ in range(3)]
    each = listing.cpu / len(found)
    per_pod = round(each / collections["pods"] * 1e6, 3)
    return {"node_pods": found[0], "node_pods_us": round(each * 1e6), "node_pods_us_per_pod": per_pod}


def _watch_starts(endpoint: Endpoint, path: str) -> Figures:
    """Watches from the newest version, without TLS, each on a new connection."""
    with Client(endpoint) as client:
        version = client.expect("GET", f"{path}?limit=1")["metadata"]["resourceVersion"]
    with WatcherProcess(Assignment(endpoint, endpoint, path)) as process:
        process.open(Open(WATCHES, (f"{path}?watch=1&resourceVersion={version}",)))
        done = process.open(Open(WATCHES, (f"{path}?watch=1&resourceVersion={version}",)))
    return {"watch_start_us": round(done.server_cpu / WATCHES * 1e6, 1)}
