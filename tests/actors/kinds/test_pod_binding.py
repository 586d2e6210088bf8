"""Binding: assigns a pod to a node, once."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.errors import Conflict, Invalid
from rewound.actors.messages import Submit, WriteContext
from rewound.actors.resource.current import Current
from rewound.actors.resource.decide import decide_submit
from tests.actors.kinds.definitions import Definitions
from tests.actors.kinds.pods import pod
from tests.cases import cases

NOW = 1_600_000_000_000_000
CONTEXT = WriteContext(time=NOW, user="u", manager="m", uid="", suffix="")


def bind(kinds: Definitions, stored: dict[str, Any], target: Any = None, **metadata: Any) -> dict[str, Any]:
    view = kinds["pods"].definition_at("binding")
    sent = {"metadata": {"name": "a", **metadata}, "target": target or {"kind": "Node", "name": "n"}}
    document = view.schema.decode_object(sent).object
    command = Submit("v1", "ns", "a", "binding", document, CONTEXT)
    return decide_submit(kinds["pods"], Current(7, stored), command, document).object


def test_binding_sets_the_node_and_the_scheduled_condition(kinds: Definitions) -> None:
    before = kinds.stored("pods", pod(metadata={"annotations": {"b": "1"}}))
    after = bind(kinds, before, annotations={"a": "2"})
    assert after["spec"]["nodeName"] == "n" and "nodeName" not in before["spec"]
    assert after["metadata"]["annotations"] == {"a": "2", "b": "1"}
    assert after["status"]["conditions"] == [
        {
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": "2020-09-13T12:26:40Z",
        }
    ]
    assert list(after["status"]) == ["phase", "conditions", "qosClass"]
    fields = list(after["spec"])
    assert fields.index("nodeName") < fields.index("securityContext")


def test_binding_replaces_an_existing_condition(kinds: Definitions) -> None:
    before = kinds.stored("pods", pod())
    for status, since in (("True", "2019-01-01T00:00:00Z"), ("False", "2020-09-13T12:26:40Z")):
        existing = {"type": "PodScheduled", "status": status, "lastTransitionTime": "2019-01-01T00:00:00Z"}
        before["status"]["conditions"] = [existing]
        (condition,) = bind(kinds, before)["status"]["conditions"]
        assert (condition["status"], condition["lastTransitionTime"]) == ("True", since)


@cases(
    ("target", "text"),
    [
        ({"kind": "Pod", "name": "n"}, 'Unsupported value: "Pod": supported values: "Node", "<empty>"'),
        ({"kind": "Node"}, "Required value"),
        ({"name": "n"}, ""),
    ],
)
def test_target_must_be_a_named_node(kinds: Definitions, target: Any, text: str) -> None:
    before = kinds.stored("pods", pod())
    if not text:
        assert bind(kinds, before, target)["spec"]["nodeName"] == "n"
        return
    with pytest.raises(Invalid) as refused:
        bind(kinds, before, target)
    assert text in str(refused.value)


def test_bound_or_deleted_pod_cannot_be_bound(kinds: Definitions) -> None:
    with pytest.raises(Conflict) as refused:
        bind(kinds, kinds.stored("pods", pod(nodeName="x")))
    assert str(refused.value) == (
        'Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "x"'
    )
    deleted = kinds.stored("pods", pod())
    deleted["metadata"]["deletionTimestamp"] = "2020-01-01T00:00:00Z"
    with pytest.raises(Conflict, match="pod a is being deleted, cannot be assigned to a host"):
        bind(kinds, deleted)


def test_binding_checks_uid_and_resource_version(kinds: Definitions) -> None:
    before = kinds.stored("pods", pod())
    for metadata in ({"uid": "other"}, {"resourceVersion": "6"}):
        with pytest.raises(Conflict, match="Precondition failed"):
            bind(kinds, before, **metadata)
    assert bind(kinds, before, uid="u-1", resourceVersion="7")["spec"]["nodeName"] == "n"
