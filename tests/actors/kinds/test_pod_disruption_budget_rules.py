"""PodDisruptionBudget: minAvailable or maxUnavailable, percentages, status, no unconditional updates."""

from __future__ import annotations

from typing import Any

from rewound.actors.kinds.policy import BUDGET_COLUMNS
from tests.actors.kinds.definitions import Definitions
from tests.actors.kinds.workload import LABELS, with_status
from tests.cases import cases

PLURAL = "poddisruptionbudgets"


def budget(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "spec": {"selector": {"matchLabels": LABELS}, **spec}}


def test_create_sets_defaults(kinds: Definitions) -> None:
    stored = kinds.stored(PLURAL, with_status(budget(minAvailable="30%"), disruptionsAllowed=3))
    assert list(stored["spec"]) == ["minAvailable", "selector"]
    assert stored["status"] == {
        "disruptionsAllowed": 0,
        "currentHealthy": 0,
        "desiredHealthy": 0,
        "expectedPods": 0,
    }
    assert (
        stored["metadata"]["generation"] == 1 and kinds.create_causes(PLURAL, budget(maxUnavailable=0)) == []
    )
    assert kinds.create_causes(PLURAL, {"metadata": {"name": "a"}}) == []


@cases(
    ("spec", "wrong"),
    [
        ({"minAvailable": 1, "maxUnavailable": 1}, [""]),
        ({"minAvailable": -1}, [".minAvailable"]),
        ({"minAvailable": "x"}, [".minAvailable"]),
        ({"minAvailable": "101%"}, [".minAvailable"]),
        ({"maxUnavailable": -1}, [".maxUnavailable"]),
        ({"maxUnavailable": "101%"}, [".maxUnavailable"]),
        ({"maxUnavailable": "100%"}, []),
        ({"selector": {}}, []),
        ({"selector": {"matchLabels": {"-": ""}}}, [".selector.matchLabels"]),
    ],
)
def test_create_reports_invalid_fields(kinds: Definitions, spec: Any, wrong: list[str]) -> None:
    expected = [f"spec{part}" for part in wrong]
    assert [field for field, _ in kinds.create_causes(PLURAL, budget(**spec))] == expected
    assert [field for field, _ in kinds.update(PLURAL, budget(), budget(**spec))[1]] == expected


def test_name_is_any_path_segment(kinds: Definitions) -> None:
    named = {**budget(), "metadata": {"name": "A b_c", "finalizers": ["plain"]}}
    assert kinds.create_causes(PLURAL, named) == []
    slashed = {"metadata": {"name": "a/b"}, "spec": {}}
    assert kinds.create_causes(PLURAL, slashed) == [
        ("metadata.name", "Invalid value: \"a/b\": may not contain '/'")
    ]
    wrong = {**slashed, "spec": {"minAvailable": -1}}
    assert [field for field, _ in kinds.create_causes(PLURAL, wrong)] == ["spec.minAvailable"]


def test_update_is_validated_and_increments_the_generation(kinds: Definitions) -> None:
    new, causes = kinds.update(PLURAL, budget(minAvailable=1), budget(maxUnavailable=1))
    assert causes == [] and new["metadata"]["generation"] == 2
    assert not kinds[PLURAL].strategy.allow_unconditional_update


def test_status_subresource_changes_only_the_status(kinds: Definitions) -> None:
    condition = {
        "type": "DisruptionAllowed",
        "status": "True",
        "reason": "SufficientPods",
        "message": "",
        "lastTransitionTime": "2020-01-01T00:00:00Z",
    }
    pods = {"p": "2020-01-01T00:00:00Z"}
    found = with_status(budget(minAvailable=9), disruptedPods=pods, conditions=[condition], expectedPods=2)
    new, causes = kinds.update(PLURAL, budget(minAvailable=1), found, "status")
    assert causes == [] and new["spec"]["minAvailable"] == 1 and new["status"]["disruptedPods"] == pods
    wrong = with_status(budget(), expectedPods=-1, conditions=[{**condition, "status": "Maybe"}])
    assert [field for field, _ in kinds.update(PLURAL, budget(), wrong, "status")[1]] == [
        "status.conditions[0].status",
        "status.expectedPods",
    ]


def test_table_cells_are_computed_from_the_object(kinds: Definitions) -> None:
    stored = kinds.stored(PLURAL, budget(minAvailable=3))
    assert [column.cell(stored, 0) for column in BUDGET_COLUMNS[:4]] == ["a", "3", "N/A", 0]
