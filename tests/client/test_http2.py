"""Requests that share HTTP/2 connections: how many there are, and what ends a stream, a connection or nothing."""

from __future__ import annotations

import gzip
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import h2.errors
import h2.settings
import orjson
import pytest
import trio
from trio.testing import MockClock

from rewound.client import http2, streaming
from rewound.client.credentials import Credential, KeyPair
from rewound.client.errors import ClientError, StatusError
from rewound.client.http2 import Http2Session
from rewound.client.http2_connection import STREAM_WINDOW
from rewound.client.target import Target
from rewound.http2 import frames
from tests.client import pki
from tests.client.http2_server import Http2Server, Peer, empty, server_context, serving

STREAMS = h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS
WINDOW = h2.settings.SettingCodes.INITIAL_WINDOW_SIZE


@asynccontextmanager
async def session_to(
    server: Http2Server, target: Target | None = None, **given: Any
) -> AsyncIterator[Http2Session]:
    async with trio.open_nursery() as nursery:
        session = Http2Session(target or server.target(), nursery, **given)
        try:
            yield session
        finally:
            with trio.CancelScope(shield=True):
                await session.aclose()
            nursery.cancel_scope.cancel()


class Watch:
    """A watch in a task: its lines, and how it ended."""

    def __init__(
        self, session: Http2Session, path: str, *, stalls: bool = False, seconds: float = 60
    ) -> None:
        self.session, self.path, self.seconds = session, path, seconds
        self.lines: list[bytes] = []
        self.stalls = stalls
        self.error: Exception | None = None
        self.ended = trio.Event()
        self.scope = trio.CancelScope()

    async def run(self) -> None:
        try:
            with self.scope:
                await self.session.read_lines(self.path, self.seconds, self.take, watch="1")
        except ClientError as error:
            self.error = error
        self.ended.set()

    async def take(self, line: bytes) -> None:
        self.lines.append(line)
        if self.stalls:
            await trio.sleep_forever()

    async def has(self, count: int) -> None:
        with trio.fail_after(60):
            while len(self.lines) < count:
                assert self.error is None
                await trio.sleep(0.01)

    async def failure(self) -> str:
        with trio.fail_after(120):
            await self.ended.wait()
        return str(self.error)


def watch(nursery: trio.Nursery, session: Http2Session, path: str, **given: Any) -> Watch:
    found = Watch(session, path, **given)
    nursery.start_soon(found.run)
    return found


async def begun(peer: Peer, path: str) -> int:
    """Begin the response to the watch of a path; returns its stream."""
    number = await peer.request(path)
    await peer.respond(number, b"{}\n", end=False)
    return number


async def until(condition: Any) -> None:
    with trio.fail_after(60):
        while not condition():
            await trio.sleep(0.01)


# How many connections there are.


async def test_watches_share_one_connection_and_other_requests_another() -> None:
    async with serving(empty) as server:
        async with session_to(server) as session, trio.open_nursery() as nursery:
            await _share(server, session, nursery)
            nursery.cancel_scope.cancel()
        # The server gets a GOAWAY of each.
        await until(lambda: all(one.ended for one in server.peers))
        assert [int(one.goaways[0].error_code or 0) for one in server.peers] == [0, 0]


async def _share(server: Http2Server, session: Http2Session, nursery: trio.Nursery) -> None:
    watches = [watch(nursery, session, f"/api/v1/kind{number}") for number in range(40)]
    for _ in range(5):
        assert await session.get_document("/api/v1/pods", limit="5", **{"continue": "a b+/="}) == {}
    assert await session.post_bytes("/apis/reviews", b'{"a":1}', 60) == b"{}"
    for one in watches:
        number = await begun(peer := await peer_of(server, one.path), one.path)
        await peer.send(number, b'{"of":"' + one.path.encode() + b'"}\n')
        await one.has(2)
        assert one.lines == [b"{}", b'{"of":"' + one.path.encode() + b'"}']
    assert len(server.peers) == 2 and not server.plain
    assert session.statistics() == {"requests": 46, "connections": 2, "streams": 40}
    first = (peer := await peer_of(server, "/api/v1/pods")).requests[1]
    assert first == {
        ":method": "GET",
        ":scheme": "https",
        ":authority": f"127.0.0.1:{server.port}",
        ":path": "/api/v1/pods?limit=5&continue=a+b%2B%2F%3D",
        "accept": "application/json",
        "user-agent": first["user-agent"],
        "authorization": "Bearer t",
        "accept-encoding": "identity",
    }
    posted = await peer.request("/apis/reviews")
    assert peer.requests[posted][":method"] == "POST" and peer.bodies[posted] == b'{"a":1}'


async def peer_of(server: Http2Server, path: str) -> Peer:
    """The connection that has a request for a path."""
    with trio.fail_after(60):
        while True:
            for peer in server.peers:
                if any(one[":path"].partition("?")[0] == path for one in peer.requests.values()):
                    return peer
            await trio.sleep(0.01)


async def test_no_more_streams_than_the_server_allows() -> None:
    async with (
        serving(empty, {STREAMS: 3}) as server,
        session_to(server) as session,
        trio.open_nursery() as nursery,
    ):
        watches = [watch(nursery, session, f"/kind{number}") for number in range(7)]
        for one in watches:
            await begun(await peer_of(server, one.path), one.path)
        assert [len(one.requests) for one in server.peers] == [3, 3, 1]
        watches[0].scope.cancel()  # makes room for another
        await watches[0].ended.wait()
        await until(lambda: any(one.resets for one in server.peers))
        more = [watch(nursery, session, f"/more{number}") for number in range(3)]
        for one in more:
            await begun(await peer_of(server, one.path), one.path)
        assert len(server.peers) == 3
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("how", ["no streams", "goaway", "end"])
async def test_server_that_takes_no_request_is_an_error(how: str) -> None:
    """It is not asked again and again."""

    async def refuse(peer: Peer) -> None:
        settings = {frames.MAX_CONCURRENT_STREAMS: 0} if how == "no streams" else {}
        goaway = frames.goaway(0, frames.NO_ERROR) if how == "goaway" else b""
        await peer.stream.send_all(frames.settings(settings) + goaway)
        if how == "end":
            await trio.aclose_forcefully(peer.stream)
        async for _ in peer.stream:
            pass

    async with (
        serving(run=refuse) as server,
        session_to(server) as session,
        trio.open_nursery() as nursery,
    ):
        watches = [watch(nursery, session, f"/kind{number}") for number in range(20)]
        for one in watches:
            message = await one.failure()
            # An end is noticed before the first request, or with it.
            assert (http2.NOTHING_TAKEN if how != "end" else "cannot reach") in message
        assert len(server.peers) <= 3 * http2.ATTEMPTS


@pytest.mark.parametrize("disabled", [True, False])
async def test_http1_where_the_server_does_not_offer_more(disabled: bool) -> None:
    protocols = ("h2", "http/1.1") if disabled else ("http/1.1",)
    environment = {http2.DISABLE: "1"} if disabled else {}
    async with (
        serving(empty, protocols=protocols) as server,
        session_to(server, environment=environment) as session,
    ):
        for _ in range(3):
            assert await session.get_document("/api") == {}
        assert len(server.plain) == 3 and not server.peers
        assert len(server.names) == (1 if disabled else 2)  # connections: one to ask, one to use


async def test_server_is_asked_again_after_a_while(autojump_clock: MockClock) -> None:
    async with (
        serving(empty, protocols=("http/1.1",)) as old,
        serving(empty) as new,
        session_to(old) as session,
    ):
        await session.get_document("/api")
        session.target = new.target()
        session._authority = b"x"
        await session.get_document("/api")
        assert not new.peers
        autojump_clock.jump(http2.HTTP1_SECONDS)
        await session.get_document("/api")
        assert len(new.peers) == 1


# What ends.


async def test_goaway_ends_no_stream_that_the_server_has_accepted() -> None:
    async with serving(empty) as server, session_to(server) as session, trio.open_nursery() as nursery:
        old = watch(nursery, session, "/old")
        peer = await server.peer(0)
        number = await begun(peer, "/old")
        await old.has(1)
        await peer.raw(frames.goaway(number, frames.NO_ERROR))
        unprocessed = watch(nursery, session, "/new")  # sent before GOAWAY is here, or not
        await begun(await peer_of(server, "/new"), "/new") if len(server.peers) > 1 else None
        second = await server.peer(1)
        await begun(second, "/new")
        await unprocessed.has(1)
        await peer.send(number, b'{"last":1}\n', end=True)
        assert await old.failure() == "None"
        assert old.lines == [b"{}", b'{"last":1}']
        await until(lambda: peer.ended)  # nobody uses it any more
        assert unprocessed.error is None and len(server.peers) == 2
        nursery.cancel_scope.cancel()


async def test_request_that_the_server_has_not_processed_is_sent_again() -> None:
    """After GOAWAY on another connection, and after REFUSED_STREAM; but not forever."""
    async with serving() as server, session_to(server) as session, trio.open_nursery() as nursery:
        found = watch(nursery, session, "/a")
        first = await server.peer(0)
        await first.request("/a")
        await first.raw(frames.goaway(0, frames.NO_ERROR))
        second = await server.peer(1)
        number = await second.request("/a")
        await second.raw(frames.reset(number, frames.REFUSED_STREAM))
        await until(lambda: len(second.requests) == 2)
        await begun(second, "/a")
        await found.has(1)

        refused = watch(nursery, session, "/b")
        for _ in range(http2.ATTEMPTS):
            number = await second.request("/b")
            del second.requests[number]
            await second.raw(frames.reset(number, frames.REFUSED_STREAM))
        assert "the server refused the stream (REFUSED_STREAM)" in await refused.failure()
        assert found.error is None
        nursery.cancel_scope.cancel()


async def test_lost_connection_ends_all_its_streams_and_no_other() -> None:
    async with serving(empty) as server, session_to(server) as session, trio.open_nursery() as nursery:
        watches = [watch(nursery, session, f"/kind{number}") for number in range(5)]
        peer = await server.peer(0)
        for one in watches:
            await begun(peer, one.path)
            await one.has(1)
        assert await session.get_document("/api") == {}
        await trio.aclose_forcefully(peer.stream)
        for one in watches:
            assert "cannot reach" in await one.failure()
        assert await session.get_document("/api") == {}
        assert len(server.peers) == 2
        again = watch(nursery, session, "/kind0")
        await begun(await server.peer(2), "/kind0")
        await again.has(1)
        nursery.cancel_scope.cancel()


async def test_reset_ends_one_stream() -> None:
    async with serving() as server, session_to(server) as session, trio.open_nursery() as nursery:
        one, other = watch(nursery, session, "/one"), watch(nursery, session, "/other")
        peer = await server.peer(0)
        numbers = [await begun(peer, path) for path in ("/one", "/other")]
        peer.h2.reset_stream(numbers[0], h2.errors.ErrorCodes.INTERNAL_ERROR)
        await peer.flush()
        assert "the server reset the stream (INTERNAL_ERROR)" in await one.failure()
        await peer.send(numbers[1], b"{}\n")
        await other.has(2)
        nursery.cancel_scope.cancel()


async def test_cancelled_watch_is_reset() -> None:
    async with serving() as server, session_to(server) as session, trio.open_nursery() as nursery:
        one = watch(nursery, session, "/one")
        peer = await server.peer(0)
        number = await begun(peer, "/one")
        await one.has(1)
        one.scope.cancel()
        await until(lambda: peer.resets == {number: h2.errors.ErrorCodes.CANCEL})
        # What was on its way is ignored, and the connection goes on.
        await peer.raw(frames.frame(frames.DATA, 0, number, b"late"))
        again = watch(nursery, session, "/again")
        await begun(peer, "/again")
        await again.has(1)
        nursery.cancel_scope.cancel()


# Silence.


async def test_server_that_hangs_ends_all_streams(autojump_clock: MockClock) -> None:
    """It has responded 200, and its kernel still acknowledges what is sent."""
    async with serving() as server, session_to(server) as session, trio.open_nursery() as nursery:
        watches = [watch(nursery, session, path, seconds=330) for path in ("/one", "/other")]
        peer = await server.peer(0)
        for one in watches:
            await begun(peer, one.path)
        peer.hangs = True
        began = trio.current_time()
        for one in watches:
            assert "the server did not respond to a PING within 15 seconds" in await one.failure()
        assert 45 <= trio.current_time() - began <= 50
        assert session.statistics() == {"requests": 2, "connections": 0, "streams": 0}
        nursery.cancel_scope.cancel()


async def test_silent_stream_of_a_server_that_is_there(autojump_clock: MockClock) -> None:
    """PINGs are acknowledged, so that only this stream ends, and the server gets a reset."""
    async with serving() as server, session_to(server) as session, trio.open_nursery() as nursery:
        silent, other = (
            watch(nursery, session, "/silent", seconds=100),
            watch(nursery, session, "/other", seconds=330),
        )
        peer = await server.peer(0)
        number, other_number = await begun(peer, "/silent"), await begun(peer, "/other")
        assert "did not respond within 100 seconds" in await silent.failure()
        assert peer.pings >= 3
        await until(lambda: peer.resets == {number: h2.errors.ErrorCodes.CANCEL})
        await peer.send(other_number, b"{}\n")
        await other.has(2)
        nursery.cancel_scope.cancel()


async def test_connection_that_nobody_uses_is_closed(autojump_clock: MockClock) -> None:
    async with serving(empty) as server, session_to(server) as session:
        await session.get_document("/api")
        await trio.sleep(200)
        assert server.peers[0].ended and session.statistics()["connections"] == 0
        await session.get_document("/api")
        assert len(server.peers) == 2


async def test_server_without_settings_is_silent(autojump_clock: MockClock) -> None:
    async def hang(_: Peer) -> None:
        await trio.sleep_forever()

    async with serving(run=hang) as server, session_to(server) as session:
        with pytest.raises(ClientError, match="did not respond within 30 seconds"):
            await session.get_document("/api")


# Flow control.


async def test_stalled_reader_blocks_nobody() -> None:
    """The server may send one window for it, and as much as it wants for others on the connection."""
    async with serving() as server, session_to(server) as session, trio.open_nursery() as nursery:
        stalled = [watch(nursery, session, f"/stalled{number}", stalls=True) for number in range(20)]
        other = watch(nursery, session, "/other")
        peer = await server.peer(0)
        line = b"x" * 16383 + b"\n"
        for one in stalled:
            number = await begun(peer, one.path)
            rest = await peer.send(number, line * 100)
            assert len(rest) == 100 * len(line) + 3 - STREAM_WINDOW
        number, rest, sent = await begun(peer, "/other"), b"", 0
        with trio.fail_after(60):
            while sent < 400:
                if not rest:
                    sent += 1
                rest = await peer.send(number, rest or line)
                await trio.sleep(0)
        await other.has(401)
        assert [len(one.lines) for one in stalled] == [1] * 20
        nursery.cancel_scope.cancel()


async def test_proxy_is_passed_by_a_tunnel() -> None:
    """The server behind it chooses HTTP/2 in the handshake, of which the proxy sees nothing."""
    asked: list[bytes] = []

    async def tunnel(client: trio.SocketStream) -> None:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            data = await client.receive_some(1)
            assert data
            head += data
        asked.append(head)
        async with await trio.open_tcp_stream("127.0.0.1", server.port) as other:
            await client.send_all(b"HTTP/1.1 200 OK\r\n\r\n")
            async with trio.open_nursery() as passing:
                passing.start_soon(copy, client, other)
                passing.start_soon(copy, other, client)

    async def copy(one: trio.SocketStream, other: trio.SocketStream) -> None:
        try:
            async for data in one:
                await other.send_all(data)
            await other.aclose()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass

    async with serving(empty) as server, trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, tunnel, 0, host="127.0.0.1"))
        proxy = f"http://user:p%40ss@127.0.0.1:{listener.socket.getsockname()[1]}"
        target = replace(server.target(proxy_url=proxy), server=f"https://api.test:{server.port}")
        async with session_to(server, target) as session:
            for _ in range(3):
                assert await session.get_document("/api") == {}
        assert len(asked) == len(server.peers) == 1
        assert asked[0].startswith(b"CONNECT api.test:%d HTTP/1.1\r\n" % server.port)
        assert b"\r\nProxy-Authorization: Basic dXNlcjpwQHNz\r\n" in asked[0]
        nursery.cancel_scope.cancel()


async def test_server_that_sends_more_than_the_window() -> None:
    """It loses the connection, before what nobody reads fills the memory."""
    async with serving() as server, session_to(server) as session, trio.open_nursery() as nursery:
        stalled, other = watch(nursery, session, "/stalled", stalls=True), watch(nursery, session, "/other")
        peer = await server.peer(0)
        number, _ = await begun(peer, "/stalled"), await begun(peer, "/other")
        await stalled.has(1)
        await peer.raw(frames.frame(frames.DATA, 0, number, b"x" * 16384) * 65)
        assert f"the window of stream {number} is exceeded" in await other.failure()
        await until(lambda: [one.error_code for one in peer.goaways] == [frames.FLOW_CONTROL_ERROR])
        nursery.cancel_scope.cancel()


async def test_server_that_opens_no_window() -> None:
    """A body waits for its time only, and no other request for it."""
    async with serving(empty, {WINDOW: 10}) as server, session_to(server) as session:
        async with trio.open_nursery() as nursery:
            begun_events = trio.Event()

            async def post() -> None:
                begun_events.set()
                with pytest.raises(ClientError, match="did not respond within 1 seconds"):
                    await session.post_bytes("/never", b"x" * 100, 1)

            await session.get_document("/api")
            peer = server.peers[0]
            peer.opens_windows = False
            peer._answer = lambda headers: None if headers[":method"] == "POST" else b"{}"
            nursery.start_soon(post)
            await begun_events.wait()
            number = await peer.request("/never")
            assert await session.get_document("/api") == {}
        await until(lambda: peer.resets == {number: h2.errors.ErrorCodes.CANCEL})
        assert peer.bodies[number] == b"x" * 10


async def test_body_of_nothing_needs_no_window() -> None:
    """Nor does one whose window has become negative, because the server made all windows smaller."""
    async with serving(empty, {WINDOW: 100}) as server, session_to(server) as session:
        assert await session.post_bytes("/first", b"", 60) == b"{}"
        async with trio.open_nursery() as nursery:
            peer = server.peers[0]
            peer.opens_windows, peer._answer = False, lambda _: None
            found: list[bytes] = []

            async def post() -> None:
                found.append(await session.post_bytes("/second", b"x" * 150, 60))

            nursery.start_soon(post)
            number = await peer.request("/second")
            await until(lambda: len(peer.bodies[number]) == 100)
            peer.h2.update_settings({WINDOW: 20})  # it is -80 now
            await peer.flush()
            await until(lambda: peer.h2.local_settings.initial_window_size == 20)
            peer.h2.increment_flow_control_window(90, number)
            await peer.flush()
            await until(lambda: len(peer.bodies[number]) == 110)
            peer.h2.increment_flow_control_window(40, number)
            await peer.flush()
            await until(lambda: len(peer.bodies[number]) == 150)
            await peer.respond(number, b"[]")
        assert found == [b"[]"]


async def test_large_body_waits_for_windows() -> None:
    body = bytes(range(256)) * 4096
    async with serving() as server, session_to(server) as session, trio.open_nursery() as nursery:
        found: list[bytes] = []

        async def post() -> None:
            found.append(await session.post_bytes("/large", body, 60))

        nursery.start_soon(post)
        peer = await server.peer(0)
        number = await peer.request("/large")
        await until(lambda: len(peer.bodies[number]) == len(body))
        assert peer.bodies[number] == body
        await peer.respond(number, b"[]")
        await until(lambda: found == [b"[]"])


# Responses.


async def test_refusals_are_status_errors() -> None:
    async with serving() as server, session_to(server) as session, trio.open_nursery() as nursery:
        one = watch(nursery, session, "/one")
        peer = await server.peer(0)
        status = orjson.dumps({"kind": "Status", "code": 429, "reason": "TooMany", "message": "wait"})
        await peer.respond(await peer.request("/one"), status, status=429, retry_after="7")
        await one.failure()
        assert isinstance(one.error, StatusError)
        assert (one.error.code, one.error.reason, one.error.retry_after) == (429, "TooMany", 7)
        assert str(one.error) == "wait"


async def test_compressed_responses_and_their_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    large = b'{"a":"' + b"x" * (3 << 20) + b'"}'
    monkeypatch.setattr(http2, "is_local", lambda _: False)
    async with serving() as server, session_to(server) as session, trio.open_nursery() as nursery:
        found: list[Any] = []

        async def get(path: str) -> None:
            try:
                found.append(await session.get_document(path))
            except ClientError as error:
                found.append(error)

        for path, limit in (("/fits", 4 << 20), ("/bomb", 1 << 20)):
            monkeypatch.setattr(streaming, "MAX_DOCUMENT", limit)
            nursery.start_soon(get, path)
            peer = await server.peer(0)
            number = await peer.request(path)
            assert peer.requests[number]["accept-encoding"] == "gzip"
            await peer.respond(number, gzip.compress(large), content_encoding="gzip")
            await until(lambda path=path: len(found) == (1 if path == "/fits" else 2))
        assert found[0] == orjson.loads(large)
        assert "sent a response of more than 1 MiB" in str(found[1])


class Rotating:
    """A source whose credential changes."""

    def __init__(self, *found: Credential) -> None:
        self.found = list(found)
        self.rejections: list[Credential] = []

    def credential(self) -> Credential:
        return self.found[0]

    def rejected(self, credential: Credential) -> None:
        self.rejections.append(credential)


async def test_new_tokens_and_certificates_are_those_of_new_requests() -> None:
    """A token on the same connection, a certificate on another one; what runs goes on."""

    def pair(name: str) -> KeyPair:
        made = pki.client(name)
        return KeyPair(made.pem.encode(), made.key.encode())

    source = Rotating(Credential("Bearer one", pair("alice")))
    async with (
        serving(empty, client_ca=True) as server,
        session_to(server, server.target(source)) as session,
        trio.open_nursery() as nursery,
    ):
        old = watch(nursery, session, "/old")
        peer = await server.peer(0)
        number = await begun(peer, "/old")
        source.found = [Credential("Bearer two", pair("alice"))]
        watch(nursery, session, "/new")
        assert peer.requests[await peer.request("/new")]["authorization"] == "Bearer two"
        source.found = [Credential("Bearer three", pair("bob"))]
        watch(nursery, session, "/other")
        other = await server.peer(1)
        await other.request("/other")
        assert server.names == ["alice", "bob"]
        await peer.send(number, b"{}\n")
        await old.has(2)
        refused = watch(nursery, session, "/refused")
        await other.respond(await other.request("/refused"), b"{}", status=401)
        await refused.failure()
        assert source.rejections == source.found
        nursery.cancel_scope.cancel()


async def test_client_certificate_that_the_server_refuses() -> None:
    """With TLS 1.3 the client learns it after the handshake."""
    expired = pki.issue("late", pki.authority(), hours=-1)
    source = Rotating(Credential("", KeyPair(expired.pem.encode(), expired.key.encode())))
    context = server_context(["h2"], client_ca=True)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60)

        def refuse() -> None:
            accepted, _ = listener.accept()
            with accepted, pytest.raises(ssl.SSLError, match="certificate has expired"):
                context.wrap_socket(accepted, server_side=True)

        server = Http2Server(listener.getsockname()[1])
        async with session_to(server, server.target(source)) as session, trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, refuse)
            with pytest.raises(ClientError, match="does not accept the client certificate: it has expired"):
                await session.get_document("/api")


async def test_server_that_is_not_there() -> None:
    """All that wait for the same connection fail with it, not one after the other."""
    async with serving(empty) as server:
        target = server.target()
    async with session_to(server, target) as session, trio.open_nursery() as nursery:
        watches = [watch(nursery, session, f"/kind{number}") for number in range(10)]
        for one in watches:
            assert "cannot reach" in await one.failure() and "refused" in await one.failure()


# Servers that break the rules.

OPENED = b"\x88"  # :status 200


def on_stream(kind: int, flags: int = 0, payload: bytes = b"") -> bytes:
    return frames.frame(kind, flags, 1, payload)


HEAD = on_stream(frames.HEADERS, frames.END_HEADERS, OPENED)
BROKEN = {
    "data before the head": (on_stream(frames.DATA, 0, b"x"), "data of stream 1 before its head"),
    "data after the end": (
        HEAD + on_stream(frames.DATA, frames.END_STREAM) + on_stream(frames.DATA, 0, b"x"),
        None,
    ),
    "a stream of nobody": (frames.frame(frames.DATA, 0, 7, b"x"), "stream 7 was not opened"),
    "a stream of the server": (frames.frame(frames.HEADERS, 4, 2, OPENED), "stream 2 was not opened"),
    "a large frame": (b"\xff\xff\xff\x00\x00\x00\x00\x00\x01", "a frame is larger than was announced"),
    "a push": (on_stream(frames.PUSH_PROMISE, 4, b"\x00\x00\x00\x02" + OPENED), "it pushes"),
    "an unknown index": (on_stream(frames.HEADERS, 4, b"\xfe"), "refers to an entry that is not there"),
    "an endless head": (
        on_stream(frames.HEADERS, 0, b"") + on_stream(frames.CONTINUATION, 0, b"\x00" * 16384) * 5,
        "a header block is too large",
    ),
    "many empty continuations": (
        on_stream(frames.HEADERS, 0, b"") + on_stream(frames.CONTINUATION) * 100,
        "a header block is too large",
    ),
    "an interrupted head": (on_stream(frames.HEADERS, 0, b"") + frames.window_update(0, 1), "interrupted"),
    "a continuation of nothing": (on_stream(frames.CONTINUATION, 4), "a continuation of no header block"),
    "no status": (on_stream(frames.HEADERS, 4, b"\x84"), "a response has no status"),
    "no end of interim heads": (on_stream(frames.HEADERS, 5, frames.CONTINUE), "a response has no head"),
    "padding": (
        HEAD + on_stream(frames.DATA, frames.PADDED, b"\x05abc"),
        "the padding of a frame is as long as the frame",
    ),
    "a window that overflows": (frames.window_update(0, frames.MAX_WINDOW), "a window grows"),
    "a stream window of nothing": (HEAD + frames.window_update(1, 0), "a window grows by nothing"),
    "settings": (frames.settings({frames.INITIAL_WINDOW_SIZE: 1 << 31}), "setting 4 has the value"),
    "a short ping": (frames.frame(frames.PING, 0, 0, b"x"), "a frame of type 6 has a wrong size"),
    "data of the connection": (frames.frame(frames.DATA, 0, 0, b"x"), "a frame of type 0 is on stream 0"),
    "an endless flood that nobody reads": (
        frames.frame(frames.PING, 0, 0, b"12345678") * 4000,
        "the server does not read what it asks for",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_server_that_breaks_a_rule(name: str) -> None:
    sent, message = BROKEN[name]

    async def misbehave(peer: Peer) -> None:
        await peer.stream.send_all(frames.settings({}))
        received = b""
        with trio.fail_after(60):
            while b"/api" not in received:
                received += await peer.stream.receive_some(1 << 16)
        await peer.stream.send_all(sent)
        while "flood" in name:
            await peer.stream.send_all(sent)
        await trio.sleep_forever()

    async with (
        serving(run=misbehave) as server,
        session_to(server) as session,
        trio.open_nursery() as nursery,
    ):
        found = watch(nursery, session, "/api")
        said = await found.failure()
        assert said == "None" if message is None else message in said


async def test_server_that_speaks_something_else() -> None:
    async def misbehave(peer: Peer) -> None:
        await peer.stream.send_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await trio.sleep_forever()

    async with serving(run=misbehave) as server, session_to(server) as session:
        with pytest.raises(ClientError, match=r"a frame is larger|its first frame is not SETTINGS"):
            await session.get_document("/api")
