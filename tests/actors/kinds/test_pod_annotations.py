"""Pod: annotations that the server reads."""

from __future__ import annotations

from typing import Any

from rewound.actors.kinds.built_in import built_in
from rewound.actors.names import KUBERNETES, Names
from rewound.actors.versions.features import choose_release
from tests.actors.kinds.definitions import Definitions
from tests.actors.kinds.pods import CONTAINER, create_causes, pod, update_causes
from tests.cases import cases

ANNOTATIONS = "metadata.annotations"
LOCAL = {"type": "Localhost", "localhostProfile": "x"}


def annotation_causes(kinds: Definitions, key: str, value: str, **spec: Any) -> list[tuple[str, str]]:
    return create_causes(kinds, metadata={"annotations": {key: value}}, **spec)


def test_mirror_pod_needs_a_node_name(kinds: Definitions, names: Names) -> None:
    key = names.key("config.mirror")
    assert annotation_causes(kinds, key, "x", nodeName="n") == []
    assert annotation_causes(kinds, key, "x") == [
        (
            f"{ANNOTATIONS}[{key}]",
            'Invalid value: "x": must set spec.nodeName if mirror pod annotation is set',
        )
    ]


def test_tolerations_in_the_annotation_are_validated(kinds: Definitions, names: Names) -> None:
    key = names.key("tolerations", "scheduler.alpha")
    assert annotation_causes(kinds, key, '[{"key":"a","operator":"Exists"}]') == []
    assert [field for field, _ in annotation_causes(kinds, key, "[{}]")] == [
        f"{ANNOTATIONS}.{key}[0].operator"
    ]
    for bad in ("{", "1", '[{"key":1}]', "[1]"):
        ((field, text),) = annotation_causes(kinds, key, bad)
        assert (field, text.split(":")[0]) == (ANNOTATIONS, "Invalid value")


@cases(
    ("cost", "valid"),
    [
        *(("0", True), ("-5", True), ("2147483647", True), ("-2147483648", True), ("-0", True)),
        *(("+1", False), ("08", False), ("2147483648", False), ("x", False), ("", False), ("1.5", False)),
    ],
)
def test_deletion_cost_is_a_32_bit_integer_unless_it_is_stored_already(
    kinds: Definitions, names: Names, cost: str, valid: bool
) -> None:
    key = names.key("pod-deletion-cost", "controller")
    expected = [(f"{ANNOTATIONS}[{key}]", f'Invalid value: "{cost}": must be a 32bit integer')]
    assert annotation_causes(kinds, key, cost) == ([] if valid else expected)
    document = pod(metadata={"annotations": {key: cost}})
    assert update_causes(kinds, document, document) == []


@cases(
    ("profile", "text"),
    [
        ("runtime/default", ""),
        ("docker/default", ""),
        ("unconfined", ""),
        ("localhost/a/b", ""),
        ("localhost//b", 'Invalid value: "/b": must be a relative path'),
        ("x", 'Invalid value: "x": must be a valid seccomp profile'),
    ],
)
def test_seccomp_profiles_in_annotations_are_validated(
    kinds: Definitions, names: Names, profile: str, text: str
) -> None:
    for key in (
        names.key("pod", "seccomp.security.alpha"),
        names.key("c", "container.seccomp.security.alpha"),
    ):
        # An invalid annotation also makes the field invalid that create copies it to.
        own = [cause for cause in annotation_causes(kinds, key, profile) if cause[0].startswith(ANNOTATIONS)]
        assert own == ([(f"{ANNOTATIONS}.{key}", text)] if text else [])


def test_create_copies_seccomp_profiles_from_annotations_to_fields(kinds: Definitions, names: Names) -> None:
    annotations = {
        names.key("pod", "seccomp.security.alpha"): "runtime/default",
        names.key("c", "container.seccomp.security.alpha"): "localhost/p",
    }
    stored = kinds.stored("pods", pod(metadata={"annotations": annotations}))
    assert stored["spec"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert stored["spec"]["containers"][0]["securityContext"] == {
        "seccompProfile": {"type": "Localhost", "localhostProfile": "p"}
    }


@cases(
    ("profile", "annotation", "cause"),
    [
        ({"type": "RuntimeDefault"}, "docker/default", None),
        ({"type": "Unconfined"}, "unconfined", None),
        ({"type": "Localhost", "localhostProfile": "a"}, "localhost/a", None),
        ({"type": "RuntimeDefault"}, "unconfined", "type"),
        ({"type": "Unconfined"}, "localhost/a", "type"),
        ({"type": "Localhost", "localhostProfile": "a"}, "unconfined", "type"),
        ({"type": "Localhost", "localhostProfile": "a"}, "localhost/b", "localhostProfile"),
    ],
)
def test_seccomp_annotation_and_field_must_match(
    kinds: Definitions, names: Names, profile: Any, annotation: str, cause: str | None
) -> None:
    context, path = {"seccompProfile": profile}, "securityContext.seccompProfile"
    what = "type" if cause == "type" else "profile"
    text = f"Forbidden: seccomp {what} in annotation and field must match"
    key = names.key("pod", "seccomp.security.alpha")
    expected = [(f"spec.{path}.{cause}", text)] if cause else []
    assert annotation_causes(kinds, key, annotation, securityContext=context) == expected
    key = names.key("c", "container.seccomp.security.alpha")
    expected = [(f"spec.containers[0].{path}.{cause}", text)] if cause else []
    container = {**CONTAINER, "securityContext": context}
    assert annotation_causes(kinds, key, annotation, containers=[container]) == expected


def test_apparmor_annotation_names_a_container_and_a_profile(kinds: Definitions, names: Names) -> None:
    prefix = "container.apparmor.security.beta"
    assert annotation_causes(kinds, names.key("c", prefix), "localhost/x") == []
    assert annotation_causes(kinds, names.key("c", prefix), "runtime/default") == []
    key = names.key("zz", prefix)
    assert annotation_causes(kinds, key, "other") == [
        (f"{ANNOTATIONS}[{key}]", 'Invalid value: "zz": container not found'),
        (f"{ANNOTATIONS}[{key}]", 'Invalid value: "other": invalid AppArmor profile name: "other"'),
    ]


def test_update_cannot_change_apparmor_and_mirror_annotations(kinds: Definitions, names: Names) -> None:
    for key, what in (
        (names.key("c", "container.apparmor.security.beta"), "AppArmor annotations"),
        (names.key("config.mirror"), "mirror pod annotation"),
    ):
        plain = pod(nodeName="n")
        annotated = pod(metadata={"annotations": {key: "unconfined"}}, nodeName="n")
        other = pod(metadata={"annotations": {key: "runtime/default"}}, nodeName="n")
        change = (f"{ANNOTATIONS}[{key}]", f"Forbidden: may not remove or update {what}")
        assert update_causes(kinds, annotated, plain) == [change]
        assert update_causes(kinds, annotated, other) == [change]
        assert update_causes(kinds, plain, annotated) == [
            (f"{ANNOTATIONS}[{key}]", f"Forbidden: may not add {what}")
        ]
        assert update_causes(kinds, plain, annotated, "status") == update_causes(kinds, plain, annotated)


@cases("version, annotated", [("1.30", True), ("1.33", True), ("1.34", False)])
def test_fields_of_apparmor_profiles_become_annotations_in_some_versions(
    version: str, annotated: bool
) -> None:
    definitions = Definitions(built_in(KUBERNETES, choose_release(version)))
    containers = [
        {**CONTAINER, "name": "a", "securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}},
        {**CONTAINER, "name": "b", "securityContext": {"appArmorProfile": LOCAL}},
        {**CONTAINER, "name": "c"},
    ]
    context = {"appArmorProfile": {"type": "Unconfined"}}
    new = definitions.stored("pods", pod(containers=containers, securityContext=context))
    found = {key.rpartition("/")[2]: text for key, text in new["metadata"].get("annotations", {}).items()}
    expected = {"a": "runtime/default", "b": "localhost/x", "c": "unconfined"}
    assert found == (expected if annotated else {})
