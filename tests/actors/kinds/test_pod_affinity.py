"""Pod: required and preferred node affinity, pod affinity and anti-affinity."""

from __future__ import annotations

from typing import Any

from tests.actors.kinds.definitions import Definitions
from tests.actors.kinds.pods import LABEL, QUALIFIED, SUBDOMAIN, create_causes
from tests.cases import cases

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
WEIGHT = "must be in the range 1-100"


def node_affinity_causes(kinds: Definitions, **affinity: Any) -> list[tuple[str, str]]:
    causes = create_causes(kinds, affinity={"nodeAffinity": affinity})
    return [(field.removeprefix("spec.affinity.nodeAffinity."), text) for field, text in causes]


@cases(
    ("requirement", "causes"),
    [
        ({"key": "a", "operator": "In", "values": ["x"]}, []),
        ({"key": "a", "operator": "Exists"}, []),
        ({"key": "a", "operator": "Gt", "values": ["1"]}, []),
        (
            {"key": "a", "operator": "NotIn"},
            [("values", "Required value: must be specified when `operator` is 'In' or 'NotIn'")],
        ),
        (
            {"key": "a", "operator": "DoesNotExist", "values": ["x"]},
            [
                (
                    "values",
                    "Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                )
            ],
        ),
        (
            {"key": "a", "operator": "Lt", "values": ["1", "2"]},
            [
                (
                    "values",
                    "Required value: must be specified single value when `operator` is 'Lt' or 'Gt'",
                )
            ],
        ),
        (
            {"key": "a b", "operator": "Like"},
            [
                ("operator", 'Invalid value: "Like": not a valid selector operator'),
                ("key", f'Invalid value: "a b": {QUALIFIED}'),
            ],
        ),
    ],
)
def test_node_label_requirements_are_validated(
    kinds: Definitions, requirement: Any, causes: list[tuple[str, str]]
) -> None:
    term = {"matchExpressions": [requirement]}
    path = f"{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0]"
    found = node_affinity_causes(kinds, **{REQUIRED: {"nodeSelectorTerms": [term]}})
    assert found == [(f"{path}.{field}", text) for field, text in causes]
    path = f"{PREFERRED}[0].preference.matchExpressions[0]"
    found = node_affinity_causes(kinds, **{PREFERRED: [{"weight": 1, "preference": term}]})
    assert found == [(f"{path}.{field}", text) for field, text in causes]


@cases(
    ("requirement", "causes"),
    [
        ({"key": "metadata.name", "operator": "In", "values": ["n"]}, []),
        (
            {"key": "metadata.name", "operator": "In", "values": ["n", "M"]},
            [
                (
                    "values",
                    "Required value: must be only one value when `operator` is 'In' or 'NotIn' for node "
                    "field selector",
                ),
                ("values[1]", f'Invalid value: "M": {SUBDOMAIN}'),
            ],
        ),
        (
            {"key": "metadata.uid", "operator": "Exists"},
            [
                ("operator", 'Invalid value: "Exists": not a valid selector operator'),
                ("key", 'Invalid value: "metadata.uid": not a valid field selector key'),
            ],
        ),
    ],
)
def test_node_field_requirements_are_validated(
    kinds: Definitions, requirement: Any, causes: list[tuple[str, str]]
) -> None:
    terms = {"nodeSelectorTerms": [{"matchFields": [requirement]}]}
    path = f"{REQUIRED}.nodeSelectorTerms[0].matchFields[0]"
    expected = [(f"{path}.{field}", text) for field, text in causes]
    assert node_affinity_causes(kinds, **{REQUIRED: terms}) == expected


def test_required_node_affinity_needs_a_term(kinds: Definitions) -> None:
    assert node_affinity_causes(kinds, **{REQUIRED: {}}) == [
        (
            f"{REQUIRED}.nodeSelectorTerms",
            "Required value: must have at least one node selector term",
        )
    ]


@cases("weight", [0, 101])
def test_weights_are_between_1_and_100(kinds: Definitions, weight: int) -> None:
    expected = [(f"{PREFERRED}[0].weight", f"Invalid value: {weight}: {WEIGHT}")]
    assert node_affinity_causes(kinds, **{PREFERRED: [{"weight": weight, "preference": {}}]}) == expected
    weighted = [{"weight": weight, "podAffinityTerm": {"topologyKey": "a"}}]
    causes = create_causes(kinds, affinity={"podAffinity": {PREFERRED: weighted}})
    assert causes == [(f"spec.affinity.podAffinity.{expected[0][0]}", expected[0][1])]


@cases("part", ["podAffinity", "podAntiAffinity"])
@cases(
    ("term", "causes"),
    [
        ({"topologyKey": "a/b", "namespaces": ["n"], "labelSelector": {}, "namespaceSelector": {}}, []),
        (
            {"topologyKey": ""},
            [
                ("topologyKey", "Required value: can not be empty"),
                ("topologyKey", 'Invalid value: "": name part must be non-empty'),
                ("topologyKey", f'Invalid value: "": {QUALIFIED}'),
            ],
        ),
        ({"topologyKey": "a", "namespaces": ["N"]}, [("namespace", f'Invalid value: "N": {LABEL}')]),
        (
            {"topologyKey": "a", "namespaceSelector": {"matchLabels": {"a b": "c"}}},
            [("namespaceSelector.matchLabels", f'Invalid value: "a b": {QUALIFIED}')],
        ),
        (
            {
                "topologyKey": "a",
                "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Gt"}]},
            },
            [
                (
                    "labelSelector.matchExpressions[0].operator",
                    'Invalid value: "Gt": not a valid selector operator',
                )
            ],
        ),
    ],
)
def test_pod_affinity_terms_are_validated(
    kinds: Definitions, part: str, term: Any, causes: list[tuple[str, str]]
) -> None:
    path = f"spec.affinity.{part}.{REQUIRED}[0]"
    expected = [(f"{path}.{field}", text) for field, text in causes]
    assert create_causes(kinds, affinity={part: {REQUIRED: [term]}}) == expected
