"""What workers share with the writer process, over channels: here all run in one process, each with its own store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
import trio

from rewound.gateway.settings.settings import AuditSettings
from rewound.gateway.store import Store
from rewound.server.extensions import Extensions
from rewound.workers.channel import Channel
from rewound.workers.shared import SharedOfWorker, SharedOfWriter
from tests.gateway.api import Api, config_map, served, settings
from tests.gateway.audit.auditing import PATH, rules
from tests.settling import settled
from tests.workers.test_channel import streams


class Writer:
    """A writer process: a server, and what it shares."""

    def __init__(self, api: Api, shared: SharedOfWriter, nursery: trio.Nursery) -> None:
        self.api = api
        self.shared = shared
        self.nursery = nursery

    @property
    def store(self) -> Store:
        assert self.api.store is not None
        return self.api.store

    def accept(self, stream: trio.SocketStream) -> Channel:
        channel = Channel(stream)
        self.shared.connected(channel)
        self.nursery.start_soon(self._serve, channel)
        return channel

    async def _serve(self, channel: Channel) -> None:
        try:
            await channel.run()
        finally:
            self.shared.disconnected(channel)


class Worker:
    """A worker, and its connection to the current writer process."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.nursery = nursery
        self.current: Channel | None = None
        self.arrived = trio.Event()
        self.shared = SharedOfWorker(self, workers=3)

    async def channel(self) -> Channel:
        while self.current is None:
            await self.arrived.wait()
        return self.current

    def connect(self, writer: Writer) -> None:
        here, there = streams()
        self.current = Channel(here)
        self.shared.connecting(self.current)
        self.nursery.start_soon(self.current.run)
        writer.accept(there)
        self.shared.connected(self.current)
        self.arrived.set()

    async def disconnect(self) -> None:
        assert self.current is not None
        self.current.close()
        self.current, self.arrived = None, trio.Event()
        await settled()


@asynccontextmanager
async def writing(folder: Path, **changed: Any) -> AsyncIterator[Writer]:
    folder.mkdir()
    async with trio.open_nursery() as nursery:
        shared = SharedOfWriter(settings(folder, **changed).audit, workers=3)
        nursery.start_soon(shared.run)
        async with served(folder, Extensions(shared=shared.shared), **changed) as api:
            yield Writer(api, shared, nursery)
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def working(writer: Writer, count: int, **changed: object) -> AsyncIterator[list[tuple[Api, Worker]]]:
    async with trio.open_nursery() as nursery, AsyncExitStack() as stack:
        found = []
        for _ in range(count):
            worker = Worker(nursery)
            worker.connect(writer)
            api = await stack.enter_async_context(
                served(None, Extensions(shared=worker.shared.shared), **changed)
            )
            found.append((api, worker))
        yield found
        await stack.aclose()
        nursery.cancel_scope.cancel()


async def scraped(api: Api) -> dict[str, float]:
    response = await api.ask("GET", "/metrics")
    assert response.status == 200
    lines = [line for line in response.text.splitlines() if not line.startswith("#")]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


async def test_scrape_of_any_process_shows_all(tmp_path: Path) -> None:
    async with writing(tmp_path / "writer") as writer, working(writer, 2) as workers:
        apis = [writer.api, *(api for api, _ in workers)]
        for api in apis:
            await api.ask("GET", f"{PATH}/missing")
        for api in apis:
            found = await scraped(api)
            assert found["rewound_workers"] == 3
            assert found["rewound_journal_head"] == writer.store.journal.head
            assert found["rewound_connections"] == 3
            [missing] = [number for name, number in found.items() if _is_missing(name)]
            assert missing == 3


async def test_levels_of_any_process_are_those_of_all(tmp_path: Path) -> None:
    path = "/debug/api_priority_and_fairness/dump_priority_levels"
    async with writing(tmp_path / "writer") as writer, working(writer, 2) as workers:
        dispatched = []
        for api in [writer.api, *(api for api, _ in workers)]:
            rows = [row.split(",") for row in (await api.ask("GET", path)).text.splitlines()]
            column = [one.strip() for one in rows[0]].index("DispatchedRequests")
            dispatched += [int(row[column]) for row in rows if row[0] == "exempt"]
        assert dispatched == [dispatched[0], dispatched[0] + 1, dispatched[0] + 2]


def _is_missing(name: str) -> bool:
    return name.startswith("apiserver_request_total") and 'code="404"' in name and "configmaps" in name


async def test_worker_that_ends_leaves_its_counts(tmp_path: Path) -> None:
    async with writing(tmp_path / "writer") as writer, working(writer, 2) as [(api, worker), (other, _)]:
        await api.ask("GET", f"{PATH}/missing")
        await worker.shared.leave()
        await worker.disconnect()
        found = await scraped(other)
        assert (found["rewound_workers"], found["rewound_workers_ended_total"]) == (2, 1)
        assert sum(number for name, number in found.items() if _is_missing(name)) == 1
        assert found["rewound_connections"] == 1


@pytest.mark.parametrize("scrapes", ["worker", "writer", "nobody, it leaves in good order"])
async def test_next_writer_process_inherits_what_the_last_one_counted(tmp_path: Path, scrapes: str) -> None:
    async with writing(tmp_path / "first") as first, working(first, 1) as [(api, worker)]:
        await first.api.ask("GET", f"{PATH}/missing")
        before = await scraped(first.api if scrapes == "writer" else api)
        if scrapes.startswith("nobody"):
            await first.shared.leave()
        await settled()
        await worker.disconnect()
        away = await scraped(api)
        assert (
            "rewound_workers" not in away and away["rewound_commits_total"] >= before["rewound_commits_total"]
        )
        async with writing(tmp_path / "second") as second:
            worker.connect(second)
            after = await scraped(api)
            counters = {
                name
                for name, number in before.items()
                if name.endswith("_total") and not name.startswith("process_") and after.get(name, 0) < number
            }
            assert counters == set()
            assert sum(number for name, number in away.items() if _is_missing(name)) == 1
            assert after["rewound_workers"] == 2
            await worker.disconnect()


async def test_health_of_a_worker_is_that_of_the_writer_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with writing(tmp_path / "writer") as writer, working(writer, 1) as [(api, worker)]:
        assert (await api.ask("GET", "/readyz")).status == 200
        monkeypatch.setattr(writer.store.committer, "last_failure", "disk full")
        assert (await api.ask("GET", "/readyz/journal")).text == "internal server error: disk full\n"
        [_, journal] = (await api.ask("GET", "/api/v1/componentstatuses")).expect(200)["items"]
        assert journal["conditions"][0]["error"] == "disk full"
        assert (await api.ask("GET", "/livez")).status == 200
        monkeypatch.setattr(writer.store.committer, "last_failure", "")
        assert (await api.ask("GET", "/readyz")).status == 200
        await worker.disconnect()
        assert (await api.ask("GET", "/readyz")).status == 500
        assert (await api.ask("GET", "/livez")).status == 200
        assert (await api.ask("GET", PATH)).status == 200
        worker.connect(writer)
        assert (await api.ask("GET", "/readyz")).status == 200


async def test_all_processes_write_one_audit_log(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(rules("level: Metadata, verbs: [create]"))
    audit = AuditSettings(
        audit_policy_file=tmp_path / "policy.yaml",
        audit_log_path=str(tmp_path / "audit.log"),
        audit_log_batch_max_wait=0.0,
    )
    process = writing(tmp_path / "writer", audit=audit)
    async with process as writer, working(writer, 2, audit=audit) as [(one, first), (other, _)]:
        for name in "ab":
            for api in (writer.api, one, other):
                await api.create("configmaps", config_map(name))
        await first.disconnect()
        await one.create("configmaps", config_map("c"))
        first.connect(writer)
    found: dict[str, list[str]] = {}
    for line in (tmp_path / "audit.log").read_bytes().splitlines():
        event = orjson.loads(line)
        stages = found.setdefault(event["auditID"], [])
        if event["stage"] not in stages:  # writes that were under way when the channel closed are sent again
            stages.append(event["stage"])
    assert list(found.values()) == [["RequestReceived", "ResponseComplete"]] * 7
