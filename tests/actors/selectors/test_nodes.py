from __future__ import annotations

from typing import Any

from rewound.actors.selectors.nodes import (
    NO_EXECUTE,
    NO_SCHEDULE,
    NodeRequirement,
    NodeSelector,
    tolerates,
    untolerated,
)
from tests.cases import cases

LABELS = {"disk": "ssd", "cores": "8"}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


@cases(
    ("term", "matches"),
    [
        ({"matchExpressions": [expression("disk", "In", "hdd", "ssd")]}, True),
        ({"matchExpressions": [expression("disk", "NotIn", "ssd")]}, False),
        ({"matchExpressions": [expression("zone", "NotIn", "a")]}, True),
        ({"matchExpressions": [expression("disk", "Exists"), expression("zone", "DoesNotExist")]}, True),
        ({"matchExpressions": [expression("cores", "Gt", "4")]}, True),
        ({"matchExpressions": [expression("cores", "Lt", "8")]}, False),
        ({"matchFields": [expression("metadata.name", "In", "node-a")]}, True),
        ({"matchFields": [expression("metadata.name", "NotIn", "node-a")]}, False),
        (
            {
                "matchExpressions": [expression("disk", "In", "hdd")],
                "matchFields": [expression("metadata.name", "In", "node-a")],
            },
            False,
        ),
        ({}, False),
    ],
)
def test_term_of_node_affinity(term: dict[str, Any], matches: bool) -> None:
    assert NodeSelector.compile({"nodeSelectorTerms": [term]}).matches("node-a", LABELS) is matches


@cases(
    "term",
    [
        {"matchExpressions": [expression("zone", "NotIn", "not a label value")]},
        {"matchExpressions": [expression("zone", "NotIn")]},
        {"matchExpressions": [expression("disk", "Exists", "ssd")]},
        {"matchExpressions": [expression("cores", "Gt", "many")]},
        {"matchExpressions": [expression("cores", "Gt", "1", "2")]},
        {"matchExpressions": [expression("disk", "Near", "ssd")]},
        {"matchExpressions": [expression("no key!", "DoesNotExist")]},
        {"matchFields": [expression("metadata.name", "In", "node-a", "node-b")]},
        {"matchFields": [expression("metadata.name", "Exists")]},
        {"matchFields": [expression("spec.podCIDR", "NotIn", "a")]},
    ],
)
def test_term_that_does_not_compile_matches_no_node_and_spoils_no_other(term: dict[str, Any]) -> None:
    other = {"matchExpressions": [expression("disk", "In", "ssd")]}
    assert not NodeSelector.compile({"nodeSelectorTerms": [term]}).matches("node-a", LABELS)
    assert NodeSelector.compile({"nodeSelectorTerms": [term, other]}).matches("node-a", LABELS)


def test_node_selector_and_required_affinity_must_both_match() -> None:
    required = {"nodeSelectorTerms": [{"matchFields": [expression("metadata.name", "In", "node-a")]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    requirement = NodeRequirement.of_pod({"nodeSelector": {"disk": "ssd"}, "affinity": affinity})
    assert requirement.matches("node-a", LABELS)
    assert not requirement.matches("node-b", LABELS)
    assert not requirement.matches("node-a", {"disk": "hdd"})
    assert NodeRequirement.of_pod({"affinity": {"podAffinity": {}}}).matches("node-b", {})


@cases(
    ("toleration", "expected"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "a", "operator": "Exists", "effect": "NoSchedule"}, True),
        ({"key": "a", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "b", "operator": "Exists"}, False),
        ({"key": "a", "value": "1"}, True),
        ({"key": "a", "operator": "Equal", "value": "2"}, False),
        ({"key": "a", "operator": "Like", "value": "1"}, False),
    ],
)
def test_toleration(toleration: dict[str, Any], expected: bool) -> None:
    assert tolerates(toleration, {"key": "a", "value": "1", "effect": "NoSchedule"}) is expected


def test_untolerated_is_the_first_taint_with_such_an_effect() -> None:
    taints = [{"key": key, "effect": effect} for key, effect in (("a", NO_SCHEDULE), ("b", NO_EXECUTE))]
    tolerations = [{"key": "a", "operator": "Exists"}]
    assert untolerated(taints, [], (NO_SCHEDULE, NO_EXECUTE)) == taints[0]
    assert untolerated(taints, tolerations, (NO_SCHEDULE, NO_EXECUTE)) == taints[1]
    assert untolerated(taints, tolerations, (NO_SCHEDULE,)) is None
