"""Pooled connections, proxies and URLs of the client that calls webhooks."""

from __future__ import annotations

import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio

from rewound.gateway.outgoing.client import MAX_LARGE_BODIES, HttpsClient
from rewound.gateway.outgoing.connections import IDLE_SECONDS, InvalidUrl, parse_url
from rewound.gateway.outgoing.response import LARGE_BODY, Disconnected, ResponseError, ResponseTooLarge
from tests.cases import cases
from tests.gateway.outgoing.https_peer import Received, Reply, https_peer, pki

LARGEST = 1 << 20


def client(*, proxy_url: str = "", server_name: str = "", max_idle: int = 10) -> HttpsClient:
    context = ssl.create_default_context(cafile=str(pki() / "ca.pem"))
    context.load_cert_chain(pki() / "client.pem", pki() / "client.key")
    return HttpsClient(context, server_name=server_name, proxy_url=proxy_url, max_idle=max_idle)


@asynccontextmanager
async def closing_server(requests: list[bytes], *, after: int) -> AsyncIterator[int]:
    """An HTTPS server that responds to this many requests of a connection, and reads one more before it closes."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pki() / "server.pem", pki() / "server.key")

    async def serve(stream: trio.SSLStream[trio.SocketStream]) -> None:
        for _ in range(after):
            requests.append(await stream.receive_some())
            await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        requests.append(await stream.receive_some())
        await trio.aclose_forcefully(stream)

    async with trio.open_nursery() as nursery:
        listeners = await trio.open_ssl_over_tcp_listeners(
            0, context, host="127.0.0.1", https_compatible=True
        )
        nursery.start_soon(partial(trio.serve_listeners, serve, listeners))
        yield listeners[0].transport_listener.socket.getsockname()[1]
        nursery.cancel_scope.cancel()


async def test_request_on_a_pooled_connection_that_is_closed_goes_over_a_new_one() -> None:
    requests: list[bytes] = []
    async with closing_server(requests, after=1) as port:
        calls = client()
        for number in range(3):
            body = b"%d" % number
            assert (await calls.request(f"https://127.0.0.1:{port}/", {}, body, LARGEST)).body == b"{}"
        calls.close()
    # The first request on each connection gets a response, the second one none.
    assert [one[-1:] for one in requests if one] == [b"0", b"1", b"1", b"2", b"2"]


async def test_request_on_a_new_connection_that_is_closed_fails() -> None:
    requests: list[bytes] = []
    async with closing_server(requests, after=0) as port:
        with pytest.raises(Disconnected):
            await client().request(f"https://127.0.0.1:{port}/", {}, b"x", LARGEST)
    assert len(requests) == 1, "no second try"


async def test_connections_that_were_idle_for_long_are_closed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    autojump_clock.autojump_threshold = 0.05
    async with https_peer(lambda received: {}) as peer:
        calls, url = client(), f"https://127.0.0.1:{peer.port}/"
        await calls.request(url, {}, b"{}", LARGEST)
        autojump_clock.jump(IDLE_SECONDS - 1)
        await calls.request(url, {}, b"{}", LARGEST)
        assert peer.connections == 1
        autojump_clock.jump(IDLE_SECONDS + 1)
        await calls.request(url, {}, b"{}", LARGEST)
        assert peer.connections == 2
        calls.close()


async def test_no_more_connections_are_pooled_than_asked_for() -> None:
    both = trio.Event()

    async def respond(received: Received) -> object:
        if len(peer.received) == 2:
            both.set()
        await both.wait()
        return {}

    async with https_peer(respond) as peer:
        calls, url = client(max_idle=1), f"https://127.0.0.1:{peer.port}/"
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(calls.request, url, {}, b"{}", LARGEST)
        for _ in range(3):
            await calls.request(url, {}, b"{}", LARGEST)
        assert peer.connections == 2
        calls.close()


async def test_client_may_keep_no_connections() -> None:
    async with https_peer(lambda received: {}) as peer:
        calls, url = client(max_idle=0), f"https://127.0.0.1:{peer.port}/"
        for _ in range(2):
            await calls.request(url, {}, b"{}", LARGEST)
        assert peer.connections == 2


async def test_closed_client_keeps_no_connection_of_a_request_that_still_ran() -> None:
    async with https_peer(lambda received: {}) as peer:
        calls, url = client(), f"https://127.0.0.1:{peer.port}/"
        await calls.request(url, {}, b"{}", LARGEST)
        calls.close()
        for _ in range(2):
            await calls.request(url, {}, b"{}", LARGEST)
        assert peer.connections == 3


async def test_connections_at_once_do_not_mix_what_they_send() -> None:
    """All connections of a client share the BIO that TLS writes to."""
    async with https_peer(lambda received: Reply(body=received.body)) as peer:
        calls, url = client(), f"https://127.0.0.1:{peer.port}/"

        async def echo(number: int) -> None:
            body = bytes([97 + number]) * (300_000 + number)  # many records, more than a socket takes at once
            for _ in range(2):
                assert (await calls.request(url, {}, body, LARGEST)).body == body

        async with trio.open_nursery() as nursery:
            for number in range(4):
                nursery.start_soon(echo, number)
        calls.close()


async def test_failed_handshake_leaves_nothing_for_other_connections() -> None:
    async with (
        https_peer(lambda received: {}, certificate="other") as wrong,
        https_peer(lambda r: {}) as right,
    ):
        calls = client()
        await calls.request(f"https://127.0.0.1:{right.port}/", {}, b"{}", LARGEST)
        with pytest.raises(ssl.SSLCertVerificationError):
            await calls.request(f"https://127.0.0.1:{wrong.port}/", {}, b"{}", LARGEST)
        response = await calls.request(f"https://127.0.0.1:{right.port}/", {}, b"{}", LARGEST)
        assert (response.status, right.connections) == (200, 1), "the alert was not sent here"
        calls.close()


@asynccontextmanager
async def proxy(heads: list[bytes], response: bytes = b"HTTP/1.1 200 OK\r\n\r\n") -> AsyncIterator[int]:
    async def serve(stream: trio.SocketStream) -> None:
        head = await stream.receive_some()
        heads.append(head)
        await stream.send_all(response)
        if b" 200 " not in response:
            return
        host, _, port = head.split()[1].decode().rpartition(":")
        onward = await trio.open_tcp_stream(host, int(port))
        async with onward, trio.open_nursery() as nursery:
            nursery.start_soon(copy, stream, onward)
            nursery.start_soon(copy, onward, stream)

    async def copy(one: trio.SocketStream, other: trio.SocketStream) -> None:
        async for part in one:
            await other.send_all(part)
        await other.send_eof()

    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, serve, listeners)
        yield listeners[0].socket.getsockname()[1]
        nursery.cancel_scope.cancel()


async def test_proxy_gets_the_address_and_its_own_credentials_only() -> None:
    heads: list[bytes] = []
    async with https_peer(lambda received: {"ok": True}) as peer, proxy(heads) as port:
        calls = client(proxy_url=f"http://u:p%40@127.0.0.1:{port}")
        url = f"https://127.0.0.1:{peer.port}/review"
        for _ in range(2):
            response = await calls.request(url, {"authorization": "Bearer secret"}, b"{}", LARGEST)
            assert response.body == b'{"ok":true}'
        calls.close()
    [head] = heads
    assert head.startswith(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n" % peer.port)
    assert b"proxy-authorization: Basic " + base64.b64encode(b"u:p@") in head and b"secret" not in head
    assert peer.received[0].headers["authorization"] == "Bearer secret"


async def test_proxy_that_refuses_is_a_failure() -> None:
    async with proxy([], b"HTTP/1.1 403 Forbidden\r\n\r\n") as port:
        calls = client(proxy_url=f"http://127.0.0.1:{port}")
        with pytest.raises(ResponseError, match="the proxy responded with status 403"):
            await calls.request("https://127.0.0.1:1/", {}, b"{}", LARGEST)


@cases(
    ("url", "authority", "path"),
    [
        ("https://hook", "hook", "/"),
        ("https://hook:443/a%2Fb?x=1&y", "hook", "/a%2Fb?x=1&y"),
        ("https://hook:8443/a b\u00e9?q=\u00e9", "hook:8443", "/a%20b%C3%A9?q=%C3%A9"),
        ("https://[::1]:8443/", "[::1]:8443", "/"),
        ("https://b\u00fccher.example/", "xn--bcher-kva.example", "/"),
        ("https://hook/a\r\nX-Evil: 1", "hook", "/aX-Evil:%201"),
    ],
)
def test_urls_are_parsed_or_refused(url: str, authority: str, path: str) -> None:
    found = parse_url(url)
    assert (found.authority, found.path) == (authority, path)


@cases("url", ["ftp://x", "https://", "https://a b/", "https://x:99999/", "hook", "https://[x/"])
def test_urls_that_cannot_be_used(url: str) -> None:
    with pytest.raises(InvalidUrl):
        parse_url(url)


async def test_calls_need_https() -> None:
    with pytest.raises(InvalidUrl):
        await client().request("http://127.0.0.1:1/", {}, b"", LARGEST)


@pytest.mark.parametrize("max_idle", [100, 1])
async def test_large_bodies_at_once_take_turns(max_idle: int) -> None:
    body = b"x" * (LARGE_BODY + 1)
    async with https_peer(lambda _: Reply(body=body)) as peer:
        calls, url = client(max_idle=max_idle), f"https://127.0.0.1:{peer.port}/"
        bodies: list[bytes] = []

        async def call() -> None:
            bodies.append((await calls.request(url, {}, b"", 2 << 20, trio.current_time() + 60)).body)

        with pytest.raises(ResponseTooLarge):
            await calls.request(url, {}, b"", LARGE_BODY)
        for _ in range(2):  # the second time over pooled connections
            async with trio.open_nursery() as nursery:
                for _ in range(MAX_LARGE_BODIES + 2):
                    nursery.start_soon(call)
        assert bodies == [body] * 2 * (MAX_LARGE_BODIES + 2)
        calls.close()
