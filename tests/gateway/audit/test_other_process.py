"""Audit events that another process writes: modes, limits and losses are the same as in a single process."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
import trio

from rewound.gateway.audit.backends.remote import AuditCalls, AuditWriter, RemoteOutput
from rewound.gateway.audit.backends.rotated_file import NotWritten
from rewound.gateway.audit.build import build_audit_writer, shared_throttle
from rewound.gateway.handlers.paths import LevelRows
from rewound.gateway.settings.settings import AuditSettings
from rewound.server.extensions import Extensions, Shared
from tests.gateway.api import Api, config_map, served
from tests.gateway.audit.auditing import IGNORED, PATH, rules
from tests.gateway.audit.test_log_modes import metric
from tests.gateway.audit.test_webhook import Receiver
from tests.gateway.outgoing.https_peer import https_peer

METADATA = rules("level: Metadata")


class Process:
    """The process that writes events, as a worker sees it: `away` makes calls wait, as during its restart."""

    def __init__(self, settings: AuditSettings, nursery: trio.Nursery) -> None:
        self.settings = settings
        self.nursery = nursery
        self.writer = self._new()
        self.back = trio.Event()
        self.back.set()
        self.patience: set[float] = set()
        self.waiting = 0

    def _new(self) -> AuditWriter:
        writer = build_audit_writer(self.settings)
        assert writer is not None
        self.nursery.start_soon(writer.run)
        return writer

    def end(self) -> None:
        self.back = trio.Event()

    def start(self) -> None:
        self.writer = self._new()
        self.back.set()

    async def write(self, lines: bytes, seconds: float) -> bytes:
        await self._wait(seconds)
        return await self.writer.write(lines)

    async def send(self, body: bytes, seconds: float) -> bytes:
        await self._wait(seconds)
        return await self.writer.send(body)

    async def _wait(self, seconds: float) -> None:
        self.patience.add(seconds)
        if not self.back.is_set() and seconds < math.inf:
            raise ConnectionError  # a test does not wait that long
        self.waiting += 1
        await self.back.wait()
        self.waiting -= 1

    async def own_numbers(self, own: bytes) -> list[bytes]:
        return [own]

    async def condition(self) -> bytes:
        raise ConnectionError

    def extensions(self, workers: int = 2) -> Extensions:
        calls = AuditCalls(self.write, self.send, workers)
        shared = Shared(lambda _: None, self.own_numbers, self.condition, self.levels, calls)
        return Extensions(shared=shared)

    async def levels(self, own: LevelRows) -> list[LevelRows]:
        return [own]


def events(path: Path) -> list[tuple[str, str]]:
    found = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    return [(one["requestURI"], one["stage"]) for one in found if not IGNORED.search(one["requestURI"])]


@asynccontextmanager
async def worker(folder: Path, policy: str = METADATA, **given: Any) -> AsyncIterator[tuple[Api, Process]]:
    (folder / "policy.yaml").write_text(policy)
    usual: dict[str, Any] = {
        "audit_policy_file": folder / "policy.yaml",
        "audit_log_path": str(folder / "audit.log"),
        "audit_log_batch_max_wait": 0.0,
    }
    settings = AuditSettings(**usual | given)
    async with trio.open_nursery() as nursery:
        process = Process(settings, nursery)
        async with served(None, process.extensions(), audit=settings) as api:
            yield api, process
        nursery.cancel_scope.cancel()


async def test_another_process_writes_the_events_in_order(tmp_path: Path) -> None:
    async with worker(tmp_path) as (api, process):
        for name in "abc":
            await api.create("configmaps", config_map(name))
        await api.finish()
        assert process.patience == {math.inf}
    stages = ["RequestReceived", "ResponseComplete"]
    assert events(tmp_path / "audit.log") == [(PATH, stage) for _ in "abc" for stage in stages]


@pytest.mark.parametrize("mode", ["blocking", "blocking-strict"])
async def test_blocking_modes_wait_for_the_other_process(tmp_path: Path, mode: str) -> None:
    async with worker(tmp_path, audit_log_mode=mode) as (api, process):
        await api.create("configmaps", config_map("a"))
        assert events(tmp_path / "audit.log") == [(PATH, "RequestReceived"), (PATH, "ResponseComplete")]
        process.end()
        response = await api.ask("POST", PATH, config_map("b"))
        assert response.status == (201 if mode == "blocking" else 500)
        process.start()
        assert (await api.ask("POST", PATH, config_map("c"))).status == 201
        text = (await api.ask("GET", "/metrics")).text
        assert metric(text, 'apiserver_audit_error_total{plugin="log"}') == (2 if mode == "blocking" else 1)


async def test_failure_of_the_other_process_is_a_failure(tmp_path: Path) -> None:
    policy = rules("level: None, verbs: [get]", "level: Metadata")
    given = {"audit_log_path": "/dev/full", "audit_log_mode": "blocking-strict"}
    async with worker(tmp_path, policy, **given) as (api, _):
        assert (await api.ask("POST", PATH, config_map("a"))).status == 500
        text = (await api.ask("GET", "/metrics")).text
    assert metric(text, 'apiserver_audit_error_total{plugin="log"}') == 1
    assert metric(text, "apiserver_audit_requests_rejected_total ") == 1


async def test_batches_wait_for_the_next_process(tmp_path: Path) -> None:
    async with worker(tmp_path) as (api, process):
        await api.create("configmaps", config_map("a"))
        process.end()
        await api.create("configmaps", config_map("b"))
        process.start()
        await api.create("configmaps", config_map("c"))
        await api.finish()
    assert events(tmp_path / "audit.log") == [(PATH, "RequestReceived"), (PATH, "ResponseComplete")] * 3


async def test_full_buffer_drops_and_counts_while_the_other_process_is_away(tmp_path: Path) -> None:
    async with worker(tmp_path, audit_log_batch_buffer_size=4, audit_log_batch_max_size=1) as (api, process):
        process.end()
        await api.create("configmaps", config_map("a"))
        with trio.fail_after(30):
            while not process.waiting:
                await trio.sleep(0.001)
        for number in range(10):
            await api.create("configmaps", config_map(f"b{number}"))
        process.start()
        text = (await api.ask("GET", "/metrics")).text
        assert metric(text, 'apiserver_audit_error_total{plugin="buffered"}') > 0
        await api.finish()
    found = events(tmp_path / "audit.log")
    assert found[:2] == [(PATH, "RequestReceived"), (PATH, "ResponseComplete")]
    assert len(found) < 22


async def test_webhook_gets_the_events_from_the_other_process(tmp_path: Path) -> None:
    receiver = Receiver()
    async with https_peer(receiver.respond) as peer:
        given: dict[str, Any] = {
            "audit_webhook_config_file": peer.kubeconfig(tmp_path),
            "audit_webhook_batch_max_wait": 0.0,
            "audit_webhook_initial_backoff": 0.001,
            "audit_webhook_batch_throttle_qps": 10_000.0,
        }
        policy = rules("level: Metadata, verbs: [create]", more="omitStages: [RequestReceived]\n")
        async with worker(tmp_path, policy, **given) as (api, process):
            await api.create("configmaps", config_map("a"))
            with trio.fail_after(30):
                await receiver.reached(1)
            process.end()
            await api.create("configmaps", config_map("b"))
            process.start()
            with trio.fail_after(30):
                await receiver.reached(2)
            receiver.alive = False
            await api.create("configmaps", config_map("c"))
            with trio.fail_after(30):
                while 'plugin="webhook"} 1' not in (await api.ask("GET", "/metrics")).text:
                    await trio.sleep(0.001)
        assert receiver.names == ["a", "b"]


def test_workers_share_the_rate_of_batches(tmp_path: Path) -> None:
    async def unused(body: bytes, seconds: float) -> bytes:
        raise AssertionError

    settings = AuditSettings(
        audit_log_path=str(tmp_path / "audit.log"),
        audit_log_batch_throttle_enable=True,
        audit_log_batch_throttle_qps=8.0,
        audit_log_batch_throttle_burst=4,
    )
    delays = []
    for calls in (None, AuditCalls(unused, unused, 4)):
        throttle = shared_throttle(settings.backend("log"), calls)
        assert throttle is not None
        delays.append([throttle.delay(0.0) for _ in range(5)])
    assert delays == [[0, 0, 0, 0, 0.125], [0, 0.5, 1, 1.5, 2]]


async def test_long_lines_are_sent_in_portions_of_whole_lines() -> None:
    sent: list[bytes] = []
    lines = b"".join(b"%d" % number * 50_000 + b"\n" for number in range(20)) + b"x" * 600_000 + b"\n"

    async def write(data: bytes, _: float) -> bytes:
        sent.append(data)
        return b""

    output = RemoteOutput(write, math.inf)
    await trio.to_thread.run_sync(output.write, lines)
    assert b"".join(sent) == lines
    assert len(sent) > 3 and all(one.endswith(b"\n") for one in sent)
    assert max(map(len, sent)) <= 600_001 + (256 << 10)


async def test_lines_before_a_failure_count_as_written() -> None:
    writer = AuditWriter(Failing(), None, initial_backoff=0, in_turn=True)

    async def write(data: bytes, _: float) -> bytes:
        return await writer.write(data)

    output = RemoteOutput(write, math.inf)
    lines = (b"a" * 200_000 + b"\n") * 5
    with pytest.raises(NotWritten, match="no space") as failed:
        await trio.to_thread.run_sync(output.write, lines)
    assert failed.value.written == 3


class Failing:
    """An output that takes three lines."""

    def __init__(self) -> None:
        self.lines = 0

    def write(self, data: bytes) -> None:
        more = data.count(b"\n")
        taken = min(more, 3 - self.lines)
        self.lines += taken
        if taken < more:
            raise NotWritten(taken, "no space")

    def close(self) -> None:
        pass
