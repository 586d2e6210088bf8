"""A server with admission webhooks: an HTTPS peer in the same event loop responds as the called path says.

async with hooking(patch=[...]) as hooks:
    await hooks.configure("mutating", hooks.hook("a.example.com", "/patch"))
    made = await hooks.api.create("configmaps", config_map("a"))
"""

from __future__ import annotations

import base64
import inspect
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import orjson

from tests.gateway.api import Api, ApiResponse, served
from tests.gateway.outgoing.https_peer import Peer, Received, Reply, https_peer, pki

Respond = Callable[[dict[str, Any]], Any]  # the review's request -> response members, a Reply or None
MAPS = "/api/v1/namespaces/default/configmaps"
CONFIG_MAPS = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
DENY = {"allowed": False}


def patching(*operations: Any) -> dict[str, Any]:
    patch = base64.b64encode(orjson.dumps(list(operations))).decode()
    return {"patchType": "JSONPatch", "patch": patch}


def adding(path: str, value: Any) -> dict[str, Any]:
    return patching({"op": "add", "path": path, "value": value})


@dataclass
class Hooks:
    api: Api
    peer: Peer

    def hook(self, name: str, path: str = "/allow", **fields: Any) -> dict[str, Any]:
        ca = base64.b64encode((pki() / "ca.pem").read_bytes()).decode()
        return {
            "name": name,
            "clientConfig": {"url": f"https://127.0.0.1:{self.peer.port}{path}", "caBundle": ca},
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "rules": [CONFIG_MAPS],
            **fields,
        }

    async def configure(self, kind: str, *hooks: dict[str, Any], name: str = "hooks") -> None:
        path = self.api.path(f"{kind}webhookconfigurations", None)
        (await self.api.ask("POST", path, {"metadata": {"name": name}, "webhooks": list(hooks)})).expect(201)

    async def remove(self, kind: str, name: str = "hooks") -> None:
        path = self.api.path(f"{kind}webhookconfigurations", None)
        (await self.api.ask("DELETE", f"{path}/{name}")).expect(200)

    async def create(self, name: str, **query: Any) -> ApiResponse:
        body = {"metadata": {"name": name}, "data": {"k": "v"}}
        return await self.api.ask("POST", MAPS, body, **query)

    @property
    def requests(self) -> list[dict[str, Any]]:
        """The requests of all reviews so far."""
        return [one.document["request"] for one in self.peer.received]

    def called(self) -> list[str]:
        """The paths that were called since this was last read."""
        paths = [one.target.partition("?")[0] for one in self.peer.received]
        self.peer.received.clear()
        return paths


@asynccontextmanager
async def hooking(
    *, certificate: str = "server", changed: dict[str, Any] | None = None, **paths: Respond | dict[str, Any]
) -> AsyncIterator[Hooks]:
    """`paths` maps the first part of a path to its response; all other paths allow."""

    async def respond(received: Received) -> Any:
        review = received.document
        request = review["request"]
        made = paths.get(received.target.partition("?")[0].split("/")[1], {})
        members = made(request) if callable(made) else made
        if inspect.isawaitable(members):
            members = await members
        if members is None or isinstance(members, Reply) or inspect.isasyncgen(members):
            return members
        response = {"uid": request["uid"], "allowed": True, **members}
        return {"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response}

    async with (
        https_peer(respond, certificate=certificate, clients=ssl.CERT_OPTIONAL) as peer,
        served(**(changed or {})) as api,
    ):
        yield Hooks(api, peer)
