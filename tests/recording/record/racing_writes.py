"""Deletes collections while other clients create, change and delete the same objects.

One client acts like the root CA publisher: it creates its ConfigMap again as soon as it is deleted. The server's own
publisher (`kube-root-ca.crt`) writes without requests.
"""

from __future__ import annotations

from random import Random
from typing import Any

import orjson
import trio

from tests.actors.object_store import Document
from tests.gateway.api import Api, ApiResponse

PLURALS = ("configmaps", "secrets")
PUBLISHED = "published.crt"
_MERGE = "application/merge-patch+json"


class RacingWrites:
    def __init__(self, api: Api, random: Random, objects: int = 30) -> None:
        self.api = api
        self.random = random
        self.objects = objects
        self._numbers = iter(range(1_000_000))
        self._done = trio.Event()

    async def run(self, rounds: int) -> None:
        """Each round fills a new namespace, and deletes its collections while other clients write."""
        for number in range(rounds):
            namespace = f"race-{number}"
            await self._ask("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
            for which in range(self.objects):
                await self._create(namespace, which)
            self._done = trio.Event()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._publish, namespace)
                for _ in range(3):
                    nursery.start_soon(self._write, namespace)
                await self._delete_collections(namespace)
                self._done.set()

    async def _delete_collections(self, namespace: str) -> None:
        for _ in range(2):
            async with trio.open_nursery() as nursery:
                for plural in PLURALS:
                    await self._pause(3)
                    nursery.start_soon(self._ask, "DELETE", _path(namespace, plural))
            if self.random.random() < 0.5:
                await self._ask("DELETE", _path(namespace, "configmaps") + "?labelSelector=odd%3Dyes")

    async def _publish(self, namespace: str) -> None:
        """Ends when the other clients have ended."""
        while not self._done.is_set():
            body = {"metadata": {"name": PUBLISHED}, "data": {"ca": str(next(self._numbers))}}
            await self._ask("POST", _path(namespace, "configmaps"), body, user="publisher")
            await self._pause(2)

    async def _write(self, namespace: str) -> None:
        while not self._done.is_set():
            which = self.random.randrange(self.objects)
            chosen = self.random.choice((self._create, self._create, self._patch, self._patch, self._delete))
            await chosen(namespace, which)
            await self._pause(3)

    async def _create(self, namespace: str, which: int) -> None:
        body: Document = {"metadata": {"name": f"object-{which}"}}
        if which % 3 == 0:
            body["metadata"]["labels"] = {"odd": "yes"}
        if which % 7 == 0:
            body["metadata"]["finalizers"] = ["example.com/wait"]
        await self._ask("POST", _path(namespace, self._plural(which)), body)

    async def _patch(self, namespace: str, which: int) -> None:
        patch: Document = {"metadata": {"annotations": {"number": str(next(self._numbers))}}}
        if which % 7 == 0 and self.random.random() < 0.5:
            patch["metadata"]["finalizers"] = None
        await self._ask("PATCH", self._named(namespace, which), patch)

    async def _delete(self, namespace: str, which: int) -> None:
        await self._ask("DELETE", self._named(namespace, which))

    async def _pause(self, most: int) -> None:
        for _ in range(self.random.randrange(most)):
            await trio.lowlevel.checkpoint()

    async def _ask(self, method: str, path: str, body: Any = None, user: str = "") -> ApiResponse:
        self.api.clock.advance(0.001)
        headers = {
            "impersonate-user": user or self.random.choice(("alice", "bob")),
            "impersonate-group": "system:masters",
            "user-agent": "racer/v1",
        }
        if method == "PATCH":
            headers["content-type"] = _MERGE
        content = None if body is None else orjson.dumps(body)
        answer = await self.api.ask(method, path, content, headers=headers)
        assert answer.status < 500, answer.text
        return answer

    def _plural(self, which: int) -> str:
        return PLURALS[which % 5 == 4]

    def _named(self, namespace: str, which: int) -> str:
        return f"{_path(namespace, self._plural(which))}/object-{which}"


def _path(namespace: str, plural: str) -> str:
    return f"/api/v1/namespaces/{namespace}/{plural}"
