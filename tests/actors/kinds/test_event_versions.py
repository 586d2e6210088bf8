"""The events group: the stored core event under other field names, with stricter rules for writes."""

from __future__ import annotations

from typing import Any

import pytest

from actors.names import Names
from tests.actors.kinds.declared import Declared, once

WHOLE = {
    "metadata": {"name": "a"},
    "eventTime": "2020-01-02T03:04:05.000006Z",
    "reportingController": "example.com/c",
    "reportingInstance": "i",
    "action": "Act",
    "reason": "R",
    "type": "Normal",
    "regarding": {"kind": "Pod", "name": "p", "namespace": "ns"},
}


def test_it_is_stored_as_a_core_event(kinds: Declared) -> None:
    view = kinds["events.new"]
    assert view.type_name == kinds["events"].type_name == "events"
    stored = kinds.stored("events.new", {**WHOLE, "note": "m", "series": {"count": 2}})
    assert stored["involvedObject"] == WHOLE["regarding"]
    assert stored["message"] == "m" and stored["reportingComponent"] == "example.com/c"
    assert stored["series"] == {"count": 2, "lastObservedTime": None}
    assert stored["source"] == {} and stored["firstTimestamp"] is None
    assert list(stored) == [name for name in kinds["events"].fields.by_name if name in stored]


def test_a_core_event_is_shown_under_the_new_names(kinds: Declared) -> None:
    conversion = kinds["events.new"].storage.conversion
    assert conversion is not None
    involved = {"kind": "Pod", "namespace": "ns", "name": "p"}
    stored = kinds.decode(
        "events", {"metadata": {"name": "a"}, "involvedObject": involved, "message": "m", "count": 2}
    )
    shown = conversion.from_storage(stored)
    assert shown == {
        "metadata": {"name": "a"},
        "eventTime": None,
        "regarding": involved,
        "note": "m",
        "deprecatedSource": {},
        "deprecatedFirstTimestamp": None,
        "deprecatedLastTimestamp": None,
        "deprecatedCount": 2,
    }
    assert conversion.to_storage(shown) == stored


def test_what_is_new_must_be_whole(kinds: Declared) -> None:
    assert kinds.created("events.new", WHOLE) == []
    causes = dict(
        kinds.created(
            "events.new", {"metadata": {"name": "a"}, "regarding": {"namespace": "ns"}, "type": "X"}
        )
    )
    assert causes == {"eventTime": "Required value", "type": 'Invalid value: "": has invalid value: X'}


@pytest.mark.parametrize(
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
def test_old_parts_stay_unset(kinds: Declared, parts: Any, expected: list[str]) -> None:
    assert [field for field, _ in kinds.created("events.new", {**WHOLE, **parts})] == expected


@pytest.mark.parametrize(
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
def test_only_the_series_may_change(kinds: Declared, parts: Any, expected: list[str]) -> None:
    _, causes = kinds.replaced("events.new", WHOLE, {**WHOLE, **parts})
    assert [field for field, _ in once(causes)] == expected


def test_selectors_are_renamed(kinds: Declared, names: Names) -> None:
    view = kinds["events.new"]
    assert view.group == names.group("events")
    assert view.stored_field("regarding.kind") == "involvedObject.kind"
    assert view.stored_field("reportingController") == "reportingComponent"
    assert view.stored_field("metadata.name") == "metadata.name"
    wanted = ("regarding.uid", "reason", "type", "metadata.namespace")
    assert all(view.selects(label) for label in wanted)
    assert not any(view.selects(label) for label in ("involvedObject.kind", "source", "deprecatedSource"))
    assert all(
        view.stored_field(label) in kinds["events"].selection.fields for label in ("regarding.name", "type")
    )
