"""Pod: annotations that the server reads."""

from __future__ import annotations

from typing import Any

import pytest

from actors.names import Names
from tests.actors.kinds.declared import Declared
from tests.actors.kinds.pods import CONTAINER, changed, pod, wrong

PLACE = "metadata.annotations"


def noted(kinds: Declared, key: str, value: str, **spec: Any) -> list[tuple[str, str]]:
    return wrong(kinds, metadata={"annotations": {key: value}}, **spec)


def test_mirrors_are_on_a_node(kinds: Declared, names: Names) -> None:
    key = names.key("config.mirror")
    assert noted(kinds, key, "x", nodeName="n") == []
    assert noted(kinds, key, "x") == [
        (
            f"{PLACE}[{key}]",
            'Invalid value: "x": must set spec.nodeName if mirror pod annotation is set',
        )
    ]


def test_tolerations_in_an_annotation(kinds: Declared, names: Names) -> None:
    key = names.key("tolerations", "scheduler.alpha")
    assert noted(kinds, key, '[{"key":"a","operator":"Exists"}]') == []
    assert [field for field, _ in noted(kinds, key, "[{}]")] == [f"{PLACE}.{key}[0].operator"]
    for bad in ("{", "1", '[{"key":1}]', "[1]"):
        ((field, text),) = noted(kinds, key, bad)
        assert (field, text.split(":")[0]) == (PLACE, "Invalid value")


@pytest.mark.parametrize(
    ("cost", "sound"),
    [
        *(("0", True), ("-5", True), ("2147483647", True), ("-2147483648", True), ("-0", True)),
        *(("+1", False), ("08", False), ("2147483648", False), ("x", False), ("", False), ("1.5", False)),
    ],
)
def test_the_cost_of_deletion(kinds: Declared, names: Names, cost: str, sound: bool) -> None:
    key = names.key("pod-deletion-cost", "controller")
    expected = [(f"{PLACE}[{key}]", f'Invalid value: "{cost}": must be a 32bit integer')]
    assert noted(kinds, key, cost) == ([] if sound else expected)
    document = pod(metadata={"annotations": {key: cost}})
    assert changed(kinds, document, document) == []


@pytest.mark.parametrize(
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
def test_seccomp_profiles(kinds: Declared, names: Names, profile: str, text: str) -> None:
    for key in (
        names.key("pod", "seccomp.security.alpha"),
        names.key("c", "container.seccomp.security.alpha"),
    ):
        # What is wrong with the annotation is wrong with the field it becomes.
        own = [cause for cause in noted(kinds, key, profile) if cause[0].startswith(PLACE)]
        assert own == ([(f"{PLACE}.{key}", text)] if text else [])


def test_profiles_in_annotations_become_fields(kinds: Declared, names: Names) -> None:
    annotations = {
        names.key("pod", "seccomp.security.alpha"): "runtime/default",
        names.key("c", "container.seccomp.security.alpha"): "localhost/p",
    }
    stored = kinds.stored("pods", pod(metadata={"annotations": annotations}))
    assert stored["spec"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert stored["spec"]["containers"][0]["securityContext"] == {
        "seccompProfile": {"type": "Localhost", "localhostProfile": "p"}
    }


@pytest.mark.parametrize(
    ("profile", "note", "cause"),
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
def test_annotation_and_field_agree(
    kinds: Declared, names: Names, profile: Any, note: str, cause: str | None
) -> None:
    context, place = {"seccompProfile": profile}, "securityContext.seccompProfile"
    what = "type" if cause == "type" else "profile"
    text = f"Forbidden: seccomp {what} in annotation and field must match"
    key = names.key("pod", "seccomp.security.alpha")
    expected = [(f"spec.{place}.{cause}", text)] if cause else []
    assert noted(kinds, key, note, securityContext=context) == expected
    key = names.key("c", "container.seccomp.security.alpha")
    expected = [(f"spec.containers[0].{place}.{cause}", text)] if cause else []
    container = {**CONTAINER, "securityContext": context}
    assert noted(kinds, key, note, containers=[container]) == expected


def test_apparmor_profiles(kinds: Declared, names: Names) -> None:
    prefix = "container.apparmor.security.beta"
    assert noted(kinds, names.key("c", prefix), "localhost/x") == []
    assert noted(kinds, names.key("c", prefix), "runtime/default") == []
    key = names.key("zz", prefix)
    assert noted(kinds, key, "other") == [
        (f"{PLACE}[{key}]", 'Invalid value: "zz": container not found'),
        (f"{PLACE}[{key}]", 'Invalid value: "other": invalid AppArmor profile name: "other"'),
    ]


def test_some_are_for_life(kinds: Declared, names: Names) -> None:
    for key, what in (
        (names.key("c", "container.apparmor.security.beta"), "AppArmor annotations"),
        (names.key("config.mirror"), "mirror pod annotation"),
    ):
        plain = pod(nodeName="n")
        noted = pod(metadata={"annotations": {key: "unconfined"}}, nodeName="n")
        other = pod(metadata={"annotations": {key: "runtime/default"}}, nodeName="n")
        change = (f"{PLACE}[{key}]", f"Forbidden: may not remove or update {what}")
        assert changed(kinds, noted, plain) == [change]
        assert changed(kinds, noted, other) == [change]
        assert changed(kinds, plain, noted) == [(f"{PLACE}[{key}]", f"Forbidden: may not add {what}")]
        assert changed(kinds, plain, noted, "status") == changed(kinds, plain, noted)
