"""DaemonSet: defaults, the generation of its template, strategies, status."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.kinds.apps import DAEMON_SET_COLUMNS, TEMPLATE_GENERATION
from rewound.actors.kinds.schema.decoder import NotDecodable
from tests.actors.kinds.definitions import Definitions
from tests.actors.kinds.workload import template, with_status, workload
from tests.cases import cases

PLURAL = "daemonsets"


def annotated(generation: str, **spec: Any) -> dict[str, Any]:
    metadata = {"name": "a", "annotations": {TEMPLATE_GENERATION: generation}}
    return {**workload(**spec), "metadata": metadata}


def generations(stored: dict[str, Any]) -> tuple[int, str]:
    metadata = stored["metadata"]
    return metadata["generation"], metadata["annotations"][TEMPLATE_GENERATION]


def test_create_sets_defaults(kinds: Definitions) -> None:
    stored = kinds.stored(PLURAL, with_status(workload(), numberReady=3))
    assert stored["spec"]["updateStrategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0},
    }
    assert stored["spec"]["revisionHistoryLimit"] == 10 and generations(stored) == (1, "1")
    assert stored["status"] == {
        "currentNumberScheduled": 0,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": 0,
        "numberReady": 0,
    }
    assert kinds.create_causes(PLURAL, workload()) == []


def test_rolling_update_gets_defaults_even_for_on_delete(kinds: Definitions) -> None:
    for sent, stored in (
        ({"type": "OnDelete"}, {}),
        ({"type": "OnDelete", "rollingUpdate": {}}, {"maxUnavailable": 0, "maxSurge": 0}),
        (
            {"type": "OnDelete", "rollingUpdate": {"maxSurge": "5%"}},
            {"maxUnavailable": 0, "maxSurge": "5%"},
        ),
        ({"rollingUpdate": {"maxSurge": 2}}, {"maxUnavailable": 1, "maxSurge": 2}),
    ):
        strategy = kinds.stored(PLURAL, workload(updateStrategy=sent))["spec"]["updateStrategy"]
        assert strategy.get("rollingUpdate", {}) == stored


def test_template_generation_counts_changes_of_the_template(kinds: Definitions) -> None:
    other = template(containers=[{"name": "c", "image": "img:2"}])
    for after, expected in (
        (annotated("9"), (1, "1")),
        (workload(), (1, "1")),
        (workload(template=other), (2, "2")),
        (workload(minReadySeconds=1), (2, "1")),
    ):
        new, causes = kinds.update(PLURAL, workload(), after)
        assert causes == [] and generations(new) == expected
    assert generations(kinds.stored(PLURAL, annotated("5"))) == (1, "5")
    assert generations(kinds.stored(PLURAL, annotated("-5"))) == (1, "1")
    assert generations(kinds.update(PLURAL, annotated("5"), annotated("2"), "status")[0]) == (1, "5")


def test_template_generation_that_is_no_number_cannot_be_decoded(kinds: Definitions) -> None:
    with pytest.raises(NotDecodable, match='parsing "x": invalid syntax'):
        kinds.decode(PLURAL, annotated("x"))


@cases(
    ("strategy", "expected"),
    [
        ({"type": "OnDelete"}, []),
        ({"type": "Never"}, [""]),
        ({"rollingUpdate": {"maxUnavailable": 0}}, [".rollingUpdate.maxUnavailable"]),
        ({"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}, []),
        ({"rollingUpdate": {"maxUnavailable": 1, "maxSurge": "5%"}}, [".rollingUpdate.maxSurge"]),
        ({"rollingUpdate": {"maxUnavailable": "101%"}}, [".rollingUpdate.maxUnavailable"]),
        ({"rollingUpdate": {"maxUnavailable": 0, "maxSurge": "101%"}}, [".rollingUpdate.maxSurge"]),
        ({"rollingUpdate": {"maxUnavailable": -1}}, [".rollingUpdate.maxUnavailable"]),
    ],
)
def test_create_reports_invalid_update_strategies(
    kinds: Definitions, strategy: Any, expected: list[str]
) -> None:
    causes = kinds.create_causes(PLURAL, workload(updateStrategy=strategy))
    assert [field for field, _ in causes] == [f"spec.updateStrategy{part}" for part in expected]


@cases(
    ("spec", "wrong"),
    [
        ({"selector": None}, ["template.metadata.labels"]),
        ({"selector": {}}, ["selector"]),
        ({"selector": {"matchLabels": {"app": "y"}}}, ["template.metadata.labels"]),
        ({"minReadySeconds": -1}, ["minReadySeconds"]),
        ({"revisionHistoryLimit": -1}, ["revisionHistoryLimit"]),
        ({"template": template(restartPolicy="OnFailure")}, ["template.spec.restartPolicy"]),
        ({"template": template(activeDeadlineSeconds=5)}, ["template.spec.activeDeadlineSeconds"]),
        (
            {"template": template(volumes=[{"name": "v", "gcePersistentDisk": {"pdName": "d"}}])},
            ["template.spec.volumes[0].gcePersistentDisk.readOnly"],
        ),
    ],
)
def test_create_reports_invalid_fields(kinds: Definitions, spec: Any, wrong: list[str]) -> None:
    causes = kinds.create_causes(PLURAL, workload(**spec))
    assert [field for field, _ in causes] == [f"spec.{part}" for part in wrong]


def test_selector_is_immutable(kinds: Definitions) -> None:
    labels = {"b": "c"}
    after = workload(selector={"matchLabels": labels}, template=template(labels))
    assert [field for field, _ in kinds.update(PLURAL, workload(), after)[1]] == ["spec.selector"]


def test_status_update_validates_counts(kinds: Definitions) -> None:
    right = with_status(workload(minReadySeconds=9), numberReady=3, desiredNumberScheduled=1)
    new, causes = kinds.update(PLURAL, workload(), right, "status")
    assert causes == [] and "minReadySeconds" not in new["spec"] and new["status"]["numberReady"] == 3
    wrong = with_status(workload(), numberReady=-1, numberUnavailable=-1, collisionCount=-1)
    assert [field for field, _ in kinds.update(PLURAL, workload(), wrong, "status")[1]] == [
        *("status.numberReady", "status.numberUnavailable", "status.collisionCount")
    ]


def test_only_a_changed_template_causes_warnings(kinds: Definitions) -> None:
    with_git_repo = workload(template=template(volumes=[{"name": "v", "gitRepo": {"repository": "r"}}]))
    definition = kinds[PLURAL]
    new, _ = kinds.update(
        PLURAL, with_git_repo, {**with_git_repo, "spec": {**with_git_repo["spec"], "minReadySeconds": 1}}
    )
    assert definition.strategy.warnings(new, kinds.stored(PLURAL, with_git_repo)) == []
    assert len(definition.strategy.warnings(new, None)) == 1


def test_table_cells_are_computed_from_the_object(kinds: Definitions) -> None:
    stored = kinds.stored(PLURAL, workload(template=template(nodeSelector={"no": "where"})))
    cells = {column.name: column.cell(stored, 0) for column in DAEMON_SET_COLUMNS}
    assert [cells[name] for name in ("Desired", "Current", "Ready", "Up-to-date", "Available")] == [0] * 5
    assert (cells["Node Selector"], cells["Selector"]) == ("no=where", "app=x")
    assert DAEMON_SET_COLUMNS[6].cell(kinds.stored(PLURAL, workload()), 0) == "<none>"
