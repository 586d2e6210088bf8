"""Lease: positive durations, and no unconditional updates."""

from __future__ import annotations

from tests.actors.kinds.definitions import Definitions

NAMED = {"metadata": {"name": "a"}}


def test_create_reports_invalid_duration_and_transitions(kinds: Definitions) -> None:
    assert (
        kinds.create_causes("leases", {**NAMED, "spec": {"leaseDurationSeconds": 15, "leaseTransitions": 0}})
        == []
    )
    assert kinds.create_causes(
        "leases", {**NAMED, "spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}}
    ) == [
        ("spec.leaseDurationSeconds", "Invalid value: 0: must be greater than 0"),
        ("spec.leaseTransitions", "Invalid value: -1: must be greater than or equal to 0"),
    ]


def test_update_is_validated_may_create_and_needs_a_resource_version(kinds: Definitions) -> None:
    _, causes = kinds.update("leases", NAMED, {**NAMED, "spec": {"leaseDurationSeconds": -1}})
    assert len(causes) == 1
    assert (
        kinds["leases"].strategy.allow_create_on_update
        and not kinds["leases"].strategy.allow_unconditional_update
    )


def test_unqualified_finalizers_are_valid(kinds: Definitions) -> None:
    assert kinds.create_causes("leases", {"metadata": {"name": "a", "finalizers": ["plain"]}}) == []
