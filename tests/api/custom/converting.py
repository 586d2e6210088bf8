"""A server with a custom kind whose versions a webhook converts: `size` of v1 is `length` of v2.

async with converting() as server:
    await server.create("a", size=3)
    assert (await server.get("v2", "a"))["spec"] == {"length": 3}
    assert server.calls() == [1]  # objects of each call
"""

from __future__ import annotations

import base64
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.actors.object_store import Document
from tests.api.custom.kinds import DEFINITIONS, GROUP, MERGE, NAME, define, definition, version
from tests.gateway.api import Api, served
from tests.gateway.outgoing.https_peer import Peer, Received, https_peer, pki

FIELDS = {"v1": "size", "v2": "length"}

Respond = Callable[[Document, Document], Any]  # (review, the right response) -> what is sent


def spec_of(name: str) -> Document:
    fields = {FIELDS[name]: {"type": "integer"}, "text": {"type": "string"}}
    return {"type": "object", "properties": fields}


def converted(one: Document, target: str) -> Document:
    """Convert an object as the webhook does."""
    source, wanted = (text.rpartition("/")[2] for text in (one["apiVersion"], target))
    spec = dict(one.get("spec", {}))
    if FIELDS[source] in spec:
        spec[FIELDS[wanted]] = spec.pop(FIELDS[source])
    members = {"spec": spec} if "spec" in one else {}
    return {**one, "apiVersion": target, **members}


def reviewed(review: Document) -> Document:
    """The correct response to a ConversionReview."""
    request = review["request"]
    objects = [converted(one, request["desiredAPIVersion"]) for one in request["objects"]]
    return {
        "apiVersion": review["apiVersion"],
        "kind": "ConversionReview",
        "response": {"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": objects},
    }


@dataclass
class Converting:
    api: Api
    peer: Peer
    respond: Respond | None = None  # sent instead of the correct response
    wait: Callable[[], Awaitable[Any]] | None = None  # before each response
    _counted: int = field(default=0)

    def path(self, in_version: str, name: str = "") -> str:
        path = f"/apis/{GROUP}/{in_version}/namespaces/default/widgets"
        return f"{path}/{name}" if name else path

    def widget(self, in_version: str, name: str, size: int = 1, **metadata: Any) -> Document:
        return {
            "apiVersion": f"{GROUP}/{in_version}",
            "kind": "Widget",
            "metadata": {"name": name, **metadata},
            "spec": {FIELDS[in_version]: size},
        }

    async def create(self, name: str, size: int = 1, *, in_version: str = "v1", **metadata: Any) -> Document:
        sent = self.widget(in_version, name, size, **metadata)
        made: Document = (await self.api.ask("POST", self.path(in_version), sent)).expect(201)
        return made

    async def get(self, in_version: str, name: str) -> Document:
        found: Document = (await self.api.ask("GET", self.path(in_version, name))).expect(200)
        return found

    async def patch(self, in_version: str, name: str, patch: Document, **query: Any) -> Document:
        path = self.path(in_version, name)
        patched: Document = (await self.api.ask("PATCH", path, patch, headers=MERGE, **query)).expect(200)
        return patched

    async def declare(self, *, storage: str = "v1", **webhook: Any) -> None:
        """Change the definition: its storage version and its webhook."""
        versions = [version(name, spec=spec_of(name), storage=name == storage) for name in FIELDS]
        spec = {"versions": versions, "conversion": self.conversion(**webhook)}
        (await self.api.ask("PATCH", f"{DEFINITIONS}/{NAME}", {"spec": spec}, headers=MERGE)).expect(200)

    def conversion(self, reviews: tuple[str, ...] = ("v1",), **client: Any) -> Document:
        ca = base64.b64encode((pki() / "ca.pem").read_bytes()).decode()
        config = {"url": f"https://127.0.0.1:{self.peer.port}/convert", "caBundle": ca, **client}
        webhook = {"conversionReviewVersions": list(reviews), "clientConfig": config}
        return {"strategy": "Webhook", "webhook": webhook}

    def calls(self) -> list[int]:
        """The number of objects in each call since this was last called."""
        fresh = self.peer.received[self._counted :]
        self._counted += len(fresh)
        return [len(one.document["request"]["objects"]) for one in fresh]


@asynccontextmanager
async def converting(
    *,
    storage: str = "v1",
    reviews: tuple[str, ...] = ("v1",),
    subresources: Document | None = None,
    certificate: str = "server",
    changed: dict[str, Any] | None = None,
) -> AsyncIterator[Converting]:
    server: Converting

    async def respond(received: Received) -> Any:
        review = received.document
        if server.wait is not None:
            await server.wait()
        right = reviewed(review)
        return right if server.respond is None else server.respond(review, right)

    async with (
        https_peer(respond, certificate=certificate, clients=ssl.CERT_OPTIONAL) as peer,
        served(**(changed or {})) as api,
    ):
        server = Converting(api, peer)
        more: dict[str, Any] = {"subresources": subresources} if subresources else {}
        versions = [version(name, spec=spec_of(name), storage=name == storage, **more) for name in FIELDS]
        declared = definition(*versions)
        declared["spec"]["conversion"] = server.conversion(reviews)
        if changed is not None and changed.get("dialect") == "kubernetes":
            declared["apiVersion"] = "apiextensions.k8s.io/v1"
        await define(api, declared)
        yield server
