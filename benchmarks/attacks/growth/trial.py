"""Runs a case, size after size, and measures each: processor time, memory and the longest hold of the event loop."""

from __future__ import annotations

import http.client
import json
import threading
from contextlib import ExitStack, suppress
from typing import Any, Final

import msgspec

from benchmarks.attacks.growth.cases import Case, Request, Size
from benchmarks.attacks.growth.measured import Measured, Used, kill, measured_server
from benchmarks.loads.client import Client

LARGEST_BODY: Final = 1_450_000  # bytes; objects of 1.5 MB are refused
MOST: Final = 12.0  # seconds of processor time, after which a size is given up
_WAITS: Final = 300.0  # seconds for a response, on a busy machine
_ENDS: Final = 60.0  # seconds in which a thread notices that its connection has ended
_FLAGS: Final[dict[str, tuple[str, ...]]] = {"serve": (), "nodes": ("--nodes", "5"), "flight": ()}


class Point(msgspec.Struct, frozen=True):
    count: int
    status: int  # of the first measured request
    used: Used
    given_up: bool = False


class Servers:
    """One running server for each target; a new one after a server was given up."""

    def __init__(self) -> None:
        self._running: dict[str, tuple[ExitStack, Measured]] = {}

    def get(self, target: str) -> Measured:
        if target not in self._running:
            stack = ExitStack()
            context = measured_server(*_FLAGS[target], recorded=target == "flight")
            self._running[target] = stack, stack.enter_context(context)
        return self._running[target][1]

    def discard(self, target: str) -> None:
        if target in self._running:
            stack, measured = self._running.pop(target)
            kill(measured.endpoint.pids[0])
            stack.close()

    def close(self) -> None:
        for target in list(self._running):
            self.discard(target)


def run_case(servers: Servers, case: Case, most: float = MOST) -> list[Point]:
    """Measure the sizes until one is refused or takes more than `most` seconds of processor time."""
    points: list[Point] = []
    for count in case.sizes:
        size = case.make(count)
        if any(_bytes(each) > LARGEST_BODY for each in size.measured):
            break
        points.append(run_size(servers, case.target, count, size, most))
        if points[-1].given_up or not 200 <= points[-1].status < 300:
            break
    return points


def run_size(servers: Servers, target: str, count: int, size: Size, most: float) -> Point:
    measured = servers.get(target)
    for request in size.prepare:
        _send(measured, request)
    measured.reports.settle(most)
    measured.reports.reset()
    watch = _Watch(measured, size.watch) if size.watch else None
    try:
        return _requested(servers, measured, target, count, size, most)
    finally:
        if watch is not None:
            watch.close()


def _requested(
    servers: Servers, measured: Measured, target: str, count: int, size: Size, most: float
) -> Point:
    statuses: list[int] = []
    for request in size.measured:
        worker = threading.Thread(target=_collect, args=(measured, request, statuses), daemon=True)
        worker.start()
        while worker.is_alive():
            worker.join(0.5)
            if worker.is_alive() and (used := measured.reports.read()).cpu > most:
                servers.discard(target)
                worker.join(_ENDS)
                return Point(count, statuses[0] if statuses else 0, used, given_up=True)
        if request.method != "GET":
            used = measured.reports.settle(most)
            if used.cpu > most:
                servers.discard(target)
                return Point(count, statuses[0], used, given_up=True)
    return Point(count, statuses[0], measured.reports.read())


def _collect(measured: Measured, request: Request, statuses: list[int]) -> None:
    statuses.append(_send(measured, request)[0])


def _send(measured: Measured, request: Request) -> tuple[int, Any]:
    try:
        with measured.client(admin=request.admin, timeout=_WAITS) as client:
            return client.call(
                request.method, request.path, request.body, kind=request.kind, accept=request.accept
            )
    except (OSError, http.client.HTTPException) as error:
        return 0, str(error)


def _bytes(request: Request) -> int:
    return len(json.dumps(request.body))


class _Watch:
    """Reads the events of a collection until it is closed."""

    def __init__(self, measured: Measured, path: str) -> None:
        self._client = Client(measured.admin, _WAITS)
        self._client.connect()
        self._thread = threading.Thread(
            target=self._read, args=(f"{path}?watch=1&timeoutSeconds=60",), daemon=True
        )
        self._thread.start()

    def _read(self, path: str) -> None:
        with self._client, suppress(OSError, http.client.HTTPException):
            self._client.call("GET", path)

    def close(self) -> None:
        with suppress(OSError):
            self._client.abort()
        self._thread.join(_ENDS)
