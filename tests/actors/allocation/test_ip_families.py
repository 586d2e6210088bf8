"""Defaults of ipFamilies and ipFamilyPolicy, in clusters with one IP family and with two."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.allocation.services import AllocationError, default_ip_families

ONE, TWO = ("IPv4",), ("IPv4", "IPv6")


def completed(
    spec: dict[str, Any], configured: tuple[str, ...] = ONE, before: dict[str, Any] | None = None
) -> tuple[Any, Any]:
    spec = {"type": "ClusterIP", **spec}
    default_ip_families(spec, {"type": "ClusterIP", **before} if before is not None else None, configured)
    return spec.get("ipFamilyPolicy"), spec.get("ipFamilies")


def refused(
    spec: dict[str, Any], configured: tuple[str, ...] = ONE, before: dict[str, Any] | None = None
) -> list[tuple[str, str]]:
    with pytest.raises(AllocationError) as unfit:
        completed(spec, configured, before)
    return [(error.field, error.message.rpartition(": ")[2]) for error in unfit.value.errors]


HEADLESS = {"clusterIP": "None", "clusterIPs": ["None"]}


def test_service_has_one_family_unless_it_requests_two() -> None:
    assert completed({}) == completed({}, TWO) == ("SingleStack", ["IPv4"])
    assert completed({}, ("IPv6", "IPv4")) == ("SingleStack", ["IPv6"])
    assert completed({"ipFamilyPolicy": "PreferDualStack"}) == ("PreferDualStack", ["IPv4"])
    assert completed({"ipFamilyPolicy": "PreferDualStack"}, TWO) == ("PreferDualStack", ["IPv4", "IPv6"])
    assert completed({"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6"]}, TWO) == (
        "RequireDualStack",
        ["IPv6", "IPv4"],
    )


def test_families_are_inferred_from_addresses() -> None:
    assert completed({"clusterIP": "fd00::1", "clusterIPs": ["fd00::1"]}, TWO) == ("SingleStack", ["IPv6"])
    assert refused({"clusterIP": "fd00::1", "clusterIPs": ["fd00::1"]}) == [
        ("spec.clusterIPs[0]", "IPv6 is not configured on this cluster")
    ]


def test_headless_services_get_families() -> None:
    assert completed({**HEADLESS, "selector": {"a": "b"}}) == ("SingleStack", ["IPv4"])
    assert completed(HEADLESS) == ("RequireDualStack", ["IPv4", "IPv6"])
    assert completed({**HEADLESS, "ipFamilyPolicy": "SingleStack"}) == ("SingleStack", ["IPv4"])


def test_external_name_service_has_no_family() -> None:
    spec = {"type": "ExternalName"}
    default_ip_families(spec, None, ONE)
    assert spec == {"type": "ExternalName"}


def test_family_that_the_cluster_does_not_have_is_refused() -> None:
    assert refused({"ipFamilyPolicy": "RequireDualStack"}) == [
        ("spec.ipFamilyPolicy", "this cluster is not configured for dual-stack services")
    ]
    assert refused({"ipFamilies": ["IPv6"]}) == [("spec.ipFamilies[0]", "not configured on this cluster")]


def test_two_families_or_addresses_require_a_dual_stack_policy() -> None:
    both = {"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "fd00::1"]}
    text = "must be 'RequireDualStack' or 'PreferDualStack' when multiple {} are specified"
    assert refused(both, TWO) == [("spec.ipFamilyPolicy", text.format("cluster IPs"))]
    assert refused({"ipFamilies": ["IPv4", "IPv6"]}, TWO) == [
        ("spec.ipFamilyPolicy", text.format("IP families"))
    ]


def test_errors_are_reported_before_anything_is_allocated() -> None:
    assert refused({"clusterIP": "no", "clusterIPs": ["no"]})[0][0] == "spec.clusterIPs[0]"


DUAL = {
    "clusterIP": "10.0.0.1",
    "clusterIPs": ["10.0.0.1", "fd00::1"],
    "ipFamilies": ["IPv4", "IPv6"],
    "ipFamilyPolicy": "RequireDualStack",
}


def test_update_keeps_the_policy_that_it_leaves_out() -> None:
    unsaid = {key: value for key, value in DUAL.items() if key != "ipFamilyPolicy"}
    assert completed(unsaid, TWO, DUAL) == ("RequireDualStack", ["IPv4", "IPv6"])


def test_single_stack_policy_releases_the_second_family() -> None:
    spec = {"type": "ClusterIP", **DUAL, "ipFamilyPolicy": "SingleStack"}
    default_ip_families(spec, {"type": "ClusterIP", **DUAL}, TWO)
    assert spec["clusterIPs"] == ["10.0.0.1"] and spec["ipFamilies"] == ["IPv4"]


def test_releasing_the_second_family_requires_single_stack() -> None:
    less = {**DUAL, "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"]}
    assert refused(less, TWO, DUAL) == [
        ("spec.ipFamilyPolicy", "must be 'SingleStack' to release the secondary cluster IP"),
        ("spec.ipFamilyPolicy", "must be 'SingleStack' to release the secondary IP family"),
    ]


def test_service_with_prefer_dual_stack_stays_unchanged() -> None:
    before = {
        "clusterIP": "10.0.0.1",
        "clusterIPs": ["10.0.0.1"],
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "PreferDualStack",
    }
    assert completed(before, TWO, before) == ("PreferDualStack", ["IPv4"])
