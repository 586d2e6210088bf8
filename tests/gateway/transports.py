"""Clients for the transports of a server: the same requests over HTTP/1.1, HTTP/2 and HTTP/3, with our protocols or
Hypercorn's.

server = ServerThread(**TRANSPORTS["asgi-http2"].settings)
async with server.connected() as api, over("asgi-http2", api) as api: ...
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.conformance.http3_client import Http3Client, connected
from tests.gateway.api import Api
from tests.gateway.initial_data import SECURE_PORT


@dataclass(frozen=True)
class Transport:
    """The settings of its server, and the HTTP version of its client."""

    version: int
    settings: dict[str, Any] = field(default_factory=dict)


_HTTP3 = {"transport": "asgi", "secure_port": SECURE_PORT, "quic_bind": "127.0.0.1:0"}
TRANSPORTS = {
    "http1": Transport(1),
    "http2": Transport(2),
    "asgi-http1": Transport(1, {"transport": "asgi"}),
    "asgi-http2": Transport(2, {"transport": "asgi"}),
    "asgi-http3": Transport(3, _HTTP3),
}


@asynccontextmanager
async def over(transport: str, api: Api) -> AsyncIterator[Api]:
    """The API through a transport: `ask` and `client` speak its version of HTTP."""
    if transport == "http1":
        yield api
        return
    version = TRANSPORTS[transport].version
    async with AsyncExitStack() as stack:
        assert api.addresses.insecure is not None
        host, port = api.addresses.insecure
        through: httpx.AsyncBaseTransport = httpx.AsyncHTTPTransport(
            verify=False, http1=version == 1, http2=version == 2
        )
        if version == 3:
            assert api.addresses.quic is not None
            through = Http3Transport(await stack.enter_async_context(connected(*api.addresses.quic)))
        client = httpx.AsyncClient(transport=through, base_url=f"http://{host}:{port}", timeout=30)
        api.use_client(await stack.enter_async_context(client))
        yield api


class Http3Transport(httpx.AsyncBaseTransport):
    """httpx over one connection of HTTP/3."""

    def __init__(self, client: Http3Client) -> None:
        self._client = client

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        fields = [(name.lower(), value) for name, value in request.headers.raw]
        fields = [one for one in fields if one[0] not in (b"connection", b"transfer-encoding")]
        body = await request.aread()
        stack = AsyncExitStack()
        answer = await stack.enter_async_context(
            self._client.request(request.method.encode(), request.url.raw_path, fields, body)
        )
        return httpx.Response(answer.status, headers=answer.fields, stream=_Body(answer.parts, stack))


class _Body(httpx.AsyncByteStream):
    def __init__(self, parts: AsyncIterator[bytes], stack: AsyncExitStack) -> None:
        self._parts, self._stack = parts, stack

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._parts:
            yield part

    async def aclose(self) -> None:
        await self._stack.aclose()
