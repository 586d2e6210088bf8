"""Pod: field selectors."""

from __future__ import annotations

from tests.actors.kinds.definitions import Definitions
from tests.actors.kinds.pods import pod
from tests.cases import cases


@cases(
    ("label", "value"),
    [
        ("spec.nodeName", "n"),
        ("spec.restartPolicy", "Never"),
        ("spec.schedulerName", "default-scheduler"),
        ("spec.serviceAccountName", "x"),
        ("status.phase", "Pending"),
        ("status.podIP", ""),
        ("status.nominatedNodeName", ""),
    ],
)
def test_selectable_fields_have_stored_values(kinds: Definitions, label: str, value: str) -> None:
    definition = kinds["pods"]
    stored = kinds.stored("pods", pod(nodeName="n", restartPolicy="Never", serviceAccountName="x"))
    assert definition.selects(label)
    assert definition.selection.fields[label](stored) == value


def test_old_field_labels_are_still_selectable(kinds: Definitions) -> None:
    definition = kinds["pods"]
    assert definition.selects("spec.host") and definition.stored_field("spec.host") == "spec.nodeName"
    assert definition.selects("status.podIPs") and definition.selects("metadata.namespace")
    assert not definition.selects("spec.hostname")
    assert definition.unsupported_field_text("spec.hostname") == "field label not supported: spec.hostname"


def test_replication_controllers_are_selectable_by_replicas(kinds: Definitions) -> None:
    definition = kinds["replicationcontrollers"]
    assert definition.selection.fields["status.replicas"]({"status": {"replicas": 3}}) == "3"
