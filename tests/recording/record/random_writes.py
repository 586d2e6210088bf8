"""Random writes of every kind by several users: creates, updates, patches, applies, deletes, and refused ones."""

from __future__ import annotations

from random import Random
from typing import Any

import orjson

from tests.actors.object_store import Document
from tests.gateway.api import Api, config_map
from tests.settling import settled

USERS = ("alice", "bob", "system:serviceaccount:default:painter")
GROUP = "stable.example.com"
_PATCHES = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}


def definition(dialect: str) -> Document:
    schema = {"type": "object", f"x-{dialect}-preserve-unknown-fields": True}
    return {
        "metadata": {"name": f"colours.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "colours", "singular": "colour", "kind": "Colour", "listKind": "ColourList"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                }
            ],
        },
    }


class RandomWrites:
    """Writes at random; `touched` has what it has written: (type, namespace, name)."""

    def __init__(self, api: Api, random: Random, pause: float = 0.001) -> None:
        """`pause`: seconds of the server's clock before each write."""
        self.api = api
        self.pause = pause
        self.random = random
        self.touched: set[tuple[str, str, str]] = set()
        self.refused = 0
        self._live: dict[str, set[str]] = {
            one: set() for one in ("configmaps", "secrets", "deployments", "pods")
        }
        self._live["colours"] = set()

    async def run(self, count: int) -> None:
        created = await self._send(
            "POST", self.api.path("customresourcedefinitions"), definition(self.api.settings.dialect)
        )
        assert created == 201
        await settled()  # the kind is served
        for number in range(count):
            plural = self.random.choice(list(self._live))
            write = self.random.choice(
                (
                    self._create,
                    self._create,
                    self._replace,
                    self._patch,
                    self._patch,
                    self._apply,
                    self._delete,
                )
            )
            await write(plural, number)
            if number % 29 == 28:
                await self._delete_collection(plural)
            if number % 17 == 16:
                await self._scale(number)
            if number % 7 == 6:
                await self._be_refused(plural, number)

    async def _create(self, plural: str, number: int) -> None:
        body = _object(plural, f"{plural}-{number}", number, self.random)
        if self.random.random() < 0.3:
            body["metadata"] = {**body["metadata"], "generateName": f"{plural}-x-"}
            del body["metadata"]["name"]
        if self.random.random() < 0.2:
            body["metadata"]["finalizers"] = ["example.com/wait"]
        answer = await self._ask("POST", self._path(plural), body)
        assert answer.status == 201, answer.text
        self._know(plural, answer.document["metadata"]["name"])

    async def _replace(self, plural: str, number: int) -> None:
        if not (name := self._any(plural)):
            return
        found = (await self.api.ask("GET", self._path(plural, name))).document
        if "deletionTimestamp" in found["metadata"] and self.random.random() < 0.7:
            found["metadata"].pop("finalizers", None)  # deletes an object that waits for its finalizer
        found["metadata"].setdefault("labels", {})["number"] = str(number)
        status = "status" in found and self.random.random() < 0.5
        if status:
            found["status"]["observedGeneration"] = number
        await self._ask("PUT", self._path(plural, name) + ("/status" if status else ""), found)
        await self._look(plural, name)

    async def _patch(self, plural: str, number: int) -> None:
        if not (name := self._any(plural)):
            return
        form = self.random.choice(("json", "merge", "merge" if plural == "colours" else "strategic"))
        patch: Any = {"metadata": {"annotations": {"number": str(number)}}}
        if plural == "deployments":
            patch["spec"] = {"replicas": number}
            if form == "strategic":
                containers = [{"name": "a", "image": f"image:{number}"}]
                patch["spec"]["template"] = {"spec": {"containers": containers}}
        if form == "json":
            patch = [{"op": "add", "path": "/metadata/labels", "value": {"number": str(number)}}]
        await self._ask("PATCH", self._path(plural, name), patch, {"content-type": _PATCHES[form]})
        await self._look(plural, name)

    async def _apply(self, plural: str, number: int) -> None:
        if plural == "pods":
            return
        name = self._any(plural) if self.random.random() < 0.6 else f"{plural}-{number}"
        if not name:
            return
        body = _object(plural, name, number, self.random)
        body = {"apiVersion": _API_VERSIONS[plural], "kind": _KINDS[plural], **body}
        path = self._path(plural, name) + "?fieldManager=applier&force=true"
        answer = await self._ask("PATCH", path, body, {"content-type": _PATCHES["apply"]})
        assert answer.status in (200, 201), answer.text
        self._know(plural, name)

    async def _delete(self, plural: str, number: int) -> None:
        if not (name := self._any(plural)):
            return
        options = {"gracePeriodSeconds": 0} if plural == "pods" and number % 2 else None
        await self._ask("DELETE", self._path(plural, name), options)
        await self._look(plural, name)

    async def _delete_collection(self, plural: str) -> None:
        await self._ask("DELETE", self._path(plural) + "?labelSelector=number")
        for name in sorted(self._live[plural]):
            await self._look(plural, name)

    async def _scale(self, number: int) -> None:
        if not (name := self._any("deployments")):
            return
        body = {"metadata": {"name": name, "namespace": "default"}, "spec": {"replicas": number}}
        await self._ask("PUT", self._path("deployments", name) + "/scale", body)

    async def _be_refused(self, plural: str, number: int) -> None:
        """A write refused by validation, because the object is missing, or because the user may not do it."""
        self.refused += 1
        choice = number % 3
        if choice == 0:
            status = await self._send("POST", self._path(plural), {"metadata": {"name": "Not Valid"}})
        elif choice == 1:
            status = await self._send("DELETE", self._path(plural, "missing"))
        else:
            headers = {"impersonate-user": "mallory"}
            answer = await self.api.ask("DELETE", self._path(plural, "any"), headers=headers)
            status = answer.status
        assert status >= 400

    async def _send(self, method: str, path: str, body: Any = None) -> int:
        return (await self._ask(method, path, body)).status

    async def _ask(self, method: str, path: str, body: Any = None, headers: Any = None) -> Any:
        self.api.clock.advance(self.pause)
        user = self.random.choice(USERS)
        sent = {"impersonate-user": user, "impersonate-group": "system:masters", **(headers or {})}
        agent = self.random.choice(("kubectl/v1.25.0 (linux/amd64)", "manager/v2"))
        content = orjson.dumps(body) if body is not None else None
        return await self.api.ask(method, path, content, headers={"user-agent": agent, **sent})

    def _path(self, plural: str, name: str = "") -> str:
        if plural != "colours":
            return self.api.path(plural, "default", name)
        return f"/apis/{GROUP}/v1/namespaces/default/colours" + (f"/{name}" if name else "")

    def _any(self, plural: str) -> str:
        live = sorted(self._live[plural])
        return self.random.choice(live) if live else ""

    def _know(self, plural: str, name: str) -> None:
        self._live[plural].add(name)
        self.touched.add((_TYPES[plural], "default", name))

    async def _look(self, plural: str, name: str) -> None:
        if (await self.api.ask("GET", self._path(plural, name))).status == 404:
            self._live[plural].discard(name)


_TYPES = {
    "configmaps": "configmaps",
    "secrets": "secrets",
    "deployments": "deployments.apps",
    "pods": "pods",
    "colours": f"colours.{GROUP}",
}
_KINDS = {"configmaps": "ConfigMap", "secrets": "Secret", "deployments": "Deployment", "colours": "Colour"}
_API_VERSIONS = {"configmaps": "v1", "secrets": "v1", "deployments": "apps/v1", "colours": f"{GROUP}/v1"}


def _object(plural: str, name: str, number: int, random: Random) -> Document:
    if plural == "configmaps":
        return config_map(name, text=str(number), odd="<&>\u2028")
    if plural == "secrets":
        return {"metadata": {"name": name}, "stringData": {"a": str(number)}}
    if plural == "colours":
        typed = {"apiVersion": _API_VERSIONS[plural], "kind": _KINDS[plural]}
        return {**typed, "metadata": {"name": name}, "spec": {"red": number, "list": [number, {"a": "b"}]}}
    spec: Document = {"containers": [{"name": "a", "image": "a"}]}
    if plural == "pods":
        if random.random() < 0.5:
            spec["nodeName"] = "somewhere"
        return {"metadata": {"name": name, "labels": {"a": "b"}}, "spec": spec}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": spec}
    return {
        "metadata": {"name": name},
        "spec": {"replicas": number, "selector": {"matchLabels": {"a": "b"}}, "template": template},
    }
