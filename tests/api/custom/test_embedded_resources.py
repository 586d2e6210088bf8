"""Server-side apply of embedded resources: apiVersion, kind and metadata have owners like those of every object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.actors.object_store import Document
from tests.api.custom.kinds import APPLY, GROUP, MERGE, WIDGETS, define, definition, version
from tests.gateway.api import Api, ApiResponse, served

EMBEDDED = {"x-cluster-embedded-resource": True}
OPEN = {"x-cluster-preserve-unknown-fields": True}
SPEC = {"type": "object", "properties": {"n": {"type": "integer"}}}
ITEM = {
    "type": "object",
    "properties": {"id": {"type": "string"}, "spec": SPEC},
    "required": ["id"],
    **EMBEDDED,
}

Wrap = Callable[[Document], Any]  # an embedded resource -> the value of the field


def _here(one: Document) -> Document:
    return one


def _item(one: Document) -> list[Document]:
    return [{"id": "a", **one}]


def _value(one: Document) -> Document:
    return {"k": one}


def _inner(one: Document) -> Document:
    return {"apiVersion": "v1", "kind": "Outer", "spec": {"inner": one}}


# The schema of the field, how a resource is embedded there, and where in managedFields it is.
GRANULAR: dict[str, tuple[Document, Wrap, list[str]]] = {
    "with properties": ({"type": "object", "properties": {"spec": SPEC}, **EMBEDDED}, _here, []),
    "open": ({"type": "object", **EMBEDDED, **OPEN}, _here, []),
    "open with properties": ({"type": "object", "properties": {"spec": SPEC}, **EMBEDDED, **OPEN}, _here, []),
    "with bare metadata": (
        {"type": "object", "properties": {"metadata": {"type": "object"}, "spec": SPEC}, **EMBEDDED},
        _here,
        [],
    ),
    "items of a list of type map": (
        {
            "type": "array",
            "items": ITEM,
            "x-cluster-list-type": "map",
            "x-cluster-list-map-keys": ["id"],
        },
        _item,
        ['k:{"id":"a"}'],
    ),
    "values of a map": (
        {
            "type": "object",
            "additionalProperties": {"type": "object", "properties": {"spec": SPEC}, **EMBEDDED},
        },
        _value,
        ["f:k"],
    ),
    "in another one": (
        {
            "type": "object",
            "properties": {
                "spec": {"type": "object", "properties": {"inner": {"type": "object", **EMBEDDED, **OPEN}}}
            },
            **EMBEDDED,
        },
        _inner,
        ["f:spec", "f:inner"],
    ),
}


def thing(**labels: str) -> Document:
    metadata: Document = {"name": "e"}
    if labels:
        metadata["labels"] = labels
    return {"apiVersion": "v1", "kind": "Thing", "metadata": metadata}


async def apply(api: Api, name: str, value: Any, manager: str, **query: Any) -> ApiResponse:
    body = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": {"embedded": value},
    }
    return await api.ask("PATCH", f"{WIDGETS}/{name}", body, headers=APPLY, fieldManager=manager, **query)


async def defined(api: Api, field: Document) -> None:
    spec = {"type": "object", "properties": {"embedded": field}}
    await define(api, definition(version(spec=spec)))


def owned(one: Document, manager: str, path: list[str]) -> Any:
    [entry] = [entry for entry in one["metadata"]["managedFields"] if entry["manager"] == manager]
    fields = entry["fieldsV1"]["f:spec"]["f:embedded"]
    for element in path:
        fields = fields[element]
    return {name: inside for name, inside in fields.items() if name not in (".", "f:id")}


@pytest.mark.parametrize("case", GRANULAR)
async def test_managers_share_an_embedded_resource(case: str) -> None:
    field, wrap, path = GRANULAR[case]
    async with served() as api:
        await defined(api, field)
        made = (await apply(api, "a", wrap(thing(a="1")), "one")).expect(201)
        shared = {"f:apiVersion": {}, "f:kind": {}}
        assert owned(made, "one", path) == {
            **shared,
            "f:metadata": {"f:labels": {"f:a": {}}, "f:name": {}},
        }
        both = (await apply(api, "a", wrap(thing(b="2")), "two")).expect(200)
        assert both["spec"]["embedded"] == wrap(thing(a="1", b="2"))
        less = (await apply(api, "a", wrap(thing()), "one")).expect(200)
        assert less["spec"]["embedded"] == wrap(thing(b="2"))
        assert owned(less, "one", path) == {**shared, "f:metadata": {"f:name": {}}}
        refused = (await apply(api, "a", wrap({**thing(), "kind": "Other"}), "three")).expect(409)
        assert {cause["message"] for cause in refused["details"]["causes"]} == {
            'conflict with "one"',
            'conflict with "two"',
        }


async def test_update_owns_what_it_changes_in_embedded_metadata() -> None:
    async with served() as api:
        await defined(api, GRANULAR["with bare metadata"][0])
        (await apply(api, "a", thing(a="1"), "one")).expect(201)
        sent = {"spec": {"embedded": {"metadata": {"annotations": {"x": "y"}, "finalizers": ["a.io/b"]}}}}
        updated = await api.ask("PATCH", f"{WIDGETS}/a", sent, headers=MERGE, fieldManager="two")
        assert owned(updated.expect(200), "two", []) == {
            "f:metadata": {
                "f:annotations": {".": {}, "f:x": {}},
                "f:finalizers": {".": {}, 'v:"a.io/b"': {}},
            }
        }


@pytest.mark.parametrize(
    ("field", "wrap"),
    [
        ({"type": "array", "items": ITEM}, _item),
        ({"type": "object", "properties": {"spec": SPEC}, **EMBEDDED, "x-cluster-map-type": "atomic"}, _here),
    ],
)
async def test_atomic_ones_have_one_owner(field: Document, wrap: Wrap) -> None:
    async with served() as api:
        await defined(api, field)
        made = (await apply(api, "a", wrap(thing(a="1")), "one")).expect(201)
        assert made["metadata"]["managedFields"][0]["fieldsV1"] == {"f:spec": {"f:embedded": {}}}
        (await apply(api, "a", wrap(thing(b="2")), "two")).expect(409)
