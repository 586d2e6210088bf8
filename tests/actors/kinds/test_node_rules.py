"""Node: taints, pod networks, resources, and fields that can be set once."""

from __future__ import annotations

from typing import Any

from rewound.actors.names import Names
from tests.actors.kinds.definitions import Definitions, distinct
from tests.cases import cases

NAMED = {"metadata": {"name": "a"}}


def causes_of(kinds: Definitions, **parts: Any) -> list[tuple[str, str]]:
    return kinds.create_causes("nodes", {**NAMED, **parts})


def test_create_keeps_the_status_and_updates_change_spec_or_status(kinds: Definitions) -> None:
    created = kinds.stored(
        "nodes", {**NAMED, "status": {"phase": "Running"}, "spec": {"unschedulable": True}}
    )
    assert created["status"]["phase"] == "Running"
    after = {**NAMED, "spec": {"unschedulable": True}, "status": {"phase": "Pending"}}
    status_update, _ = kinds.update("nodes", NAMED, after, "status")
    assert status_update["spec"] == {} and status_update["status"]["phase"] == "Pending"
    update, _ = kinds.update("nodes", NAMED, after)
    assert update["spec"] == {"unschedulable": True} and "phase" not in update["status"]


def test_taints_are_validated(kinds: Definitions) -> None:
    taints = [
        {"key": "a b", "effect": "NoSchedule", "value": "x y"},
        {"key": "k"},
        {"key": "k", "effect": "Later"},
        {"key": "k", "effect": "NoExecute"},
        {"key": "k", "effect": "NoExecute", "value": "w"},
    ]
    causes = causes_of(kinds, spec={"taints": taints})
    assert [field for field, _ in causes] == [
        "metadata.taints[0].key",
        "metadata.taints[0].value",
        "metadata.taints[1].effect",
        "metadata.taints[2].effect",
        "metadata.taints[4]",
    ]
    assert causes[3][1] == (
        'Unsupported value: "Later": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"'
    )
    assert causes[4][1].endswith(": taints must be unique by key and effect pair")


@cases(
    ("networks", "texts"),
    [
        (["10.0.0.0/24"], []),
        (["10.0.0.0/24", "fd00::/64"], []),
        (["x"], ["must be valid CIDR"]),
        (
            ["10.0.0.0/24", "x"],
            [
                "must be valid CIDR",
                'dual stack with error:failed to parse cidr value:"x" with error:invalid CIDR address: x',
                "may specify no more than one CIDR for each IP family",
            ],
        ),
        (["10.0.0.0/24", "10.1.0.0/24"], ["may specify no more than one CIDR for each IP family"]),
        (
            ["10.0.0.0/24"] * 2,
            ["may specify no more than one CIDR for each IP family", 'Duplicate value: "10.0.0.0/24"'],
        ),
    ],
)
def test_pod_cidrs_are_validated(kinds: Definitions, networks: list[str], texts: list[str]) -> None:
    causes = causes_of(kinds, spec={"podCIDRs": networks})
    assert [message.endswith(text) for (_, message), text in zip(causes, texts, strict=True)] == [True] * len(
        texts
    )


@cases(
    ("sent", "stored"),
    [
        ({"podCIDR": "10.0.0.0/24"}, ["10.0.0.0/24"]),
        ({"podCIDRs": ["10.0.0.0/24", "fd00::/64"]}, ["10.0.0.0/24", "fd00::/64"]),
        ({"podCIDR": "10.9.0.0/24", "podCIDRs": ["10.0.0.0/24", "fd00::/64"]}, ["10.9.0.0/24"]),
    ],
)
def test_pod_cidr_is_the_first_of_pod_cidrs(kinds: Definitions, sent: Any, stored: list[str]) -> None:
    spec = kinds.decode("nodes", {"spec": sent})["spec"]
    assert spec == {"podCIDR": stored[0], "podCIDRs": stored}


@cases(
    ("before", "after", "field"),
    [
        ({}, {"podCIDR": "10.0.0.0/24", "providerID": "p"}, ""),
        ({"podCIDR": "10.0.0.0/24"}, {"podCIDR": "10.1.0.0/24"}, "spec.podCIDRs"),
        ({"podCIDR": "10.0.0.0/24"}, {}, "spec.podCIDRs"),
        ({"providerID": "p"}, {"providerID": "q"}, "spec.providerID"),
        ({"providerID": "p"}, {}, "spec.providerID"),
        ({}, {"externalID": "x"}, "spec.externalID"),
    ],
)
def test_pod_cidr_and_provider_id_can_be_set_once(
    kinds: Definitions, before: Any, after: Any, field: str
) -> None:
    _, causes = kinds.update("nodes", {**NAMED, "spec": before}, {**NAMED, "spec": after})
    assert [found for found, _ in distinct(causes)] == ([field] if field else [])


def test_resource_amounts_are_validated(kinds: Definitions, names: Names) -> None:
    capacity = {
        "cpu": "500m",
        "memory": "-1",
        "pods": "1500m",
        "example.com/gpu": "500m",
        names.key("batch"): "500m",
    }
    causes = causes_of(kinds, status={"capacity": capacity, "allocatable": {}})
    found = [cause for cause in causes if cause[0].startswith("status.capacity")]
    assert sorted(found) == [
        ("status.capacity.example.com/gpu", 'Invalid value: "500m": must be an integer'),
        ("status.capacity.memory", 'Invalid value: "-1": must be greater than or equal to 0'),
        ("status.capacity.pods", 'Invalid value: "1500m": must be an integer'),
    ]


def test_amounts_are_rounded_up_to_a_thousandth(kinds: Definitions) -> None:
    status = kinds.stored("nodes", {**NAMED, "status": {"capacity": {"cpu": "1500u"}}})["status"]
    assert (status["capacity"], status["allocatable"]) == ({"cpu": "2m"}, {"cpu": "2m"})


def test_addresses_are_unique(kinds: Definitions) -> None:
    address = {"type": "InternalIP", "address": "10.0.0.9"}
    _, causes = kinds.update("nodes", NAMED, {**NAMED, "status": {"addresses": [address, address]}}, "status")
    assert causes == [("status.addresses[1]", 'Duplicate value: {"type":"InternalIP","address":"10.0.0.9"}')]


def test_config_source_of_a_removed_feature_is_dropped(kinds: Definitions) -> None:
    source = {"configMap": {"namespace": "a", "name": "b", "kubeletConfigKey": "c"}}
    document = {**NAMED, "spec": {"configSource": source}, "status": {"config": {"assigned": source}}}
    assert "configSource" not in kinds.stored("nodes", document)["spec"]
    assert "config" not in kinds.stored("nodes", document)["status"]
    assert "configSource" not in kinds.update("nodes", NAMED, document)[0]["spec"]
    assert "config" not in kinds.update("nodes", NAMED, document, "status")[0]["status"]


def test_taints_and_avoided_pods_in_annotations_are_validated(kinds: Definitions, names: Names) -> None:
    def annotated(key: str, text: str) -> list[tuple[str, str]]:
        return kinds.create_causes("nodes", {"metadata": {"name": "a", "annotations": {key: text}}})

    taints, avoid = (names.key(key, "scheduler.alpha") for key in ("taints", "preferAvoidPods"))
    assert annotated(taints, '[{"key":"k","effect":"NoSchedule"}]') == []
    assert [field for field, _ in annotated(taints, "{")] == ["metadata.annotations"]
    assert [field for field, _ in annotated(taints, '[{"key":"k"}]')] == [
        f"metadata.annotations.{taints}[0].effect"
    ]
    controller = '{"preferAvoidPods":[{"podSignature":{"podController":{"controller":%s}}}]}'
    assert annotated(avoid, controller % "true") == []
    assert len(annotated(avoid, controller % "false")) == 1
    assert annotated(avoid, '{"preferAvoidPods":[{}]}')[0][1] == "Required value"
    assert len(annotated(avoid, "[]")) == 1


def test_unschedulable_is_selectable(kinds: Definitions) -> None:
    definition = kinds["nodes"]
    read = definition.selection.fields["spec.unschedulable"]
    assert read(kinds.stored("nodes", NAMED)) == "false"
    assert read(kinds.stored("nodes", {**NAMED, "spec": {"unschedulable": True}})) == "true"
