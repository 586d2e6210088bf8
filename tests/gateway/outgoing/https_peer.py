"""An HTTPS server in the test's own event loop that requires client certificates, or asks for them.

    async with https_peer(respond) as peer:
        file = peer.kubeconfig(tmp_path)
        ...
        assert peer.received[0].document["kind"] == "TokenReview"

`respond` gets a `Received` and returns a `Reply`, a document that is sent as JSON, or a generator of parts.
Certificates are made once.
"""

from __future__ import annotations

import datetime
import inspect
import ipaddress
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import h11
import orjson
import trio
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_folder = tempfile.TemporaryDirectory(prefix="rewound-peer-")
_START, _END = datetime.datetime(2020, 1, 1), datetime.datetime(2100, 1, 1)


@dataclass(frozen=True)
class Received:
    target: str
    headers: dict[str, str]
    body: bytes
    client: str  # the common name of the client certificate; "" without one

    @property
    def document(self) -> Any:
        return orjson.loads(self.body)


@dataclass(frozen=True)
class Reply:
    status: int = 200
    body: bytes = b"{}"
    headers: tuple[tuple[str, str], ...] = ()


@dataclass
class Peer:
    port: int
    received: list[Received] = field(default_factory=list)
    connections: int = 0

    def kubeconfig(
        self, folder: Path, path: str = "/review", *, cluster: dict[str, Any] | None = None, **user: Any
    ) -> Path:
        """A file that names this server and a client certificate; `user` replaces the certificate."""
        known = {"client-certificate": str(pki() / "client.pem"), "client-key": str(pki() / "client.key")}
        trusted = {
            "server": f"https://127.0.0.1:{self.port}{path}",
            "certificate-authority": str(pki() / "ca.pem"),
        }
        return write_kubeconfig(folder, {**trusted, **(cluster or {})}, {**known, **user})


def write_kubeconfig(folder: Path, cluster: dict[str, Any], user: dict[str, Any]) -> Path:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "hook", "cluster": {k: v for k, v in cluster.items() if v is not None}}],
        "users": [{"name": "server", "user": {k: v for k, v in user.items() if v is not None}}],
        "contexts": [{"name": "c", "context": {"cluster": "hook", "user": "server"}}],
    }
    file = folder / "hook.yaml"
    file.write_text(yaml.safe_dump(document))
    return file


@asynccontextmanager
async def https_peer(
    respond: Callable[[Received], Any],
    *,
    certificate: str = "server",
    clients: ssl.VerifyMode = ssl.CERT_REQUIRED,
) -> AsyncIterator[Peer]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=pki() / "ca.pem")
    context.load_cert_chain(pki() / f"{certificate}.pem", pki() / f"{certificate}.key")
    context.verify_mode = clients
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_ssl_over_tcp_listeners(
            0, context, host="127.0.0.1", https_compatible=True
        )
        peer = Peer(listeners[0].transport_listener.socket.getsockname()[1])
        nursery.start_soon(partial(trio.serve_listeners, partial(_serve, peer, respond), listeners))
        yield peer
        nursery.cancel_scope.cancel()


async def _serve(peer: Peer, respond: Callable[[Received], Any], stream: trio.SSLStream[Any]) -> None:
    peer.connections += 1
    connection = h11.Connection(h11.SERVER)
    try:
        await stream.do_handshake()
        while await _exchange(peer, respond, stream, connection):
            connection.start_next_cycle()
    except (trio.BrokenResourceError, trio.ClosedResourceError, ssl.SSLError):
        pass  # the client has gone
    finally:
        await trio.aclose_forcefully(stream)


async def _exchange(
    peer: Peer, respond: Callable[[Received], Any], stream: trio.SSLStream[Any], connection: h11.Connection
) -> bool:
    """Serve one request; False when the client has closed the connection."""
    head: h11.Request | None = None
    body = b""
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await stream.receive_some())
        elif isinstance(event, h11.Request):
            head = event
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage):
            break
        else:
            return False
    assert head is not None
    headers = {name.decode(): value.decode() for name, value in head.headers}
    received = Received(head.target.decode(), headers, body, _common_name(stream.getpeercert()))
    peer.received.append(received)
    answer = respond(received)
    if inspect.isawaitable(answer):
        answer = await answer
    if answer is None:
        raise trio.BrokenResourceError  # close without a response
    if inspect.isasyncgen(answer):
        start = connection.send(h11.Response(status_code=200, headers=[("transfer-encoding", "chunked")]))
        await stream.send_all(start or b"")
        async for part in answer:
            await stream.send_all(connection.send(h11.Data(data=part)) or b"")
        await stream.send_all(connection.send(h11.EndOfMessage()) or b"")
        return True
    reply = answer if isinstance(answer, Reply) else Reply(body=orjson.dumps(answer))
    sent = connection.send(
        h11.Response(
            status_code=reply.status,
            headers=[
                ("content-length", str(len(reply.body))),
                *((name, value.encode("latin-1")) for name, value in reply.headers),
            ],
        )
    )
    data = connection.send(h11.Data(data=reply.body))
    end = connection.send(h11.EndOfMessage())
    await stream.send_all((sent or b"") + (data or b"") + (end or b""))
    return True


def _common_name(certificate: dict[str, Any] | None) -> str:
    if not certificate:
        return ""
    return next(value for part in certificate["subject"] for key, value in part if key == "commonName")


@cache
def pki() -> Path:
    """Certificates and keys in PEM: ca, server (127.0.0.1), other (hook.example), service (hook.default.svc), client.

    `untrusted` is signed by another CA.
    """
    folder = Path(_folder.name)
    ca = _Signer("hook CA")
    untrusted = _Signer("other CA")
    (folder / "ca.pem").write_bytes(_pem(ca.certificate))
    (folder / "untrusted-ca.pem").write_bytes(_pem(untrusted.certificate))
    ca.issue(folder, "server", x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
    ca.issue(folder, "other", x509.DNSName("hook.example"))
    ca.issue(folder, "service", x509.DNSName("hook.default.svc"))
    ca.issue(folder, "client", None)
    untrusted.issue(folder, "untrusted", None)
    return folder


class _Signer:
    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        self.certificate = self._sign(self._name, self._key.public_key(), None, authority=True)

    def issue(self, folder: Path, name: str, address: x509.GeneralName | None) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign(_name(name), key.public_key(), address, authority=False)
        (folder / f"{name}.pem").write_bytes(_pem(certificate))
        (folder / f"{name}.key").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )

    def _sign(
        self,
        subject: x509.Name,
        public: ec.EllipticCurvePublicKey,
        address: x509.GeneralName | None,
        *,
        authority: bool,
    ) -> x509.Certificate:
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(_START)
            .not_valid_after(_END)
            .add_extension(x509.BasicConstraints(authority, None), critical=True)
        )
        if address is not None:
            builder = builder.add_extension(x509.SubjectAlternativeName([address]), critical=False)
        return builder.sign(self._key, hashes.SHA256())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
