"""Health checks while the server starts and stops, and which requests it serves meanwhile."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
import trio
from trio.testing import MockClock

from rewound.actors.bootstrap.bootstrap import Bootstrap
from rewound.server import open_store
from rewound.server.run import run
from tests.actors.object_store import ManualClock, memory_folder
from tests.gateway.api import ADMIN, Api, SlowDisk, config_map, served, settings
from tests.ports import reserve_port
from tests.settling import settled


class Gate:
    """Holds the last step of a start until `open` is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.entered, self.open = trio.Event(), trio.Event()
        step = Bootstrap.create_objects

        async def held(bootstrap: Bootstrap, *rest: Any) -> None:
            self.entered.set()
            await self.open.wait()
            await step(bootstrap, *rest)

        monkeypatch.setattr(Bootstrap, "create_objects", held)


async def statuses(client: httpx.AsyncClient) -> list[int]:
    return [(await client.get(f"/{kind}")).status_code for kind in ("livez", "readyz", "healthz")]


async def test_first_list_has_a_resource_version_to_watch_from(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    with memory_folder() as folder:
        port = reserve_port()
        async with trio.open_nursery() as nursery:
            stop = trio.Event()
            asked = settings(folder, insecure_port=port)
            nursery.start_soon(run, asked, lambda _: None, stop, ManualClock())
            await gate.entered.wait()
            access = {"authorization": f"Bearer {ADMIN}"}
            async with httpx.AsyncClient(
                base_url=f"http://127.0.0.1:{port}", headers=access, verify=False
            ) as client:
                listed = (await client.get("/api/v1/configmaps")).json()
            assert int(listed["metadata"]["resourceVersion"]) > 0
            gate.open.set()
            stop.set()


@pytest.mark.parametrize("grace", [0.0, 30.0])
async def test_health_checks_fail_until_the_start_is_finished(
    grace: float, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    with memory_folder() as folder:
        port = reserve_port()
        asked = settings(folder, insecure_port=port, livez_grace_period=grace)
        async with trio.open_nursery() as nursery:
            announced: list[object] = []
            stop = trio.Event()
            nursery.start_soon(run, asked, announced.append, stop, ManualClock())
            await gate.entered.wait()
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", verify=False) as client:
                assert await statuses(client) == [200 if grace else 500, 500, 500]
                text = (await client.get("/readyz?verbose")).text
                assert "[-]start failed: reason withheld\n" in text
                assert text.endswith("readyz check failed\n")
                mock_clock.jump(grace)
                assert await statuses(client) == [500, 500, 500]
                assert not announced
                gate.open.set()
                await settled()
                assert announced
                assert await statuses(client) == [200, 200, 200]
            stop.set()


async def stopping(api: Api) -> None:
    await api.ask("GET", "/livez")
    api.stop.set()
    await settled()


async def test_readyz_fails_during_the_delay_while_requests_are_served(mock_clock: MockClock) -> None:
    async with served(shutdown_delay_duration=20.0) as api:
        await stopping(api)
        assert [(await api.ask("GET", f"/{kind}")).status for kind in ("livez", "readyz", "healthz")] == [
            200,
            500,
            200,
        ]
        text = (await api.ask("GET", "/readyz?verbose")).text
        assert "[-]shutdown failed: reason withheld\n" in text
        assert "the server is shutting down" in (await api.ask("GET", "/readyz/shutdown")).text
        await api.create("configmaps", config_map("late"))
        async with httpx.AsyncClient(base_url=str(api.client.base_url), verify=False) as another:
            found = await another.get(
                api.path("configmaps", name="late"), headers={"authorization": f"Bearer {ADMIN}"}
            )
            assert found.status_code == 200
        mock_clock.jump(19.9)
        await settled()
        assert not api.stopped.is_set()
        mock_clock.jump(0.1)
        await api.stopped.wait()


async def test_without_a_delay_the_listeners_close_at_once() -> None:
    async with served() as api:
        await stopping(api)
        await api.stopped.wait()
        with pytest.raises(httpx.ConnectError):
            await api.ask("GET", "/livez")


async def test_running_writes_finish_and_persist_when_the_server_stops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(open_store, "Committer", SlowDisk)
    async with served() as api:
        statuses_of_writes = []

        async def write(number: int) -> None:
            statuses_of_writes.append(
                (await api.ask("POST", api.path("configmaps"), config_map(f"c{number}"))).status
            )

        monkeypatch.setattr(SlowDisk, "gate", gate := trio.Event())
        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(write, number)
            await settled()
            api.stop.set()
            await settled()
            assert not statuses_of_writes
            gate.set()
        assert statuses_of_writes == [201] * 20
        await api.stopped.wait()
        await api.restart()
        assert len((await api.list("configmaps"))["items"]) == 20


async def test_cancelled_server_ends_although_writes_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unacknowledged writes may be lost, but must not keep the server from ending."""
    monkeypatch.setattr(open_store, "Committer", SlowDisk)
    with memory_folder() as folder:
        asked = settings(folder, insecure_port=reserve_port())
        async with trio.open_nursery() as nursery:
            announced = trio.Event()
            nursery.start_soon(run, asked, lambda _: announced.set(), trio.Event(), ManualClock())
            await announced.wait()
            monkeypatch.setattr(SlowDisk, "gate", trio.Event())
            body = b'{"metadata":{"name":"a"}}'
            head = b"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: t\r\n"
            access = b"Authorization: Bearer %b\r\nContent-Length: %d\r\n\r\n" % (ADMIN.encode(), len(body))
            async with await trio.open_tcp_stream("127.0.0.1", asked.insecure_port) as stream:
                await stream.send_all(head + access + body)
                await settled()
                nursery.cancel_scope.cancel()
        monkeypatch.setattr(SlowDisk, "gate", None)
        async with served(folder) as api:
            assert (await api.list("configmaps"))["items"] == []
