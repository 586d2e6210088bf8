"""Fields of gates that are off: dropped from requests, unless the stored object uses them."""

from __future__ import annotations

from typing import Any

from rewound.actors.kinds.schema.fields import STRING, Field, ListOf, MapOf, Struct
from rewound.actors.kinds.schema.gated import gated_fields

ITEM = Struct("test.v1.Item", Field("name", STRING, 1), Field("trial", STRING, 2, gate="Trial"))
SPEC = Struct(
    "test.v1.Spec",
    Field("items", ListOf(ITEM), 1),
    Field("byName", MapOf(ITEM), 2),
    Field("flag", STRING, 3, gate="Other"),
)
OBJECT = Struct("test.v1.Object", Field("spec", SPEC, 1))


def dropped(new: dict[str, Any], old: dict[str, Any] | None = None, on: str = "") -> Any:
    drop = gated_fields(OBJECT, frozenset(on.split()))
    assert drop is not None
    document = {"spec": new}
    drop(document, None if old is None else {"spec": old})
    return document["spec"]


def test_nothing_is_dropped_while_all_gates_are_on() -> None:
    assert gated_fields(OBJECT, frozenset(("Trial", "Other"))) is None


def test_field_is_dropped_in_lists_and_maps() -> None:
    item = {"name": "a", "trial": "x"}
    new = {"items": [item], "byName": {"k": item}, "flag": "y"}
    assert dropped(new) == {"items": [{"name": "a"}], "byName": {"k": {"name": "a"}}}
    assert item["trial"] == "x"  # parts of the command are never changed


def test_field_of_a_gate_that_is_on_stays() -> None:
    assert dropped({"items": [{"trial": "x"}], "flag": "y"}, on="Trial") == {"items": [{"trial": "x"}]}


def test_field_that_any_part_of_the_old_object_uses_stays() -> None:
    old = {"items": [{"name": "a", "trial": "x"}, {"name": "b"}]}
    new = {"items": [{"name": "b", "trial": "y"}], "flag": "z"}
    assert dropped(new, old) == {"items": [{"name": "b", "trial": "y"}]}


def test_field_of_an_unchanged_part_stays_while_another_is_dropped() -> None:
    old = {"items": [{"name": "a", "trial": "x"}]}
    new = {"items": [{"name": "a", "trial": "x"}], "byName": {"k": {"trial": "z"}}, "flag": "y"}
    assert dropped(new, old) == {**old, "byName": {"k": {"trial": "z"}}}
