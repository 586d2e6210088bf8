"""PodSecurityPolicy: each documented field, and the rules between them."""

from __future__ import annotations

from typing import Any

from rewound.actors.kinds.policy import PROC_MOUNT, define_policy
from rewound.actors.names import Names
from tests.actors.kinds.definitions import Definitions, create
from tests.cases import cases

PLURAL = "podsecuritypolicies"
ANY = {"rule": "RunAsAny"}
REQUIRED = {"seLinux": ANY, "runAsUser": ANY, "supplementalGroups": ANY, "fsGroup": ANY}


def policy(annotations: Any = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a", "annotations": annotations}, "spec": {**REQUIRED, **spec}}


def test_create_sets_defaults(kinds: Definitions) -> None:
    stored = kinds.stored(PLURAL, policy())
    assert stored["spec"] == {**REQUIRED, "allowPrivilegeEscalation": True}
    assert "generation" not in stored["metadata"] and kinds.create_causes(PLURAL, policy()) == []
    spec_of_false = kinds.stored(PLURAL, policy(allowPrivilegeEscalation=False))["spec"]
    assert spec_of_false["allowPrivilegeEscalation"] is False


def test_table_cells_are_computed_from_the_object(kinds: Definitions) -> None:
    spec = {"privileged": True, "allowedCapabilities": ["A", "B"], "volumes": ["emptyDir", "nfs"]}
    for document, expected in (
        (policy(), ["a", "false", "", *4 * ["RunAsAny"], False, ""]),
        (policy(**spec), ["a", "true", "A,B", *4 * ["RunAsAny"], False, "emptyDir,nfs"]),
    ):
        stored = kinds.stored(PLURAL, document)
        assert [column.cell(stored, 0) for column in kinds[PLURAL].table.columns] == expected


def test_strategies_are_required(kinds: Definitions) -> None:
    causes = kinds.create_causes(PLURAL, {"metadata": {"name": "a"}})
    assert [field for field, _ in causes] == [
        *("spec.runAsUser.rule", "spec.seLinux.rule", "spec.supplementalGroups.rule", "spec.fsGroup.rule")
    ]
    assert causes[0][1] == (
        'Unsupported value: "": supported values: "MustRunAs", "MustRunAsNonRoot", "RunAsAny"'
    )


def ranges(rule: str, *pairs: tuple[int, int]) -> dict[str, Any]:
    return {"rule": rule, "ranges": [{"min": low, "max": high} for low, high in pairs]}


@cases(
    ("spec", "expected"),
    [
        ({"runAsUser": ranges("MustRunAs", (1, 5), (7, 7))}, []),
        ({"runAsUser": ranges("MustRunAsNonRoot")}, []),
        ({"runAsUser": ranges("MustRunAs", (5, 1))}, [("runAsUser.ranges[0].min", "greater than max")]),
        (
            {"fsGroup": ranges("MayRunAs", (-2, -1))},
            [("fsGroup.ranges[0].min", "negative"), ("fsGroup.ranges[0].max", "negative")],
        ),
        (
            {"supplementalGroups": ranges("MustRunAs", (-1, 1))},
            [("supplementalGroups.ranges[0].min", "negative")],
        ),
        ({"runAsGroup": ranges("MayRunAs", (1, 5))}, []),
        ({"runAsGroup": ranges("MayRunAs")}, [("runAsGroup.ranges", "at least one range")]),
        ({"runAsGroup": ranges("RunAsAny", (1, 5))}, [("runAsGroup.ranges", "must be empty")]),
        ({"runAsGroup": {"rule": "No"}}, [("runAsGroup.rule", '"MustRunAs", "RunAsAny", "MayRunAs"')]),
        ({"seLinux": {"rule": "MustRunAs", "seLinuxOptions": {"level": "s0"}}}, []),
        ({"seLinux": {"rule": "No"}}, [("seLinux.rule", '"MustRunAs", "RunAsAny"')]),
        ({"volumes": ["*", "secret", "ephemeral"]}, []),
        ({"volumes": ["tape"]}, [("volumes", '"storageos", "vsphereVolume"')]),
        (
            {"allowPrivilegeEscalation": False, "defaultAllowPrivilegeEscalation": True},
            [("defaultAllowPrivilegeEscalation", "setting AllowPrivilegeEscalation to true")],
        ),
        ({"defaultAllowPrivilegeEscalation": True}, []),
        ({"allowedHostPaths": [{"pathPrefix": "/foo", "readOnly": True}]}, []),
        ({"allowedHostPaths": [{}]}, [("allowedHostPaths[0]", "is required")]),
        ({"allowedHostPaths": [{"pathPrefix": "/a/../b"}]}, [("allowedHostPaths[0]", "contain '..'")]),
        (
            {"allowedFlexVolumes": [{"driver": ""}]},
            [("allowedFlexVolumes.allowedFlexVolumes[0].driver", "must specify a driver")],
        ),
        ({"allowedCSIDrivers": [{"name": "csi.example.com"}]}, []),
        ({"allowedUnsafeSysctls": ["a.*"], "forbiddenSysctls": ["b.c"]}, []),
        ({"allowedUnsafeSysctls": ["*"]}, []),
        ({"allowedUnsafeSysctls": ["*", "a"]}, [("allowedUnsafeSysctls.items", "not specify other sysctls")]),
        ({"allowedUnsafeSysctls": [""]}, [("allowedUnsafeSysctls[0]", "empty sysctl not allowed")]),
        ({"forbiddenSysctls": ["a*b"]}, [("forbiddenSysctls[0]", "[a-z0-9*]")]),
        (
            {"allowedUnsafeSysctls": ["a.b"], "forbiddenSysctls": ["a.b"]},
            [("allowedUnsafeSysctls[0]", "sysctl overlaps with a.b")],
        ),
        (
            {"allowedUnsafeSysctls": ["a.*"], "forbiddenSysctls": ["a.b"]},
            [("forbiddenSysctls[0]", "sysctl overlaps with a.*")],
        ),
        (
            {"allowedUnsafeSysctls": ["a.b"], "forbiddenSysctls": ["a*"]},
            [("allowedUnsafeSysctls[0]", "sysctl overlaps with a*")],
        ),
        (
            {"allowedUnsafeSysctls": ["a.*"], "forbiddenSysctls": ["a.b.*"]},
            [("forbiddenSysctls[0]", "sysctl overlaps with a.*")],
        ),
        ({"runtimeClass": {"allowedRuntimeClassNames": ["*"], "defaultRuntimeClassName": "a"}}, []),
        ({"runtimeClass": {"allowedRuntimeClassNames": []}}, []),
        (
            {"runtimeClass": {"allowedRuntimeClassNames": ["b"], "defaultRuntimeClassName": "a"}},
            [("runtimeClass.allowedRuntimeClassNames", 'default "a" must be allowed')],
        ),
        (
            {"runtimeClass": {"allowedRuntimeClassNames": ["*", "b", "b"]}},
            [
                ("runtimeClass.allowedRuntimeClassNames[2]", '"b"'),
                ("runtimeClass.allowedRuntimeClassNames", "must not specify other RuntimeClass names"),
            ],
        ),
        (
            {"hostPorts": [{"min": 1, "max": 1024}], "hostIPC": True, "hostPID": True, "hostNetwork": True},
            [],
        ),
    ],
)
def test_create_reports_invalid_fields(
    kinds: Definitions, spec: Any, expected: list[tuple[str, str]]
) -> None:
    causes = kinds.create_causes(PLURAL, policy(**spec))
    assert [field for field, _ in causes] == [f"spec.{field}" for field, _ in expected]
    assert all(text.endswith(end) for (_, text), (_, end) in zip(causes, expected, strict=True)), causes
    assert kinds.update(PLURAL, policy(), policy(**spec))[1] == causes


def test_csi_driver_names_are_validated(kinds: Definitions) -> None:
    field = "spec.allowedCSIDrivers.allowedCSIDriver[0].name"
    for name, count in (("", 2), ("Bad_D", 1)):
        causes = kinds.create_causes(PLURAL, policy(allowedCSIDrivers=[{"name": name}]))
        assert [where for where, _ in causes] == [field] * count


def test_required_drop_capabilities_cannot_be_added_or_allowed(kinds: Definitions) -> None:
    spec = {
        "requiredDropCapabilities": ["KILL"],
        "defaultAddCapabilities": ["KILL"],
        "allowedCapabilities": ["KILL", "*"],
    }
    assert kinds.create_causes(PLURAL, policy(**spec)) == [
        (
            "requiredDropCapabilities",
            'Invalid value: []string{"KILL"}: must be empty when all capabilities are allowed by a wildcard',
        ),
        *(
            (part, f'Invalid value: "KILL": capability is listed in {part} and requiredDropCapabilities')
            for part in ("defaultAddCapabilities", "allowedCapabilities")
        ),
    ]


def test_profiles_in_annotations_are_validated(kinds: Definitions, names: Names) -> None:
    apparmor = names.key("allowedProfileNames", "apparmor.security.beta")
    seccomp = names.key("allowedProfileNames", "seccomp.security.alpha")
    default = names.key("defaultProfileName", "seccomp.security.alpha")
    right = {apparmor: "runtime/default,localhost/x", seccomp: "*,unconfined", default: "runtime/default"}
    assert kinds.create_causes(PLURAL, policy(right)) == []
    wrong = {apparmor: "runtime/default,no", seccomp: "no", default: "*"}
    assert [field for field, _ in kinds.create_causes(PLURAL, policy(wrong))] == [
        *(f"metadata.annotations[{key}]" for key in (apparmor, default, seccomp))
    ]


def test_proc_mount_types_need_their_feature(kinds: Definitions, names: Names) -> None:
    sent = policy(allowedProcMountTypes=["Default", "Odd"])
    assert "allowedProcMountTypes" not in kinds.stored(PLURAL, sent)["spec"]
    definition = define_policy(names, frozenset((PROC_MOUNT,)))
    _, causes = create(definition, definition.schema.decode_object(sent).object)
    assert causes == [
        ("spec.allowedProcMountTypes[1]", 'Unsupported value: "Odd": supported values: "Default", "Unmasked"')
    ]


def test_responses_have_a_warning_and_delete_returns_the_object(kinds: Definitions) -> None:
    definition = kinds[PLURAL]
    assert definition.deprecation_warning.endswith("is deprecated in v1.21+, unavailable in v1.25+")
    assert definition.deletion.returns_object and "deletecollection" in definition.verbs
    assert not definition.namespaced


def test_host_ports_may_lack_their_ends(kinds: Definitions) -> None:
    stored = kinds.stored(PLURAL, policy(hostPorts=[{}, {"min": 9, "max": 3}]))
    assert stored["spec"]["hostPorts"] == [{"min": 0, "max": 0}, {"min": 9, "max": 3}]
