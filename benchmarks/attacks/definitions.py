"""CustomResourceDefinitions, and objects of theirs, that cost the server more than the client."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import trio

from benchmarks.attacks.target import Target, many, post, read_response

Attack = Callable[[Target], Awaitable[None]]
GROUP = "attack.example.com"
DEFINITIONS = "/apis/apiextensions.cluster.io/v1/customresourcedefinitions"
OBJECTS = f"/apis/{GROUP}/v1/namespaces/default/things"
TEXT: dict[str, Any] = {"type": "string"}
WHOLE: dict[str, Any] = {"type": "integer"}


def _record(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def _list(items: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


def _definition(spec: dict[str, Any], plural: str = "things") -> bytes:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _record(spec=spec)},
    }
    declared = {
        "apiVersion": "apiextensions.cluster.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": plural.capitalize()},
            "versions": [version],
        },
    }
    return _encoded(declared)


def _encoded(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def _defines(spec: dict[str, Any]) -> Attack:
    """Creates the definition again and again: each is checked before the server sees that it exists."""

    async def attack(target: Target) -> None:
        await many(target, 2, post(DEFINITIONS, _definition(spec)))

    return attack


def _writes(spec: dict[str, Any], value: Any) -> Attack:
    """Creates the definition once, and then objects."""

    async def attack(target: Target) -> None:
        async with await target.connect() as stream:
            await stream.send_all(post(DEFINITIONS, _definition(spec)))
            await read_response(stream)
        await trio.sleep(1)  # until the kind is served
        thing = {
            "apiVersion": f"{GROUP}/v1",
            "kind": "Things",
            "metadata": {"generateName": "a-"},
            "spec": value,
        }
        await many(target, 2, post(OBJECTS, _encoded(thing)))

    return attack


def _branches() -> dict[str, Any]:
    branch: dict[str, Any] = {"minimum": 1}
    for _ in range(40):
        branch = {"oneOf": [branch, {"maximum": 0}]}
    return {**WHOLE, **branch}


def _embedded(levels: int) -> tuple[dict[str, Any], Any]:
    kind = {"apiVersion": "v1", "kind": "A", "metadata": {"name": "a"}}
    schema: dict[str, Any] = {"type": "object", "x-cluster-preserve-unknown-fields": True}
    value: dict[str, Any] = dict(kind)
    for _ in range(levels):
        schema = {**_record(spec=schema), "x-cluster-embedded-resource": True}
        value = {**kind, "spec": value}
    return _record(inner=schema), {"inner": value}


def _ruled(rule: str, **properties: Any) -> dict[str, Any]:
    return {**_record(**properties), "x-cluster-validations": [{"rule": rule}]}


_NODES = {f"p{number}": _record(a={**TEXT, "maxLength": 9}, b=_list(TEXT)) for number in range(8000)}
_LOOPS = "self.a.all(x, self.a.all(y, self.a.all(z, x + y + z >= 0)))"
_KEYED = _list(
    {**_record(key=TEXT, part=TEXT), "required": ["key", "part"]},
    **{"x-cluster-list-type": "map", "x-cluster-list-map-keys": ["key", "part"]},
)
_CYCLE = {**_record(), "$ref": "#/definitions/a", "definitions": {"a": {"$ref": "#/definitions/a"}}}

DEFINED: dict[str, Attack] = {
    "definition-of-3-mib": _defines(_record(a={**TEXT, "description": "x" * 2_900_000})),
    "definition-with-24000-nodes": _defines(_record(**_NODES)),
    "definition-with-a-cycle": _defines(_CYCLE),
    "definition-with-large-patterns": _defines(
        _record(**{f"p{number}": {**TEXT, "pattern": rf"\pL{{100}}{number}"} for number in range(30)})
    ),
    "object-with-nested-branches": _writes(_record(a=_list(_branches())), {"a": list(range(2000))}),
    "object-with-many-branches": _writes(
        _record(a=_list({**WHOLE, "oneOf": [{"enum": [number]} for number in range(1000)]})),
        {"a": list(range(1000))},
    ),
    "object-with-large-patterns": _writes(
        _record(a=_list({**TEXT, "pattern": r"\pL{100}"})), {"a": ["é" * 5000] * 4}
    ),
    "object-with-nested-loops": _writes(
        _ruled(_LOOPS, a=_list(WHOLE, maxItems=100)), {"a": list(range(100))}
    ),
    "object-with-a-long-set": _writes(
        _record(a=_list(TEXT, **{"x-cluster-list-type": "set"})),
        {"a": [f"v{number}" for number in range(20_000)]},
    ),
    "object-with-a-long-keyed-list": _writes(
        _record(a=_KEYED), {"a": [{"key": f"v{number}", "part": "a"} for number in range(10_000)]}
    ),
    "object-with-embedded-objects": _writes(*_embedded(40)),
}
