"""Zero values are omitted or written as Go's JSON does, field by field."""

from __future__ import annotations

from typing import Any

from rewound.actors.kinds.declaration.meta import TEMPLATE_META
from rewound.actors.kinds.schema.decoder import Schema
from rewound.actors.kinds.schema.fields import STRING, TIME, Field, ListOf, Struct
from rewound.actors.kinds.schema.projection import structs_of
from tests.actors.kinds.definitions import Definitions
from tests.cases import cases

CASES: list[tuple[str, Any, Any]] = [
    ("configmaps", {"data": {}, "binaryData": {}}, {"metadata": {}}),
    ("configmaps", {"metadata": {"name": "", "labels": {}, "finalizers": []}}, {"metadata": {}}),
    ("configmaps", {"immutable": False}, {"metadata": {}, "immutable": False}),
    ("leases", {}, {"metadata": {}, "spec": {}}),
    ("leases", {"spec": {"holderIdentity": "", "leaseTransitions": 0}}, None),
    (
        "priorityclasses",
        {"globalDefault": False, "value": 0},
        {"metadata": {}, "value": 0, "preemptionPolicy": "PreemptLowerPriority"},
    ),
    ("endpoints", {"subsets": [{"addresses": []}]}, {"metadata": {}, "subsets": [{}]}),
]


@cases(("plural", "document", "expected"), CASES)
def test_zero_values_are_omitted_or_kept_by_field(
    kinds: Definitions, plural: str, document: Any, expected: Any
) -> None:
    assert kinds.decode(plural, document) == (expected or {"metadata": {}, **document})


def test_event_keeps_fields_that_go_cannot_omit(kinds: Definitions) -> None:
    assert kinds.decode("events", {"count": 0}) == {
        "metadata": {},
        "involvedObject": {},
        "source": {},
        "firstTimestamp": None,
        "lastTimestamp": None,
        "eventTime": None,
        "reportingComponent": "",
        "reportingInstance": "",
    }


def test_node_keeps_empty_node_info(kinds: Definitions) -> None:
    status = kinds.decode("nodes", {})["status"]
    assert status["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 0}}
    assert set(status["nodeInfo"].values()) == {""} and len(status["nodeInfo"]) == 10


def test_empty_list_that_is_never_omitted_is_null(kinds: Definitions) -> None:
    expression = {"matchLabelExpressions": [{"key": "z", "values": []}]}
    decoded = kinds.decode("storageclasses", {"allowedTopologies": [expression]})
    assert decoded["allowedTopologies"] == [{"matchLabelExpressions": [{"key": "z", "values": None}]}]


def test_creation_timestamp_of_template_metadata_is_null() -> None:
    metadata = structs_of("1.25").project(TEMPLATE_META)
    schema = Schema(Struct("test.v1.Thing", Field("template", metadata, 1)), "v1", "Thing")
    expected = {"template": {"name": "a", "creationTimestamp": None}}
    for raw in (b'{"template":{"name":"a"}}', b'{"template":{"name":"a","creationTimestamp":null}}'):
        assert schema.decode_json(raw).object == expected


def test_missing_times_in_lists_of_structs_are_null() -> None:
    condition = Struct("test.v1.Condition", Field("type", STRING, 1, always=True), Field("at", TIME, 2))
    schema = Schema(Struct("test.v1.Thing", Field("conditions", ListOf(condition), 1)), "v1", "Thing")
    assert schema.decode_json(b'{"conditions":[{}]}').object == {"conditions": [{"type": "", "at": None}]}
