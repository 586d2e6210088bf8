"""CSINode: drivers with names, ids and topology; entries are immutable."""

from __future__ import annotations

from typing import Any

from tests.actors.kinds.definitions import Definitions
from tests.cases import cases

DRIVER = {"name": "d.example.com", "nodeID": "n"}


def node(*drivers: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "spec": {"drivers": list(drivers)}}


def test_empty_lists_are_null(kinds: Definitions) -> None:
    assert kinds.decode("csinodes", {"metadata": {"name": "a"}})["spec"] == {"drivers": None}
    assert kinds.decode("csinodes", node(DRIVER))["spec"]["drivers"] == [{**DRIVER, "topologyKeys": None}]


@cases(
    ("parts", "expected"),
    [
        (
            {"nodeID": "n" * 256, "topologyKeys": ["zone", "example.com/rack"], "allocatable": {"count": 0}},
            [],
        ),
        ({"nodeID": ""}, [(".nodeID", "Required value")]),
        (
            {"nodeID": "n" * 257},
            [(".nodeID", f'Invalid value: "{"n" * 257}": must be 256 characters or less')],
        ),
        (
            {"allocatable": {"count": -1}},
            [(".allocatable.count", "Invalid value: -1: must be greater than or equal to 0")],
        ),
        ({"topologyKeys": ["a", "a"]}, [("", 'Duplicate value: "a"')]),
        ({"name": "d" * 64}, [(".name", "Too long: must have at most 63 bytes")]),
    ],
)
def test_create_reports_invalid_drivers(
    kinds: Definitions, parts: Any, expected: list[tuple[str, str]]
) -> None:
    assert kinds.create_causes("csinodes", node({**DRIVER, **parts})) == [
        (f"spec.drivers[0]{field}", message) for field, message in expected
    ]


def test_formats_of_names_and_topology_keys_are_validated(kinds: Definitions) -> None:
    causes = kinds.create_causes("csinodes", node({**DRIVER, "name": ""}))
    assert [field for field, _ in causes] == ["spec.drivers[0].name"] * 2
    assert causes[0][1] == "Required value"
    causes = kinds.create_causes("csinodes", node({**DRIVER, "topologyKeys": [""]}))
    assert [message.split(":")[0] for _, message in causes] == [
        "Required value",
        "Invalid value",
        "Invalid value",
    ]


def test_driver_names_are_unique(kinds: Definitions) -> None:
    assert kinds.create_causes("csinodes", node(DRIVER, DRIVER)) == [
        ("spec.drivers[1].name", 'Duplicate value: "d.example.com"')
    ]


def test_drivers_can_be_added_and_removed_but_not_changed(kinds: Definitions) -> None:
    other = {**DRIVER, "name": "e.example.com"}
    assert kinds.update("csinodes", node(DRIVER), node(other))[1] == []
    assert kinds.update("csinodes", node(DRIVER), node(DRIVER, other))[1] == []
    _, causes = kinds.update("csinodes", node(DRIVER), node({**DRIVER, "nodeID": "m"}))
    assert [field for field, _ in causes] == ["CSINodeDriver"]
    assert causes[0][1].endswith(": field is immutable")
    _, causes = kinds.update("csinodes", node(DRIVER), node({**other, "nodeID": ""}))
    assert causes == [("spec.drivers[0].nodeID", "Required value")] * 2


def test_update_needs_a_resource_version_and_delete_returns_the_object(kinds: Definitions) -> None:
    assert (
        kinds["csinodes"].deletion.returns_object
        and not kinds["csinodes"].strategy.allow_unconditional_update
    )
