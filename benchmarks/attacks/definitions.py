"""CustomResourceDefinitions, and their objects, that cost the server more than the client."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import trio

from benchmarks.attacks.target import Attack, Run, Target, attacks, head, many, post, read_response, unread

GROUP = "attack.example.com"
DEFINITIONS = "/apis/apiextensions.cluster.io/v1/customresourcedefinitions"
OBJECTS = f"/apis/{GROUP}/v1/namespaces/default/things"
TEXT: dict[str, Any] = {"type": "string"}
WHOLE: dict[str, Any] = {"type": "integer"}


def _record(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def _list(items: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


def _definition(
    spec: dict[str, Any], plural: str = "things", versions: int = 1, **more: Any
) -> dict[str, Any]:
    """`more` is in each version."""
    version = {
        "served": True,
        "schema": {"openAPIV3Schema": _record(spec=spec)},
        **more,
    }
    return {
        "apiVersion": "apiextensions.cluster.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": plural.capitalize()},
            "versions": [
                {**version, "name": f"v{number}", "storage": number == 1} for number in range(1, versions + 1)
            ],
        },
    }


def _encoded(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def _defines(spec: dict[str, Any]) -> Run:
    """Creates the definition repeatedly: each is checked before the server sees that it exists."""

    async def attack(target: Target) -> None:
        await many(target, 2, post(DEFINITIONS, _encoded(_definition(spec))))

    return attack


def _defines_versions(count: int) -> Run:
    async def attack(target: Target) -> None:
        await many(target, 2, post(DEFINITIONS, _encoded(_definition(_record(), versions=count))))

    return attack


def _writes(spec: dict[str, Any], value: Any) -> Run:
    """Creates the definition once, and then objects."""

    async def attack(target: Target) -> None:
        await _define(target, _definition(spec))
        thing = {
            "apiVersion": f"{GROUP}/v1",
            "kind": "Things",
            "metadata": {"generateName": "a-"},
            "spec": value,
        }
        await many(target, 2, post(OBJECTS, _encoded(thing)))

    return attack


async def _define(target: Target, definition: dict[str, Any]) -> None:
    async with await target.connect() as stream:
        await stream.send_all(post(DEFINITIONS, _encoded(definition)))
        await read_response(stream)
    await trio.sleep(1)  # until the kind is served


async def _small_objects(target: Target, count: int, connections: int = 8) -> None:
    async def some(numbers: range) -> None:
        async with await target.connect() as stream:
            for number in numbers:
                metadata = {"name": f"small-{number}", "labels": {"number": str(number)}}
                thing = {
                    "apiVersion": f"{GROUP}/v1",
                    "kind": "Things",
                    "metadata": metadata,
                    "spec": {"a": "b"},
                }
                await stream.send_all(post(OBJECTS, _encoded(thing)))
                await read_response(stream)

    async with trio.open_nursery() as nursery:
        for first in range(connections):
            nursery.start_soon(some, range(first, count, connections))


async def _change(target: Target, definition: dict[str, Any]) -> int:
    """Replace what the definition declares; returns the status."""
    path = f"{DEFINITIONS}/{definition['metadata']['name']}"
    patch = post(path, _encoded({"spec": definition["spec"]}), method="PATCH", kind="merge-patch+json")
    async with await target.connect() as stream:
        await stream.send_all(patch)
        return await read_response(stream)


def _filled(levels: int, width: int, text: str = "a") -> dict[str, Any]:
    """A schema whose default has this many levels of lists, with this many items each."""
    schema: dict[str, Any] = {**TEXT, "default": text}
    for _ in range(levels):
        schema = _list({**_record(a=schema), "default": {}}, default=[{}] * width)
    return schema


def _stored(count: int, later: dict[str, Any], **columns: Any) -> Run:
    """Many small objects, and then a definition with more."""

    async def prepare(target: Target) -> None:
        await _define(target, _definition(_record(a=TEXT)))
        await _small_objects(target, count)
        status = await _change(target, _definition(_record(a=TEXT, **later), **columns))
        if status != 200:
            raise SystemExit(f"the definition was not changed: status {status}")
        await trio.sleep(1)

    return prepare


def _listed(*headers: str, query: str = "", connections: int = 8) -> Run:
    async def attack(target: Target) -> None:
        await many(target, connections, head("GET", OBJECTS + query, *headers))

    return attack


async def _many_versions(target: Target) -> None:
    """Definitions of as many versions as are allowed, each of which has its own schema."""
    async with trio.open_nursery() as nursery:
        for first in range(2):
            nursery.start_soon(_define_versions, target, first)
        await target.over()
        nursery.cancel_scope.cancel()


async def _define_versions(target: Target, first: int) -> None:
    for number in range(first, 1 << 20, 2):
        definition = _definition(_record(a=TEXT), plural=f"thing{number}", versions=100)
        for index, version in enumerate(definition["spec"]["versions"]):
            version["schema"] = {
                "openAPIV3Schema": _record(spec=_record(**{f"a{index}": TEXT, "b": _list(TEXT)}))
            }
        async with await target.connect() as stream:
            await stream.send_all(post(DEFINITIONS, _encoded(definition)))
            await read_response(stream)


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

_DEFINED: dict[str, Run] = {
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
    "definitions-of-100-versions": _many_versions,
    "definition-of-12000-versions": _defines_versions(12_000),
    "object-with-large-defaults": _writes(_record(a=TEXT, b=_filled(2, 100, "a" * 20)), {"a": "b"}),
    "definition-whose-default-multiplies": _defines(_record(a=_filled(5, 40))),
}
_DEFINERS = "users who may define kinds"
_TABLE = "Accept: application/json;as=Table;v=v1;g=meta.cluster.io"
_COLUMNS = [
    {"name": f"c{number}", "type": "string", "jsonPath": f".metadata.labels.number{number or ''}"}
    for number in range(400)
]
_GROWING = _stored(4000, {"b": _filled(2, 100, "a" * 20)})
DEFINERS = {
    **attacks(_DEFINERS, _DEFINED),
    **attacks(
        _DEFINERS,
        {
            "stored-then-default": _listed(),
            "stored-then-default-unread": partial(unread, path=OBJECTS, count=60),
            "stored-then-default-watched": _listed(query="?watch=true&timeoutSeconds=5"),
            "stored-then-default-table": _listed(_TABLE),
        },
        prepare=_GROWING,
    ),
    "table-of-400-columns": Attack(
        _listed(_TABLE), _DEFINERS, prepare=_stored(6000, {}, additionalPrinterColumns=_COLUMNS)
    ),
}
