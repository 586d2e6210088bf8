"""ReplicaSet: defaults, selector and template, status."""

from __future__ import annotations

from typing import Any

from rewound.actors.kinds.apps import REPLICA_SET_COLUMNS
from tests.actors.kinds.definitions import Definitions, distinct
from tests.actors.kinds.workload import template, with_status, workload
from tests.cases import cases

PLURAL = "replicasets"


def test_create_sets_defaults(kinds: Definitions) -> None:
    stored = kinds.stored(PLURAL, with_status(workload(), replicas=3))
    assert list(stored["spec"]) == ["replicas", "selector", "template"]
    assert stored["spec"]["replicas"] == 1 and stored["status"] == {"replicas": 0}
    assert stored["metadata"]["generation"] == 1
    assert kinds.create_causes(PLURAL, workload()) == []


@cases(
    ("spec", "wrong"),
    [
        ({"replicas": -1}, ["replicas"]),
        ({"minReadySeconds": -1}, ["minReadySeconds"]),
        ({"selector": None}, ["selector", "template.metadata.labels"]),
        ({"selector": {}}, ["selector"]),
        ({"selector": {"matchLabels": {"app": "y"}}}, ["template.metadata.labels"]),
        ({"template": template(restartPolicy="Never")}, ["template.spec.restartPolicy"]),
        ({"template": template(activeDeadlineSeconds=5)}, ["template.spec.activeDeadlineSeconds"]),
    ],
)
def test_create_reports_invalid_fields(kinds: Definitions, spec: Any, wrong: list[str]) -> None:
    causes = kinds.create_causes(PLURAL, workload(**spec))
    assert [field for field, _ in causes] == [f"spec.{part}" for part in wrong]
    again = kinds.update(PLURAL, workload(), workload(**spec))[1]
    assert [cause for cause in distinct(again) if cause not in causes] == (
        [cause for cause in again if cause[0] == "spec.selector" and "immutable" in cause[1]]
    )


def test_selector_is_immutable(kinds: Definitions) -> None:
    labels = {"b": "c"}
    after = workload(selector={"matchLabels": labels}, template=template(labels))
    assert [field for field, _ in kinds.update(PLURAL, workload(), after)[1]] == ["spec.selector"]
    new, causes = kinds.update(PLURAL, workload(), workload(replicas=2))
    assert causes == [] and new["metadata"]["generation"] == 2


def test_status_update_validates_counts(kinds: Definitions) -> None:
    right = with_status(workload(), replicas=2, readyReplicas=2, availableReplicas=1)
    new, causes = kinds.update(PLURAL, workload(), right, "status")
    assert causes == [] and new["metadata"]["generation"] == 1
    wrong = with_status(workload(), replicas=1, fullyLabeledReplicas=2, availableReplicas=1, readyReplicas=-1)
    assert [field for field, _ in kinds.update(PLURAL, workload(), wrong, "status")[1]] == [
        *("status.readyReplicas", "status.fullyLabeledReplicas", "status.availableReplicas")
    ]


def test_table_cells_are_computed_from_the_object(kinds: Definitions) -> None:
    stored = kinds.stored(PLURAL, workload(replicas=3))
    stored["status"] = {"replicas": 2, "readyReplicas": 1}
    cells = {column.name: column.cell(stored, 0) for column in REPLICA_SET_COLUMNS}
    assert (cells["Desired"], cells["Current"], cells["Ready"]) == (3, 2, 1)
    assert (cells["Containers"], cells["Images"], cells["Selector"]) == ("c", "img:1", "app=x")
