"""Watches over WebSockets give the same recording as over chunks; servers and proxies may misbehave."""

from __future__ import annotations

import base64
import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
import trio
from trio.testing import MockClock

from rewound.client import streaming
from rewound.client.credentials import Credential, FixedCredential, bearer
from rewound.client.errors import ClientError, StatusError
from rewound.client.target import Target
from rewound.client.websocket import WebSocketSession
from tests.gateway.processes import Server, process
from tests.ports import reserve_port
from tests.recording.record.recording import events_of, opened

MAPS = "/api/v1/namespaces/default/configmaps"


# A server that runs.


async def write(server: Server, name: str, text: str) -> int:
    body = {"metadata": {"name": name}, "data": {"text": text}}
    response = await server.client.put(f"{MAPS}/{name}", json=body)
    if response.status_code == 404:
        response = await server.client.post(MAPS, json=body)
    assert response.status_code < 300
    return int(response.json()["metadata"]["resourceVersion"])


# The command, with pauses as short as the test wants.
RECORD = """
import sys
from rewound.cli.main import main
from rewound.recording.record import follower, recorder
recorder.HOLD_SECONDS = recorder.SAVED_EVERY = follower.FIRST_PAUSE = 0.1
follower.LONGEST_PAUSE = 0.2
sys.exit(main(["record", *sys.argv[1:]]))
"""


@asynccontextmanager
async def recorders(kubeconfig: Path, chunks: Path, websocket: Path) -> AsyncIterator[None]:
    """Two processes that have started to record; a signal ends them."""
    given = ["--kubeconfig", str(kubeconfig), "--kinds", "cm"]
    environment = {**os.environ, "NO_PROXY": "*"}
    started = [
        await trio.lowlevel.open_process(
            [sys.executable, "-c", RECORD, *given, *flags], stderr=subprocess.DEVNULL, env=environment
        )
        for flags in ([str(chunks)], ["--websocket", str(websocket)])
    ]
    try:
        await recorded((chunks, websocket), 1)
        yield
        for one in started:
            one.send_signal(signal.SIGTERM)
        assert [await one.wait() for one in started] == [0, 0]
    finally:
        with trio.CancelScope(shield=True):
            for one in started:
                if one.returncode is None:
                    one.kill()
                await one.wait()


async def recorded(outs: Iterable[Path], version: int) -> None:
    """Wait until everything up to a version is in the journals."""
    with trio.fail_after(60):
        for out in outs:
            while position(out) < version:
                await trio.sleep(0.02)


def position(out: Path) -> int:
    try:
        return int(orjson.loads((out / "recording.json").read_bytes())["kinds"].get("configmaps", 0))
    except FileNotFoundError:
        return 0


@pytest.mark.slow
async def test_same_recording_as_over_chunks_through_a_kill_of_the_server(tmp_path: Path) -> None:
    """With the client certificate and the CA of a kubeconfig file."""
    kubeconfig, outs = tmp_path / "data" / "admin.kubeconfig", (tmp_path / "chunks", tmp_path / "websocket")
    secure = ("--secure-port", str(reserve_port()))
    async with AsyncExitStack() as servers:
        server = await servers.enter_async_context(process(tmp_path, *secure))
        await write(server, "a", "0")
        async with recorders(kubeconfig, *outs):
            await recorded(outs, await write(server, "a", "1"))
            server.signal(signal.SIGKILL)
            await server.ended()
            again = await servers.enter_async_context(process(tmp_path, *secure))
            await write(again, "a", "2")
            await write(again, "b", "3")
            assert (await again.client.delete(f"{MAPS}/b")).status_code == 200
            await recorded(outs, await write(again, "c", "4"))
    found = []
    for out in outs:
        async with opened(out) as journal:
            events = events_of(journal, "configmaps")
        # The time of an event is that of its arrival.
        found.append([one._replace(time=0) for one in events if one.namespace == "default"])
    assert found[0] == found[1]
    own = [(one.verb, one.name) for one in found[1] if one.name in "abc"]
    assert own == [
        ("create", "a"),
        ("update", "a"),
        ("update", "a"),
        ("create", "b"),
        ("delete", "b"),
        ("create", "c"),
    ]


# Scripted servers.

Script = Callable[[trio.SocketStream, bytes], Awaitable[None]]


def accepting(head: bytes) -> bytes:
    """The response that opens a WebSocket."""
    fields = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:] if line)
    key = {name.lower(): value for name, value in fields.items()}[b"sec-websocket-key"]
    token = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
    return (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: " + token + b"\r\n\r\n"
    )


def frame(opcode: int, payload: bytes, *, final: bool = True) -> bytes:
    size = len(payload)
    length = bytes([size]) if size < 126 else b"\x7e" + size.to_bytes(2, "big")
    return bytes([opcode | 0x80 * final]) + length + payload


TEXT, BINARY, CLOSE, PING = 1, 2, 8, 9


def close(code: int, reason: bytes = b"") -> bytes:
    return frame(CLOSE, code.to_bytes(2, "big") + reason)


class Remembering(FixedCredential):
    """Remembers whether its credential was rejected."""

    was_rejected = False

    def rejected(self, credential: Credential) -> None:
        self.was_rejected = True


async def head_of(stream: trio.abc.ReceiveStream) -> bytes:
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        data = await stream.receive_some(1)
        assert data
        head += data
    return head


@asynccontextmanager
async def session_to(script: Script, **target: Any) -> AsyncIterator[tuple[WebSocketSession, list[bytes]]]:
    """A session to a server that sends what a script says, and the request heads that it received."""
    heads: list[bytes] = []

    async def serve(stream: trio.SocketStream) -> None:
        try:
            heads.append(await head_of(stream))
            await script(stream, heads[-1])
        except (trio.BrokenResourceError, AssertionError):
            pass

    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
        session = WebSocketSession(Target(url, Remembering(Credential(bearer("t"))), "a test", **target))
        yield session, heads
        await session.aclose()
        nursery.cancel_scope.cancel()


def sending(*parts: bytes, handshake: bool = True, forever: bytes = b"", hang: bool = False) -> Script:
    async def script(stream: trio.SocketStream, head: bytes) -> None:
        await stream.send_all((accepting(head) if handshake else b"") + b"".join(parts))
        while forever:
            await stream.send_all(forever)
        if hang:
            await trio.sleep_forever()

    return script


async def read(session: WebSocketSession, seconds: float = 60) -> list[bytes]:
    found: list[bytes] = []

    async def take(line: bytes) -> None:
        found.append(line)

    await session.read_lines("/api/v1/pods", seconds, take, watch="1", resourceVersion="7")
    return found


async def test_messages_are_events() -> None:
    """In one frame or in several, as text or bytes, with pings in between."""
    parts = [frame(TEXT, b'{"a":', final=False), frame(PING, b"hi"), frame(0, b"1}"), frame(BINARY, b"{}")]
    async with session_to(sending(*parts, close(1000))) as (session, heads):
        assert await read(session) == [b'{"a":1}', b"{}"]
        head = heads[0].lower()
        assert head.startswith(b"get /api/v1/pods?watch=1&resourceversion=7 http/1.1\r\n")
        server = session.target.server.encode()
        for one in (
            b"authorization: bearer t",
            b"origin: " + server,
            b"host: " + server.removeprefix(b"http://"),
        ):
            assert b"\r\n" + one + b"\r\n" in head


async def test_server_that_stops_ends_the_watch() -> None:
    async with session_to(sending(frame(TEXT, b"{}"), close(1001, b"bye"))) as (session, _):
        assert await read(session) == [b"{}"]


REFUSAL = b'{"kind":"Status","code":%s,"reason":"R","message":"no"}'


@pytest.mark.parametrize("code", [401, 403, 410, 503])
@pytest.mark.parametrize("by_length", [True, False])
async def test_refusal_has_its_status(code: int, by_length: bool) -> None:
    """Servers in Go send some without a length."""
    body = REFUSAL % str(code).encode()
    length = f"content-length: {len(body)}\r\n".encode() if by_length else b""
    response = b"HTTP/1.1 %d No\r\n%s\r\n%s" % (code, length, body)
    async with session_to(sending(response, handshake=False)) as (session, _):
        with pytest.raises(StatusError, match="no" if by_length else f"responded with {code}") as refused:
            await read(session)
        assert refused.value.code == code
        credentials = session.target.credentials
        assert isinstance(credentials, Remembering) and credentials.was_rejected == (code == 401)


CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
NO_KEY = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
FORBIDDEN = b"HTTP/1.1 403 Forbidden\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (sending(CHUNKED, handshake=False, hang=True), "does not serve watches as WebSockets"),
        (sending(handshake=False), "the connection ended before its response"),
        (sending(b"HTTP/1.1 101 Sw", handshake=False), "the connection ended before its response"),
        (sending(NO_KEY, handshake=False, hang=True), "does not speak the WebSocket protocol"),
        (sending(b"SSH-2.0-x\r\n\r\n", handshake=False, hang=True), "does not speak the WebSocket protocol"),
        (
            sending(FORBIDDEN, handshake=False, forever=b"10000\r\n" + b"x" * 65536 + b"\r\n"),
            "a response of more than 1 MiB",
        ),
        (sending(handshake=True), "closed the WebSocket of a watch: 1006|ended before its response"),
        (sending(close(1011, b"full")), r"closed the WebSocket of a watch: 1011 \(full\)"),
        (sending(frame(TEXT, b"\xff"), hang=True), "closed the WebSocket of a watch: 1"),
        (sending(frame(TEXT, b"x" * 2000), hang=True), "sent a watch event of more than"),
        (sending(frame(TEXT, b"x", final=False), forever=frame(0, b"x" * 900, final=False)), "event of more than"),
    ],
)  # fmt: skip
async def test_broken_servers_are_errors(
    script: Script, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "MAX_LINE", 1000)
    async with session_to(script) as (session, _):
        with trio.fail_after(50), pytest.raises(ClientError, match=message):
            await read(session)


@pytest.mark.parametrize("handshake", [True, False])
async def test_silent_server_ends_the_watch(handshake: bool, autojump_clock: MockClock) -> None:
    async with session_to(sending(handshake=handshake, hang=True)) as (session, _):
        with pytest.raises(ClientError, match="did not respond within 60 seconds"):
            await read(session)


async def test_what_takes_an_event_may_end_it() -> None:
    async def refuse(_: bytes) -> None:
        raise StatusError(410, "Expired", "too old")

    async with session_to(sending(frame(TEXT, b"{}"), hang=True)) as (session, _):
        with pytest.raises(StatusError, match="too old"):
            await session.read_lines("/api/v1/pods", 60, refuse, watch="1")


async def test_cancelled_watch_ends() -> None:
    async with session_to(sending(hang=True)) as (session, heads), trio.open_nursery() as nursery:
        nursery.start_soon(read, session)
        with trio.fail_after(50):
            while not heads:
                await trio.sleep(0.01)
        nursery.cancel_scope.cancel()


# Proxies.


async def tunnel(stream: trio.SocketStream, head: bytes) -> None:
    """A proxy that connects its users to a server that sends one event."""
    if b"\r\nProxy-Authorization: Basic " + base64.b64encode(b"user:p@ss") + b"\r\n" not in head:
        await stream.send_all(b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n")
        return
    assert head.startswith(b"CONNECT api.test:80 HTTP/1.1\r\n")
    await stream.send_all(b"HTTP/1.1 200 OK\r\n\r\n")
    await stream.send_all(accepting(await head_of(stream)) + frame(TEXT, b"{}") + close(1000))


async def test_watches_pass_through_a_proxy() -> None:
    async with session_to(tunnel) as (direct, _):
        proxy = direct.target.server.replace("://", "://user:p%40ss@")
        target = replace(direct.target, server="http://api.test", proxy_url=proxy)
        assert await read(WebSocketSession(target)) == [b"{}"]
        refused = WebSocketSession(replace(target, proxy_url=direct.target.server))
        with pytest.raises(
            ClientError, match="through the proxy of proxy-url: the proxy refused it: 407 Proxy"
        ):
            await read(refused)


async def test_proxy_of_another_protocol_is_an_error() -> None:
    target = Target("http://api.test", Remembering(Credential()), "a test", proxy_url="socks5://127.0.0.1:1")
    session = WebSocketSession(target)
    with pytest.raises(ClientError, match="proxy-url cannot be used; give one that begins with http://"):
        await read(session)
    with pytest.raises(ClientError, match="proxy-url cannot be used; give one that begins with http://"):
        await session.get_document("/api")


async def test_server_that_cannot_be_reached() -> None:
    session = WebSocketSession(Target("http://127.0.0.1:1", Remembering(Credential()), "a test"))
    with pytest.raises(ClientError, match=r"cannot reach http://127\.0\.0\.1:1: "):
        await read(session)
