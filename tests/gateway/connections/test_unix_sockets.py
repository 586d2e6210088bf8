"""Unix sockets: both protocols, with and without TLS; a client has no address there."""

from __future__ import annotations

from pathlib import Path

import trio

from rewound.gateway.message import Request, Response
from tests.gateway.connections.http2.raw_client import RawClient
from tests.gateway.connections.http_server import Client, authority, served


async def address(request: Request) -> Response:
    peer = request.peer
    return Response(200, f"{peer.address!r} {peer.secure} {peer.certificate is not None}".encode())


async def test_a_client_without_address_is_served_in_plain_http(tmp_path: Path) -> None:
    path = f"{tmp_path}/plain.sock"
    async with served(address, insecure_bind=f"unix:{path}"), await trio.open_unix_socket(path) as stream:
        client = Client(stream)
        for _ in range(2):
            assert (await client.get()).body == b"'' False False"


async def test_a_client_without_address_is_served_with_tls(tmp_path: Path) -> None:
    path = f"{tmp_path}/tls.sock"
    async with served(address, bind=f"unix:{path}"):
        context = authority().client_context(certificate=True)
        stream = trio.SSLStream(await trio.open_unix_socket(path), context, server_hostname="localhost")
        assert (await Client(stream).get()).body == b"'' True True"
        await trio.aclose_forcefully(stream)


async def test_http2_is_served_too(tmp_path: Path) -> None:
    path = f"{tmp_path}/plain.sock"
    async with served(address, insecure_bind=f"unix:{path}"), await trio.open_unix_socket(path) as stream:
        client = RawClient(stream)
        await client.open(None)
        stream_id = await client.request("/")
        assert (await client.response(stream_id)).body == b"'' False False"


async def test_a_large_response_arrives_whole(tmp_path: Path) -> None:
    body = bytes(range(256)) * 16_000

    async def large(_: Request) -> Response:
        return Response(200, body, b"text/plain")

    path = f"{tmp_path}/plain.sock"
    async with served(large, insecure_bind=f"unix:{path}"), await trio.open_unix_socket(path) as stream:
        assert (await Client(stream).get()).body == body


async def test_stopping_ends_idle_connections(tmp_path: Path) -> None:
    path = f"{tmp_path}/plain.sock"
    async with served(insecure_bind=f"unix:{path}") as host, await trio.open_unix_socket(path) as stream:
        client = Client(stream)
        await client.get()
        host.stop.set()
        assert await client.ended()
        await host.stopped.wait()
