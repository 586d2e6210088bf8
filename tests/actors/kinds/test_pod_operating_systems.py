"""Pod: fields that only Linux or only Windows has."""

from __future__ import annotations

from typing import Any

import pytest

from tests.actors.kinds.declared import Declared
from tests.actors.kinds.pods import CONTAINER, SUBDOMAIN, wrong, wrong_container

NOT_WINDOWS = "Forbidden: cannot be set for a windows pod"


def test_names_of_systems(kinds: Declared) -> None:
    assert wrong(kinds, os={"name": "linux"}) == wrong(kinds, os={"name": "windows"}) == []
    assert wrong(kinds, os={}) == [("spec.os.name", "Required value: cannot be empty")]
    assert wrong(kinds, os={"name": "plan9"}) == [
        ("spec.os", 'Unsupported value: "plan9": supported values: "linux", "windows"')
    ]


def test_no_windows_options_on_linux(kinds: Declared) -> None:
    context = {"windowsOptions": {"runAsUserName": "a"}}
    text = "Forbidden: windows options cannot be set for a linux pod"
    container = {**CONTAINER, "securityContext": context}
    assert wrong(kinds, os={"name": "linux"}, securityContext=context, containers=[container]) == [
        ("spec.securityContext.windowsOptions", text),
        ("spec.containers[0].securityContext.windowsOptions", text),
    ]


@pytest.mark.parametrize(
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
def test_contexts_of_pods_on_windows(kinds: Declared, part: str, value: Any) -> None:
    assert wrong(kinds, os={"name": "windows"}, securityContext={part: value}) == [
        (f"spec.securityContext.{part}", NOT_WINDOWS)
    ]


@pytest.mark.parametrize("part", ["hostPID", "hostIPC", "shareProcessNamespace"])
def test_specs_on_windows(kinds: Declared, part: str) -> None:
    assert wrong(kinds, os={"name": "windows"}, **{part: True}) == [(f"spec.{part}", NOT_WINDOWS)]


@pytest.mark.parametrize(
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
def test_contexts_of_containers_on_windows(kinds: Declared, part: str, value: Any) -> None:
    container = {**CONTAINER, "securityContext": {part: value}}
    assert wrong(kinds, os={"name": "windows"}, containers=[container]) == [
        (f"spec.containers[0].securityContext.{part}", NOT_WINDOWS)
    ]


@pytest.mark.parametrize(
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
def test_names_of_users(kinds: Declared, user: str, texts: list[str]) -> None:
    causes = wrong_container(kinds, securityContext={"windowsOptions": {"runAsUserName": user}})
    assert [field for field, _ in causes] == ["securityContext.windowsOptions.runAsUserName"] * len(texts)
    for (_, message), text in zip(causes, texts, strict=True):
        assert message.endswith(f": runAsUserName{text}")


def test_group_managed_accounts(kinds: Declared) -> None:
    place = "securityContext.windowsOptions"
    options = {"gmsaCredentialSpecName": "A", "gmsaCredentialSpec": ""}
    assert wrong_container(kinds, securityContext={"windowsOptions": options}) == [
        (f"{place}.gmsaCredentialSpecName", f'Invalid value: "A": {SUBDOMAIN}'),
        (
            f"{place}.gmsaCredentialSpec",
            'Invalid value: "": gmsaCredentialSpec cannot be an empty string',
        ),
    ]
    options = {"gmsaCredentialSpec": "x" * (64 * 1024 + 1)}
    ((_, text),) = wrong_container(kinds, securityContext={"windowsOptions": options})
    assert text.endswith(": gmsaCredentialSpec size must be under 64 KiB")


def host_process(value: bool) -> dict[str, Any]:
    return {"windowsOptions": {"hostProcess": value}}


def test_processes_of_the_host(kinds: Declared) -> None:
    inherited = wrong(kinds, hostNetwork=True, securityContext=host_process(True))
    assert inherited == []
    assert wrong(kinds, securityContext=host_process(True)) == [
        (
            "spec.hostNetwork",
            "Invalid value: false: hostNetwork must be true if pod contains any hostProcess containers",
        )
    ]


def test_all_containers_are_processes_of_the_host_or_none(kinds: Declared) -> None:
    containers = [{**CONTAINER, "securityContext": host_process(True)}, {"name": "d", "image": "x:1"}]
    assert wrong(kinds, hostNetwork=True, containers=containers) == [
        (
            "spec",
            'Invalid value: "": If pod contains any hostProcess containers then all containers must be '
            "HostProcess containers",
        )
    ]


def test_pod_and_container_agree_about_the_host(kinds: Declared) -> None:
    containers = [{**CONTAINER, "securityContext": host_process(False)}]
    assert wrong(kinds, securityContext=host_process(True), containers=containers) == [
        (
            "spec.containers[0].securityContext.windowsOptions.hostProcess",
            "Invalid value: false: pod hostProcess value must be identical if both are specified, was true",
        )
    ]
