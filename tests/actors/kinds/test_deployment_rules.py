"""Deployment: defaults, the selector and its template, strategies, generations, status and scale."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.kinds.apps import DEPLOYMENT_COLUMNS, DEPLOYMENT_ROLLBACK
from rewound.actors.kinds.schema.decoder import NotDecodable
from tests.actors.kinds.definitions import Definitions, replace
from tests.actors.kinds.workload import template, with_status, workload
from tests.cases import cases

PLURAL = "deployments"


def annotated(text: str) -> dict[str, Any]:
    return {**workload(), "metadata": {"name": "a", "annotations": {DEPLOYMENT_ROLLBACK: text}}}


def test_create_sets_defaults(kinds: Definitions) -> None:
    stored = kinds.stored(PLURAL, with_status(workload(), replicas=3))
    spec = stored["spec"]
    assert list(spec) == [
        *("replicas", "selector", "template", "strategy", "revisionHistoryLimit", "progressDeadlineSeconds")
    ]
    assert (spec["replicas"], spec["revisionHistoryLimit"], spec["progressDeadlineSeconds"]) == (1, 10, 600)
    assert spec["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
    }
    assert stored["status"] == {} and stored["metadata"]["generation"] == 1
    assert kinds.create_causes(PLURAL, workload()) == []
    assert kinds.stored(PLURAL, workload(replicas=0))["spec"]["replicas"] == 0


def test_recreate_strategy_forbids_rolling_update(kinds: Definitions) -> None:
    assert kinds.stored(PLURAL, workload(strategy={"type": "Recreate"}))["spec"]["strategy"] == {
        "type": "Recreate"
    }
    strategy = {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}
    assert kinds.create_causes(PLURAL, workload(strategy=strategy)) == [
        (
            "spec.strategy.rollingUpdate",
            "Forbidden: may not be specified when strategy `type` is 'Recreate'",
        )
    ]


@cases(
    ("rolling_update", "wrong"),
    [
        ({"maxSurge": 0, "maxUnavailable": 0}, ["maxUnavailable"]),
        ({"maxSurge": "0%", "maxUnavailable": 0}, ["maxUnavailable"]),
        ({"maxUnavailable": "101%"}, ["maxUnavailable"]),
        ({"maxSurge": "101%"}, []),
        ({"maxSurge": "x"}, ["maxSurge"]),
        ({"maxSurge": -1}, ["maxSurge"]),
        ({"maxSurge": 0}, []),
        ({"maxUnavailable": "", "maxSurge": 0}, ["maxUnavailable", "maxUnavailable"]),
    ],
)
def test_create_reports_invalid_rolling_updates(
    kinds: Definitions, rolling_update: Any, wrong: list[str]
) -> None:
    causes = kinds.create_causes(PLURAL, workload(strategy={"rollingUpdate": rolling_update}))
    assert [field for field, _ in causes] == [f"spec.strategy.rollingUpdate.{part}" for part in wrong]


@cases(
    ("spec", "wrong"),
    [
        ({"strategy": {"type": "Blue"}}, ["strategy"]),
        ({"replicas": -1}, ["replicas"]),
        ({"minReadySeconds": -1}, ["minReadySeconds"]),
        ({"revisionHistoryLimit": -1}, ["revisionHistoryLimit"]),
        ({"revisionHistoryLimit": 0}, []),
        ({"progressDeadlineSeconds": 5, "minReadySeconds": 5}, ["progressDeadlineSeconds"]),
        ({"progressDeadlineSeconds": -1}, ["progressDeadlineSeconds", "progressDeadlineSeconds"]),
        ({"selector": None}, ["selector", "template.metadata.labels"]),
        ({"selector": {}}, ["selector"]),
        ({"selector": {"matchLabels": {"app": "y"}}}, ["template.metadata.labels"]),
        (
            {"selector": {"matchExpressions": [{"key": "app", "operator": "Near"}]}},
            ["selector.matchExpressions[0].operator", "selector"],
        ),
        ({"template": template(restartPolicy="Never")}, ["template.spec.restartPolicy"]),
        ({"template": template(activeDeadlineSeconds=5)}, ["template.spec.activeDeadlineSeconds"]),
        ({"template": template(containers=[])}, ["template.spec.containers"]),
    ],
)
def test_create_reports_invalid_fields(kinds: Definitions, spec: Any, wrong: list[str]) -> None:
    causes = kinds.create_causes(PLURAL, workload(**spec))
    assert [field for field, _ in causes] == [f"spec.{part}" for part in wrong]


def test_several_replicas_need_read_only_disks(kinds: Definitions) -> None:
    volume = {"name": "v", "gcePersistentDisk": {"pdName": "d"}}
    assert kinds.create_causes(PLURAL, workload(template=template(volumes=[volume]))) == []
    causes = kinds.create_causes(PLURAL, workload(replicas=2, template=template(volumes=[volume])))
    assert [field for field, _ in causes] == ["spec.template.spec.volumes[0].gcePersistentDisk.readOnly"]


def test_selector_is_immutable(kinds: Definitions) -> None:
    labels = {"b": "c"}
    after = workload(selector={"matchLabels": labels}, template=template(labels))
    _, causes = kinds.update(PLURAL, workload(), after)
    formatted = (
        'v1.LabelSelector{MatchLabels:map[string]string{"b":"c"}, '
        "MatchExpressions:[]v1.LabelSelectorRequirement(nil)}"
    )
    assert causes == [("spec.selector", f"Invalid value: {formatted}: field is immutable")]


def test_generation_counts_changes_of_spec_and_annotations(kinds: Definitions) -> None:
    labelled = {**workload(), "metadata": {"name": "a", "labels": {"l": "1"}}}
    annotated_workload = {**workload(), "metadata": {"name": "a", "annotations": {"n": "1"}}}
    for after, generation in ((labelled, 1), (annotated_workload, 2), (workload(minReadySeconds=3), 2)):
        new, causes = kinds.update(PLURAL, workload(), after)
        assert causes == [] and new["metadata"]["generation"] == generation


def test_status_subresource_changes_only_the_status(kinds: Definitions) -> None:
    found = with_status(workload(replicas=7), replicas=2, readyReplicas=1, collisionCount=0)
    found["metadata"] = {"name": "a", "labels": {"l": "1"}}
    new, causes = kinds.update(PLURAL, workload(), found, "status")
    assert causes == [] and new["spec"]["replicas"] == 1 and "labels" not in new["metadata"]
    assert new["status"] == {"replicas": 2, "readyReplicas": 1, "collisionCount": 0}
    assert kinds.update(PLURAL, workload(), found)[0]["status"] == {}


def test_absent_status_counts_are_validated_as_zero(kinds: Definitions) -> None:
    wrong = with_status(workload(), replicas=-1, readyReplicas=-1)
    assert kinds.update(PLURAL, workload(), wrong, "status")[1] == [
        ("status.replicas", "Invalid value: -1: must be greater than or equal to 0"),
        ("status.readyReplicas", "Invalid value: -1: must be greater than or equal to 0"),
        ("status.updatedReplicas", "Invalid value: 0: cannot be greater than status.replicas"),
        ("status.availableReplicas", "Invalid value: 0: cannot be greater than status.replicas"),
        ("status.availableReplicas", "Invalid value: 0: cannot be greater than readyReplicas"),
    ]


def test_status_update_validates_counts(kinds: Definitions) -> None:
    wrong = with_status(
        workload(), replicas=1, updatedReplicas=2, readyReplicas=2, availableReplicas=3, collisionCount=-1
    )
    assert kinds.update(PLURAL, workload(), wrong, "status")[1] == [
        ("status.collisionCount", "Invalid value: -1: must be greater than or equal to 0"),
        ("status.updatedReplicas", "Invalid value: 2: cannot be greater than status.replicas"),
        ("status.readyReplicas", "Invalid value: 2: cannot be greater than status.replicas"),
        ("status.availableReplicas", "Invalid value: 3: cannot be greater than status.replicas"),
        ("status.availableReplicas", "Invalid value: 3: cannot be greater than readyReplicas"),
    ]


def test_collision_count_cannot_decrease(kinds: Definitions) -> None:
    old, new = kinds.stored(PLURAL, workload()), kinds.stored(PLURAL, workload())
    old["status"] = {"collisionCount": 2}
    new["status"] = {}
    _, causes = replace(kinds[PLURAL], new, old, "status")
    assert [message for _, message in causes] == ["Invalid value: 0: cannot be decremented"]


def test_rollback_annotation_of_older_versions_is_kept_and_validated(kinds: Definitions) -> None:
    assert kinds.stored(PLURAL, annotated("3"))["metadata"]["annotations"] == {DEPLOYMENT_ROLLBACK: "3"}
    assert "annotations" not in kinds.stored(PLURAL, annotated(""))["metadata"]
    assert [field for field, _ in kinds.create_causes(PLURAL, annotated("-3"))] == ["spec.rollback.version"]
    with pytest.raises(NotDecodable, match="failed to parse annotation"):
        kinds.decode(PLURAL, annotated("x"))


def test_table_cells_are_computed_from_the_object(kinds: Definitions) -> None:
    stored = kinds.stored(PLURAL, workload(replicas=3))
    stored["status"] = {"replicas": 3, "readyReplicas": 2, "updatedReplicas": 1, "availableReplicas": 1}
    cells = {column.name: column.cell(stored, 0) for column in DEPLOYMENT_COLUMNS}
    assert (cells["Ready"], cells["Up-to-date"], cells["Available"]) == ("2/3", 1, 1)
    assert (cells["Containers"], cells["Images"], cells["Selector"]) == ("c", "img:1", "app=x")


def test_template_causes_warnings_on_create_only(kinds: Definitions) -> None:
    with_git_repo = workload(template=template(volumes=[{"name": "v", "gitRepo": {"repository": "r"}}]))
    definition = kinds[PLURAL]
    new = kinds.stored(PLURAL, with_git_repo)
    assert [text.partition(":")[0] for text in definition.strategy.warnings(new, None)] == [
        "spec.template.spec.volumes[0].gitRepo"
    ]
    assert definition.strategy.warnings(new, new) == []


def test_scale_subresource_reads_and_sets_replicas(kinds: Definitions) -> None:
    scale = kinds[PLURAL].subresource("scale")
    assert scale is not None and scale.view is not None and scale.update_object is not None
    stored = kinds.stored(PLURAL, workload(replicas=2))
    assert scale.view.storage.conversion is not None
    view = scale.view.storage.conversion.from_storage(stored)
    assert (view["spec"], view["status"]) == ({"replicas": 2}, {"replicas": 0, "selector": "app=x"})
    assert scale.update_object({"metadata": {}, "spec": {"replicas": 5}}, stored)["spec"]["replicas"] == 5
