"""StatefulSet: every documented field, mutable fields, features that are off, status and scale."""

from __future__ import annotations

from typing import Any

from rewound.actors.kinds import apps
from rewound.actors.kinds.apps import AUTO_DELETE, MAX_UNAVAILABLE, STATEFUL_SET_COLUMNS
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.names import Names
from tests.actors.kinds.definitions import Causes, Definitions, create
from tests.actors.kinds.workload import template, with_status, workload
from tests.cases import cases

PLURAL = "statefulsets"
CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
IMMUTABLE_TEXT = (
    "Forbidden: updates to statefulset spec for fields other than 'replicas', 'template', 'updateStrategy', "
    "'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


def stateful(**spec: Any) -> dict[str, Any]:
    return workload(**{"serviceName": "svc", **spec})


def featured(kinds: Definitions, names: Names, *features: str) -> Definition:
    return apps.define_stateful_set(names, frozenset(features))


def created(definition: Definition, document: dict[str, Any]) -> tuple[dict[str, Any], Causes]:
    return create(definition, definition.schema.decode_object(document).object)


def test_create_sets_defaults(kinds: Definitions) -> None:
    stored = kinds.stored(PLURAL, with_status(stateful(), replicas=3))
    spec = stored["spec"]
    assert list(spec) == [
        *("replicas", "selector", "template", "serviceName", "podManagementPolicy", "updateStrategy"),
        "revisionHistoryLimit",
    ]
    assert (spec["replicas"], spec["podManagementPolicy"], spec["revisionHistoryLimit"]) == (
        1,
        "OrderedReady",
        10,
    )
    assert spec["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
    assert stored["status"] == {"replicas": 0, "availableReplicas": 0}
    assert stored["metadata"]["generation"] == 1
    assert kinds.create_causes(PLURAL, stateful()) == []


def test_service_name_is_required(kinds: Definitions) -> None:
    assert kinds.create_causes(PLURAL, workload()) == [("spec.serviceName", "Required value")]
    assert kinds.create_causes(PLURAL, stateful(serviceName="")) == [("spec.serviceName", "Required value")]


def test_volume_claim_templates_get_defaults(kinds: Definitions) -> None:
    of_other_kind = {**CLAIM, "kind": "Other", "apiVersion": "v7"}
    stored = kinds.stored(PLURAL, stateful(volumeClaimTemplates=[of_other_kind]))
    assert stored["spec"]["volumeClaimTemplates"] == [
        {
            "kind": "PersistentVolumeClaim",
            "apiVersion": "v1",
            "metadata": {"name": "data", "creationTimestamp": None},
            "spec": {**CLAIM["spec"], "volumeMode": "Filesystem"},
            "status": {"phase": "Pending"},
        }
    ]


def test_unknown_pod_management_policy_is_refused(kinds: Definitions) -> None:
    assert kinds.create_causes(PLURAL, stateful(podManagementPolicy="Parallel")) == []
    assert kinds.create_causes(PLURAL, stateful(podManagementPolicy="Random")) == [
        ("spec.podManagementPolicy", "Invalid value: \"Random\": must be 'OrderedReady' or 'Parallel'")
    ]


def test_update_strategy_gets_defaults(kinds: Definitions) -> None:
    def strategy(**sent: Any) -> Any:
        return kinds.stored(PLURAL, stateful(updateStrategy=sent))["spec"]["updateStrategy"]

    assert strategy(rollingUpdate={"partition": 3}) == {
        "type": "RollingUpdate",
        "rollingUpdate": {"partition": 3},
    }
    assert strategy(type="RollingUpdate") == {"type": "RollingUpdate"}
    assert strategy(type="OnDelete") == {"type": "OnDelete"}


@cases(
    ("spec", "wrong"),
    [
        ({"updateStrategy": {"type": "Recreate"}}, ["updateStrategy"]),
        (
            {"updateStrategy": {"type": "OnDelete", "rollingUpdate": {"partition": 1}}},
            ["updateStrategy.rollingUpdate"],
        ),
        (
            {"updateStrategy": {"rollingUpdate": {"partition": -1}}},
            ["updateStrategy.rollingUpdate.partition"],
        ),
        ({"replicas": -1}, ["replicas"]),
        ({"minReadySeconds": -1}, ["minReadySeconds"]),
        ({"selector": None}, ["selector", "template.metadata.labels"]),
        ({"selector": {}}, ["selector"]),
        ({"selector": {"matchLabels": {"app": "y"}}}, ["template.metadata.labels"]),
        ({"selector": {"matchLabels": {"-": "y"}}}, ["selector.matchLabels", "selector"]),
        ({"template": template({"app": "x", "y": "no good"})}, ["template.labels"]),
        ({"template": template(restartPolicy="Never")}, ["template.spec.restartPolicy"]),
        ({"template": template(activeDeadlineSeconds=5)}, ["template.spec.activeDeadlineSeconds"]),
        ({"template": template(containers=[])}, []),
    ],
)
def test_create_reports_invalid_fields(kinds: Definitions, spec: Any, wrong: list[str]) -> None:
    causes = kinds.create_causes(PLURAL, stateful(**spec))
    assert [field for field, _ in causes] == [f"spec.{part}" for part in wrong]


@cases(
    "spec",
    [
        {"serviceName": "other"},
        {"podManagementPolicy": "Parallel"},
        {"revisionHistoryLimit": 1},
        {"volumeClaimTemplates": [CLAIM]},
        {"selector": {"matchLabels": {"b": "c"}}, "template": template({"b": "c"})},
    ],
)
def test_update_of_immutable_field_is_refused(kinds: Definitions, spec: Any) -> None:
    assert kinds.update(PLURAL, stateful(), stateful(**spec))[1] == [("spec", IMMUTABLE_TEXT)]


@cases(
    "spec",
    [
        {"replicas": 3},
        {"template": template(terminationGracePeriodSeconds=1)},
        {"updateStrategy": {"type": "OnDelete"}},
        {"minReadySeconds": 4},
    ],
)
def test_update_of_mutable_field_is_valid(kinds: Definitions, spec: Any) -> None:
    new, causes = kinds.update(PLURAL, stateful(), stateful(**spec))
    assert causes == [] and new["metadata"]["generation"] == 2


def test_fields_of_disabled_features_are_dropped(kinds: Definitions) -> None:
    gated = stateful(
        persistentVolumeClaimRetentionPolicy={"whenDeleted": "Delete"},
        updateStrategy={"rollingUpdate": {"maxUnavailable": 2}},
    )
    for spec in (kinds.stored(PLURAL, gated)["spec"], kinds.update(PLURAL, stateful(), gated)[0]["spec"]):
        assert "persistentVolumeClaimRetentionPolicy" not in spec
        assert spec["updateStrategy"]["rollingUpdate"] == {"partition": 0}


def test_claim_retention_policy_defaults_to_retain_with_its_feature(kinds: Definitions, names: Names) -> None:
    definition = featured(kinds, names, AUTO_DELETE)
    part = "persistentVolumeClaimRetentionPolicy"
    assert created(definition, stateful())[0]["spec"][part] == {
        "whenDeleted": "Retain",
        "whenScaled": "Retain",
    }
    sent = stateful(**{part: {"whenDeleted": "Delete"}})
    assert created(definition, sent)[0]["spec"][part] == {"whenDeleted": "Delete", "whenScaled": "Retain"}
    _, causes = created(definition, stateful(**{part: {"whenScaled": "Burn"}}))
    assert causes == [
        (f"spec.{part}.whenScaled", 'Unsupported value: "Burn": supported values: "Retain", "Delete"')
    ]


@cases(
    ("max_unavailable", "texts"),
    [(1, []), ("50%", []), (0, ["cannot be 0"]), ("101%", ["must not be greater than 100%"])],
)
def test_max_unavailable_is_validated_with_its_feature(
    kinds: Definitions, names: Names, max_unavailable: Any, texts: list[str]
) -> None:
    definition = featured(kinds, names, MAX_UNAVAILABLE)
    assert created(definition, stateful())[0]["spec"]["updateStrategy"]["rollingUpdate"] == {
        "partition": 0,
        "maxUnavailable": 1,
    }
    _, causes = created(
        definition, stateful(updateStrategy={"rollingUpdate": {"maxUnavailable": max_unavailable}})
    )
    assert [message.rpartition(": ")[2] for _, message in causes] == texts


def test_status_subresource_changes_only_the_status(kinds: Definitions) -> None:
    found = with_status(
        stateful(replicas=9),
        replicas=3,
        readyReplicas=2,
        currentReplicas=1,
        currentRevision="a-1",
        updateRevision="a-2",
        observedGeneration=1,
        collisionCount=0,
        conditions=[{"type": "T", "status": "True", "reason": "r"}],
    )
    new, causes = kinds.update(PLURAL, stateful(), found, "status")
    assert causes == [] and new["spec"]["replicas"] == 1
    assert new["status"]["conditions"] == [
        {"type": "T", "status": "True", "lastTransitionTime": None, "reason": "r"}
    ]
    wrong = with_status(stateful(), replicas=1, currentReplicas=2, availableReplicas=1, observedGeneration=-1)
    assert kinds.update(PLURAL, stateful(), wrong, "status")[1] == [
        ("status.observedGeneration", "Invalid value: -1: must be greater than or equal to 0"),
        ("status.currentReplicas", "Invalid value: 2: cannot be greater than status.replicas"),
        ("status.availableReplicas", "Invalid value: 1: cannot be greater than status.readyReplicas"),
    ]


def test_delete_returns_a_status(kinds: Definitions) -> None:
    assert not kinds[PLURAL].deletion.returns_object
    assert {one.name: one.verbs for one in kinds[PLURAL].subresources} == {
        "scale": ("get", "patch", "update"),
        "status": ("get", "patch", "update"),
    }


def test_table_cells_are_computed_from_the_object(kinds: Definitions) -> None:
    two = template(containers=[{"name": "c1", "image": "i1"}, {"name": "c2", "image": "i2"}])
    stored = kinds.stored(PLURAL, stateful(replicas=0, template=two))
    cells = {column.name: column.cell(stored, 0) for column in STATEFUL_SET_COLUMNS}
    assert (cells["Ready"], cells["Containers"], cells["Images"]) == ("0/0", "c1,c2", "i1,i2")


def test_status_without_replicas_has_none(kinds: Definitions) -> None:
    sent = {**stateful(), "status": {"readyReplicas": 0}}
    new, causes = kinds.update(PLURAL, stateful(), sent, "status")
    assert (new["status"]["replicas"], causes) == (0, [])
