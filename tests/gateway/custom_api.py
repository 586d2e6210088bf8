"""The methods of `Verbs` for objects of a custom kind, so that one test runs on config maps and on a custom kind.

    @generic
    async def test_delete_marks_an_object_with_finalizers(opened: Opener) -> None:
        async with opened() as api:
            await api.create("configmaps", {"metadata": {"name": "a"}, "data": {"k": "v"}})

`served_custom` runs a server that has the kind Widget, whose schema has the fields of a ConfigMap. Requests of the
test for config maps are sent for widgets.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from tests.actors.object_store import Document, open_store
from tests.api.custom.kinds import GROUP, define, definition
from tests.gateway.api import Api, served
from tests.gateway.initial_data import is_kept, keep_initial_data

TEXTS: Document = {"type": "object", "additionalProperties": {"type": "string"}}
SCHEMA: Document = {
    "type": "object",
    "properties": {"data": TEXTS, "binaryData": TEXTS, "immutable": {"type": "boolean"}},
}
VERSION: Document = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA}}
WITH_WIDGETS = "cluster with widgets"


class CustomApi(Api):
    """An `Api` that sends requests for config maps as requests for widgets."""

    def path(self, plural: str, namespace: str | None = "default", name: str = "") -> str:
        if plural != "configmaps":
            return super().path(plural, namespace, name)
        where = "" if namespace is None else f"/namespaces/{namespace}"
        return f"/apis/{GROUP}/v1{where}/widgets" + (f"/{name}" if name else "")

    async def create(self, plural: str, body: Document, namespace: str = "default", **query: Any) -> Document:
        return await super().create(plural, typed(plural, body), namespace, **query)

    async def replace(
        self, plural: str, body: Document, namespace: str = "default", **query: Any
    ) -> Document:
        """Custom kinds refuse updates without a version: such an update gets the version of the stored object."""
        body = typed(plural, body)
        if plural == "configmaps" and "resourceVersion" not in body["metadata"]:
            found = await self.ask("GET", self.path(plural, namespace, body["metadata"]["name"]))
            version = found.document["metadata"].get("resourceVersion", "1")
            body = {**body, "metadata": {**body["metadata"], "resourceVersion": version}}
        return await super().replace(plural, body, namespace, **query)


def typed(plural: str, body: Document) -> Document:
    """Bodies of custom objects have to name their kind."""
    return {"apiVersion": f"{GROUP}/v1", "kind": "Widget", **body} if plural == "configmaps" else body


@asynccontextmanager
async def served_custom(**changed: Any) -> AsyncIterator[Api]:
    if not is_kept(WITH_WIDGETS):
        await trio.to_thread.run_sync(trio.run, _keep_widgets)  # the clock of the test may stand still
    async with served(initial=WITH_WIDGETS, made_as=CustomApi, **changed) as api:
        yield api


async def _keep_widgets() -> None:
    async with served() as api:
        await define(api, definition(VERSION))
        path = api.path("apiservices", name=f"v1.{GROUP}")  # a controller writes it after all other objects
        with trio.fail_after(60):
            while (await api.ask("GET", path)).status == 404:
                await trio.lowlevel.checkpoint()
        await api.finish()
        keep_initial_data(WITH_WIDGETS, api.settings.data_dir)


# Runs a test on the actors, and over HTTP on config maps and on objects of a custom kind.
generic = pytest.mark.parametrize(
    "opened",
    [
        pytest.param(open_store, id="actors"),
        pytest.param(served, id="http"),
        pytest.param(served_custom, id="custom"),
    ],
)
