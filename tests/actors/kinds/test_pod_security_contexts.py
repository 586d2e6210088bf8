"""Pod: security contexts."""

from __future__ import annotations

from typing import Any

from tests.actors.kinds.definitions import Definitions
from tests.actors.kinds.pods import container_causes, create_causes
from tests.cases import cases

IDS = "must be between 0 and 2147483647, inclusive"
SECCOMP: list[tuple[Any, list[tuple[str, str]]]] = [
    ({"type": "RuntimeDefault"}, []),
    ({"type": "Unconfined"}, []),
    ({"type": "Localhost", "localhostProfile": "a/b.json"}, []),
    ({}, [("type", "Required value: type is required when seccompProfile is set")]),
    (
        {"type": "Other"},
        [
            (
                "type",
                'Unsupported value: "Other": supported values: "Localhost", "RuntimeDefault", "Unconfined"',
            )
        ],
    ),
    (
        {"type": "Localhost"},
        [("localhostProfile", "Required value: must be set when seccomp type is Localhost")],
    ),
    (
        {"type": "Localhost", "localhostProfile": "/a"},
        [("localhostProfile", 'Invalid value: "/a": must be a relative path')],
    ),
    (
        {"type": "Localhost", "localhostProfile": "a/../b"},
        [("localhostProfile", "Invalid value: \"a/../b\": must not contain '..'")],
    ),
    (
        {"type": "Unconfined", "localhostProfile": "a"},
        [
            (
                "localhostProfile",
                'Invalid value: {"type":"Unconfined","localhostProfile":"a"}: '
                "can only be set when seccomp type is Localhost",
            )
        ],
    ),
]


@cases(("profile", "causes"), SECCOMP)
def test_seccomp_profiles_are_validated(
    kinds: Definitions, profile: Any, causes: list[tuple[str, str]]
) -> None:
    path = "securityContext.seccompProfile"
    context = {"seccompProfile": profile}
    expected = [(f"{path}.{field}", text) for field, text in causes]
    assert container_causes(kinds, securityContext=context) == expected
    assert create_causes(kinds, securityContext=context) == [
        (f"spec.{field}", text) for field, text in expected
    ]


@cases("part", ["runAsUser", "runAsGroup"])
@cases("number", [-1, 2**31])
def test_user_and_group_ids_are_validated(kinds: Definitions, part: str, number: int) -> None:
    path = f"securityContext.{part}"
    expected = [(path, f"Invalid value: {number}: {IDS}")]
    assert container_causes(kinds, securityContext={part: number}) == expected
    assert create_causes(kinds, securityContext={part: number}) == [(f"spec.{path}", expected[0][1])]
    assert create_causes(kinds, securityContext={part: 0}) == []


def test_groups_of_the_pod_are_validated(kinds: Definitions) -> None:
    context = {"fsGroup": -1, "supplementalGroups": [1, -2]}
    assert create_causes(kinds, securityContext=context) == [
        ("spec.securityContext.fsGroup", f"Invalid value: -1: {IDS}"),
        ("spec.securityContext.supplementalGroups[1]", f"Invalid value: -2: {IDS}"),
    ]
    assert create_causes(kinds, securityContext={"fsGroupChangePolicy": "OnRootMismatch"}) == []
    assert create_causes(kinds, securityContext={"fsGroupChangePolicy": "Never"}) == [
        (
            "spec.securityContext.fsGroupChangePolicy",
            'Unsupported value: "Never": supported values: "Always", "OnRootMismatch"',
        )
    ]


def test_no_privilege_escalation_excludes_privileged_and_sys_admin(kinds: Definitions) -> None:
    context = {"privileged": True, "allowPrivilegeEscalation": False, "capabilities": {"add": ["NET"]}}
    ((field, text),) = container_causes(kinds, securityContext=context)
    assert field == "securityContext"
    assert text.endswith(": cannot set `allowPrivilegeEscalation` to false and `privileged` to true")
    context = {"allowPrivilegeEscalation": False, "capabilities": {"add": ["CAP_SYS_ADMIN"]}}
    ((_, text),) = container_causes(kinds, securityContext=context)
    assert text.endswith(
        ": cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
    )


def test_share_process_namespace_excludes_host_pid(kinds: Definitions) -> None:
    assert create_causes(kinds, shareProcessNamespace=True) == []
    assert create_causes(kinds, shareProcessNamespace=True, hostPID=True) == [
        (
            "spec.securityContext.shareProcessNamespace",
            "Invalid value: true: ShareProcessNamespace and HostPID cannot both be enabled",
        )
    ]


@cases(
    ("name", "text"),
    [
        ("kernel.shm_rmid_forced", ""),
        ("net/ipv4.ip_forward", ""),
        ("", "Required value"),
        ("Kernel", "must have at most 253 characters and match regex "),
        ("a" * 254, "must have at most 253 characters and match regex "),
    ],
)
def test_sysctl_names_are_validated(kinds: Definitions, name: str, text: str) -> None:
    causes = create_causes(kinds, securityContext={"sysctls": [{"name": name, "value": "1"}]})
    assert [field for field, _ in causes] == (["spec.securityContext.sysctls[0].name"] if text else [])
    assert not text or text in causes[0][1]


def test_sysctls_are_unique(kinds: Definitions) -> None:
    sysctls = [{"name": "a.b", "value": "1"}, {"name": "a.b", "value": "2"}]
    assert create_causes(kinds, securityContext={"sysctls": sysctls}) == [
        ("spec.securityContext.sysctls[1].name", 'Duplicate value: "a.b"')
    ]
