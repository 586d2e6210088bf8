"""Upgrades through the proxy: WebSockets and any other protocol, raw bytes until either side ends."""

from __future__ import annotations

import base64

import pytest
import trio
from trio_websocket import connect_websocket_url, serve_websocket

from tests.gateway.api import ADMIN
from tests.gateway.proxy.backends import (
    POD,
    Call,
    make_pod,
    proxying,
    raw_client,
    receive_all,
    receive_head,
    request_head,
    serving,
)

UPGRADE = ("Connection: Upgrade", "Upgrade: SPDY/3.1")


async def echo(call: Call) -> None:
    await call.send(
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\nX-Own: 1\r\n\r\nhi"
    )
    while data := await call.read():
        await call.send(data)
        if data.endswith(b"bye"):
            return


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_bytes_pass_both_ways_after_an_upgrade(method: str) -> None:
    every_byte = bytes(range(256)) * 2000
    async with serving(echo) as backend, proxying() as api, trio.open_nursery() as nursery:
        await make_pod(api)
        async with raw_client(api) as client:
            head = request_head(method, f"{POD}:{backend.port}/proxy/x?a=b", *UPGRADE)
            await client.send_all(head + b"early")
            shown, rest = await receive_head(client)
            assert shown.startswith("HTTP/1.1 101 ") and "X-Own: 1" in shown
            nursery.start_soon(client.send_all, every_byte + b"bye")
            rest += await receive_all(client)
        assert rest == b"hi" + b"early" + every_byte + b"bye"
        [call] = backend.calls
        assert call.line == f"{method} /x?a=b HTTP/1.1"
        assert (call.header("connection"), call.header("upgrade")) == ("Upgrade", "SPDY/3.1")
        assert call.header("authorization") is None and call.header("x-forwarded-for") == "127.0.0.1"


async def test_bytes_pass_both_ways_over_tls() -> None:
    """More than sockets hold, so that each side sends while it receives."""
    many = bytes(range(256)) * 20_000
    path = f"{POD.removesuffix('/p')}/https:p"
    async with (
        serving(echo, certificate="server") as backend,
        proxying() as api,
        trio.open_nursery() as nursery,
    ):
        await make_pod(api)
        async with raw_client(api) as client:
            await client.send_all(request_head("GET", f"{path}:{backend.port}/proxy/x", *UPGRADE))
            _, rest = await receive_head(client)
            nursery.start_soon(client.send_all, many + b"bye")
            rest += await receive_all(client)
        assert rest == b"hi" + many + b"bye"


@pytest.mark.parametrize("lines", ["one", "two"])
async def test_the_token_in_a_subprotocol_is_not_forwarded(lines: str) -> None:
    token = "base64url.bearer.authorization.cluster.io." + base64.urlsafe_b64encode(ADMIN.encode()).decode()
    offered = {"one": [f"{token}, v1.example"], "two": [token, "v1.example"]}[lines]
    fields = [f"Sec-WebSocket-Protocol: {one}" for one in offered]
    async with serving(echo) as backend, proxying() as api:
        await make_pod(api)
        async with raw_client(api) as client:
            head = request_head("GET", f"{POD}:{backend.port}/proxy/x", "Connection: Upgrade", *fields)
            await client.send_all(head[:-2] + b"Upgrade: websocket\r\n\r\n")
            shown, _ = await receive_head(client)
            assert shown.startswith("HTTP/1.1 101 ")
        [call] = backend.calls
        assert [value for name, value in call.headers if name == "sec-websocket-protocol"] == ["v1.example"]


async def test_a_client_that_ends_an_upgraded_connection_ends_the_backends() -> None:
    async with serving(echo) as backend, proxying() as api:
        await make_pod(api)
        async with raw_client(api) as client:
            await client.send_all(request_head("GET", f"{POD}:{backend.port}/proxy/x", *UPGRADE))
            await receive_head(client)
        await backend.calls[0].ended.wait()


async def test_a_stopping_server_ends_upgraded_connections() -> None:
    async with serving(echo) as backend, proxying() as api:
        await make_pod(api)
        async with raw_client(api) as client:
            await client.send_all(request_head("GET", f"{POD}:{backend.port}/proxy/x", *UPGRADE))
            _, rest = await receive_head(client)
            await api.finish()
            assert rest + await receive_all(client) == b"hi"
        await backend.calls[0].ended.wait()


async def test_websockets_pass() -> None:
    async def serve(request: object) -> None:
        websocket = await request.accept()  # type: ignore[attr-defined]
        while True:
            await websocket.send_message(await websocket.get_message())

    async with proxying() as api, trio.open_nursery() as nursery:
        await make_pod(api)
        server = await nursery.start(serve_websocket, serve, "127.0.0.1", 0, None)
        assert api.addresses.insecure is not None
        url = f"ws://127.0.0.1:{api.addresses.insecure[1]}{POD}:{server.port}/proxy/socket"
        headers = [("Authorization", "Bearer admin-token")]
        websocket = await connect_websocket_url(nursery, url, extra_headers=headers)
        for message in ("hello", b"\x00\xff" * 50_000):
            await websocket.send_message(message)
            assert await websocket.get_message() == message
        await websocket.aclose()
        nursery.cancel_scope.cancel()


async def test_a_backend_may_decline_an_upgrade() -> None:
    async def decline(call: Call) -> None:
        code = call.line.split()[1].strip("/")
        await call.reply(b"no", status=f"{code} Declined")

    async with serving(decline) as backend, proxying() as api:
        await make_pod(api)
        path = f"{POD}:{backend.port}/proxy"
        async with raw_client(api) as client:
            await client.send_all(request_head("GET", f"{path}/403", *UPGRADE))
            head, rest = await receive_head(client)
            assert head.startswith("HTTP/1.1 403 ") and rest == b"no"
            await client.send_all(request_head("GET", f"{path}/200", *UPGRADE))
            head, rest = await receive_head(client)
            assert head.startswith("HTTP/1.1 500 ")
            assert b"invalid upgrade response: status code 200" in rest
            await client.send_all(request_head("GET", "/livez", "Connection: close"))
            assert (await receive_all(client)).endswith(b"ok")


async def test_no_backend_for_an_upgrade() -> None:
    async with serving(echo) as backend, proxying() as api:
        await make_pod(api)
        free = backend.port
    async with proxying() as api, raw_client(api) as client:
        await make_pod(api)
        await client.send_all(request_head("GET", f"{POD}:{free}/proxy/x", *UPGRADE, "Connection: close"))
        head, _ = await receive_head(client)
        assert head.startswith("HTTP/1.1 500 ")
