"""The scale subresource: the desired and current replicas of an object."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.admission.chain import working_copy
from rewound.actors.errors import Conflict, Invalid
from rewound.actors.kinds.declaration.scale import selector_text
from rewound.actors.messages import Replace, WriteContext
from rewound.actors.resource.current import Current, check_uid
from rewound.actors.resource.decide import decide_replace, prepare_replace
from rewound.actors.resource.proposing import Store
from tests.actors.kinds.definitions import Definitions
from tests.actors.kinds.test_replication_controller_rules import controller

CONTEXT = WriteContext(time=0, user="u", manager="m", uid="", suffix="")
SYSTEM = {"resourceVersion": "7", "creationTimestamp": "2020-01-01T00:00:00Z"}


def stored(kinds: Definitions) -> dict[str, Any]:
    return kinds.stored("replicationcontrollers", controller({"replicas": 0}))


def put(kinds: Definitions, replicas: int, **metadata: str) -> dict[str, Any]:
    definition = kinds["replicationcontrollers"]
    sent = {"metadata": {"name": "a", **metadata}, "spec": {"replicas": replicas}, "status": {"replicas": 0}}
    command = Replace(definition.api_version, "ns", "a", sent, CONTEXT, "scale")
    current = Current(7, stored(kinds))
    check_uid(definition, command, sent["metadata"].get("uid"), current)
    prepared, _ = prepare_replace(definition, current, command, working_copy(sent))
    decision = decide_replace(definition, current, prepared)
    assert isinstance(decision, Store)
    return decision.object


def test_get_converts_the_object_to_a_scale(kinds: Definitions) -> None:
    view = kinds["replicationcontrollers"].definition_at("scale")
    assert view.storage.conversion is not None
    before = stored(kinds)
    before["metadata"].update(SYSTEM)
    assert (view.api_version, view.kind) == ("autoscaling/v1", "Scale")
    assert view.storage.conversion.from_storage(before) == {
        "metadata": {"name": "a", "namespace": "ns", "uid": "u-1", **SYSTEM},
        "spec": {},
        "status": {"replicas": 0, "selector": "app=x"},
    }


def test_table_cells_are_computed_from_the_object(kinds: Definitions) -> None:
    view = kinds["replicationcontrollers"].definition_at("scale")
    assert view.storage.conversion is not None
    seen = view.storage.conversion.from_storage(stored(kinds))
    cells = {column.name: column.cell(seen, 0) for column in view.table.columns}
    assert list(cells) == ["Name", "Desired", "Available", "Age"]
    assert (cells["Name"], cells["Desired"], cells["Available"]) == ("a", 0, 0)


def test_update_sets_replicas_and_increments_the_generation(kinds: Definitions) -> None:
    after = put(kinds, 4)
    assert after["spec"]["replicas"] == 4 and after["metadata"]["generation"] == 2
    assert after["spec"]["template"] == stored(kinds)["spec"]["template"]


def test_update_refuses_negative_replicas_and_conflicts(kinds: Definitions) -> None:
    with pytest.raises(Invalid) as refused:
        put(kinds, -1)
    assert str(refused.value) == (
        'Scale.autoscaling "a" is invalid: spec.replicas: Invalid value: -1: '
        "must be greater than or equal to 0"
    )
    for metadata in ({"resourceVersion": "6"}, {"uid": "other"}):
        with pytest.raises(Conflict):
            put(kinds, 1, **metadata)
    assert put(kinds, 1, resourceVersion="7", uid="u-1")["spec"]["replicas"] == 1


def test_selector_is_formatted_as_text() -> None:
    expressions = [
        {"key": "e", "operator": "In", "values": ["y", "x"]},
        {"key": "d", "operator": "NotIn", "values": ["z"]},
        {"key": "c", "operator": "Exists"},
        {"key": "b", "operator": "DoesNotExist"},
    ]
    selector = {"matchLabels": {"f": "1", "a": "2"}, "matchExpressions": expressions}
    assert selector_text(selector) == "a=2,!b,c,d notin (z),e in (x,y),f=1"
    assert selector_text({}) == ""
