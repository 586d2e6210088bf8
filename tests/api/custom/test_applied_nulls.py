"""A null in an applied custom object is a value that its manager owns, and is refused where the schema forbids it.

Other writes drop nulls that the schema does not allow when they are decoded; an apply is not decoded before the merge.
"""

from __future__ import annotations

from typing import Any

from tests.api.custom.kinds import APPLY, MERGE, WIDGETS, define, definition, version, widget
from tests.cases import checking
from tests.gateway.api import Api, ApiResponse, served

TEXT: dict[str, Any] = {"type": "string"}
TEXTS: dict[str, Any] = {"type": "array", "items": TEXT}
SET: dict[str, Any] = {**TEXTS, "x-cluster-list-type": "set"}
PRESERVED: dict[str, Any] = {"x-cluster-preserve-unknown-fields": True}
SPEC: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": TEXT,
        "texts": TEXTS,
        "set": SET,
        "map": {"type": "object", "additionalProperties": TEXT},
        "inner": {"type": "object", "properties": {"text": TEXT}},
        "defaulted": {**TEXT, "default": "d"},
        "nullable": {**TEXT, "nullable": True},
        "nullableMap": {"type": "object", "nullable": True, "properties": {"text": TEXT}},
        "nullableOrDefaulted": {**TEXT, "nullable": True, "default": "d"},
        "open": {"type": "object", **PRESERVED},
        "any": PRESERVED,
    },
}
DEFAULTS = {"defaulted": "d", "nullableOrDefaulted": "d"}


async def apply(api: Api, manager: str = "m", **spec: Any) -> ApiResponse:
    sent = widget("a", spec=spec)
    return await api.ask("PATCH", f"{WIDGETS}/a", sent, headers=APPLY, fieldManager=manager)


async def test_null_that_the_schema_does_not_allow_is_refused() -> None:
    stored = {"text": "t", "texts": ["t"], "set": ["t"], "map": {"k": "v"}, "inner": {"text": "t"}}
    async with served() as api:
        await define(api, definition(version(spec=SPEC)))
        before = (await apply(api, **stored)).expect(201)
        with checking() as case:
            for field, value, path in (
                ("text", None, "spec.text"),
                ("texts", None, "spec.texts"),
                ("texts", ["t", None], "spec.texts[1]"),
                ("set", None, "spec.set"),
                ("map", {"k": None}, "spec.map.k"),
                ("inner", {"text": None}, "spec.inner.text"),
            ):
                with case(f"{field}: {value}"):
                    refused = (await apply(api, **{**stored, field: value})).expect(422)
                    assert [one["field"] for one in refused["details"]["causes"]] == [path]
            with case("nothing changed"):
                assert (await api.ask("GET", f"{WIDGETS}/a")).expect(200) == before


async def test_null_in_a_new_object_is_refused_too() -> None:
    async with served() as api:
        await define(api, definition(version(spec=SPEC)))
        refused = (await apply(api, text=None, texts=None)).expect(422)
        assert {one["field"] for one in refused["details"]["causes"]} == {"spec.text", "spec.texts"}
        assert (await api.ask("GET", f"{WIDGETS}/a")).status == 404


async def test_applied_null_becomes_the_default() -> None:
    async with served() as api:
        await define(api, definition(version(spec=SPEC)))
        created = (await apply(api, defaulted=None)).expect(201)
        assert created["spec"] == DEFAULTS
        [entry] = created["metadata"]["managedFields"]
        assert entry["fieldsV1"] == {"f:spec": {"f:defaulted": {}}}


async def test_allowed_null_goes_with_its_manager() -> None:
    nulls = {"nullable": None, "nullableMap": None, "nullableOrDefaulted": None, "open": {"key": None}}
    async with served() as api:
        await define(api, definition(version(spec=SPEC)))
        created = (await apply(api, text="t", **nulls)).expect(201)
        assert created["spec"] == {"text": "t", "defaulted": "d", **nulls}
        [entry] = created["metadata"]["managedFields"]
        assert set(entry["fieldsV1"]["f:spec"]) == {f"f:{name}" for name in ("text", *nulls)}
        (await apply(api, "other", nullable=None)).expect(200)
        left = (await apply(api, text="t")).expect(200)
        assert left["spec"] == {"text": "t", "nullable": None, **DEFAULTS}  # the other manager owns that one
        left = (await apply(api, "other")).expect(200)
        assert left["spec"] == {"text": "t", **DEFAULTS}


async def test_null_keeps_a_map_that_another_manager_filled() -> None:
    async with served() as api:
        await define(api, definition(version(spec=SPEC)))
        filled = {"open": {"key": "v"}, "any": {"key": "v"}, "nullableMap": {"text": "t"}}
        (await apply(api, "other", **filled)).expect(201)
        shared = (await apply(api, open=None, any=None, nullableMap=None)).expect(200)
        assert shared["spec"] == {**filled, **DEFAULTS}


async def test_null_without_a_type_is_not_stored() -> None:
    """The schema has no type that excludes null, but does not allow null either: reads drop it."""
    async with served() as api:
        await define(api, definition(version(spec=SPEC)))
        (await apply(api, text="t", any=1)).expect(201)
        applied = (await apply(api, text="t", any=None)).expect(200)
        assert applied["spec"] == {"text": "t", **DEFAULTS}
        assert (await api.ask("GET", f"{WIDGETS}/a")).expect(200) == applied
        [entry] = applied["metadata"]["managedFields"]
        assert entry["fieldsV1"] == {"f:spec": {"f:any": {}, "f:text": {}}}


async def test_other_writes_drop_nulls() -> None:
    async with served() as api:
        await define(api, definition(version(spec=SPEC)))
        sent = widget("a", spec={"text": None, "texts": None, "nullable": None, "defaulted": None})
        created = (await api.ask("POST", WIDGETS, sent)).expect(201)
        assert created["spec"] == {"nullable": None, **DEFAULTS}
        replaced = (await api.ask("PUT", f"{WIDGETS}/a", {**created, "spec": sent["spec"]})).expect(200)
        assert replaced == created
        patched = await api.ask("PATCH", f"{WIDGETS}/a", {"spec": {"nullable": None}}, headers=MERGE)
        assert patched.expect(200)["spec"] == DEFAULTS
