"""The close code of a WebSocket: 1000 for its timeout, 1001 a stopping server, 1008 too old, 1011 a server error."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from rewound.gateway.watch.selection import Selection
from tests.gateway.api import config_map, served
from tests.gateway.watch.websocket_client import CLOSE, Frame, masked, websocket_client
from tests.settling import advance

PATH = "/api/v1/namespaces/default/configmaps"


@pytest.mark.parametrize("echoed", [True, False], ids=["echoed", "not-echoed"])
async def test_timeout_closes_with_1000(echoed: bool, mock_clock: MockClock) -> None:
    async with served() as api, websocket_client(api, f"{PATH}?watch=1&timeoutSeconds=5") as raw:
        await advance(mock_clock, 6)
        frame = await raw.frame()
        assert (frame, frame.code) == (Frame(CLOSE, b"\x03\xe8"), 1000)
        if echoed:
            await raw.send(masked(CLOSE, b"\x03\xe8"))
        else:
            await advance(mock_clock, 3)
        assert await raw.ended()


async def test_stopping_server_closes_with_1001() -> None:
    async with served() as api, websocket_client(api, f"{PATH}?watch=1") as raw:
        await api.close_idle()
        api.stop.set()
        assert (await raw.frame()).code == 1001
        await raw.send(masked(CLOSE, b"\x03\xe9"))
        assert await raw.ended()
        await api.stopped.wait()
        await api.start()


async def test_expired_version_closes_with_1008() -> None:
    async with served() as api:
        await api.create("configmaps", config_map("a"))
        api.clock.advance(400)
        await api.create("configmaps", config_map("b"))
        async with websocket_client(api, f"{PATH}?watch=1&resourceVersion=1") as raw:
            assert (await raw.frame()).event["object"]["code"] == 410
            assert (await raw.frame()).code == 1008


async def test_failed_sweep_closes_with_1011(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served() as api, websocket_client(api, f"{PATH}?watch=1") as raw:
        monkeypatch.setattr(Selection, "select", lambda *_: 1 / 0)
        await api.create("configmaps", config_map("a"))
        assert (await raw.frame()).event["object"]["code"] == 500
        assert (await raw.frame()).code == 1011
