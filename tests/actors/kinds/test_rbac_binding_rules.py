"""Bindings: an immutable reference to a role, and subjects, which may change."""

from __future__ import annotations

from typing import Any

import pytest

from actors.names import Names
from tests.actors.kinds.declared import Declared


def binding(role: Any = None, *subjects: Any) -> dict[str, Any]:
    role = {"kind": "ClusterRole", "name": "r"} if role is None else role
    return {"metadata": {"name": "a"}, "roleRef": role, "subjects": list(subjects)}


@pytest.fixture
def group(names: Names) -> str:
    return names.group("rbac.authorization")


def test_defaults(kinds: Declared, group: str) -> None:
    sent = binding(
        None,
        {"kind": "User", "name": "u"},
        {"kind": "Group", "name": "g"},
        {"kind": "ServiceAccount", "name": "s", "namespace": "n"},
    )
    stored = kinds.decode("rolebindings", sent)
    assert stored["roleRef"] == {"apiGroup": group, "kind": "ClusterRole", "name": "r"}
    assert stored["subjects"] == [
        {"kind": "User", "apiGroup": group, "name": "u"},
        {"kind": "Group", "apiGroup": group, "name": "g"},
        {"kind": "ServiceAccount", "name": "s", "namespace": "n"},
    ]
    assert list(stored["subjects"][0]) == ["kind", "apiGroup", "name"]
    assert "subjects" not in kinds.decode("rolebindings", binding())


@pytest.mark.parametrize(
    ("plural", "supported"),
    [("rolebindings", '"Role", "ClusterRole"'), ("clusterrolebindings", '"ClusterRole"')],
)
def test_the_role_that_is_meant(kinds: Declared, group: str, plural: str, supported: str) -> None:
    def told(**role: str) -> list[tuple[str, str]]:
        return kinds.created(plural, binding({"kind": "ClusterRole", "name": "r", **role}))

    assert told() == []
    assert told(apiGroup="apps") == [
        ("roleRef.apiGroup", f'Unsupported value: "apps": supported values: "{group}"')
    ]
    assert told(kind="Pod") == [("roleRef.kind", f'Unsupported value: "Pod": supported values: {supported}')]
    assert told(name="") == [("roleRef.name", "Required value")]
    assert told(name="a/b") == [("roleRef.name", "Invalid value: \"a/b\": may not contain '/'")]
    assert [field for field, _ in kinds.created(plural, {"metadata": {"name": "a"}})] == [
        "roleRef.kind",
        "roleRef.name",
    ]


def test_only_a_binding_in_a_namespace_refers_to_a_role(kinds: Declared) -> None:
    refers = binding({"kind": "Role", "name": "r"})
    assert kinds.created("rolebindings", refers) == []
    assert kinds.created("clusterrolebindings", refers) == [
        ("roleRef.kind", 'Unsupported value: "Role": supported values: "ClusterRole"')
    ]


SUPPORTED = 'supported values: "ServiceAccount", "User", "Group"'


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        ({"kind": "User", "name": "any thing / at all"}, []),
        ({"kind": "User"}, [("name", "Required value")]),
        ({"kind": "Robot", "name": "r"}, [("kind", f'Unsupported value: "Robot": {SUPPORTED}')]),
        ({}, [("name", "Required value"), ("kind", f'Unsupported value: "": {SUPPORTED}')]),
        (
            {"kind": "ServiceAccount", "name": "s", "namespace": "n", "apiGroup": "apps"},
            [("apiGroup", 'Unsupported value: "apps": supported values: ""')],
        ),
    ],
)
def test_subjects(kinds: Declared, subject: Any, expected: list[tuple[str, str]]) -> None:
    for plural in ("rolebindings", "clusterrolebindings"):
        assert kinds.created(plural, binding(None, {"kind": "Group", "name": "g"}, subject)) == [
            (f"subjects[1].{field}", message) for field, message in expected
        ]


def test_accounts_need_names_and_somewhere_to_be(kinds: Declared) -> None:
    nowhere = binding(None, {"kind": "ServiceAccount", "name": "s"})
    assert kinds.created("rolebindings", nowhere) == []
    assert kinds.created("clusterrolebindings", nowhere) == [("subjects[0].namespace", "Required value")]
    named = binding(None, {"kind": "ServiceAccount", "name": "No_Name", "namespace": "n"})
    assert [field for field, _ in kinds.created("rolebindings", named)] == ["subjects[0].name"]


def test_users_and_groups_are_of_this_group(kinds: Declared, group: str) -> None:
    for kind in ("User", "Group"):
        wrong = binding(None, {"kind": kind, "name": "x", "apiGroup": "apps"})
        assert kinds.created("rolebindings", wrong) == [
            ("subjects[0].apiGroup", f'Unsupported value: "apps": supported values: "{group}"')
        ]


@pytest.mark.parametrize("plural", ["rolebindings", "clusterrolebindings"])
def test_the_role_stays_and_the_subjects_change(kinds: Declared, plural: str) -> None:
    before = binding(None, {"kind": "User", "name": "u"})
    assert kinds.replaced(plural, before, binding(None, {"kind": "Group", "name": "g"}))[1] == []
    _, causes = kinds.replaced(plural, before, binding({"kind": "ClusterRole", "name": "other"}))
    assert [field for field, _ in causes] == ["roleRef"]
    assert causes[0][1].endswith(": cannot change roleRef")
