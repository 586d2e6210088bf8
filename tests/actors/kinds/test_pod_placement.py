"""Pod: tolerations, topology spread, readiness gates, and enumerated fields of the spec."""

from __future__ import annotations

from typing import Any

from tests.actors.kinds.definitions import Definitions
from tests.actors.kinds.pods import LABEL, QUALIFIED, SUBDOMAIN, create_causes
from tests.cases import cases

LABEL_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used "
    "for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


@cases(
    ("toleration", "causes"),
    [
        ({"operator": "Exists"}, []),
        ({"key": "k", "value": "v", "effect": "PreferNoSchedule"}, []),
        ({"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}, []),
        (
            {},
            [
                (
                    "operator",
                    'Invalid value: "": operator must be Exists when `key` is empty, which means "match all '
                    'values and all keys"',
                )
            ],
        ),
        ({"key": "a b"}, [("key", f'Invalid value: "a b": {QUALIFIED}')]),
        (
            {"key": "k", "value": "a b"},
            [("operator", f'Invalid value: "a b": {LABEL_VALUE}')],
        ),
        (
            {"key": "k", "operator": "Exists", "value": "x"},
            [
                (
                    "operator",
                    'Invalid value: core.Toleration{Key:"k", Operator:"Exists", Value:"x", Effect:"", '
                    "TolerationSeconds:(*int64)(nil)}: value must be empty when `operator` is 'Exists'",
                )
            ],
        ),
        (
            {"key": "k", "operator": "In"},
            [("operator", 'Unsupported value: "In": supported values: "Equal", "Exists"')],
        ),
        (
            {"key": "k", "tolerationSeconds": 5},
            [("effect", "Invalid value: \"\": effect must be 'NoExecute' when `tolerationSeconds` is set")],
        ),
        (
            {"key": "k", "effect": "Never"},
            [
                (
                    "effect",
                    'Unsupported value: "Never": supported values: "NoSchedule", "PreferNoSchedule", '
                    '"NoExecute"',
                )
            ],
        ),
    ],
)
def test_tolerations_are_validated(
    kinds: Definitions, toleration: Any, causes: list[tuple[str, str]]
) -> None:
    expected = [(f"spec.tolerations[0].{field}", text) for field, text in causes]
    assert create_causes(kinds, tolerations=[toleration]) == expected


SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}


@cases(
    ("parts", "causes"),
    [
        ({}, []),
        ({"labelSelector": {"matchLabels": {"a": "b"}}}, []),
        ({"maxSkew": 0}, [("maxSkew", "Invalid value: 0: must be greater than zero")]),
        ({"topologyKey": ""}, [("topologyKey", "Required value: can not be empty")]),
        (
            {"whenUnsatisfiable": "x"},
            [
                (
                    "whenUnsatisfiable",
                    'Unsupported value: "x": supported values: "DoNotSchedule", "ScheduleAnyway"',
                )
            ],
        ),
    ],
)
def test_topology_spread_constraints_are_validated(
    kinds: Definitions, parts: Any, causes: list[tuple[str, str]]
) -> None:
    expected = [(f"spec.topologySpreadConstraints[0].{field}", text) for field, text in causes]
    assert create_causes(kinds, topologySpreadConstraints=[{**SPREAD, **parts}]) == expected


def test_spread_constraints_are_unique(kinds: Definitions) -> None:
    constraints = [SPREAD, {**SPREAD, "whenUnsatisfiable": "ScheduleAnyway"}, {**SPREAD, "maxSkew": 2}]
    assert create_causes(kinds, topologySpreadConstraints=constraints) == [
        (
            "spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}",
            'Duplicate value: "{zone, DoNotSchedule}"',
        )
    ]


def test_readiness_gates_are_validated(kinds: Definitions) -> None:
    gates = [{"conditionType": "example.com/x"}, {"conditionType": "a b"}]
    assert create_causes(kinds, readinessGates=gates) == [
        ("spec.readinessGates[1].conditionType", f'Invalid value: "a b": {QUALIFIED}')
    ]


@cases(
    ("parts", "causes"),
    [
        ({"restartPolicy": "OnFailure", "preemptionPolicy": "Never", "priority": 5}, []),
        (
            {"restartPolicy": "Maybe"},
            [
                (
                    "restartPolicy",
                    'Unsupported value: "Maybe": supported values: "Always", "OnFailure", "Never"',
                )
            ],
        ),
        (
            {"preemptionPolicy": "x"},
            [
                (
                    "preemptionPolicy",
                    'Unsupported value: "x": supported values: "PreemptLowerPriority", "Never"',
                )
            ],
        ),
        ({"preemptionPolicy": ""}, [("preemptionPolicy", "Required value")]),
        (
            {"activeDeadlineSeconds": 0},
            [("activeDeadlineSeconds", "Invalid value: 0: must be between 1 and 2147483647, inclusive")],
        ),
        (
            {"activeDeadlineSeconds": 2**31},
            [
                (
                    "activeDeadlineSeconds",
                    "Invalid value: 2147483648: must be between 1 and 2147483647, inclusive",
                )
            ],
        ),
        ({"hostname": "A"}, [("hostname", f'Invalid value: "A": {LABEL}')]),
        ({"subdomain": "a.b"}, [("subdomain", f'Invalid value: "a.b": {LABEL}')]),
        ({"nodeName": "N"}, [("nodeName", f'Invalid value: "N": {SUBDOMAIN}')]),
        ({"serviceAccountName": "S"}, [("serviceAccountName", f'Invalid value: "S": {SUBDOMAIN}')]),
        ({"priorityClassName": "P"}, [("priorityClassName", f'Invalid value: "P": {SUBDOMAIN}')]),
        ({"runtimeClassName": "R"}, [("runtimeClassName", f'Invalid value: "R": {SUBDOMAIN}')]),
        ({"nodeSelector": {"a b": "x"}}, [("nodeSelector", f'Invalid value: "a b": {QUALIFIED}')]),
        ({"imagePullSecrets": [{}, {"name": "A"}]}, []),
    ],
)
def test_policies_and_names_of_the_spec_are_validated(
    kinds: Definitions, parts: Any, causes: list[tuple[str, str]]
) -> None:
    assert create_causes(kinds, **parts) == [(f"spec.{field}", text) for field, text in causes]
