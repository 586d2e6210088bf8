"""Objects of custom kinds with values of the wrong type are refused by every kind of write."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.custom.kinds import APPLY, MERGE, WIDGETS, define, definition, version, widget
from tests.gateway.api import served

TEXT = {"type": "string"}
ITEM = {"type": "object", "properties": {"k": TEXT, "v": TEXT}, "required": ["k"]}
SPEC = {
    "type": "object",
    "properties": {
        "record": {"type": "object", "properties": {"a": TEXT}},
        "map": {"type": "object", "additionalProperties": TEXT},
        "set": {"type": "array", "items": TEXT, "x-cluster-list-type": "set"},
        "keyed": {
            "type": "array",
            "items": ITEM,
            "x-cluster-list-type": "map",
            "x-cluster-list-map-keys": ["k"],
        },
    },
}
VALUES: list[Any] = [1, "text", True, [1], [{"k": 1}], [[]], {"a": {}}, {"a": [1]}, {}]
GOOD = {"record": {"a": "x"}, "map": {"a": "x"}, "set": ["x"], "keyed": [{"k": "x", "v": "y"}]}


@pytest.mark.parametrize("name", [*GOOD, "spec"])
async def test_values_of_wrong_types(name: str) -> None:
    async with served() as api:
        await define(api, definition(version(spec=SPEC)))
        (await api.ask("POST", WIDGETS, widget("good", spec=GOOD))).expect(201)
        for value in VALUES:
            spec = value if name == "spec" else {name: value}
            bad = widget("bad", spec=spec)
            created = (await api.ask("POST", WIDGETS, bad)).status
            assert created in (201, 422), value
            (await api.ask("DELETE", f"{WIDGETS}/bad")).expect(200 if created == 201 else 404)
            changed = await api.ask("PATCH", f"{WIDGETS}/good", {"spec": spec}, headers=MERGE, dryRun="All")
            assert changed.status == (200 if created == 201 else 422), (value, changed.text)
            applied = await api.ask(
                "PATCH", f"{WIDGETS}/new", {**bad, "metadata": {"name": "new"}}, headers=APPLY,
                fieldManager="m", dryRun="All",
            )  # fmt: skip
            assert applied.status == 201 if created == 201 else applied.status >= 400, (value, applied.text)
            over = await api.ask(
                "PATCH", f"{WIDGETS}/good", {**bad, "metadata": {"name": "good"}}, headers=APPLY,
                fieldManager="m", force="true", dryRun="All",
            )  # fmt: skip
            assert over.status == 200 if created == 201 else over.status >= 400, (value, over.text)
            for refused in (applied, over):
                assert "internal error" not in refused.text, (value, refused.text)
