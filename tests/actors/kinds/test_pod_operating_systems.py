"""Pod: fields that only Linux or only Windows has."""

from __future__ import annotations

from typing import Any

from tests.actors.kinds.definitions import Definitions
from tests.actors.kinds.pods import CONTAINER, SUBDOMAIN, container_causes, create_causes
from tests.cases import cases

NOT_WINDOWS = "Forbidden: cannot be set for a windows pod"


def test_os_name_is_linux_or_windows(kinds: Definitions) -> None:
    assert create_causes(kinds, os={"name": "linux"}) == create_causes(kinds, os={"name": "windows"}) == []
    assert create_causes(kinds, os={}) == [("spec.os.name", "Required value: cannot be empty")]
    assert create_causes(kinds, os={"name": "plan9"}) == [
        ("spec.os", 'Unsupported value: "plan9": supported values: "linux", "windows"')
    ]


def test_linux_pods_have_no_windows_options(kinds: Definitions) -> None:
    context = {"windowsOptions": {"runAsUserName": "a"}}
    text = "Forbidden: windows options cannot be set for a linux pod"
    container = {**CONTAINER, "securityContext": context}
    assert create_causes(kinds, os={"name": "linux"}, securityContext=context, containers=[container]) == [
        ("spec.securityContext.windowsOptions", text),
        ("spec.containers[0].securityContext.windowsOptions", text),
    ]


@cases(
    ("part", "value"),
    [
        ("seLinuxOptions", {"level": "s0"}),
        ("seccompProfile", {"type": "Unconfined"}),
        ("fsGroup", 1),
        ("fsGroupChangePolicy", "Always"),
        ("sysctls", [{"name": "a", "value": "1"}]),
        ("runAsUser", 1),
        ("runAsGroup", 1),
        ("supplementalGroups", [1]),
    ],
)
def test_security_contexts_of_windows_pods_have_no_linux_fields(
    kinds: Definitions, part: str, value: Any
) -> None:
    assert create_causes(kinds, os={"name": "windows"}, securityContext={part: value}) == [
        (f"spec.securityContext.{part}", NOT_WINDOWS)
    ]


@cases("part", ["hostPID", "hostIPC", "shareProcessNamespace"])
def test_specs_of_windows_pods_have_no_host_namespaces(kinds: Definitions, part: str) -> None:
    assert create_causes(kinds, os={"name": "windows"}, **{part: True}) == [(f"spec.{part}", NOT_WINDOWS)]


@cases(
    ("part", "value"),
    [
        ("seLinuxOptions", {}),
        ("seccompProfile", {"type": "Unconfined"}),
        ("capabilities", {}),
        ("readOnlyRootFilesystem", False),
        ("privileged", False),
        ("allowPrivilegeEscalation", True),
        ("procMount", "Default"),
        ("runAsUser", 1),
        ("runAsGroup", 1),
    ],
)
def test_security_contexts_of_windows_containers_have_no_linux_fields(
    kinds: Definitions, part: str, value: Any
) -> None:
    container = {**CONTAINER, "securityContext": {part: value}}
    assert create_causes(kinds, os={"name": "windows"}, containers=[container]) == [
        (f"spec.containers[0].securityContext.{part}", NOT_WINDOWS)
    ]


@cases(
    ("user", "texts"),
    [
        ("user", []),
        ("DOMAIN\\user", []),
        ("a.example.com\\user", []),
        ("", [" cannot be an empty string"]),
        ("a\tb", [" cannot contain control characters"]),
        ("a\\b\\c", [" cannot contain more than one backslash"]),
        ("..\\user", ["'s Domain doesn't match the NetBios nor the DNS format"]),
        ("D\\", ["'s User cannot be empty"]),
        ("u" * 105, ["'s User length must not be longer than 104 characters"]),
        ("..", ["'s User cannot contain only periods or spaces"]),
        ("a:b", ["'s User cannot contain the following characters: \"/\\:;|=,+*?<>@[]"]),
        (
            "d" * 300 + "\\u",
            [
                "'s Domain length must be under 256 characters",
                "'s Domain doesn't match the NetBios nor the DNS format",
            ],
        ),
    ],
)
def test_windows_user_names_are_validated(kinds: Definitions, user: str, texts: list[str]) -> None:
    causes = container_causes(kinds, securityContext={"windowsOptions": {"runAsUserName": user}})
    assert [field for field, _ in causes] == ["securityContext.windowsOptions.runAsUserName"] * len(texts)
    for (_, message), text in zip(causes, texts, strict=True):
        assert message.endswith(f": runAsUserName{text}")


def test_gmsa_credential_specs_are_validated(kinds: Definitions) -> None:
    path = "securityContext.windowsOptions"
    options = {"gmsaCredentialSpecName": "A", "gmsaCredentialSpec": ""}
    assert container_causes(kinds, securityContext={"windowsOptions": options}) == [
        (f"{path}.gmsaCredentialSpecName", f'Invalid value: "A": {SUBDOMAIN}'),
        (
            f"{path}.gmsaCredentialSpec",
            'Invalid value: "": gmsaCredentialSpec cannot be an empty string',
        ),
    ]
    options = {"gmsaCredentialSpec": "x" * (64 * 1024 + 1)}
    ((_, text),) = container_causes(kinds, securityContext={"windowsOptions": options})
    assert text.endswith(": gmsaCredentialSpec size must be under 64 KiB")


def host_process(value: bool) -> dict[str, Any]:
    return {"windowsOptions": {"hostProcess": value}}


def test_host_process_needs_host_network(kinds: Definitions) -> None:
    inherited = create_causes(kinds, hostNetwork=True, securityContext=host_process(True))
    assert inherited == []
    assert create_causes(kinds, securityContext=host_process(True)) == [
        (
            "spec.hostNetwork",
            "Invalid value: false: hostNetwork must be true if pod contains any hostProcess containers",
        )
    ]


def test_all_containers_are_host_processes_or_none(kinds: Definitions) -> None:
    containers = [{**CONTAINER, "securityContext": host_process(True)}, {"name": "d", "image": "x:1"}]
    assert create_causes(kinds, hostNetwork=True, containers=containers) == [
        (
            "spec",
            'Invalid value: "": If pod contains any hostProcess containers then all containers must be '
            "HostProcess containers",
        )
    ]


def test_host_process_of_pod_and_container_must_match(kinds: Definitions) -> None:
    containers = [{**CONTAINER, "securityContext": host_process(False)}]
    assert create_causes(kinds, securityContext=host_process(True), containers=containers) == [
        (
            "spec.containers[0].securityContext.windowsOptions.hostProcess",
            "Invalid value: false: pod hostProcess value must be identical if both are specified, was true",
        )
    ]
