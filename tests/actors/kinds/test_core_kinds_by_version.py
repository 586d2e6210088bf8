"""Nodes, quotas, autoscalers and claim templates of later versions: what they drop, refuse and warn of."""

from __future__ import annotations

from functools import cache
from typing import Any

from rewound.actors.kinds.built_in import built_in
from rewound.actors.names import KUBERNETES
from rewound.actors.versions.features import choose_release
from tests.actors.kinds.definitions import Definitions
from tests.cases import cases

NEWEST = "1.36"


@cache
def kinds(version: str) -> Definitions:
    return Definitions(built_in(KUBERNETES, choose_release(version)))


def node(**parts: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, **parts}


@cases(("version", "kept"), [("1.30", False), ("1.31", True)])
def test_nodes_get_gated_parts_of_their_status_from_kubelets(version: str, kept: bool) -> None:
    before, after = node(), node(status={"runtimeHandlers": [{"name": "a"}]})
    assert ("runtimeHandlers" in kinds(version).stored("nodes", after)["status"]) is kept
    stored, causes = kinds(version).update("nodes", before, after, "status")
    assert not causes and "runtimeHandlers" in stored["status"]


def test_declared_features_are_sorted() -> None:
    sent = node(status={"declaredFeatures": ["B", "A", "A", "a b"]})
    fields = [field for field, *_ in kinds(NEWEST).create_causes("nodes", sent)]
    assert fields == [f"status.declaredFeatures[{index}]" for index in (1, 2, 3)]


@cases(("version", "text"), [("1.29", "must be valid CIDR"), (NEWEST, "must be a valid CIDR value")])
def test_networks_of_nodes(version: str, text: str) -> None:
    (cause,) = kinds(version).create_causes("nodes", node(spec={"podCIDRs": ["x"]}))
    assert text in cause[-1]


@cases(("version", "warned"), [("1.26", False), ("1.27", True)])
def test_external_ids_are_deprecated(version: str, warned: bool) -> None:
    warnings = kinds(version)["nodes"].strategy.warnings
    assert warnings is not None
    assert bool(warnings(node(spec={"externalID": "x"}), None)) is warned


@cases(("version", "shown"), [("1.28", '"x"'), ("1.29", "x"), ("1.34", '"x"')])
def test_names_of_resources_in_texts(version: str, shown: str) -> None:
    sent = {"metadata": {"name": "a"}, "spec": {"hard": {"x": "1"}}}
    texts = [text for *_, text in kinds(version).create_causes("resourcequotas", sent)]
    assert texts[-1] == f"Invalid value: {shown}: must be a standard resource for quota"


@cases(
    ("version", "api_version", "refused"),
    [("1.33", "v1", 0), ("1.34", "v1", 1), ("1.34", "a/b/c", 1), ("1.34", "apps/v1", 0)],
)
def test_targets_of_autoscalers_have_a_group(version: str, api_version: str, refused: int) -> None:
    target = {"apiVersion": api_version, "kind": "Deployment", "name": "a"}
    sent = {"metadata": {"name": "a"}, "spec": {"scaleTargetRef": target, "maxReplicas": 2}}
    assert len(kinds(version).create_causes("horizontalpodautoscalers", sent)) == refused
    target["kind"] = "ReplicationController"
    assert (api_version == "v1") <= (not kinds(version).create_causes("horizontalpodautoscalers", sent))


def test_claim_templates_have_labels_and_annotations_alone() -> None:
    spec = {"metadata": {"uid": "u", "labels": {"a": "b"}}, "spec": {"devices": {}}}
    sent = {"metadata": {"name": "a"}, "spec": spec}
    causes = kinds(NEWEST).create_causes("resourceclaimtemplates", sent)
    assert [(field, text) for field, *_, text in causes] == [
        ("spec.metadata.uID", "Forbidden: cannot be set")
    ]


@cases(("version", "times", "unit"), [("1.34", 2, "characters"), ("1.35", 1, "bytes")])
def test_replication_controllers_are_validated_once(version: str, times: int, unit: str) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    before = {"metadata": {"name": "a"}, "spec": {"selector": {"a": "b"}, "template": template}}
    wrong = {**template, "spec": {**template["spec"], "dnsPolicy": "x"}}
    after = {**before, "spec": {**before["spec"], "template": wrong}}
    _, causes = kinds(version).update("replicationcontrollers", before, after)
    assert len(causes) == times
    long = {**before, "metadata": {"name": "a" * 254}}
    (cause,) = kinds(version).create_causes("replicationcontrollers", long)
    assert cause[-1].endswith(f"must be no more than 253 {unit}")


@cases(("version", "warned"), [("1.26", False), ("1.27", True)])
def test_names_that_pods_cannot_have_as_hosts_are_warned_of(version: str, warned: bool) -> None:
    template = {"metadata": {}, "spec": {"containers": []}}
    sent = {"metadata": {"name": "a.b"}, "spec": {"template": template}}
    for plural in ("deployments", "replicasets", "replicationcontrollers"):
        warnings = kinds(version)[plural].strategy.warnings
        assert warnings is not None
        assert any(one.startswith("metadata.name: ") for one in warnings(sent, None)) is warned


@cases(("version", "selected"), [("1.27", False), ("1.28", True)])
def test_pods_are_selected_by_their_network(version: str, selected: bool) -> None:
    fields = kinds(version)["pods"].selection.fields
    assert ("spec.hostNetwork" in fields) is selected
    if selected:
        assert fields["spec.hostNetwork"]({"spec": {"hostNetwork": True}}) == "true"
