"""An identity provider for tests: discovery and keys over real HTTPS in the loop of the test, and ID tokens.

    async with identity_provider() as provider:
        token = provider.token(sub="alice")

Keys are made once for the whole run. What it serves can be replaced: `documents` maps paths to bodies.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import jwt
import trio
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from tests.issuers import SERVER, issuer

DISCOVERY = "/realm/.well-known/openid-configuration"
KEYS = "/realm/keys"
CLIENT_ID = "rewound"


@cache
def rsa_key(name: str) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


@cache
def ec_key(name: str) -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def public_jwk(key: Any, **fields: str) -> dict[str, Any]:
    algorithm: Any = RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else ECAlgorithm
    return {**json.loads(algorithm.to_jwk(key.public_key())), "use": "sig", **fields}


@dataclass
class IdentityProvider:
    port: int
    now: float  # of the tokens
    documents: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)  # paths of all requests
    gate: trio.Event | None = None  # responses wait for this event
    answers: bool = True  # if false, it accepts connections and never responds

    def __post_init__(self) -> None:
        self.rotate("first")

    @property
    def issuer(self) -> str:
        return f"https://127.0.0.1:{self.port}/realm"

    def rotate(self, *names: str) -> None:
        """Publish all these keys, and sign with the last one."""
        self.signing = names[-1]
        self.publish(*(public_jwk(rsa_key(name), kid=name, alg="RS256") for name in names))

    def publish(self, *keys: dict[str, Any], **changed: Any) -> None:
        discovered = {"issuer": self.issuer, "jwks_uri": f"https://127.0.0.1:{self.port}{KEYS}", **changed}
        self.documents[DISCOVERY] = json.dumps(discovered).encode()
        self.documents[KEYS] = json.dumps({"keys": keys}).encode()

    def claims(self, **changed: Any) -> dict[str, Any]:
        """The claims of a valid token with these changes; None removes a claim."""
        claims = {"iss": self.issuer, "aud": CLIENT_ID, "sub": "alice", "exp": int(self.now) + 600, **changed}
        return {name: value for name, value in claims.items() if value is not None}

    def token(self, **changed: Any) -> str:
        key = self.signing
        return jwt.encode(self.claims(**changed), rsa_key(key), "RS256", {"kid": key})

    async def serve(self, stream: trio.SSLStream[trio.SocketStream]) -> None:
        try:
            async with stream:
                data = b""
                while b"\r\n\r\n" not in data:
                    part = await stream.receive_some(65536)
                    if not part:
                        return
                    data += part
                await stream.send_all(await self._response(data.split(b" ")[1].decode()))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # a client that does not trust this server

    async def _response(self, path: str) -> bytes:
        self.asked.append(path)
        if not self.answers:
            await trio.sleep_forever()
        if self.gate is not None:
            await self.gate.wait()
        body = self.documents.get(path)
        if body is not None and body.startswith(b"HTTP/"):
            return body
        head = b"HTTP/1.1 %b\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
        return head % (b"404 Not Found" if body is None else b"200 OK", len(body or b"")) + (body or b"")


@asynccontextmanager
async def identity_provider(now: float, certificate: Path | None = None) -> AsyncIterator[IdentityProvider]:
    """A provider on a free port; its certificate is by issuer("provider") unless given."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate or issuer("provider").leaf("localhost", usages=(SERVER,)))
    listeners = await trio.open_ssl_over_tcp_listeners(0, context, host="127.0.0.1", https_compatible=True)
    provider = IdentityProvider(listeners[0].transport_listener.socket.getsockname()[1], now)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, provider.serve, listeners)
        yield provider
        nursery.cancel_scope.cancel()
