"""podFailurePolicy of jobs: dropped while the feature is off, validated when it is on."""

from __future__ import annotations

from typing import Any

from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.names import Names
from rewound.actors.versions.features import FAILURE_POLICY, choose_release
from tests.actors.kinds.definitions import Definitions, create
from tests.actors.kinds.workload import template
from tests.cases import cases

CODES = {"operator": "In", "values": [1, 2]}


def with_rules(*rules: Any, **pods: Any) -> dict[str, Any]:
    made = template(None, **{"restartPolicy": "Never", **pods})
    return {
        "metadata": {"name": "a"},
        "spec": {"template": made, "podFailurePolicy": {"rules": list(rules)}},
    }


def _jobs(names: Names) -> Definition:
    return Definitions(built_in(names, choose_release("1.25", f"{FAILURE_POLICY}=true")))["jobs"]


def causes_of_create(names: Names, document: Any) -> list[tuple[str, str]]:
    definition = _jobs(names)
    _, causes = create(definition, definition.schema.decode_object(document).object)
    start = "spec.podFailurePolicy.rules"
    return [(field.removeprefix(start), text) for field, text in causes]


def test_pod_failure_policy_is_dropped_while_its_feature_is_disabled(kinds: Definitions) -> None:
    stored = kinds.stored("jobs", with_rules({"action": "Count", "onExitCodes": CODES}))
    assert "podFailurePolicy" not in stored["spec"]


def test_status_of_pod_conditions_defaults_to_true(names: Names) -> None:
    definition = _jobs(names)
    document = with_rules({"action": "Ignore", "onPodConditions": [{"type": "Lost"}]})
    new = definition.schema.decode_object(document).object
    assert new["spec"]["podFailurePolicy"]["rules"] == [
        {
            "action": "Ignore",
            "onExitCodes": None,
            "onPodConditions": [{"type": "Lost", "status": "True"}],
        }
    ]


@cases(
    ("rule", "expected"),
    [
        ({"action": "FailJob", "onExitCodes": CODES}, []),
        ({"action": "FailJob", "onExitCodes": {**CODES, "containerName": "c"}}, []),
        (
            {"onExitCodes": CODES},
            [("[0].action", 'Required value: valid values: ["Count" "FailJob" "Ignore"]')],
        ),
        (
            {"action": "Pray", "onExitCodes": CODES},
            [("[0].action", 'Unsupported value: "Pray": supported values: "Count", "FailJob", "Ignore"')],
        ),
        (
            {"action": "Count"},
            [("[0]", "Invalid value: specifying one of OnExitCodes and OnPodConditions is required")],
        ),
        (
            {"action": "Count", "onExitCodes": CODES, "onPodConditions": [{"type": "Lost"}]},
            [("[0]", "Invalid value: specifying both OnExitCodes and OnPodConditions is not supported")],
        ),
        (
            {"action": "Count", "onExitCodes": {**CODES, "containerName": "d"}},
            [
                (
                    "[0].onExitCodes.containerName",
                    'Invalid value: "d": must be one of the container or initContainer names in the pod '
                    "template",
                )
            ],
        ),
        (
            {"action": "Count", "onExitCodes": {"operator": "In", "values": [3, 0, 3]}},
            [
                ("[0].onExitCodes.values[1]", "Invalid value: 0: must not be 0 for the In operator"),
                ("[0].onExitCodes.values[2]", "Duplicate value: 3"),
                ("[0].onExitCodes.values", "Invalid value: [3,0,3]: must be ordered"),
            ],
        ),
        (
            {"action": "Count", "onPodConditions": [{"type": "Lost", "status": "Maybe"}]},
            [
                (
                    "[0].onPodConditions[0].status",
                    'Unsupported value: "Maybe": supported values: "False", "True", "Unknown"',
                )
            ],
        ),
    ],
)
def test_create_reports_invalid_rules(names: Names, rule: Any, expected: list[tuple[str, str]]) -> None:
    assert causes_of_create(names, with_rules(rule)) == expected


def test_numbers_of_rules_exit_codes_and_conditions_are_limited(names: Names) -> None:
    rule = {"action": "Count", "onExitCodes": CODES}
    assert causes_of_create(names, with_rules(*[rule] * 21)) == [
        ("", "Too many: 21: must have at most 20 items")
    ]
    many = {"action": "Count", "onExitCodes": {"operator": "NotIn", "values": list(range(256))}}
    assert causes_of_create(names, with_rules(many)) == [
        ("[0].onExitCodes.values", "Too many: 256: must have at most 255 items")
    ]
    conditions = {"action": "Count", "onPodConditions": [{"type": "Lost"}] * 21}
    assert causes_of_create(names, with_rules(conditions)) == [
        ("[0].onPodConditions", "Too many: 21: must have at most 20 items")
    ]
    none = {"action": "Count", "onExitCodes": {"operator": "In", "values": []}}
    assert [field for field, _ in causes_of_create(names, with_rules(none))] == ["[0].onExitCodes.values"]


def test_pod_failure_policy_requires_restart_policy_never(names: Names) -> None:
    document = with_rules({"action": "Count", "onExitCodes": CODES}, restartPolicy="OnFailure")
    assert causes_of_create(names, document) == [
        (
            "spec.template.spec.restartPolicy",
            'Invalid value: "OnFailure": only "Never" is supported when podFailurePolicy is specified',
        )
    ]
