"""A server with --transport asgi: certificates, watches, and how requests and the server end, as with our transport."""

from __future__ import annotations

import logging
from pathlib import Path

import h2.config
import h2.connection
import pytest
import trio

from rewound.server.extensions import Extensions
from tests.gateway.api import Api, config_map, served
from tests.gateway.https import Kubeconfig, secure_client, served_securely
from tests.gateway.observing import Observer
from tests.gateway.transports import over
from tests.gateway.watch.watching import watching

ASGI = {"transport": "asgi"}


@pytest.mark.parametrize("http2", [False, True])
async def test_client_certificate_signs_in(http2: bool, tmp_path: Path) -> None:
    async with served_securely(**ASGI) as api:
        context = Kubeconfig(api.settings.kubeconfig).context(tmp_path)
        async with secure_client(api, context, http2=http2, http1=not http2) as client:
            listed = await client.get("/api/v1/namespaces")
            assert listed.status_code == 200
            assert listed.http_version == ("HTTP/2" if http2 else "HTTP/1.1")
            assert listed.headers["date"] and "server" not in listed.headers


@pytest.mark.parametrize("transport", ["ws", "wss", "h2", "h2s"])
async def test_watch_gets_every_change(transport: str) -> None:
    opened = served_securely if transport.endswith("s") and transport != "ws" else served
    async with opened(**ASGI) as api:
        path = api.path("configmaps")
        async with watching(api, path, transport, protocols=("v1.example",)) as watch:
            for name in ("a", "b"):
                await api.create("configmaps", config_map(name))
            assert await watch.types_and_names(2) == [("ADDED", "a"), ("ADDED", "b")]


@pytest.mark.parametrize("transport", ["asgi-http1", "asgi-http2"])
async def test_stop_ends_a_watch_after_its_last_event(transport: str) -> None:
    async with served(**ASGI) as api, over(transport, api):
        async with watching(api, api.path("configmaps")) as watch:
            await api.create("configmaps", config_map("a"))
            await watch.take(1)
            api.stop.set()
            assert await watch.end() == []
        await api.stopped.wait()


async def test_observer_gets_every_stage() -> None:
    observer = Observer()
    async with served(extensions=Extensions(observer=observer), **ASGI) as api:
        found = await api.ask("GET", "/version")
        assert found.headers["audit-id"].startswith("observed-")
        await observer.ended(1, "/version")
        async with over("asgi-http1", api), watching(api, api.path("secrets")) as watch:
            await api.create("secrets", config_map("a"))
            await watch.take(1)
        watched, *_ = [one for one in await observer.ended(2, api.path("secrets")) if one.method == "GET"]
        assert watched.stages == ["received", "attributes", "decision", "started", "complete"]
        assert watched.cut_off and watched.sent > 100


async def test_frame_for_a_stream_that_has_ended_ends_no_other_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "rewound.gateway")
    async with served(**ASGI) as api:
        connection, stream = await _http2(api)
        fields = [(":method", "POST"), (":scheme", "http"), (":authority", "t"), (":path", "/version")]
        connection.send_headers(1, [*fields, ("content-length", "999999999")])
        await stream.send_all(connection.data_to_send())
        with trio.fail_after(60):
            while not any(
                event.__class__.__name__ == "StreamEnded" for event in await _events(connection, stream)
            ):
                pass
        connection.send_data(1, b"more")
        await stream.send_all(connection.data_to_send())
        try:
            while await stream.receive_some():
                pass
        except trio.BrokenResourceError:
            pass  # reset
        await stream.aclose()
        assert (await api.ask("GET", "/livez")).text == "ok"
    logged = [record for record in caplog.records if "Hypercorn failed" in record.message]
    assert [record.levelname for record in logged] == ["DEBUG"]
    assert "KeyError" in caplog.text


async def _http2(api: Api) -> tuple[h2.connection.H2Connection, trio.SocketStream]:
    assert api.addresses.insecure is not None
    stream = await trio.open_tcp_stream(*api.addresses.insecure)
    connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
    connection.initiate_connection()
    return connection, stream


async def _events(connection: h2.connection.H2Connection, stream: trio.SocketStream) -> list[object]:
    return list(connection.receive_data(await stream.receive_some()))


async def test_large_list_in_parts_is_whole() -> None:
    async with served(**ASGI) as api:
        for number in range(30):
            await api.create("configmaps", config_map(f"a{number:02}", k="v" * 100_000))
        wanted = (await api.ask("GET", api.path("configmaps"), limit=500)).body
        assert len(wanted) > 3_000_000
        async with over("asgi-http2", api):
            assert (await api.ask("GET", api.path("configmaps"), limit=500)).body == wanted
