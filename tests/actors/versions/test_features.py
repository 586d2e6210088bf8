"""`--feature-gates`: which features are on, and the errors of invalid names and values."""

from __future__ import annotations

import pytest

from rewound.actors.versions.features import GATES, choose_release
from rewound.actors.versions.gates import gates_of
from tests.cases import cases

ON_BY_DEFAULT = choose_release("1.25").features & GATES


@cases(
    ("text", "on"),
    [
        ("", set()),
        ("ProcMountType=true", {"ProcMountType"}),
        ("ProcMountType=True, HPAScaleToZero=true", {"ProcMountType", "HPAScaleToZero"}),
        ("ProcMountType=true,ProcMountType=false", set()),
        ("ServerSideApply=true", set()),
        ("AllBeta=true", {"MinDomainsInPodTopologySpread"}),
        ("AllBeta=true,MinDomainsInPodTopologySpread=false", set()),
        ("AllAlpha=false", set()),
        ("WatchList=true", {"WatchList"}),
        ("WatchList=true,WatchList=false", set()),
    ],
)
def test_flag_enables_features(text: str, on: set[str]) -> None:
    assert choose_release("1.25", text).features & GATES == on | ON_BY_DEFAULT


def test_feature_on_by_default_can_be_disabled() -> None:
    assert not choose_release("1.25", "APIListChunking=false").features & GATES


@pytest.mark.parametrize("text", ["AllAlpha=true,ProcMountType=false", "ProcMountType=false,AllAlpha=true"])
def test_single_feature_takes_precedence_over_all_alpha(text: str) -> None:
    alpha = {name for name, gate in gates_of("1.25").items() if gate.stage == "Alpha"}
    on = choose_release("1.25", text).features & GATES
    assert on == ON_BY_DEFAULT | alpha & GATES - {"ProcMountType"}


@cases(
    ("text", "why"),
    [
        ("ProcMountType", "'ProcMountType' has no value; write ProcMountType=true"),
        ("ProcMountType=maybe", "'ProcMountType=maybe' is neither true nor false"),
        (
            "ProcMountTypes=true",
            "there is no feature 'ProcMountTypes' in Kubernetes 1.25; did you mean ProcMountType?",
        ),
        (
            "=true",
            "there is no feature '' in Kubernetes 1.25; these are off until asked for: CSINodeExpandSecret, ",
        ),
        ("Flying=false", "there is no feature 'Flying' in Kubernetes 1.25"),
        ("ServerSideApply=false", "ServerSideApply cannot be switched off"),
        ("AnyVolumeDataSource=false", "AnyVolumeDataSource cannot be switched off"),
        ("AllBeta=false", "AllBeta cannot be switched off"),
        ("NodeSwap=true", "NodeSwap cannot be switched on: it has no effect in this server"),
        ("SidecarContainers=true", "there is no feature 'SidecarContainers' in Kubernetes 1.25"),
    ],
)
def test_invalid_names_and_values_are_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match="^" + why.replace("?", r"\?")):
        choose_release("1.25", text)


@cases(
    ("version", "name", "state"),
    [
        ("1.25", "ReadWriteOncePod", "Alpha off"),
        ("1.26", "ReadWriteOncePod", "Alpha off"),
        ("1.27", "ReadWriteOncePod", "Beta on"),
        ("1.29", "ReadWriteOncePod", "GA on locked"),
    ],
)
def test_gate_has_stage_and_default_of_its_version(version: str, name: str, state: str) -> None:
    gate = gates_of(version)[name]
    words = (gate.stage, "on" if gate.on else "off", *(["locked"] if gate.locked else []))
    assert " ".join(words) == state


def test_feature_stays_on_after_its_gate_is_gone() -> None:
    assert "ReadWriteOncePod" not in gates_of("1.31")
    assert "ReadWriteOncePod" in choose_release("1.31").features


def test_feature_that_was_given_up_is_off_after_its_gate_is_gone() -> None:
    assert "NetworkPolicyStatus" not in gates_of("1.28")
    assert "NetworkPolicyStatus" not in choose_release("1.36").features


def test_locked_gate_cannot_be_switched() -> None:
    with pytest.raises(ValueError, match="ReadWriteOncePod cannot be switched off"):
        choose_release("1.29", "ReadWriteOncePod=false")
