"""The names of versions: in flags, in records of journals, and of other servers."""

from __future__ import annotations

import pytest

from rewound.actors.versions.features import choose_release, gates_in, release_of
from rewound.actors.versions.version import (
    VERSIONS,
    check_version,
    nearest_version,
    parse_version,
    record_of,
    stored_version,
)
from tests.cases import cases


@cases(("text", "version"), [("1.33", "1.33"), ("v1.33", "1.33"), ("1.33.4", "1.33"), ("v1.25.16", "1.25")])
def test_flag_names_a_version(text: str, version: str) -> None:
    assert parse_version(text) == version


@pytest.mark.parametrize("text", ["", "1", "1.24", "1.37", "2.0", "1.33.x", "latest"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"give one from 1\.25 to 1\.36"):
        parse_version(text)


def test_documents_are_of_the_first_version() -> None:
    assert check_version("cluster", "") == check_version("cluster", "1.25") == "1.25"
    with pytest.raises(ValueError, match="the dialect cluster is always Kubernetes"):
        check_version("cluster", "1.26")


@cases(
    ("said", "version"),
    [
        ("v1.33.4", "1.33"),
        ("v1.33.4-gke.100", "1.33"),
        ("1.30+", "1.30"),
        ("v1.20.1", "1.25"),
        ("v1.99.0", "1.36"),
        ("", "1.36"),
    ],
)
def test_other_servers_have_the_nearest_version(said: str, version: str) -> None:
    assert nearest_version(said) == version


def test_records_of_journals_are_versions() -> None:
    assert [stored_version(record_of(version)) for version in VERSIONS] == list(VERSIONS)
    assert record_of("1.25") == ""  # as earlier releases have it
    assert release_of("1.30").version == "1.30"
    assert release_of("1.99").version == "1.36"


def test_metric_has_all_gates_with_stage_and_state() -> None:
    found = {name: (stage, on) for name, stage, on in gates_in(choose_release("1.33", "HPAScaleToZero=true"))}
    assert found["HPAScaleToZero"] == ("ALPHA", True)
    assert found["AllAlpha"] == ("ALPHA", False)
    assert found["InPlacePodVerticalScaling"] == ("BETA", True)
    assert found["CRDValidationRatcheting"] == ("", True)
    assert dict.fromkeys(found) == dict.fromkeys(
        ["AllAlpha", "AllBeta", *sorted(found.keys() - {"AllAlpha", "AllBeta"})]
    )
