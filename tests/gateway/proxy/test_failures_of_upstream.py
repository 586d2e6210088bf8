"""The errors that a client gets when the backend cannot be reached or breaks off, with the texts of Kubernetes."""

from __future__ import annotations

import socket

import pytest
import trio

from rewound.actors.certificates.trust import unverifying, verifying
from rewound.actors.errors import BadRequest
from rewound.gateway.outgoing.connections import Connections
from rewound.gateway.proxy.upstream import MAX_HEAD, Target, Unreachable, Upstream, UpstreamFailed, connect
from tests.cases import cases
from tests.gateway.outgoing.https_peer import pki
from tests.gateway.proxy.backends import LOOPBACK, Call, serving

OK = b"HTTP/1.1 200 OK\r\n"


class Stream:
    """Sends given parts, and then ends or fails."""

    def __init__(self, *parts: bytes | OSError) -> None:
        self._parts = list(parts)

    async def send(self, data: bytes) -> None:
        raise ConnectionResetError

    async def receive(self) -> bytes:
        part = self._parts.pop(0) if self._parts else b""
        if isinstance(part, OSError):
            raise part
        return part

    def readable(self) -> bool:
        return True

    def expire(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        pass


async def read(upstream: Upstream) -> None:
    await upstream.read_head()
    while await upstream.read_part():
        pass


@cases(
    ("parts", "text"),
    [
        ((), "EOF"),
        ((b"HTTP/1.1 2",), "EOF"),
        ((ConnectionResetError(),), "read: connection reset by peer"),
        ((b"HTTP/1.1 2", TimeoutError()), "read: connection reset by peer"),
        ((b"nonsense\r\n\r\n",), "malformed HTTP response: the response is not HTTP/1.1"),
        ((OK + b"A: " + b"x" * MAX_HEAD + b"\r\n\r\n",), f"server response headers exceeded {MAX_HEAD} bytes"),
        ((OK + b"Content-Length: 4\r\n\r\nbod",), "unexpected EOF"),
        ((OK + b"Content-Length: 4\r\n\r\nbod", ConnectionResetError()), "read: connection reset by peer"),
        ((OK + b"\r\nbod", ConnectionResetError()), "read: connection reset by peer"),
        ((OK + b"Content-Length: x\r\n\r\n",), "malformed HTTP response: the response has an invalid Content-Length"),
    ],
)  # fmt: skip
async def test_response_that_is_none_or_breaks_off(parts: tuple[bytes | OSError, ...], text: str) -> None:
    with pytest.raises(UpstreamFailed) as raised:
        await read(Upstream(Stream(*parts), "GET"))
    assert str(raised.value) == text


async def test_request_that_cannot_be_sent() -> None:
    with pytest.raises(UpstreamFailed, match=r"^write: broken pipe$"):
        await Upstream(Stream(), "GET").send_head("/", [], chunked=False)


async def failure_of(target: Target) -> str:
    with pytest.raises(Unreachable) as raised:
        await connect(Connections(max_idle=0), target)
    return str(raised.value)


async def test_connection_that_is_refused() -> None:
    with socket.create_server((LOOPBACK, 0)) as listener:
        port = listener.getsockname()[1]
    target = Target(host=LOOPBACK, port=port, path="/", local_allowed=True)
    assert await failure_of(target) == f"dial tcp 127.0.0.1:{port}: connect: connection refused"


async def test_address_that_is_not_allowed() -> None:
    for host in (LOOPBACK, "::1", "localhost"):
        with pytest.raises(BadRequest, match=r"^address not allowed: .*--allow-local-proxy-targets$"):
            await connect(Connections(max_idle=0), Target(host=host, port=1, path="/"))


async def test_certificate_that_is_not_trusted() -> None:
    async def never(call: Call) -> None:
        raise AssertionError(call)

    async with serving(never, certificate="other") as backend:
        trusting = verifying((pki() / "ca.pem").read_bytes())
        target = Target(host=LOOPBACK, port=backend.port, path="/", tls=trusting, local_allowed=True)
        assert (await failure_of(target)).startswith("x509: IP address mismatch")


async def test_backend_without_tls_is_a_clear_error() -> None:
    async def serve(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(
            b"HTTP/1.1 400 Bad Request\r\n\r\n" if stream.socket.getsockname()[1] == plain else b""
        )
        await stream.aclose()

    async with trio.open_nursery() as nursery:
        listeners = [
            *await trio.open_tcp_listeners(0, host=LOOPBACK),
            *await trio.open_tcp_listeners(0, host=LOOPBACK),
        ]
        plain, closing = (one.socket.getsockname()[1] for one in listeners)
        nursery.start_soon(trio.serve_listeners, serve, listeners)
        found = [
            await failure_of(
                Target(host=LOOPBACK, port=port, path="/", tls=unverifying(), local_allowed=True)
            )
            for port in (plain, closing)
        ]
        nursery.cancel_scope.cancel()
    assert found == ["http: server gave HTTP response to HTTPS client", "EOF"]
