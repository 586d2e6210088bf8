"""The events group: the stored core event under other field names, with stricter rules for writes."""

from __future__ import annotations

from typing import Any

from rewound.actors.names import Names
from tests.actors.kinds.definitions import Definitions, distinct
from tests.cases import cases

COMPLETE = {
    "metadata": {"name": "a"},
    "eventTime": "2020-01-02T03:04:05.000006Z",
    "reportingController": "example.com/c",
    "reportingInstance": "i",
    "action": "Act",
    "reason": "R",
    "type": "Normal",
    "regarding": {"kind": "Pod", "name": "p", "namespace": "ns"},
}


def test_event_is_stored_as_a_core_event(kinds: Definitions) -> None:
    view = kinds["events.new"]
    assert view.type_name == kinds["events"].type_name == "events"
    stored = kinds.stored("events.new", {**COMPLETE, "note": "m", "series": {"count": 2}})
    assert stored["involvedObject"] == COMPLETE["regarding"]
    assert stored["message"] == "m" and stored["reportingComponent"] == "example.com/c"
    assert stored["series"] == {"count": 2, "lastObservedTime": None}
    assert stored["source"] == {} and stored["firstTimestamp"] is None
    assert list(stored) == [name for name in kinds["events"].fields.by_name if name in stored]


def test_core_event_is_converted_to_the_new_field_names(kinds: Definitions) -> None:
    conversion = kinds["events.new"].storage.conversion
    assert conversion is not None
    involved = {"kind": "Pod", "namespace": "ns", "name": "p"}
    stored = kinds.decode(
        "events", {"metadata": {"name": "a"}, "involvedObject": involved, "message": "m", "count": 2}
    )
    converted = conversion.from_storage(stored)
    assert converted == {
        "metadata": {"name": "a"},
        "eventTime": None,
        "regarding": involved,
        "note": "m",
        "deprecatedSource": {},
        "deprecatedFirstTimestamp": None,
        "deprecatedLastTimestamp": None,
        "deprecatedCount": 2,
    }
    assert conversion.to_storage(converted) == stored


def test_create_requires_event_time_and_a_known_type(kinds: Definitions) -> None:
    assert kinds.create_causes("events.new", COMPLETE) == []
    causes = dict(
        kinds.create_causes(
            "events.new", {"metadata": {"name": "a"}, "regarding": {"namespace": "ns"}, "type": "X"}
        )
    )
    assert causes == {"eventTime": "Required value", "type": 'Invalid value: "": has invalid value: X'}


@cases(
    ("parts", "expected"),
    [
        ({"reportingController": ""}, ["reportingController"] * 3),
        ({"deprecatedCount": 1}, ["count"]),
        ({"deprecatedSource": {"host": "h"}}, ["source"]),
        ({"deprecatedFirstTimestamp": "2020-01-01T00:00:00Z"}, ["firstTimestamp"]),
        ({"series": {"count": 1}}, ["series.count", "series.lastObservedTime"]),
        ({"metadata": {"name": "A_b"}}, ["metadata.name"]),
        ({"metadata": {"name": "a", "finalizers": ["plain"]}}, ["metadata.finalizers[0]"]),
    ],
)
def test_create_reports_deprecated_and_invalid_fields(
    kinds: Definitions, parts: Any, expected: list[str]
) -> None:
    assert [field for field, _ in kinds.create_causes("events.new", {**COMPLETE, **parts})] == expected


@cases(
    ("parts", "expected"),
    [
        ({"series": {"count": 2, "lastObservedTime": "2020-01-02T03:04:06.000006Z"}}, []),
        ({"series": {"count": 1, "lastObservedTime": "2020-01-02T03:04:06.000006Z"}}, ["series.count"]),
        ({"reason": "Other"}, ["reason"]),
        ({"note": "x"}, ["message"]),
        ({"regarding": {"name": "q", "namespace": "ns"}}, ["involvedObject"]),
        ({"reportingController": "example.com/d"}, ["reportingController"]),
        ({"eventTime": "2020-01-02T03:04:05.000007Z"}, ["eventTime"]),
        ({"metadata": {"name": "a", "labels": {"x": "y"}}}, []),
    ],
)
def test_only_the_series_is_mutable(kinds: Definitions, parts: Any, expected: list[str]) -> None:
    _, causes = kinds.update("events.new", COMPLETE, {**COMPLETE, **parts})
    assert [field for field, _ in distinct(causes)] == expected


def test_field_selectors_have_the_new_field_names(kinds: Definitions, names: Names) -> None:
    view = kinds["events.new"]
    assert view.group == names.group("events")
    assert view.stored_field("regarding.kind") == "involvedObject.kind"
    assert view.stored_field("reportingController") == "reportingComponent"
    assert view.stored_field("metadata.name") == "metadata.name"
    labels = ("regarding.uid", "reason", "type", "metadata.namespace")
    assert all(view.selects(label) for label in labels)
    assert not any(view.selects(label) for label in ("involvedObject.kind", "source", "deprecatedSource"))
    assert all(
        view.stored_field(label) in kinds["events"].selection.fields for label in ("regarding.name", "type")
    )
