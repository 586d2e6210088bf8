"""The secure port: certificates, TLS versions, and failed handshakes."""

import ssl
import warnings

import pytest
import trio
from trio.testing import MockClock

from rewound.gateway.connections.limits import Limits
from rewound.gateway.connections.server import Server
from rewound.gateway.message import Request, Response
from tests.gateway.connections.http_server import Client, authority, hello, refuse, served
from tests.issuers import issuer
from tests.settling import advance, settled


async def who(request: Request) -> Response:
    certificate = request.peer.certificate
    subject = certificate["subject"] if certificate else None
    return Response(200, f"{request.peer.secure} {subject}".encode())


async def test_client_certificate_is_part_of_the_peer() -> None:
    async with served(who) as host, host.connect_tls(certificate=True) as client:
        for _ in range(2):
            assert (await client.get()).body == b"True ((('commonName', 'client'),),)"


async def test_client_certificate_is_optional() -> None:
    async with served(who) as host, host.connect_tls() as client:
        assert (await client.get()).body == b"True None"


async def test_certificate_that_cannot_be_verified_is_logged_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Python's TLS library ends such a handshake itself (docs/decisions/0030-client-certificates.md)."""
    async with served() as host, host.connect_tls(certificate=True) as other:
        context = authority().client_context()
        context.load_cert_chain(issuer("somebody else").leaf("mallory"))
        for _ in range(2):
            stream = trio.SSLStream(
                await trio.open_tcp_stream(*host.secure), context, server_hostname="localhost"
            )
            # in TLS 1.3 the client's part ends before the server has verified the certificate
            await stream.do_handshake()
            with pytest.raises(trio.BrokenResourceError):
                await stream.receive_some()
            await trio.aclose_forcefully(stream)
        assert (await other.get()).status == 200
        assert (host.statistics.certificate_failures, host.statistics.handshake_failures) == (2, 2)
        assert caplog.text.count("cannot be verified: unable to get local issuer certificate") == 2


async def test_new_connections_get_a_replaced_certificate_and_old_ones_go_on() -> None:
    other = issuer("another CA")
    context = authority().server_context()
    context.load_cert_chain(other.leaf("localhost"))
    async with served() as host, host.connect_tls() as old:
        await old.get()
        host.server.replace_tls(context, None)
        stream = trio.SSLStream(
            await trio.open_tcp_stream(*host.secure),
            authority().client_context(),
            server_hostname="localhost",
        )
        with pytest.raises(trio.BrokenResourceError):
            await stream.do_handshake()
        await trio.aclose_forcefully(stream)
        assert (await old.get()).status == 200


async def test_tls_1_1_is_refused_and_others_are_served() -> None:
    async with served() as host, host.connect_tls() as other:
        await other.get()
        context = authority().client_context()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            context.minimum_version = ssl.TLSVersion.TLSv1
            context.maximum_version = ssl.TLSVersion.TLSv1_1
        context.set_ciphers("ALL:@SECLEVEL=0")
        stream = trio.SSLStream(
            await trio.open_tcp_stream(*host.secure), context, server_hostname="localhost"
        )
        with pytest.raises(trio.BrokenResourceError):
            await stream.do_handshake()
        await trio.aclose_forcefully(stream)
        assert (await other.get()).status == 200
        assert host.statistics.handshake_failures == 1


async def test_plain_http_on_the_secure_port_gets_400() -> None:
    async with served() as host:
        async with await trio.open_tcp_stream(*host.secure) as stream:
            client = Client(stream)
            reply = await client.get()
            assert reply.status == 400
            assert reply.body == b"client sent an HTTP request to an HTTPS server"
            assert await client.ended()
        assert host.statistics.requests == 0


async def test_invalid_handshake_affects_no_other_client() -> None:
    async with served() as host, host.connect_tls() as other:
        async with await trio.open_tcp_stream(*host.secure) as stream:
            await stream.send_all(b"\x16\x03\x01\x00\x05hello")
            while await stream.receive_some():
                pass
        assert (await other.get()).status == 200
        assert host.statistics.handshake_failures == 1


async def test_incomplete_handshake_times_out(mock_clock: MockClock) -> None:
    async with served() as host, await trio.open_tcp_stream(*host.secure) as stream:
        await stream.send_all(b"\x16\x03\x01")
        await advance(mock_clock, 12)
        assert await Client(stream).ended()
        assert host.statistics.open == 0


async def test_secure_connection_without_bytes_times_out(mock_clock: MockClock) -> None:
    async with served() as host, await trio.open_tcp_stream(*host.secure) as stream:
        await advance(mock_clock, 12)
        assert await Client(stream).ended()


async def test_orderly_close_sends_close_notify() -> None:
    context = authority().client_context()
    async with served() as host:
        transport = await trio.open_tcp_stream(*host.secure)
        # Not https_compatible: an end without close_notify would raise here.
        stream = trio.SSLStream(transport, context, server_hostname="localhost")
        await stream.send_all(b"GET / HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n")
        while await stream.receive_some():
            pass
        await trio.aclose_forcefully(stream)


async def test_invalid_record_ends_only_its_connection() -> None:
    async with served() as host, host.connect_tls() as other, host.connect_tls() as client:
        await client.get()
        stream = client.stream
        assert isinstance(stream, trio.SSLStream)
        await stream.transport_stream.send_all(b"\x17\x03\x03\x00\x20" + b"x" * 32)
        while host.statistics.open > 1 or host.statistics.accepted < 2:
            await settled()
        assert (await other.get()).status == 200


async def test_records_of_any_size_carry_requests() -> None:
    async with served() as host, host.connect_tls() as client:
        for byte in b"GET /a HTTP/1.1\r\nHost: t\r\n\r\n":
            await client.send(bytes([byte]))
        assert (await client.reply()).body == b"GET /a"
        many = 3000
        await client.send(b"GET /b HTTP/1.1\r\nHost: t\r\n\r\n" * many)
        assert {(await client.reply()).body for _ in range(many)} == {b"GET /b"}


async def test_secure_address_needs_a_tls_context() -> None:
    server = Server(hello, refuse, Limits())
    with pytest.raises(ValueError, match="TLS context"):
        await server.serve(authority().config(), tls=None, stop=trio.Event())
