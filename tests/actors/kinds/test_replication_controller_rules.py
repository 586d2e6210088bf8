"""ReplicationController: selector and labels from its template, counts, and its pods."""

from __future__ import annotations

from typing import Any

from tests.actors.kinds.definitions import Definitions, distinct
from tests.actors.kinds.pods import CONTAINER
from tests.cases import cases

LABELS = {"app": "x"}


def controller(spec: Any = None, pods: Any = None, **parts: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [CONTAINER], **(pods or {})}}
    return {"metadata": {"name": "a"}, "spec": {"template": template, **(spec or {})}, **parts}


def create_causes(kinds: Definitions, spec: Any = None, pods: Any = None) -> list[tuple[str, str]]:
    return distinct(kinds.create_causes("replicationcontrollers", controller(spec, pods)))


def test_labels_and_selector_default_to_the_labels_of_the_template(kinds: Definitions) -> None:
    decoded = kinds.decode("replicationcontrollers", controller())
    assert decoded["metadata"]["labels"] == decoded["spec"]["selector"] == LABELS
    assert decoded["spec"]["replicas"] == 1
    assert list(decoded["spec"]) == ["replicas", "selector", "template"]
    own = controller({"selector": {"a": "b"}})
    own["metadata"]["labels"] = {"c": "d"}
    decoded = kinds.decode("replicationcontrollers", own)
    assert (decoded["metadata"]["labels"], decoded["spec"]["selector"]) == ({"c": "d"}, {"a": "b"})


def test_update_warns_about_the_template_that_it_replaces(kinds: Definitions) -> None:
    aliases = {"hostAliases": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.1"}]}
    doubtful = kinds.stored("replicationcontrollers", controller(pods=aliases))
    fine = kinds.stored("replicationcontrollers", controller())
    changed = {**fine, "metadata": {**fine["metadata"], "generation": 2}}
    warnings, text = (
        kinds["replicationcontrollers"].strategy.warnings,
        'spec.hostAliases[1].ip: duplicate ip "10.0.0.1"',
    )
    assert warnings(doubtful, None) == [f"template.{text}"]
    assert warnings(changed, doubtful) == [f"spec.template.{text}"]
    again = {**doubtful, "metadata": {**doubtful["metadata"], "generation": 2}}
    assert warnings(again, fine) == warnings(doubtful, doubtful) == []


def test_updates_change_generation_or_status(kinds: Definitions) -> None:
    stored = kinds.stored("replicationcontrollers", controller(status={"replicas": 5}))
    assert stored["status"] == {"replicas": 0} and stored["metadata"]["generation"] == 1
    more, causes = kinds.update("replicationcontrollers", controller(), controller({"replicas": 2}))
    assert causes == [] and more["metadata"]["generation"] == 2
    sent = controller({"replicas": 9}, status={"replicas": 2})
    status, causes = kinds.update("replicationcontrollers", controller(), sent, "status")
    assert causes == []
    assert (status["spec"]["replicas"], status["status"]["replicas"]) == (1, 2)


@cases(
    ("spec", "causes"),
    [
        ({"replicas": 0}, []),
        (
            {"replicas": -1},
            [("spec.replicas", "Invalid value: -1: must be greater than or equal to 0")],
        ),
        (
            {"minReadySeconds": -1},
            [("spec.minReadySeconds", "Invalid value: -1: must be greater than or equal to 0")],
        ),
        (
            {"selector": {"app": "y"}},
            [
                (
                    "spec.template.metadata.labels",
                    'Invalid value: map[string]string{"app":"x"}: `selector` does not match template `labels`',
                )
            ],
        ),
        (
            {"template": None},
            [("spec.selector", "Required value"), ("spec.template", "Required value")],
        ),
    ],
)
def test_create_reports_invalid_fields(kinds: Definitions, spec: Any, causes: list[tuple[str, str]]) -> None:
    assert create_causes(kinds, spec) == causes


def test_pods_of_the_template_are_validated(kinds: Definitions) -> None:
    path = "spec.template.spec"
    assert create_causes(kinds, pods={"restartPolicy": "Never"}) == [
        (f"{path}.restartPolicy", 'Unsupported value: "Never": supported values: "Always"')
    ]
    assert create_causes(kinds, pods={"activeDeadlineSeconds": 5}) == [
        (
            f"{path}.activeDeadlineSeconds",
            "Forbidden: activeDeadlineSeconds in ReplicationController is not Supported",
        )
    ]
    disk = {"volumes": [{"name": "v", "gcePersistentDisk": {"pdName": "d"}}]}
    assert create_causes(kinds, pods=disk) == []
    ((field, text),) = create_causes(kinds, {"replicas": 2}, disk)
    assert field == f"{path}.volumes[0].gcePersistentDisk.readOnly"
    assert text.startswith("Invalid value: false: must be true for replicated pods > 1;")


@cases(
    ("status", "causes"),
    [
        ({"replicas": 3, "readyReplicas": 2, "availableReplicas": 1, "fullyLabeledReplicas": 3}, []),
        (
            {"replicas": -1},
            ["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
        ),
        ({"replicas": 1, "readyReplicas": 2}, ["readyReplicas"]),
        ({"replicas": 1, "fullyLabeledReplicas": 2}, ["fullyLabeledReplicas"]),
        ({"replicas": 3, "readyReplicas": 1, "availableReplicas": 2}, ["availableReplicas"]),
        ({"replicas": 1, "availableReplicas": 2}, ["availableReplicas", "availableReplicas"]),
        ({"replicas": 0, "observedGeneration": -1}, ["observedGeneration"]),
    ],
)
def test_status_update_validates_counts(kinds: Definitions, status: Any, causes: list[str]) -> None:
    _, found = kinds.update("replicationcontrollers", controller(), controller(status=status), "status")
    assert [field for field, _ in found] == [f"status.{part}" for part in causes]
