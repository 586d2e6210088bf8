"""Attacks on an authenticating proxy's headers, as raw bytes over TLS: no client can choose its user.

Every attack is sent by clients that may set no headers (without a certificate, with one of the client CA, with a proxy
certificate of another name), and those that abuse spelling also through the proxy itself, next to the header that it
sets.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import h2.events
import pytest
import trio

from tests.api.access.seen_users import PATH
from tests.api.access.test_proxy_authentication import served_behind_proxy
from tests.gateway.api import Api
from tests.gateway.connections.http2_client import Http2Client
from tests.gateway.connections.http_server import Client
from tests.gateway.https import trusting
from tests.issuers import issuer

ATTACKS_1 = {
    "as it is": b"X-Remote-User: root\r\n",
    "lower case": b"x-remote-user: root\r\n",
    "mixed case": b"X-ReMoTe-UsEr: root\r\n",
    "underscores": b"X_Remote_User: root\r\n",
    "one underscore": b"X-Remote_User: root\r\n",
    "space before the colon": b"X-Remote-User : root\r\n",
    "tab before the colon": b"X-Remote-User\t: root\r\n",
    "space before the name": b" X-Remote-User: root\r\n",
    "white space around the value": b"X-Remote-User: \t root \t\r\n",
    "twice": b"X-Remote-User: root\r\nX-Remote-User: root\r\n",
    "folded value": b"X-Remote-User:\r\n root\r\n",
    "folded into another header": b"X-Other: a\r\n X-Remote-User: root\r\n",
    "bare line feed": b"X-Other: a\nX-Remote-User: root\r\n",
    "bare carriage return": b"X-Other: a\rX-Remote-User: root\r\n",
    "NUL in the name": b"X-Remote-User\x00: root\r\n",
    "as a trailer": b"Transfer-Encoding: chunked\r\n\r\n0\r\nX-Remote-User: root\r\n",
}
ATTACKS_2: dict[str, tuple[tuple[bytes, bytes], ...]] = {
    "as it is": ((b"x-remote-user", b"root"),),
    "upper case": ((b"X-Remote-User", b"root"),),
    "underscores": ((b"x_remote_user", b"root"),),
    "space in the name": ((b"x-remote-user ", b"root"),),
    "colon in the name": ((b"x-remote-user:", b"root"),),
    "white space around the value": ((b"x-remote-user", b" root\t"),),
    "twice": ((b"x-remote-user", b"root"), (b"x-remote-user", b"root")),
    "line break in a value": ((b"x-other", b"a\r\nx-remote-user: root"),),
    "NUL in the value": ((b"x-remote-user", b"ro\x00ot"),),
    "pseudo-header": ((b":x-remote-user", b"root"),),
}
# Attacks in which the order or the sender can matter.
WELL_FORMED = {"as it is", "mixed case", "underscores", "white space around the value"}
# Next to the proxy's header, the server takes these for another header, or for none.
HARMLESS_1 = {"underscores", "one underscore", "as a trailer"}
HARMLESS_2 = {"underscores"}


def untrusted_senders() -> dict[str, Path | None]:
    return {
        "system:anonymous": None,
        "mallory": issuer("clients").leaf("mallory"),
        "": issuer("proxies").leaf("mallory"),  # 401
    }


@asynccontextmanager
async def connected(
    api: Api, certificate: Path | None, protocol: str
) -> AsyncIterator[trio.SSLStream[trio.SocketStream]]:
    assert api.addresses.secure is not None
    context = trusting(api.settings.pki / "ca.crt")
    context.set_alpn_protocols([protocol])
    if certificate is not None:
        context.load_cert_chain(certificate)
    tcp = await trio.open_tcp_stream(*api.addresses.secure)
    stream = trio.SSLStream(tcp, context, server_hostname="127.0.0.1", https_compatible=True)
    try:
        yield stream
    finally:
        await trio.aclose_forcefully(stream)


async def send_1(api: Api, certificate: Path | None, fields: bytes) -> int:
    async with connected(api, certificate, "http/1.1") as stream:
        request = b"GET %b HTTP/1.1\r\nHost: t\r\n%b\r\n" % (PATH.encode(), fields)
        return (await Client(stream).request(request)).status


async def send_2(api: Api, certificate: Path | None, fields: tuple[tuple[bytes, bytes], ...]) -> int:
    async with connected(api, certificate, "h2") as stream:
        client = Http2Client(stream)
        client.connection.config.normalize_outbound_headers = False
        await client.open()
        number = await client.request(PATH.encode(), extra=fields)
        while True:
            for event in client.events:
                if isinstance(event, h2.events.ResponseReceived) and event.stream_id == number:
                    return int(dict(event.headers or ())[b":status"])
                if isinstance(event, h2.events.StreamReset | h2.events.ConnectionTerminated):
                    return 400
            assert await client.receive()


@pytest.mark.parametrize("protocol", ["HTTP/1.1", "HTTP/2"])
async def test_untrusted_senders_cannot_name_another_user(protocol: str) -> None:
    async with served_behind_proxy(requestheader_allowed_names=("front",)) as (api, seen):
        for name, certificate in untrusted_senders().items():
            attacks = ATTACKS_1 if protocol == "HTTP/1.1" else ATTACKS_2
            for what in attacks if name != "" else WELL_FORMED & attacks.keys():
                if protocol == "HTTP/1.1":
                    status = await send_1(api, certificate, ATTACKS_1[what])
                else:
                    status = await send_2(api, certificate, ATTACKS_2[what])
                assert status in ((200, 400) if name else (401, 400)), (what, name)
                assert {user.name for user in seen.users} <= {name}, what
                assert all("system:masters" not in user.groups for user in seen.users)
                seen.users.clear()


@pytest.mark.parametrize("protocol", ["HTTP/1.1", "HTTP/2"])
async def test_header_next_to_that_of_the_proxy_changes_nothing(protocol: str) -> None:
    """Either the request is refused, or it has the user that the proxy names."""
    proxy = issuer("proxies").leaf("front")
    async with served_behind_proxy(requestheader_allowed_names=("front",)) as (api, seen):
        for what in ATTACKS_1 if protocol == "HTTP/1.1" else ATTACKS_2:
            for first in (True, False) if what in WELL_FORMED else (True,):
                if protocol == "HTTP/1.1":
                    own, other = b"X-Remote-User: alice\r\n", ATTACKS_1[what]
                    fields = own + other if first or what == "as a trailer" else other + own
                    status, harmless = await send_1(api, proxy, fields), HARMLESS_1
                else:
                    pair, others = (b"x-remote-user", b"alice"), ATTACKS_2[what]
                    chosen = (pair, *others) if first else (*others, pair)
                    status, harmless = await send_2(api, proxy, chosen), HARMLESS_2
                assert status == 200 if what in harmless else status in (400, 401), what
                assert [user.name for user in seen.users] == (["alice"] if what in harmless else []), what
                seen.users.clear()


async def test_white_space_alone_is_no_user_name() -> None:
    proxy = issuer("proxies").leaf("front")
    async with served_behind_proxy() as (api, seen):
        for value in (b"", b" ", b"\t \t"):
            assert await send_1(api, proxy, b"X-Remote-User:" + value + b"\r\n") == 401
        assert await send_1(api, proxy, b"X-Remote-User: \t alice \t\r\n") == 200
        assert seen.last().name == "alice", "white space around a value is no part of it"
        seen.users.clear()
        for value in (b"", b" ", b"\t \t"):
            assert await send_2(api, proxy, ((b"x-remote-user", value),)) == 401
        assert await send_2(api, proxy, ((b"x-remote-user", b"\t alice \t"),)) == 200
        assert [user.name for user in seen.users] == ["alice"]


async def test_header_does_not_last_longer_than_its_request() -> None:
    """The parser reuses the previous request's headers if the bytes are equal; other bytes are other headers."""
    proxy = issuer("proxies").leaf("front")
    async with served_behind_proxy() as (api, seen), connected(api, proxy, "http/1.1") as stream:
        client = Client(stream)
        line = b"GET %b HTTP/1.1\r\nHost: t\r\n" % PATH.encode()
        for _ in range(2):
            for name in ("alice", "bob", "bob"):
                reply = await client.request(line + b"X-Remote-User: %b\r\n\r\n" % name.encode())
                assert (reply.status, seen.last().name) == (200, name)
            assert (await client.request(line + b"\r\n")).status == 401


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_resumed_session_keeps_the_roles_of_its_certificate(version: ssl.TLSVersion) -> None:
    """OpenSSL keeps no verified chain for a resumed session."""
    headers = b"X-Remote-User: alice\r\n"
    cases = {"alice": issuer("proxies").leaf("front"), "mallory": issuer("clients").leaf("mallory")}
    async with served_behind_proxy() as (api, seen):
        assert api.addresses.secure is not None
        for user, certificate in cases.items():
            context = trusting(api.settings.pki / "ca.crt")
            context.maximum_version = version
            context.load_cert_chain(certificate)
            session = None
            for turn in range(3):
                tls = context.wrap_bio(
                    incoming := ssl.MemoryBIO(), outgoing := ssl.MemoryBIO(), False, "127.0.0.1", session
                )
                async with await trio.open_tcp_stream(*api.addresses.secure) as tcp:
                    request = b"GET %b HTTP/1.1\r\nHost: t\r\n%b\r\n" % (PATH.encode(), headers)
                    await exchange(tcp, tls, incoming, outgoing, request)
                    session = tls.session
                    assert seen.last().name == user
                    assert tls.session_reused is (turn > 0 and version == ssl.TLSVersion.TLSv1_2)


async def exchange(
    tcp: trio.SocketStream,
    tls: ssl.SSLObject,
    incoming: ssl.MemoryBIO,
    outgoing: ssl.MemoryBIO,
    request: bytes,
) -> None:
    """Send a request and read the first bytes of the response."""
    steps = [tls.do_handshake, lambda: tls.write(request), lambda: tls.read(65536)]
    for step in steps:
        while True:
            try:
                step()
                break
            except ssl.SSLWantReadError:
                if outgoing.pending:
                    await tcp.send_all(outgoing.read())
                incoming.write(await tcp.receive_some(65536))
        if outgoing.pending:
            await tcp.send_all(outgoing.read())
