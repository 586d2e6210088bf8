"""Core events: they are in the namespace of their object; those with an eventTime need all new fields."""

from __future__ import annotations

from typing import Any

import pytest

from actors.names import Names
from tests.actors.kinds.declared import Declared

STRAY = "does not match event.namespace"
WHOLE = {
    "metadata": {"name": "a"},
    "involvedObject": {"kind": "Pod", "name": "p", "namespace": "ns"},
    "eventTime": "2020-01-02T03:04:05.000006Z",
    "reportingComponent": "example.com/c",
    "reportingInstance": "i",
    "action": "Act",
    "reason": "R",
}


@pytest.mark.parametrize(
    ("about", "namespace", "fine"),
    [("ns", "ns", True), ("other", "ns", False), ("", "ns", False), ("", "default", True)],
)
def test_old_events_lie_with_their_object(kinds: Declared, about: str, namespace: str, fine: bool) -> None:
    document = {"metadata": {"name": "a"}, "involvedObject": {"namespace": about}}
    causes = kinds.created("events", document, namespace)
    assert causes == ([] if fine else [("involvedObject.namespace", f'Invalid value: "{about}": {STRAY}')])


def test_new_events_of_no_namespace_lie_in_two_places(kinds: Declared, names: Names) -> None:
    document = {**WHOLE, "involvedObject": {"kind": "Node", "name": "n"}}
    assert kinds.created("events", document, "default") == []
    assert kinds.created("events", document, names.system_namespace) == []
    assert kinds.created("events", document) == [("involvedObject.namespace", f'Invalid value: "": {STRAY}')]


@pytest.mark.parametrize("part", ["reportingInstance", "action", "reason"])
def test_new_events_are_complete(kinds: Declared, part: str) -> None:
    assert kinds.created("events", {**WHOLE, part: ""}) == [(part, "Required value")]
    assert kinds.created("events", {**WHOLE, part: "x" * 129}) == [
        (part, 'Invalid value: "": can have at most 128 characters')
    ]


def test_the_reporter_is_a_qualified_name(kinds: Declared) -> None:
    fields = [field for field, _ in kinds.created("events", {**WHOLE, "reportingComponent": ""})]
    assert fields == ["reportingComponent"] * 3
    assert kinds.created("events", {**WHOLE, "message": "x" * 1025}) == [
        ("message", 'Invalid value: "": can have at most 1024 characters')
    ]


@pytest.mark.parametrize(("name", "count"), [("Any_Name", 0), ("a/b", 1)])
def test_names_need_only_fit_a_path(kinds: Declared, name: str, count: int) -> None:
    assert len(kinds.created("events", {**WHOLE, "metadata": {"name": name}})) == count


def test_everything_may_change(kinds: Declared) -> None:
    assert kinds.replaced("events", WHOLE, {**WHOLE, "reason": "Other", "count": 3})[1] == []
    assert kinds["events"].strategy.allow_create_on_update


def test_selectors(kinds: Declared) -> None:
    definition = kinds["events"]
    stored = kinds.stored("events", {**WHOLE, "type": "Normal"})
    read: dict[str, Any] = {label: get(stored) for label, get in definition.selection.fields.items()}
    assert read["involvedObject.kind"] == "Pod" and read["involvedObject.uid"] == ""
    assert read["source"] == read["reportingComponent"] == "example.com/c"
    assert read["type"] == "Normal" and read["reason"] == "R"
    stored["source"] = {"component": "kubelet"}
    assert definition.selection.fields["source"](stored) == "kubelet"
    assert definition.selects("involvedObject.fieldPath") and not definition.selects("regarding.kind")
