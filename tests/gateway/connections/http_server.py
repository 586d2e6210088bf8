"""A server on real sockets with any handler, a temporary CA, and a client that sends raw HTTP/1.1 bytes.

Server and client share the test's trio loop: under `mock_clock` time passes only when a test advances it,
and loopback delivers before a send returns, so nothing here waits for a wall clock.
"""

from __future__ import annotations

import datetime
import ipaddress
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import trio
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from rewound.gateway.connections.config import ServerConfig
from rewound.gateway.connections.limits import Limits
from rewound.gateway.connections.server import Server
from rewound.gateway.connections.server_state import ServerStatistics
from rewound.gateway.exchange import RequestObserver
from rewound.gateway.memory.budget import MemoryBudget
from rewound.gateway.message import Request, Response

Handle = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True)
class Authority:
    ca: Path
    certificate: Path
    key: Path
    client_certificate: Path
    client_key: Path

    def config(self, **changed: object) -> ServerConfig:
        """A secure and a plain listener, each on a port that the kernel chooses."""
        config = ServerConfig.from_mapping(
            {
                "bind": "127.0.0.1:0",
                "insecure_bind": "127.0.0.1:0",
                "certfile": str(self.certificate),
                "keyfile": str(self.key),
                "client_authorities": [self.ca],
                **changed,
            }
        )
        assert isinstance(config, ServerConfig)
        return config

    def server_context(self) -> ssl.SSLContext:
        context = self.config().create_ssl_context()
        assert context is not None
        return context

    def client_context(self, *, certificate: bool = False, alpn: tuple[str, ...] = ()) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.ca))
        if certificate:
            context.load_cert_chain(self.client_certificate, self.client_key)
        if alpn:
            context.set_alpn_protocols(list(alpn))
        return context


_folder = tempfile.TemporaryDirectory(prefix="rewound-authority-")


@cache
def authority() -> Authority:
    """One CA for the whole run, because generating keys is slow."""
    folder = Path(_folder.name)
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca = _issue("test authority", ca_key, ca_key, "test authority", is_ca=True)
    files = {"ca": (ca, ca_key)}
    for name in ("server", "client"):
        key = ec.generate_private_key(ec.SECP256R1())
        files[name] = (_issue(name, key, ca_key, "test authority", is_ca=False), key)
    for name, (certificate, key) in files.items():
        (folder / f"{name}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        (folder / f"{name}.key").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
    names = ("ca.crt", "server.crt", "server.key", "client.crt", "client.key")
    return Authority(*(folder / name for name in names))


def _issue(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
    issuer: str,
    *,
    is_ca: bool,
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
        .add_extension(_usage(is_ca=is_ca), critical=True)
        .sign(signer, hashes.SHA256())
    )


def _usage(*, is_ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_ca,
        crl_sign=is_ca,
        encipher_only=False,
        decipher_only=False,
    )


@dataclass
class Reply:
    """One response as the client read it."""

    status: int
    headers: dict[bytes, bytes]
    body: bytes


class Client:
    """Sends raw bytes; reads responses, framed by their Content-Length."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self._buffer = bytearray()

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def reply(self, *, head: bool = False) -> Reply:
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            await self._more()
        first, *lines = self._take(end + 4)[:-4].split(b"\r\n")
        headers = {}
        for line in lines:
            name, _, value = line.partition(b": ")
            headers[name] = value
        status = int(first.split(b" ")[1])
        length = 0 if head or status < 200 else int(headers.get(b"content-length", b"0"))
        return Reply(status, headers, await self.receive(length))

    async def receive(self, length: int) -> bytes:
        """The next bytes, unparsed."""
        while len(self._buffer) < length:
            await self._more()
        return self._take(length)

    def _take(self, length: int) -> bytes:
        taken = bytes(self._buffer[:length])
        del self._buffer[:length]
        return taken

    async def request(self, data: bytes) -> Reply:
        await self.send(data)
        return await self.reply()

    async def get(self, path: str = "/") -> Reply:
        return await self.request(b"GET %b HTTP/1.1\r\nHost: test\r\n\r\n" % path.encode())

    async def ended(self) -> bool:
        """Wait for bytes or the end of the connection; True if the server closed without sending more."""
        try:
            return not self._buffer and await self.stream.receive_some(65536) == b""
        except trio.BrokenResourceError:
            return True

    async def _more(self) -> None:
        data = await self.stream.receive_some(65536)
        assert data, f"the server closed after {bytes(self._buffer[:200])!r}"
        self._buffer += data


@dataclass
class Host:
    """A server under test."""

    server: Server
    secure: tuple[str, int]
    insecure: tuple[str, int]
    stop: trio.Event
    handled: list[str]  # paths of requests that arrived whole
    stopped: trio.Event = field(default_factory=trio.Event)

    @property
    def statistics(self) -> ServerStatistics:
        return self.server.statistics()

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Client]:
        stream = await trio.open_tcp_stream(*self.insecure)
        async with stream:
            yield Client(stream)

    @asynccontextmanager
    async def connect_tls(
        self, *, certificate: bool = False, alpn: tuple[str, ...] = ()
    ) -> AsyncIterator[Client]:
        context = authority().client_context(certificate=certificate, alpn=alpn)
        stream = trio.SSLStream(
            await trio.open_tcp_stream(*self.secure),
            context,
            server_hostname="localhost",
            https_compatible=True,
        )
        try:
            yield Client(stream)
        finally:
            await trio.aclose_forcefully(stream)


async def hello(request: Request) -> Response:
    return Response(200, f"{request.method} {request.path}".encode(), b"text/plain")


def refuse(status: int, message: str) -> Response:
    return Response(status, message.encode(), b"text/plain")


def reading(handle: Handle, handled: list[str]) -> Callable[[Request], Coroutine[Any, Any, Response]]:
    """A handler that reads the body of every request, and records the paths of those that arrived whole."""

    async def read(request: Request) -> Response:
        if request.arriving is not None:
            request.body = await request.arriving()
        handled.append(request.path)
        return await handle(request)

    return read


@asynccontextmanager
async def served(
    handle: Handle = hello,
    limits: Limits | None = None,
    *,
    grace: float = 5.0,
    observer: RequestObserver | None = None,
    memory: MemoryBudget | None = None,
    reads: bool = True,
    **config: object,
) -> AsyncIterator[Host]:
    """A server with this handler, which reads bodies itself unless `reads`. `config`: keys of Hypercorn's
    configuration.
    """
    handled: list[str] = []
    chosen = reading(handle, handled) if reads else handle
    server = Server(chosen, refuse, limits or Limits(), observer, memory)  # type: ignore[arg-type]
    stop = trio.Event()
    async with trio.open_nursery() as nursery:

        async def run(*, task_status: trio.TaskStatus[Host]) -> None:
            async with trio.open_nursery() as inner:
                listeners = await inner.start(
                    partial(
                        server.serve,
                        authority().config(graceful_timeout=grace, **config),
                        tls=authority().server_context(),
                        stop=stop,
                    )
                )
                secure, insecure = (
                    next((one.address for one in listeners if one.address and bool(one.tls) is tls), ("", 0))
                    for tls in (True, False)
                )
                host = Host(server, secure, insecure, stop, handled)
                task_status.started(host)
            host.stopped.set()

        host = await nursery.start(run)
        yield host
        stop.set()
        nursery.cancel_scope.cancel()
