"""Pod: ephemeral containers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.actors.kinds.declared import Declared, replace
from tests.actors.kinds.pods import CONTAINER, pod

DEBUG = {"name": "d", "image": "dbg"}
NOT_ADDED = "Forbidden: cannot be set for an Ephemeral Container"


def added(
    kinds: Declared, *containers: dict[str, Any], before: Any = (), **spec: Any
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """A pod that had some containers added gets these instead, and what is wrong with that."""
    old = kinds.stored("pods", pod(**spec))
    if before:
        held = kinds.decode("pods", pod(ephemeralContainers=list(before)))
        old["spec"]["ephemeralContainers"] = held["spec"]["ephemeralContainers"]
    sent = pod(
        metadata={"labels": {"ignored": "x"}}, hostname="ignored", ephemeralContainers=list(containers)
    )
    new = kinds.decode("pods", sent)
    return replace(kinds["pods"], new, old, "ephemeralcontainers")


def test_only_the_added_containers_are_stored(kinds: Declared) -> None:
    new, causes = added(kinds, {**DEBUG, "targetContainerName": "c", "tty": True})
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


def test_they_stay_as_they_are(kinds: Declared) -> None:
    field = "spec.ephemeralContainers"
    assert added(kinds, DEBUG, before=[DEBUG])[1] == []
    assert added(kinds, {**DEBUG, "name": "e"}, DEBUG, before=[DEBUG])[1] == []
    assert added(kinds, before=[DEBUG])[1] == [
        (field, 'Forbidden: existing ephemeral containers "d" may not be removed\n')
    ]
    ((_, text),) = added(kinds, {**DEBUG, "image": "other"}, before=[DEBUG])[1]
    assert text.startswith('Forbidden: existing ephemeral containers "d" may not be changed\n')
    assert '- spec.ephemeralContainers.image: "dbg"\n' in text


@pytest.mark.parametrize(
    ("container", "causes"),
    [
        ({"name": "c", "image": "x"}, [("name", 'Duplicate value: "c"')]),
        (
            {"name": "f", "image": " x"},
            [("image", 'Invalid value: " x": must not have leading or trailing whitespace')],
        ),
        ({**DEBUG, "targetContainerName": "zz"}, [("targetContainerName", 'Not found: "zz"')]),
        ({**DEBUG, "ports": [{"containerPort": 1}]}, [("ports", NOT_ADDED)]),
        ({**DEBUG, "resources": {"limits": {"cpu": "1"}}}, [("resources", NOT_ADDED)]),
        ({**DEBUG, "livenessProbe": {}}, [("livenessProbe", NOT_ADDED)]),
        ({**DEBUG, "readinessProbe": {}}, [("readinessProbe", NOT_ADDED)]),
        ({**DEBUG, "startupProbe": {}}, [("startupProbe", NOT_ADDED)]),
        ({**DEBUG, "lifecycle": {"preStop": {}}}, [("lifecycle", NOT_ADDED)]),
        ({**DEBUG, "lifecycle": {}}, [("lifecycle", NOT_ADDED)]),
        (
            {**DEBUG, "volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "a"}]},
            [("volumeMounts[0].subPath", NOT_ADDED)],
        ),
        (
            {**DEBUG, "volumeMounts": [{"name": "v", "mountPath": "/v", "subPathExpr": "a"}]},
            [("volumeMounts[0].subPathExpr", NOT_ADDED)],
        ),
    ],
)
def test_what_they_cannot_have(kinds: Declared, container: Any, causes: list[tuple[str, str]]) -> None:
    expected = [(f"spec.ephemeralContainers[0].{field}", text) for field, text in causes]
    assert added(kinds, container, volumes=[{"name": "v"}])[1] == expected


def test_names_are_unique_among_them_too(kinds: Declared) -> None:
    assert added(kinds, DEBUG, DEBUG, initContainers=[{**CONTAINER, "name": "i"}])[1] == [
        ("spec.ephemeralContainers[1].name", 'Duplicate value: "d"')
    ]
