"""Core events: they are in the namespace of their object; those with an eventTime need all new fields."""

from __future__ import annotations

from typing import Any

from rewound.actors.names import Names
from tests.actors.kinds.definitions import Definitions
from tests.cases import cases

OTHER_NAMESPACE = "does not match event.namespace"
COMPLETE = {
    "metadata": {"name": "a"},
    "involvedObject": {"kind": "Pod", "name": "p", "namespace": "ns"},
    "eventTime": "2020-01-02T03:04:05.000006Z",
    "reportingComponent": "example.com/c",
    "reportingInstance": "i",
    "action": "Act",
    "reason": "R",
}


@cases(
    ("about", "namespace", "valid"),
    [("ns", "ns", True), ("other", "ns", False), ("", "ns", False), ("", "default", True)],
)
def test_event_without_event_time_is_in_the_namespace_of_its_object(
    kinds: Definitions, about: str, namespace: str, valid: bool
) -> None:
    document = {"metadata": {"name": "a"}, "involvedObject": {"namespace": about}}
    causes = kinds.create_causes("events", document, namespace)
    assert causes == (
        [] if valid else [("involvedObject.namespace", f'Invalid value: "{about}": {OTHER_NAMESPACE}')]
    )


def test_event_about_a_cluster_scoped_object_is_in_the_default_or_system_namespace(
    kinds: Definitions, names: Names
) -> None:
    document = {**COMPLETE, "involvedObject": {"kind": "Node", "name": "n"}}
    assert kinds.create_causes("events", document, "default") == []
    assert kinds.create_causes("events", document, names.system_namespace) == []
    assert kinds.create_causes("events", document) == [
        ("involvedObject.namespace", f'Invalid value: "": {OTHER_NAMESPACE}')
    ]


@cases("part", ["reportingInstance", "action", "reason"])
def test_event_with_event_time_needs_instance_action_and_reason(kinds: Definitions, part: str) -> None:
    assert kinds.create_causes("events", {**COMPLETE, part: ""}) == [(part, "Required value")]
    assert kinds.create_causes("events", {**COMPLETE, part: "x" * 129}) == [
        (part, 'Invalid value: "": can have at most 128 characters')
    ]


def test_reporting_component_and_message_are_validated(kinds: Definitions) -> None:
    fields = [field for field, _ in kinds.create_causes("events", {**COMPLETE, "reportingComponent": ""})]
    assert fields == ["reportingComponent"] * 3
    assert kinds.create_causes("events", {**COMPLETE, "message": "x" * 1025}) == [
        ("message", 'Invalid value: "": can have at most 1024 characters')
    ]


@cases(("name", "count"), [("Any_Name", 0), ("a/b", 1)])
def test_name_is_any_path_segment(kinds: Definitions, name: str, count: int) -> None:
    assert len(kinds.create_causes("events", {**COMPLETE, "metadata": {"name": name}})) == count


def test_update_may_change_all_fields(kinds: Definitions) -> None:
    assert kinds.update("events", COMPLETE, {**COMPLETE, "reason": "Other", "count": 3})[1] == []
    assert kinds["events"].strategy.allow_create_on_update


def test_selectable_fields(kinds: Definitions) -> None:
    definition = kinds["events"]
    stored = kinds.stored("events", {**COMPLETE, "type": "Normal"})
    read: dict[str, Any] = {label: get(stored) for label, get in definition.selection.fields.items()}
    assert read["involvedObject.kind"] == "Pod" and read["involvedObject.uid"] == ""
    assert read["source"] == read["reportingComponent"] == "example.com/c"
    assert read["type"] == "Normal" and read["reason"] == "R"
    stored["source"] = {"component": "kubelet"}
    assert definition.selection.fields["source"](stored) == "kubelet"
    assert definition.selects("involvedObject.fieldPath") and not definition.selects("regarding.kind")
