"""CustomResourceDefinitions for tests, and requests for their objects."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import trio

from tests.actors.object_store import Document
from tests.gateway.api import Api

GROUP = "example.com"
NAME = f"widgets.{GROUP}"
DEFINITIONS = "/apis/apiextensions.cluster.io/v1/customresourcedefinitions"
WIDGETS = f"/apis/{GROUP}/v1/namespaces/default/widgets"
MERGE = {"content-type": "application/merge-patch+json"}
APPLY = {"content-type": "application/apply-patch+yaml"}

SPEC: Document = {
    "type": "object",
    "properties": {"size": {"type": "integer"}, "text": {"type": "string"}},
}
STATUS: Document = {
    "type": "object",
    "properties": {"size": {"type": "integer"}, "selector": {"type": "string"}},
}


def version(name: str = "v1", *, spec: Document = SPEC, storage: bool = True, **more: Any) -> Document:
    schema = {"type": "object", "properties": {"spec": spec, "status": STATUS}}
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": schema},
        **more,
    }


def definition(
    *versions: Document,
    plural: str = "widgets",
    kind: str = "Widget",
    scope: str = "Namespaced",
    **names: Any,
) -> Document:
    return {
        "apiVersion": "apiextensions.cluster.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": scope,
            "names": {"plural": plural, "kind": kind, **names},
            "versions": list(versions or (version(),)),
        },
    }


def widget(name: str, **parts: Any) -> Document:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        **({"spec": {"size": 1}} | parts),
    }


async def until(api: Api, holds: Callable[[], Awaitable[Any]]) -> Any:
    """Wait until `holds` returns something true, and return it; controllers need some passes of the event loop, and
    pauses.
    """
    for attempt in range(400):
        found = await holds()
        if found:
            return found
        await trio.sleep(0 if attempt < 200 else 0.05)
    raise AssertionError("the server did not get there")


def conditions(stored: Document) -> dict[str, str]:
    return {one["type"]: one["status"] for one in stored["status"]["conditions"] or ()}


async def define(api: Api, declared: Document) -> Document:
    """Create a definition and wait until it is established and served."""
    definitions = f"/apis/{declared['apiVersion']}/customresourcedefinitions"
    (await api.ask("POST", definitions, declared)).expect(201)
    path = f"{definitions}/{declared['metadata']['name']}"

    async def established() -> Document | None:
        stored = (await api.ask("GET", path)).expect(200)
        return stored if conditions(stored).get("Established") == "True" else None

    found: Document = await until(api, established)
    # Where commits are slow, reads can see an object a moment before all followers have: wait for them.
    await api.ask("GET", path, resourceVersion=found["metadata"]["resourceVersion"])
    return found


async def gone(api: Api, path: str) -> None:
    async def is_gone() -> bool:
        return (await api.ask("GET", path)).status == 404

    await until(api, is_gone)


async def change_schema(api: Api, spec: Document, name: str = NAME) -> None:
    """Replace the schema of the spec of the only version."""
    (
        await api.ask(
            "PATCH", f"{DEFINITIONS}/{name}", {"spec": {"versions": [version(spec=spec)]}}, headers=MERGE
        )
    ).expect(200)
