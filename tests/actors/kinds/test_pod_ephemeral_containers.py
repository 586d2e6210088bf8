"""Pod: ephemeral containers."""

from __future__ import annotations

from typing import Any

from tests.actors.kinds.definitions import Definitions, replace
from tests.actors.kinds.pods import CONTAINER, pod
from tests.cases import cases

DEBUG = {"name": "d", "image": "dbg"}
FORBIDDEN = "Forbidden: cannot be set for an Ephemeral Container"


def replace_ephemeral_containers(
    kinds: Definitions, *containers: dict[str, Any], before: Any = (), **spec: Any
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Replace the ephemeral containers `before` of a pod by others: the new pod, and the causes of a refusal."""
    old = kinds.stored("pods", pod(**spec))
    if before:
        decoded = kinds.decode("pods", pod(ephemeralContainers=list(before)))
        old["spec"]["ephemeralContainers"] = decoded["spec"]["ephemeralContainers"]
    sent = pod(
        metadata={"labels": {"ignored": "x"}}, hostname="ignored", ephemeralContainers=list(containers)
    )
    new = kinds.decode("pods", sent)
    return replace(kinds["pods"], new, old, "ephemeralcontainers")


def test_subresource_changes_only_ephemeral_containers(kinds: Definitions) -> None:
    new, causes = replace_ephemeral_containers(kinds, {**DEBUG, "targetContainerName": "c", "tty": True})
    assert causes == []
    assert "labels" not in new["metadata"] and "hostname" not in new["spec"]
    assert new["spec"]["ephemeralContainers"] == [
        {
            "name": "d",
            "image": "dbg",
            "resources": {},
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "imagePullPolicy": "Always",
            "tty": True,
            "targetContainerName": "c",
        }
    ]
    assert list(new["spec"])[:2] == ["containers", "ephemeralContainers"]


def test_existing_ephemeral_containers_cannot_be_changed_or_removed(kinds: Definitions) -> None:
    field = "spec.ephemeralContainers"
    assert replace_ephemeral_containers(kinds, DEBUG, before=[DEBUG])[1] == []
    assert replace_ephemeral_containers(kinds, {**DEBUG, "name": "e"}, DEBUG, before=[DEBUG])[1] == []
    assert replace_ephemeral_containers(kinds, before=[DEBUG])[1] == [
        (field, 'Forbidden: existing ephemeral containers "d" may not be removed\n')
    ]
    ((_, text),) = replace_ephemeral_containers(kinds, {**DEBUG, "image": "other"}, before=[DEBUG])[1]
    assert text.startswith('Forbidden: existing ephemeral containers "d" may not be changed\n')
    assert '- spec.ephemeralContainers.image: "dbg"\n' in text


@cases(
    ("container", "causes"),
    [
        ({"name": "c", "image": "x"}, [("name", 'Duplicate value: "c"')]),
        (
            {"name": "f", "image": " x"},
            [("image", 'Invalid value: " x": must not have leading or trailing whitespace')],
        ),
        ({**DEBUG, "targetContainerName": "zz"}, [("targetContainerName", 'Not found: "zz"')]),
        ({**DEBUG, "ports": [{"containerPort": 1}]}, [("ports", FORBIDDEN)]),
        ({**DEBUG, "resources": {"limits": {"cpu": "1"}}}, [("resources", FORBIDDEN)]),
        ({**DEBUG, "livenessProbe": {}}, [("livenessProbe", FORBIDDEN)]),
        ({**DEBUG, "readinessProbe": {}}, [("readinessProbe", FORBIDDEN)]),
        ({**DEBUG, "startupProbe": {}}, [("startupProbe", FORBIDDEN)]),
        ({**DEBUG, "lifecycle": {"preStop": {}}}, [("lifecycle", FORBIDDEN)]),
        ({**DEBUG, "lifecycle": {}}, [("lifecycle", FORBIDDEN)]),
        (
            {**DEBUG, "volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "a"}]},
            [("volumeMounts[0].subPath", FORBIDDEN)],
        ),
        (
            {**DEBUG, "volumeMounts": [{"name": "v", "mountPath": "/v", "subPathExpr": "a"}]},
            [("volumeMounts[0].subPathExpr", FORBIDDEN)],
        ),
    ],
)
def test_ephemeral_containers_have_no_ports_probes_or_resources(
    kinds: Definitions, container: Any, causes: list[tuple[str, str]]
) -> None:
    expected = [(f"spec.ephemeralContainers[0].{field}", text) for field, text in causes]
    assert replace_ephemeral_containers(kinds, container, volumes=[{"name": "v"}])[1] == expected


def test_names_are_unique_among_ephemeral_containers(kinds: Definitions) -> None:
    assert replace_ephemeral_containers(kinds, DEBUG, DEBUG, initContainers=[{**CONTAINER, "name": "i"}])[
        1
    ] == [("spec.ephemeralContainers[1].name", 'Duplicate value: "d"')]
