"""Namespace: its name is a DNS label and the value of a label; only subresources change finalizers and status."""

from __future__ import annotations

from typing import Any

from rewound.actors.names import Names
from tests.actors.kinds.definitions import Definitions, distinct, replace
from tests.cases import cases

NAMED = {"metadata": {"name": "a"}}
LONG = "n" * 64


def test_create_sets_the_active_phase_and_the_finalizer(kinds: Definitions) -> None:
    stored = kinds.stored("namespaces", {**NAMED, "status": {"phase": "Terminating", "conditions": []}})
    assert stored["spec"] == {"finalizers": ["kubernetes"]}
    assert stored["status"] == {"phase": "Active"}
    assert kinds["namespaces"].has_finalizers(stored)


def test_create_keeps_sent_finalizers(kinds: Definitions) -> None:
    stored = kinds.stored("namespaces", {**NAMED, "spec": {"finalizers": ["example.com/x"]}})
    assert stored["spec"]["finalizers"] == ["example.com/x", "kubernetes"]


def test_the_name_label_cannot_be_overridden(kinds: Definitions, names: Names) -> None:
    label = names.key("metadata.name")
    stored = kinds.stored("namespaces", {"metadata": {"name": "a", "labels": {label: "liar", "x": "y"}}})
    assert stored["metadata"]["labels"] == {label: "a", "x": "y"}
    assert kinds.update("namespaces", NAMED, NAMED)[0]["metadata"]["labels"] == {label: "a"}


def test_long_name_is_invalid_as_name_and_as_label(kinds: Definitions) -> None:
    text = f'Invalid value: "{LONG}": must be no more than 63 characters'
    causes = kinds.create_causes("namespaces", {"metadata": {"name": LONG}})
    assert causes == [("metadata.name", text), ("metadata.labels", text)]


def test_update_keeps_finalizers_and_status(kinds: Definitions) -> None:
    after = {**NAMED, "spec": {"finalizers": []}, "status": {"phase": "Terminating"}}
    new, causes = kinds.update("namespaces", NAMED, after)
    assert causes == []
    assert new["spec"] == {"finalizers": ["kubernetes"]} and new["status"] == {"phase": "Active"}


def test_status_update_keeps_finalizers(kinds: Definitions) -> None:
    condition = {"type": "T", "status": "True"}
    after = {**NAMED, "spec": {"finalizers": ["example.com/x"]}, "status": {"conditions": [condition]}}
    new, causes = kinds.update("namespaces", NAMED, after, "status")
    assert causes == []
    assert new["spec"] == {"finalizers": ["kubernetes"]}
    assert new["status"] == {"phase": "Active", "conditions": [{**condition, "lastTransitionTime": None}]}


def test_finalize_keeps_the_status(kinds: Definitions) -> None:
    after = {**NAMED, "spec": {"finalizers": ["example.com/keep"]}, "status": {"phase": "Terminating"}}
    new, causes = kinds.update("namespaces", NAMED, after, "finalize")
    assert causes == []
    assert new["spec"] == {"finalizers": ["example.com/keep"]} and new["status"] == {"phase": "Active"}


def test_finalize_validates_finalizer_names(kinds: Definitions) -> None:
    _, causes = kinds.update(
        "namespaces", NAMED, {**NAMED, "spec": {"finalizers": ["bad name!"]}}, "finalize"
    )
    assert [field for field, _ in causes] == ["spec.finalizers[0]"] * 2
    assert causes[0][1].startswith('Invalid value: "bad name!": name part must consist of')
    assert causes[1][1].endswith("name is neither a standard finalizer name nor is it fully qualified")


@cases(
    ("phase", "terminating", "text"),
    [
        ("Active", False, ""),
        ("Terminating", True, ""),
        ("Terminating", False, "may only be 'Active' if `deletionTimestamp` is empty"),
        ("Active", True, "may only be 'Terminating' if `deletionTimestamp` is not empty"),
    ],
)
def test_phase_is_terminating_if_and_only_if_the_namespace_is_deleted(
    kinds: Definitions, phase: str, terminating: bool, text: str
) -> None:
    old = kinds.stored("namespaces", NAMED)
    if terminating:
        old["metadata"]["deletionTimestamp"] = "2020-01-01T00:00:00Z"
    new: dict[str, Any] = {**old, "status": {"phase": phase}}
    _, causes = replace(kinds["namespaces"], new, old, "status")
    expected = [("status.Phase", f'Invalid value: "{phase}": {text}')] if text else []
    assert distinct(causes) == expected


def test_delete_sets_the_terminating_phase_without_a_grace_period(kinds: Definitions) -> None:
    marked = kinds.stored("namespaces", NAMED)
    marked["metadata"].update(deletionTimestamp="2020-01-01T00:00:00Z", deletionGracePeriodSeconds=0)
    kinds["namespaces"].deletion.mark_deleted(marked)
    assert marked["status"]["phase"] == "Terminating"
    assert "deletionGracePeriodSeconds" not in marked["metadata"]


def test_has_finalizers_counts_those_of_metadata_and_spec(kinds: Definitions) -> None:
    has_finalizers = kinds["namespaces"].has_finalizers
    assert not has_finalizers({"metadata": {}, "spec": {}})
    assert has_finalizers({"metadata": {"finalizers": ["example.com/x"]}, "spec": {}})


def test_phase_is_selectable(kinds: Definitions) -> None:
    definition = kinds["namespaces"]
    assert definition.selects("status.phase")
    assert not definition.selects("name") and not definition.selects("metadata.namespace")
    assert definition.selection.fields["status.phase"](kinds.stored("namespaces", NAMED)) == "Active"
