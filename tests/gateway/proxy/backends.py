"""Servers behind the proxy, in the test's own event loop, and a server that forwards to them.

    async with serving(respond) as backend, proxying() as api:
        await make_pod(api, backend.port)
        await api.ask("GET", f"{POD}:{backend.port}/proxy/path")

`respond` gets a `Call` with the head of the request, and writes whatever bytes it likes.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import trio

from rewound.gateway.settings.settings import ProxySettings
from tests.gateway.api import ADMIN, Api, served
from tests.gateway.outgoing.https_peer import pki

POD = "/api/v1/namespaces/default/pods/p"
LOOPBACK = "127.0.0.1"


@dataclass
class Call:
    """One request as a backend gets it."""

    stream: trio.abc.Stream
    head: str
    ahead: bytes  # of the body
    ended: trio.Event = field(default_factory=trio.Event)  # when the backend is done with it

    @property
    def line(self) -> str:
        return self.head.partition("\r\n")[0]

    @property
    def headers(self) -> list[tuple[str, str]]:
        lines = self.head.split("\r\n")[1:]
        return [(name.lower(), value.strip()) for name, _, value in (one.partition(":") for one in lines)]

    def header(self, name: str) -> str | None:
        return next((value for one, value in self.headers if one == name), None)

    async def read(self) -> bytes:
        if self.ahead:
            data, self.ahead = self.ahead, b""
            return data
        return bytes(await self.stream.receive_some(65536))

    async def body(self) -> bytes:
        """A complete body, by its length or in chunks."""
        data = b""
        if self.header("transfer-encoding"):
            while not data.endswith(b"0\r\n\r\n"):
                data += await self.read()
            return data
        while len(data) < int(self.header("content-length") or 0):
            data += await self.read()
        return data

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def reply(self, body: bytes = b"", *fields: str, status: str = "200 OK") -> None:
        lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *fields]
        await self.send("\r\n".join([*lines, "", ""]).encode() + body)


Respond = Callable[[Call], Awaitable[None]]


@dataclass
class Backend:
    port: int
    calls: list[Call] = field(default_factory=list)
    arrived: trio.Event = field(default_factory=trio.Event)  # the first call


@asynccontextmanager
async def serving(
    respond: Respond, *, certificate: str = "", host: str = LOOPBACK, port: int = 0
) -> AsyncIterator[Backend]:
    """A backend; with a certificate, over TLS."""
    context = None
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pki() / f"{certificate}.pem", pki() / f"{certificate}.key")
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(pki() / "ca.pem")
    async with trio.open_nursery() as nursery:
        [listener] = await trio.open_tcp_listeners(port, host=host)
        backend = Backend(listener.socket.getsockname()[1])
        handle = partial(_serve, backend, respond, context)
        nursery.start_soon(partial(trio.serve_listeners, handle, [listener]))
        try:
            yield backend
        finally:
            nursery.cancel_scope.cancel()


async def _serve(
    backend: Backend, respond: Respond, context: ssl.SSLContext | None, stream: trio.abc.Stream
) -> None:
    if context is not None:
        stream = trio.SSLStream(stream, context, server_side=True, https_compatible=True)
    call: Call | None = None
    try:
        async with stream:
            data = b""
            while b"\r\n\r\n" not in data:
                more = await stream.receive_some(65536)
                if not more:
                    return
                data += more
            head, _, ahead = data.partition(b"\r\n\r\n")
            call = Call(stream, head.decode("latin-1"), ahead)
            backend.calls.append(call)
            backend.arrived.set()
            await respond(call)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass
    finally:
        if call is not None:
            call.ended.set()


@asynccontextmanager
async def proxying(**changed: Any) -> AsyncIterator[Api]:
    """A server that forwards to loopback."""
    proxy = changed.pop("proxy", ProxySettings(allow_local_proxy_targets=True))
    async with served(proxy=proxy, **changed) as api:
        yield api


async def make_pod(api: Api, *, ip: str = LOOPBACK, node: str = "", **spec: Any) -> None:
    container = {"name": "c", "image": "i"}
    placed = {"nodeName": node} if node else {}
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [container], **placed, **spec}}
    (await api.ask("POST", "/api/v1/namespaces/default/pods", pod)).expect(201)
    if ip:
        status = {"status": {"podIP": ip, "podIPs": [{"ip": ip}]}}
        merge = {"content-type": "application/merge-patch+json"}
        (await api.ask("PATCH", f"{POD}/status", status, headers=merge)).expect(200)


async def make_node(api: Api, port: int = 0, *, address: str = LOOPBACK) -> None:
    await api.create("nodes", {"metadata": {"name": "n"}})
    status: dict[str, Any] = {"addresses": [{"type": "InternalIP", "address": address}] if address else []}
    if port:
        status["daemonEndpoints"] = {"kubeletEndpoint": {"Port": port}}
    merge = {"content-type": "application/merge-patch+json"}
    (await api.ask("PATCH", "/api/v1/nodes/n/status", {"status": status}, headers=merge)).expect(200)


@asynccontextmanager
async def raw_client(api: Api) -> AsyncIterator[trio.SocketStream]:
    assert api.addresses.insecure is not None
    stream = await trio.open_tcp_stream(*api.addresses.insecure)
    async with stream:
        yield stream


def request_head(method: str, target: str, *fields: str, token: str = ADMIN) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", "Host: api.test", f"Authorization: Bearer {token}", *fields]
    return "\r\n".join([*lines, "", ""]).encode()


async def receive_head(stream: trio.abc.Stream) -> tuple[str, bytes]:
    """The head of a response, and what has followed it."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = await stream.receive_some(65536)
        assert more, data
        data += more
    head, _, rest = data.partition(b"\r\n\r\n")
    return head.decode("latin-1"), rest


async def receive_all(stream: trio.abc.Stream) -> bytes:
    data = b""
    while more := await stream.receive_some(65536):
        data += more
    return data
