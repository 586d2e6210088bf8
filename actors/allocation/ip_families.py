"""Defaults ipFamilies and ipFamilyPolicy of a service, as Kubernetes does. Pure.

`configured` has the one or two IP families of this cluster, the preferred one first. Every function changes `spec` or
collects its errors.
"""

from __future__ import annotations

from collections.abc import Sequence

from actors.kinds.core.services.addresses import address_rules, family_of
from actors.kinds.core.services.traits import HEADLESS, needs_address, same
from actors.kinds.validation import FieldError, FieldErrors, collect, invalid
from actors.messages import Object

_POLICY = "spec.ipFamilyPolicy"


class AllocationError(Exception):
    """The service cannot get what it requests; the errors say why."""

    def __init__(self, errors: list[FieldError]) -> None:
        super().__init__(errors)
        self.errors = errors


def default_ip_families(spec: Object, before: Object | None, configured: Sequence[str]) -> None:
    if not needs_address(spec) or stays_prefer_dual_stack(spec, before):
        return
    if "ipFamilyPolicy" not in spec:
        spec["ipFamilyPolicy"] = _default_policy(spec, before)
    _raise_if(collect(address_rules, spec))
    _raise_if(collect(_infer_families, spec, before, configured))
    if spec.get("clusterIP") == HEADLESS and not spec.get("selector"):
        _default_without_selector(spec, configured)
        return
    _raise_if(collect(_check_configured, spec, configured))
    families = spec.setdefault("ipFamilies", [configured[0]])
    if spec["ipFamilyPolicy"] != "SingleStack" and len(families) == 1 and len(configured) == 2:
        spec["ipFamilies"] = [*families, _other(families[0])]


def _infer_families(
    errors: FieldErrors, spec: Object, before: Object | None, configured: Sequence[str]
) -> None:
    _check_policy(errors, spec, before)
    _infer_from_addresses(errors, spec, configured)


def stays_prefer_dual_stack(spec: Object, before: Object | None) -> bool:
    """Whether an update leaves a service with PreferDualStack as it is."""
    if before is None or before["type"] != spec["type"]:
        return False
    return (
        spec.get("ipFamilyPolicy") == before.get("ipFamilyPolicy") == "PreferDualStack"
        and same("clusterIPs", spec, before)
        and same("ipFamilies", spec, before)
    )


def _default_policy(spec: Object, before: Object | None) -> str:
    if before is not None and "ipFamilyPolicy" in before:
        return str(before["ipFamilyPolicy"])
    unselected = spec.get("clusterIP") == HEADLESS and not spec.get("selector")
    return "RequireDualStack" if unselected else "SingleStack"


def _check_policy(errors: FieldErrors, spec: Object, before: Object | None) -> None:
    policy = spec["ipFamilyPolicy"]
    if policy != "SingleStack":
        _check_not_reduced(errors, spec, before or {}, policy)
        return
    for part, what in (("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")):
        values = spec.get(part, [])
        if before is not None and len(values) > 1 and same(part, spec, before):
            spec[part] = values[:1]  # the client asks for SingleStack: drop the second
        elif len(values) == 2:
            text = f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
            errors.add(invalid(_POLICY, policy, text))


def _check_not_reduced(errors: FieldErrors, spec: Object, before: Object, policy: str) -> None:
    for part, what in (("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")):
        if 0 < len(spec.get(part, [])) < len(before.get(part, [])):
            text = f"must be 'SingleStack' to release the secondary {what}"
            errors.add(invalid(_POLICY, policy, text))


def _infer_from_addresses(errors: FieldErrors, spec: Object, configured: Sequence[str]) -> None:
    ips, families = spec.get("clusterIPs", []), spec.get("ipFamilies", [])
    if HEADLESS in ips:
        return
    for index, ip in enumerate(ips[len(families) :], start=len(families)):
        family = family_of(ip)
        if family in configured:
            spec["ipFamilies"] = families = [*families, family]
        else:
            text = f"{family} is not configured on this cluster"
            errors.add(invalid(f"spec.clusterIPs[{index}]", ips, text))


def _default_without_selector(spec: Object, configured: Sequence[str]) -> None:
    """A headless service without selector may have both families, whatever the cluster has."""
    families = spec.setdefault("ipFamilies", [configured[0]])
    if len(families) < 2 and spec["ipFamilyPolicy"] != "SingleStack":
        spec["ipFamilies"] = [*families, _other(families[0])]


def _check_configured(errors: FieldErrors, spec: Object, configured: Sequence[str]) -> None:
    if spec["ipFamilyPolicy"] == "RequireDualStack" and len(configured) < 2:
        text = "this cluster is not configured for dual-stack services"
        errors.add(invalid(_POLICY, spec["ipFamilyPolicy"], text))
    for index, family in enumerate(spec.get("ipFamilies", ())):
        if family not in configured:
            errors.add(invalid(f"spec.ipFamilies[{index}]", family, "not configured on this cluster"))


def _other(family: str) -> str:
    return "IPv6" if family == "IPv4" else "IPv4"


def _raise_if(errors: list[FieldError]) -> None:
    if errors:
        raise AllocationError(errors)
