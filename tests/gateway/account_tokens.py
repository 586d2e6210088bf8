"""Requests service account tokens over HTTP, uses them, and forges others with the key of the server."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import jwt
import trio
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.actors.object_store import Document
from tests.gateway.api import Api, ApiResponse

ISSUER = "https://kubernetes.default.svc.cluster.local"


async def make_account(api: Api, name: str = "robot") -> Document:
    return await api.create("serviceaccounts", {"metadata": {"name": name}})


async def request_token(api: Api, name: str = "robot", spec: Document | None = None) -> ApiResponse:
    path = f"{api.path('serviceaccounts', name=name)}/token"
    return await api.ask("POST", path, {"spec": spec or {}})


async def issued(api: Api, name: str = "robot", **spec: Any) -> str:
    return str((await request_token(api, name, spec)).expect(201)["status"]["token"])


async def status_with(api: Api, token: str) -> int:
    """The status of a request that an account may not make: 403 for a valid token, 401 for any other."""
    return (await api.ask("GET", "/api/v1/nodes", token=token)).status


async def review(api: Api, token: str, *audiences: str) -> Document:
    spec: Document = {"token": token, **({"audiences": list(audiences)} if audiences else {})}
    group = "authentication.k8s.io" if api.settings.dialect == "kubernetes" else "authentication.cluster.io"
    made = await api.ask("POST", f"/apis/{group}/v1/tokenreviews", {"spec": spec})
    status: Document = made.expect(201)["status"]
    return status


def claims_of(token: str) -> Document:
    claims: Document = jwt.decode(token, options={"verify_signature": False})
    return claims


def own_key(api: Api) -> Any:
    """The key with which the server signs tokens; it exists once a token was issued."""
    return serialization.load_pem_private_key((api.settings.pki / "sa.key").read_bytes(), None)


def signed(claims: Document, key: Any, algorithm: str = "ES256", **headers: Any) -> str:
    return jwt.encode(claims, key, algorithm=algorithm, headers=headers or None)


def forged(header: Document, claims: Document, signature: bytes) -> str:
    """A token that no library would create."""
    parts = (json.dumps(header).encode(), json.dumps(claims).encode(), signature)
    return b".".join(base64.urlsafe_b64encode(one).rstrip(b"=") for one in parts).decode()


def public_pem(key: Any) -> bytes:
    pem: bytes = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return pem


def private_pem(key: Any) -> bytes:
    pem: bytes = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return pem


def new_key() -> Any:
    return ec.generate_private_key(ec.SECP256R1())


async def eventually(api: Api, path: str, holds: Callable[[ApiResponse], bool]) -> ApiResponse:
    """Wait for a response for which `holds` is true: controllers write asynchronously."""
    with trio.fail_after(60):
        while not holds(response := await api.ask("GET", path)):
            await trio.sleep(0.01)
    return response
