"""PodSecurityConfiguration: three versions, defaults, exemptions, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rewound.actors.admission.configuration import AdmissionConfigurationError, PluginConfiguration
from rewound.actors.admission.plugins.pod_security.policy import (
    LevelVersion,
    PodSecurityConfiguration,
    Policy,
    parse_configuration,
)
from rewound.actors.names import CLUSTER, KUBERNETES, Names
from tests.cases import cases

GROUP = "pod-security.admission.config.cluster.io"


def parsed(names: Names = CLUSTER, version: str = f"{GROUP}/v1", **parts: Any) -> PodSecurityConfiguration:
    document = {"apiVersion": version, "kind": "PodSecurityConfiguration", **parts}
    return parse_configuration(names, PluginConfiguration(Path("file"), "", document))


def test_without_configuration_everything_is_privileged_and_nobody_exempt() -> None:
    assert parse_configuration(CLUSTER, None) == parsed() == PodSecurityConfiguration()


def test_defaults_and_exemptions_in_every_version() -> None:
    parts = {
        "defaults": {"enforce": "baseline", "enforce-version": "v1.24", "warn": "restricted", "audit": ""},
        "exemptions": {"usernames": ["a:b"], "namespaces": ["n"], "runtimeClasses": ["c.d"]},
    }
    expected = PodSecurityConfiguration(
        Policy(LevelVersion("baseline", "v1.24"), LevelVersion(), LevelVersion("restricted")),
        frozenset({"a:b"}),
        frozenset({"n"}),
        frozenset({"c.d"}),
    )
    for version in ("v1", "v1beta1", "v1alpha1"):
        assert parsed(CLUSTER, f"{GROUP}/{version}", **parts) == expected
    assert parsed(KUBERNETES, "pod-security.admission.config.k8s.io/v1", **parts) == expected


@cases(
    ("parts", "text"),
    [
        (
            {"version": f"{GROUP}/v2"},
            f"kind: write apiVersion: {GROUP}/v1 and kind: PodSecurityConfiguration",
        ),
        ({"default": {}}, "default: is not known; there are defaults, exemptions"),
        ({"defaults": []}, "defaults: must be a mapping"),
        (
            {"defaults": {"enforced": "x"}},
            "defaults.enforced: is not known; there are enforce, enforce-version, ",
        ),
        ({"defaults": {"warn": "x"}}, "defaults.warn: must be one of privileged, baseline, restricted"),
        (
            {"defaults": {"warn": ["baseline"]}},
            "defaults.warn: must be one of privileged, baseline, restricted",
        ),
        ({"defaults": {"audit-version": 1.25}}, 'defaults.audit-version: must be "latest" or "v1.x"'),
        ({"exemptions": {"users": []}}, "exemptions.users: is not known; there are usernames, "),
        ({"exemptions": {"usernames": "a"}}, "exemptions.usernames: must be a list of strings"),
        ({"exemptions": {"usernames": [1]}}, "exemptions.usernames: must be a list of strings"),
        ({"exemptions": {"usernames": ["a", ""]}}, "exemptions.usernames[1]: username must not be empty"),
        ({"exemptions": {"usernames": ["a", "a"]}}, "exemptions.usernames[1]: is in the list twice"),
        (
            {"exemptions": {"namespaces": ["a.b"]}},
            "exemptions.namespaces[0]: a lowercase RFC 1123 label must",
        ),
        (
            {"exemptions": {"runtimeClasses": ["A"]}},
            "exemptions.runtimeClasses[0]: a lowercase RFC 1123 subdomain",
        ),
    ],
)
def test_what_is_wrong_is_named(parts: dict[str, Any], text: str) -> None:
    with pytest.raises(AdmissionConfigurationError) as refused:
        parsed(**parts)
    assert str(refused.value).startswith(f"file: {text}")
