"""Applying a custom object with values of types that its schema does not allow is a 400, before any conflict."""

from __future__ import annotations

from typing import Any

from tests.api.custom.kinds import APPLY, STATUS, WIDGETS, define, definition, version, widget
from tests.cases import checking
from tests.gateway.api import served

SPEC: dict[str, Any] = {
    "type": "object",
    "properties": {
        "size": {"type": "integer"},
        "ratio": {"type": "number"},
        "text": {"type": "string"},
        "on": {"type": "boolean"},
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
        "list": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}},
        "either": {"x-cluster-int-or-string": True},
        "open": {"type": "object", "x-cluster-preserve-unknown-fields": True},
        "embedded": {
            "type": "object",
            "x-cluster-embedded-resource": True,
            "x-cluster-preserve-unknown-fields": True,
        },
    },
}


async def test_wrong_types_are_refused_before_conflicts() -> None:
    async with served() as api:
        await define(api, definition(version(spec=SPEC, subresources={"status": {}})))
        assert STATUS["properties"]["size"] == {"type": "integer"}
        (await api.ask("POST", WIDGETS, widget("a", spec={"size": 1, "text": "t"}))).expect(201)
        before = (await api.ask("GET", f"{WIDGETS}/a")).expect(200)
        with checking() as case:
            for sent, why in (
                ({"spec": {"size": "x"}}, ".spec.size: expected number, got x"),
                ({"spec": {"size": True}}, ".spec.size: expected number, got True"),
                ({"spec": {"ratio": "1"}}, ".spec.ratio: expected number, got 1"),
                ({"spec": {"text": 5}}, ".spec.text: expected string, got 5"),
                ({"spec": {"on": "yes"}}, ".spec.on: expected boolean, got yes"),
                ({"spec": {"map": {"k": 1}}}, ".spec.map.k: expected string, got 1"),
                ({"spec": {"map": []}}, ".spec.map: expected map, got []"),
                ({"spec": {"list": [{}, {"n": "x"}]}}, ".spec.list[1].n: expected number, got x"),
                ({"spec": 5}, ".spec: expected map, got 5"),
                (
                    {"status": {"size": "x"}},
                    ".status.size: expected number, got x",
                ),  # dropped if it were right
            ):
                with case(why):
                    conflicting = {"spec": {"size": 2}} | sent
                    for name in ("a", "new"):
                        refused = await api.ask(
                            "PATCH",
                            f"{WIDGETS}/{name}",
                            widget(name, **conflicting),
                            headers=APPLY,
                            fieldManager="m",
                        )
                        message = refused.expect(400)["message"]
                        assert message == f"the applied object cannot be merged: {why}"
            with case("nothing changed"):
                assert (await api.ask("GET", f"{WIDGETS}/a")).expect(200) == before
                assert (await api.ask("GET", f"{WIDGETS}/new")).status == 404


async def test_unknown_fields_are_refused_with_the_error_of_kubernetes() -> None:
    async with served(rule="ill-typed-apply=500,apply-unknown-fields=refused") as api:
        await define(api, definition(version(spec=SPEC)))
        sent = widget("a", spec={"size": 1, "color": "red"}, other=1)
        refused = await api.ask("PATCH", f"{WIDGETS}/a", sent, headers=APPLY, fieldManager="m")
        message = refused.expect(500)["message"]
        assert message.startswith("failed to create typed patch object (")
        assert message.endswith(
            "errors:\n  .other: field not declared in schema\n  .spec.color: field not declared in schema"
        )


async def test_types_that_a_schema_leaves_open() -> None:
    embedded = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    spec = {"either": "x", "open": {"a": [1, "x"]}, "ratio": 1, "text": None, "embedded": embedded}
    async with served() as api:
        await define(api, definition(version(spec={**SPEC})))
        sent = widget("a", spec={**spec, "text": "t"})
        (await api.ask("PATCH", f"{WIDGETS}/a", sent, headers=APPLY, fieldManager="m")).expect(201)
        # Validation, which comes after conflicts, checks whether a number is an integer.
        sent = widget("a", spec={"size": 1.5})
        (await api.ask("PATCH", f"{WIDGETS}/a", sent, headers=APPLY, fieldManager="m")).expect(422)
