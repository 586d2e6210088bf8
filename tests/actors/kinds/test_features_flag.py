"""`--feature-gates`: which features are on, and the errors of invalid names and values."""

from __future__ import annotations

import pytest

from rewound.actors.kinds.features import ALPHA, ON_BY_DEFAULT, parse_features
from tests.cases import cases


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
    assert parse_features(text) == on | ON_BY_DEFAULT


def test_feature_on_by_default_can_be_disabled() -> None:
    assert parse_features("APIListChunking=false") == set()


@pytest.mark.parametrize("text", ["AllAlpha=true,ProcMountType=false", "ProcMountType=false,AllAlpha=true"])
def test_single_feature_takes_precedence_over_all_alpha(text: str) -> None:
    assert parse_features(text) == ON_BY_DEFAULT | ALPHA - {"ProcMountType"}


@cases(
    ("text", "why"),
    [
        ("ProcMountType", "'ProcMountType' has no value; write ProcMountType=true"),
        ("ProcMountType=maybe", "'ProcMountType=maybe' is neither true nor false"),
        ("ProcMountTypes=true", "there is no feature 'ProcMountTypes' here; did you mean ProcMountType?"),
        ("=true", "there is no feature '' here; these are off until asked for: CSINodeExpandSecret, "),
        ("Flying=false", "there is no feature 'Flying' here"),
        ("ServerSideApply=false", "ServerSideApply cannot be switched off"),
        ("AnyVolumeDataSource=false", "AnyVolumeDataSource cannot be switched off"),
        ("AllBeta=false", "AllBeta cannot be switched off"),
    ],
)
def test_invalid_names_and_values_are_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match="^" + why.replace("?", r"\?")):
        parse_features(text)
