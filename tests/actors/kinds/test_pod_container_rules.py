"""Pod: containers, init containers and ephemeral containers: names, images, policies."""

from __future__ import annotations

from typing import Any

from tests.actors.kinds.definitions import Definitions
from tests.actors.kinds.pods import CONTAINER, LABEL, container_causes, create_causes, pod
from tests.cases import cases


@cases(
    ("parts", "causes"),
    [
        ({}, []),
        ({"name": ""}, [("name", "Required value")]),
        ({"name": "A_b"}, [("name", f'Invalid value: "A_b": {LABEL}')]),
        (
            {"name": "x" * 64},
            [("name", f'Invalid value: "{"x" * 64}": must be no more than 63 characters')],
        ),
        ({"image": ""}, [("image", "Required value")]),
        ({"image": " i"}, [("image", 'Invalid value: " i": must not have leading or trailing whitespace')]),
        (
            {"terminationMessagePolicy": "Never"},
            [
                (
                    "terminationMessagePolicy",
                    'Unsupported value: "Never": supported values: "File", "FallbackToLogsOnError"',
                )
            ],
        ),
        (
            {"imagePullPolicy": "Sometimes"},
            [
                (
                    "imagePullPolicy",
                    'Unsupported value: "Sometimes": supported values: "Always", "IfNotPresent", "Never"',
                )
            ],
        ),
    ],
)
def test_container_fields_are_validated(kinds: Definitions, parts: dict[str, Any], causes: Any) -> None:
    assert container_causes(kinds, **parts) == causes


def test_a_pod_needs_a_container(kinds: Definitions) -> None:
    assert create_causes(kinds, containers=[]) == [("spec.containers", "Required value")]
    document: Any = {"metadata": {"name": "a"}}
    assert kinds.create_causes("pods", document) == [("spec.containers", "Required value")]


def test_names_are_unique_among_main_and_init_containers(kinds: Definitions) -> None:
    other = {"name": "d", "image": "x:1"}
    assert create_causes(kinds, containers=[CONTAINER, CONTAINER]) == [
        ("spec.containers[1].name", 'Duplicate value: "c"')
    ]
    assert create_causes(kinds, initContainers=[CONTAINER, other, other]) == [
        ("spec.initContainers[0].name", 'Duplicate value: "c"'),
        ("spec.initContainers[2].name", 'Duplicate value: "d"'),
    ]


def test_images_in_templates_may_have_surrounding_whitespace(kinds: Definitions) -> None:
    container = {**CONTAINER, "image": " "}
    template = {"metadata": {"name": "a"}, "template": {"spec": {"containers": [container]}}}
    assert kinds.create_causes("podtemplates", template) == []


@cases("part", ["livenessProbe", "readinessProbe", "startupProbe", "lifecycle"])
def test_init_containers_have_no_probes_and_no_lifecycle(kinds: Definitions, part: str) -> None:
    probe = {"exec": {"command": ["x"]}}
    container = {"name": "i", "image": "x:1", part: {"preStop": probe} if part == "lifecycle" else probe}
    assert create_causes(kinds, initContainers=[container]) == [
        (f"spec.initContainers[0].{part}", "Forbidden: may not be set for init containers")
    ]


def test_init_containers_may_use_the_same_host_port(kinds: Definitions) -> None:
    ports = [{"containerPort": 80, "hostPort": 80}]
    containers = [{"name": name, "image": "x:1", "ports": ports} for name in ("i", "j")]
    assert create_causes(kinds, initContainers=containers) == []
    twice = [{**containers[0], "ports": ports * 2}]
    assert create_causes(kinds, initContainers=twice) == [
        ("spec.initContainers[0].ports[1].hostPort", 'Duplicate value: "TCP//80"')
    ]


def test_create_refuses_ephemeral_containers(kinds: Definitions) -> None:
    assert create_causes(kinds, ephemeralContainers=[{"name": "d", "image": "x"}]) == [
        ("spec.ephemeralContainers", "Forbidden: cannot be set on create")
    ]


def test_pod_name_is_a_dns_subdomain(kinds: Definitions) -> None:
    assert kinds.create_causes("pods", pod(metadata={"name": "a.b-c"})) == []
    assert [field for field, _ in kinds.create_causes("pods", pod(metadata={"name": "A"}))] == [
        "metadata.name"
    ]
