"""The labels of a namespace: defaults, invalid values, and which change makes it stricter."""

from __future__ import annotations

from rewound.actors.admission.plugins.pod_security.policy import (
    LATEST,
    LevelVersion,
    Policy,
    PolicyLabels,
    is_tightened,
    is_version,
)
from rewound.actors.names import CLUSTER, KUBERNETES
from tests.cases import cases

DEFAULTS = Policy(
    LevelVersion("baseline", "v1.20"), LevelVersion("restricted", "v1.21"), LevelVersion("privileged", LATEST)
)
LABELS = PolicyLabels(CLUSTER, DEFAULTS)


def test_a_missing_label_leaves_the_default() -> None:
    for labels in (None, {}, {"a": "b"}, {"pod-security.kubernetes.io/enforce": "restricted"}):
        assert LABELS.policy_of(labels).policy == DEFAULTS
    found = LABELS.policy_of(
        {"pod-security.cluster.io/enforce": "restricted", "pod-security.cluster.io/audit-version": "v1.0"}
    )
    assert found.policy == Policy(
        LevelVersion("restricted", "v1.20"), LevelVersion("restricted", "v1.0"), DEFAULTS.warn
    )
    assert not found.errors


def test_labels_have_the_domain_of_the_dialect() -> None:
    labels = PolicyLabels(KUBERNETES, Policy())
    found = labels.policy_of({"pod-security.kubernetes.io/warn": "baseline"})
    assert str(found.policy) == "warn=baseline:latest"
    assert not found.admits_every_pod and not found.admits_every_template


def test_namespace_without_levels_admits_every_pod_without_a_check() -> None:
    labels = PolicyLabels(CLUSTER, Policy())
    assert labels.policy_of(None).admits_every_pod and labels.policy_of(None).admits_every_template
    enforced = labels.policy_of({"pod-security.cluster.io/enforce": "baseline"})
    assert not enforced.admits_every_pod and enforced.admits_every_template
    wrong = labels.policy_of({"pod-security.cluster.io/audit": "x"})
    assert not wrong.admits_every_pod and not wrong.admits_every_template


def test_wrong_labels_enforce_restricted_and_do_not_warn() -> None:
    prefix = "pod-security.cluster.io/"
    modes = ("enforce", "audit", "warn")
    wrong = {f"{prefix}{mode}": "Baseline" for mode in modes} | {
        f"{prefix}{mode}-version": "1.25" for mode in modes
    }
    found = LABELS.policy_of(wrong)
    assert found.policy == Policy(LevelVersion("restricted"), LevelVersion(), LevelVersion())
    level = 'Invalid value: "Baseline": must be one of privileged, baseline, restricted'
    version = 'Invalid value: "1.25": must be "latest" or "v1.x"'
    assert [(one.field, one.message) for one in found.errors] == [
        (f"metadata.labels[{prefix}{mode}{suffix}]", text)
        for mode in modes
        for suffix, text in (("", level), ("-version", version))
    ]


@cases("text", ["latest", "v1.0", "v1.25", "v1.9223372036854775807"])
def test_valid_version_labels_are_parsed(text: str) -> None:
    assert is_version(text)


@cases(
    "text",
    ["", "1.25", "v1", "v1.", "v1.025", "v2.0", "v1.25.1", "Latest", "v1.-1", "v1.9223372036854775808"],
)
def test_invalid_version_labels_are_refused(text: str) -> None:
    assert not is_version(text)


def test_stricter_is_a_higher_level_or_another_version_that_is_not_privileged() -> None:
    def tightened(old: str, new: str) -> bool:
        return is_tightened(LevelVersion(*new.split(":")), LevelVersion(*old.split(":")))

    assert tightened("privileged:latest", "baseline:latest")
    assert tightened("baseline:v1.0", "restricted:v1.0")
    assert tightened("restricted:v1.1", "baseline:v1.0")
    assert not tightened("restricted:v1.0", "baseline:v1.0")
    assert not tightened("baseline:v1.0", "baseline:v1.0")
    assert not tightened("baseline:v1.0", "privileged:v1.1")
