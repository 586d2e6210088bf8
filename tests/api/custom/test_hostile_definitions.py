"""Definitions that would take much CPU or memory are refused, or delay no other request."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.gateway.handlers import lists
from rewound.gateway.handlers.lists import ListParts
from rewound.gateway.pipeline import render
from tests.api.custom.kinds import (
    DEFINITIONS,
    GROUP,
    MERGE,
    WIDGETS,
    define,
    definition,
    until,
    version,
    widget,
)
from tests.api.custom.loop_steps import FEW_CALLS
from tests.api.custom.meanwhile import meanwhile
from tests.gateway.api import served

TABLE = "application/json;as=Table;v=v1;g=meta.cluster.io"
TEXT = {"type": "string"}
WHOLE = {"type": "integer"}
OPEN = {"x-cluster-preserve-unknown-fields": True}
MANY = {"type": "object", "properties": {f"property-{number}": TEXT for number in range(3000)}}
LONG = " || ".join(["self.size == 1"] * 3000)


def many_columns() -> dict[str, Any]:
    columns = [{"name": f"c{number}", "type": "string", "jsonPath": ".a"} for number in range(1001)]
    return definition(version(additionalPrinterColumns=columns))


@pytest.mark.parametrize(
    ("declared", "wrong"),
    [
        (
            definition(*[version(f"v{number}", storage=number == 1) for number in range(1, 3000)]),
            "spec.versions: Too many: 2999: must have at most 100 items",
        ),
        (many_columns(), "spec.additionalPrinterColumns: Too many: 1001: must have at most 1000 items"),
        (
            definition(shortNames=[f"s{number}" for number in range(101)]),
            "spec.names.shortNames: Too many: 101: must have at most 100 items",
        ),
    ],
    ids=["versions", "columns", "names"],
)
async def test_definitions_with_too_much_of_something_are_refused(declared: Any, wrong: str) -> None:
    async with served() as api:
        refused = await api.ask("POST", DEFINITIONS, declared)
        assert refused.status == 422
        assert wrong in refused.text


def record(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def ruled(rule: str, **properties: Any) -> dict[str, Any]:
    return {**record(**properties), "x-cluster-validations": [{"rule": rule}]}


def nested_branches() -> dict[str, Any]:
    """Two branches on each level: checking a branch once for each enclosing branch would take for ever."""
    branch: dict[str, Any] = {"minimum": 1}
    for _ in range(40):
        branch = {"oneOf": [branch, {"maximum": 0}]}
    return {**WHOLE, **branch}


def embedded_objects(levels: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """A schema of objects inside objects, and such an object."""
    kind = {"apiVersion": "v1", "kind": "A", "metadata": {"name": "a"}}
    schema, value = {"type": "object", "x-cluster-embedded-resource": True, **OPEN}, dict[str, Any](kind)
    for _ in range(levels):
        schema = {"type": "object", "x-cluster-embedded-resource": True, "properties": {"spec": schema}}
        value = {**kind, "spec": value}
    return record(inner=schema), {"inner": value}


def filled(levels: int, width: int) -> dict[str, Any]:
    """A schema whose default has this many levels of lists, with this many items each."""
    schema: dict[str, Any] = {**TEXT, "default": "x" * 20}
    for _ in range(levels):
        items = {**record(a=schema), "default": {}}
        schema = {"type": "array", "items": items, "default": [{}] * width}
    return schema


KEYED = {
    "type": "array",
    "x-cluster-list-type": "map",
    "x-cluster-list-map-keys": ["key", "part"],
    "items": {**record(key=TEXT, part=TEXT), "required": ["key", "part"]},
}
NUMBERS = {"type": "array", "maxItems": 100, "items": WHOLE}
LOOPS = "self.a.all(x, self.a.all(y, self.a.all(z, x + y + z >= 0)))"
DEEP_SCHEMA, DEEP_OBJECT = embedded_objects(40)
# Schemas that are accepted, objects, the status of a create, and whether definition and object need the worker thread.
COSTLY: dict[str, tuple[dict[str, Any], Any, int, bool, bool]] = {
    "many-properties": (MANY, {"property-1": "a"}, 201, True, True),
    "megabytes-of-text": (record(a={**TEXT, "description": "x" * 2_900_000}), {"a": "a"}, 201, True, True),
    "long-rule": (ruled(LONG, size=WHOLE), {"size": 1}, 201, True, True),
    "nested-branches": (
        record(a={"type": "array", "items": nested_branches()}),
        {"a": list(range(620))},
        422,
        False,
        True,
    ),
    "branches-for-each-item": (
        record(a={"type": "array", "items": {**WHOLE, "oneOf": [{"enum": [n]} for n in range(300)]}}),
        {"a": list(range(300))},
        201,
        True,
        True,
    ),
    "backtracking-pattern": (
        record(a={**TEXT, "pattern": "^(a+)+$"}),
        {"a": "a" * 50_000 + "!"},
        422,
        False,
        True,
    ),
    "pattern-of-many-states": (record(a={**TEXT, "pattern": r"\pL{40}"}), {"a": "é" * 300}, 201, True, True),
    "pattern-of-the-object": (
        ruled("self.a.matches(self.p)", a={**TEXT, "maxLength": 9000}, p={**TEXT, "maxLength": 20}),
        {"a": "a" * 500, "p": r"\pL{40}"},
        201,
        True,
        True,
    ),
    "nested-loops": (ruled(LOOPS, a=NUMBERS), {"a": list(range(100))}, 422, True, True),
    "long-set": (
        record(a={"type": "array", "x-cluster-list-type": "set", "items": TEXT}),
        {"a": [f"v{n}" for n in range(5000)]},
        201,
        False,
        True,
    ),
    "long-keyed-list": (
        record(a=KEYED),
        {"a": [{"key": f"v{n}", "part": "a"} for n in range(1500)]},
        201,
        False,
        True,
    ),
    "embedded-in-embedded": (DEEP_SCHEMA, DEEP_OBJECT, 201, False, True),
    "large-default": (record(a=TEXT, b=filled(2, 100)), {"a": "b"}, 201, False, True),
}


@pytest.mark.parametrize("name", COSTLY)
async def test_costly_definitions_delay_no_other_request(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    schema, spec, status, definition_in_thread, object_in_thread = COSTLY[name]
    async with served(max_object_size=0) as api:
        # imports the modules that the first definition needs
        await define(api, definition(plural="gears", kind="Gear"))
        with meanwhile(api, monkeypatch) as others:
            await define(api, definition(version(spec=schema)))
        others.check(in_thread=definition_in_thread)
        with meanwhile(api, monkeypatch) as others:
            written = await api.ask("POST", WIDGETS, widget("a", spec=spec))
            assert written.status == status, written.text[:500]
        others.check(in_thread=object_in_thread)


CYCLE = {"type": "object", "$ref": "#/definitions/a", "definitions": {"a": {"$ref": "#/definitions/a"}}}


@pytest.mark.parametrize(
    ("schema", "status", "wrong"),
    [
        (CYCLE, 422, "$ref"),
        (
            record(a={"type": "array", "uniqueItems": True, "items": TEXT}),
            422,
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        ),
        (
            ruled("self.a.all(x, self.a.all(y, x == y))", a={"type": "array", "items": TEXT}),
            422,
            "exceeds budget",
        ),
        (record(**{f"p{n}": record(a=TEXT) for n in range(30_000)}), 413, "Request entity too large"),
        (record(a={**TEXT, "pattern": "((a{100}){100}){100}"}), 422, "must be a valid regular expression"),
        (record(a=filled(40, 10)), 422, "with the defaults inside it: must have at most 1048576 bytes"),
    ],
    ids=[
        "cycle",
        "unique-items",
        "loops-without-bounds",
        "too-many-properties",
        "pattern-of-gigabytes",
        "default-of-gigabytes",
    ],
)
async def test_definitions_without_bounds_are_refused(
    schema: dict[str, Any], status: int, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served() as api:
        await define(api, definition(plural="gears", kind="Gear"))
        with meanwhile(api, monkeypatch) as others:
            refused = await api.ask("POST", DEFINITIONS, definition(version(spec=schema)))
        assert (refused.status, wrong in refused.text) == (status, True), refused.text[:500]
        assert others.steps.most < FEW_CALLS


@pytest.mark.parametrize("accept", ["application/json", "application/yaml", TABLE])
async def test_a_default_that_multiplies_what_is_stored_does_not_multiply_memory(
    accept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many small objects, then a large default: the list has both, in parts."""
    monkeypatch.setattr(lists, "WHOLE", 100_000)
    monkeypatch.setattr(lists, "PART", 10_000)
    longest = 0
    encode = ListParts._encode

    async def measured(self: ListParts, bodies: list[bytes]) -> bytes:
        nonlocal longest
        part = await encode(self, bodies)
        longest = max(longest, len(part))
        return part

    monkeypatch.setattr(ListParts, "_encode", measured)
    names = [f"w{number:02d}" for number in range(40)]
    async with served() as api:
        await define(api, definition(version(spec=record(size=WHOLE))))
        for name in names:
            (await api.ask("POST", WIDGETS, widget(name))).expect(201)
        schema = version(spec=record(size=WHOLE, text={**TEXT, "default": "x" * 20_000}))
        path = f"{DEFINITIONS}/widgets.{GROUP}"
        changed = (await api.ask("GET", path)).expect(200)
        changed["spec"]["versions"] = [schema]
        (await api.ask("PUT", path, changed)).expect(200)

        async def defaulted() -> bool:
            return "text" in (await api.ask("GET", f"{WIDGETS}/w00")).expect(200)["spec"]

        await until(api, defaulted)
        listed = await api.ask("GET", WIDGETS, headers={"accept": accept})
        assert listed.status == 200
        assert [name for name in names if f"{name}" not in listed.text] == []
        if accept != TABLE:
            assert listed.text.count("x" * 20_000) == len(names)
            assert 0 < longest < 100_000


async def test_objects_that_a_later_default_makes_large_are_filled_in_by_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with served() as api:
        await define(api, definition(version(spec=record(a=TEXT))))
        (await api.ask("POST", WIDGETS, widget("a", spec={"a": "b"}))).expect(201)
        path = f"{DEFINITIONS}/widgets.{GROUP}"
        changed = (await api.ask("GET", path)).expect(200)
        changed["spec"]["versions"] = [version(spec=record(a=TEXT, b=filled(2, 100)))]
        (await api.ask("PUT", path, changed)).expect(200)

        async def defaulted() -> bool:
            return "b" in (await api.ask("GET", f"{WIDGETS}/a")).expect(200)["spec"]

        await until(api, defaulted)
        encoded = 0
        encode = render.encode_in_thread

        async def counted(*arguments: Any) -> Any:
            nonlocal encoded
            encoded += 1
            return await encode(*arguments)

        monkeypatch.setattr(render, "encode_in_thread", counted)
        with meanwhile(api, monkeypatch) as others:
            found = (await api.ask("GET", f"{WIDGETS}/a")).expect(200)
            assert (len(found["spec"]["b"]), encoded) == (100, 1)
            table = (await api.ask("GET", f"{WIDGETS}/a", headers={"accept": TABLE})).expect(200)
            assert (len(table["rows"]), encoded) == (1, 2)
        others.check(in_thread=False)
        with meanwhile(api, monkeypatch) as others:
            patch = {"metadata": {"labels": {"a": "b"}}}
            (await api.ask("PATCH", f"{WIDGETS}/a", patch, headers=MERGE)).expect(200)
        others.check()
        with meanwhile(api, monkeypatch) as others:
            (await api.ask("DELETE", f"{WIDGETS}/a")).expect(200)
        others.check()


async def test_definitions_named_like_built_in_kinds_change_none_of_them() -> None:
    async with served() as api:
        before = (await api.ask("GET", "/apis/apps/v1")).expect(200)
        declared = definition(plural="deployments", kind="Deployment")
        declared["metadata"]["name"] = "deployments.apps"
        declared["spec"]["group"] = "apps"
        refused = await api.ask("POST", DEFINITIONS, declared)
        assert refused.status == 422
        assert "should be a domain with at least one dot" in refused.text
        declared["metadata"]["name"] = "deployments."
        declared["spec"]["group"] = ""
        assert (await api.ask("POST", DEFINITIONS, declared)).status == 422
        assert (await api.ask("GET", "/apis/apps/v1")).expect(200) == before


async def test_a_built_in_group_version_belongs_to_built_in_kinds_alone() -> None:
    async with served() as api:
        group = "coordination.cluster.io"
        before = (await api.ask("GET", f"/apis/{group}/v1")).expect(200)
        declared = definition(plural="leases", kind="Lease")
        declared["metadata"] = {
            "name": f"leases.{group}",
            "annotations": {"api-approved.cluster.io": "unapproved, a test"},
        }
        declared["spec"]["group"] = group
        await define(api, declared)
        assert (await api.ask("GET", f"/apis/{group}/v1")).expect(200) == before
        lease = {"apiVersion": f"{group}/v1", "kind": "Lease", "metadata": {"name": "a"}, "spec": {}}
        (await api.ask("POST", f"/apis/{group}/v1/namespaces/default/leases", lease)).expect(201)
        (await api.ask("DELETE", f"{DEFINITIONS}/leases.{group}")).expect(200)

        async def is_gone() -> bool:
            return (await api.ask("GET", f"{DEFINITIONS}/leases.{group}")).status == 404

        await until(api, is_gone)
        (await api.ask("GET", f"/apis/{group}/v1/namespaces/default/leases/a")).expect(200)
