"""ControllerRevision: any data, which is immutable; a revision that may grow."""

from __future__ import annotations

from typing import Any

from rewound.actors.kinds.apps import CONTROLLER_REVISION_COLUMNS
from tests.actors.kinds.definitions import Definitions
from tests.cases import cases

PLURAL = "controllerrevisions"


def revision(number: int = 1, **members: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "revision": number, **members}


@cases("data", [{"spec": {"x": [1, "two", None, 1.5]}}, {}, [], "", 0, {"z": 1, "a": 2}])
def test_data_is_stored_as_sent(kinds: Definitions, data: Any) -> None:
    stored = kinds.stored(PLURAL, revision(data=data))
    assert stored["data"] == data and list(stored) == ["metadata", "data", "revision"]
    if isinstance(data, dict):
        assert list(stored["data"]) == list(data)
    assert kinds.create_causes(PLURAL, revision(data=data)) == []


def test_create_requires_data_and_a_valid_revision(kinds: Definitions) -> None:
    assert kinds.create_causes(PLURAL, revision(-1)) == [
        ("data", "Required value: data is mandatory"),
        ("revision", "Invalid value: -1: must be greater than or equal to 0"),
    ]
    assert kinds.create_causes(PLURAL, revision(data=None)) == [("data", "Required value: data is mandatory")]
    assert kinds.stored(PLURAL, {"metadata": {"name": "a"}, "data": {}})["revision"] == 0


def test_data_is_immutable_and_revision_is_not(kinds: Definitions) -> None:
    before = revision(data={"x": 1})
    assert kinds.update(PLURAL, before, revision(2, data={"x": 1}))[1] == []
    assert [field for field, _ in kinds.update(PLURAL, before, revision(data={"x": 2}))[1]] == ["data"]


def test_table_cells_are_computed_from_the_object(kinds: Definitions) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": "u", "controller": True}
    stored = kinds.stored(PLURAL, revision(3, data={}))
    assert [column.cell(stored, 0) for column in CONTROLLER_REVISION_COLUMNS[:3]] == ["a", "<none>", 3]
    stored["metadata"]["ownerReferences"] = [owner]
    assert CONTROLLER_REVISION_COLUMNS[1].cell(stored, 0) == "statefulset.apps/s"
