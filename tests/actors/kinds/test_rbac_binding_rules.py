"""Bindings: an immutable reference to a role, and subjects, which may change."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.names import Names
from tests.actors.kinds.definitions import Definitions
from tests.cases import cases


def binding(role: Any = None, *subjects: Any) -> dict[str, Any]:
    role = {"kind": "ClusterRole", "name": "r"} if role is None else role
    return {"metadata": {"name": "a"}, "roleRef": role, "subjects": list(subjects)}


@pytest.fixture
def group(names: Names) -> str:
    return names.group("rbac.authorization")


def test_create_sets_defaults(kinds: Definitions, group: str) -> None:
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
def test_create_reports_an_invalid_role_ref(
    kinds: Definitions, group: str, plural: str, supported: str
) -> None:
    def causes_of_create(**role: str) -> list[tuple[str, str]]:
        return kinds.create_causes(plural, binding({"kind": "ClusterRole", "name": "r", **role}))

    assert causes_of_create() == []
    assert causes_of_create(apiGroup="apps") == [
        ("roleRef.apiGroup", f'Unsupported value: "apps": supported values: "{group}"')
    ]
    assert causes_of_create(kind="Pod") == [
        ("roleRef.kind", f'Unsupported value: "Pod": supported values: {supported}')
    ]
    assert causes_of_create(name="") == [("roleRef.name", "Required value")]
    assert causes_of_create(name="a/b") == [("roleRef.name", "Invalid value: \"a/b\": may not contain '/'")]
    assert [field for field, _ in kinds.create_causes(plural, {"metadata": {"name": "a"}})] == [
        "roleRef.kind",
        "roleRef.name",
    ]


def test_only_role_bindings_may_refer_to_a_role(kinds: Definitions) -> None:
    refers = binding({"kind": "Role", "name": "r"})
    assert kinds.create_causes("rolebindings", refers) == []
    assert kinds.create_causes("clusterrolebindings", refers) == [
        ("roleRef.kind", 'Unsupported value: "Role": supported values: "ClusterRole"')
    ]


SUPPORTED = 'supported values: "ServiceAccount", "User", "Group"'


@cases(
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
def test_create_reports_invalid_subjects(
    kinds: Definitions, subject: Any, expected: list[tuple[str, str]]
) -> None:
    for plural in ("rolebindings", "clusterrolebindings"):
        assert kinds.create_causes(plural, binding(None, {"kind": "Group", "name": "g"}, subject)) == [
            (f"subjects[1].{field}", message) for field, message in expected
        ]


def test_service_account_subjects_are_validated(kinds: Definitions) -> None:
    without_namespace = binding(None, {"kind": "ServiceAccount", "name": "s"})
    assert kinds.create_causes("rolebindings", without_namespace) == []
    assert kinds.create_causes("clusterrolebindings", without_namespace) == [
        ("subjects[0].namespace", "Required value")
    ]
    named = binding(None, {"kind": "ServiceAccount", "name": "No_Name", "namespace": "n"})
    assert [field for field, _ in kinds.create_causes("rolebindings", named)] == ["subjects[0].name"]


def test_users_and_groups_must_have_the_rbac_api_group(kinds: Definitions, group: str) -> None:
    for kind in ("User", "Group"):
        wrong = binding(None, {"kind": kind, "name": "x", "apiGroup": "apps"})
        assert kinds.create_causes("rolebindings", wrong) == [
            ("subjects[0].apiGroup", f'Unsupported value: "apps": supported values: "{group}"')
        ]


@cases("plural", ["rolebindings", "clusterrolebindings"])
def test_role_ref_is_immutable_and_subjects_are_not(kinds: Definitions, plural: str) -> None:
    before = binding(None, {"kind": "User", "name": "u"})
    assert kinds.update(plural, before, binding(None, {"kind": "Group", "name": "g"}))[1] == []
    _, causes = kinds.update(plural, before, binding({"kind": "ClusterRole", "name": "other"}))
    assert [field for field, _ in causes] == ["roleRef"]
    assert causes[0][1].endswith(": cannot change roleRef")
