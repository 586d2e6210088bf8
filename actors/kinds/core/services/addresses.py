"""Cluster IPs of services: one or two of them, of one or two families, in a single field and in a list.

`address_rules` validates what a client sent, before anything is allocated; `address_update_rules` validates a change
of what was allocated.
"""

from __future__ import annotations

from typing import Final

from actors.kinds.core.services.traits import HEADLESS, is_headless, needs_address
from actors.kinds.validation import (
    FieldErrors,
    duplicate,
    invalid,
    ip_address,
    not_supported,
    parse_ip,
    required,
)
from actors.messages import Object

FAMILIES: Final = ("IPv4", "IPv6")
FAMILY_POLICIES: Final = ("PreferDualStack", "RequireDualStack", "SingleStack")
IMMUTABLE_ONCE_SET: Final = "may not change once set"
_IPS: Final = "spec.clusterIPs"
_FAMILIES: Final = "spec.ipFamilies"
_POLICY: Final = "spec.ipFamilyPolicy"


def family_of(address: str) -> str:
    parsed = parse_ip(address)
    return "IPv6" if parsed is not None and parsed.version == 6 else "IPv4"


def address_rules(errors: FieldErrors, spec: Object) -> None:
    if not needs_address(spec):
        return
    ips = spec.get("clusterIPs", [])
    _single_address_rules(errors, spec.get("clusterIP", ""), ips)
    _family_rules(errors, spec)
    wrong = errors.added_by(_address_format_rules, ips)
    if len(ips) > 2:
        errors.add(invalid(_IPS, ips, "may only hold up to 2 values"))
    if not wrong:
        _family_match_rules(errors, spec, ips)


def _single_address_rules(errors: FieldErrors, ip: str, ips: list[str]) -> None:
    if ip and not ips:
        errors.add(required(_IPS))
        return
    if ip and ips[0] != ip:
        errors.add(invalid(_IPS, ips, "first value must match `clusterIP`"))
        return
    if ips and not ip:
        errors.add(invalid(_IPS, ips, "must be empty when `clusterIP` is not specified"))


def _family_rules(errors: FieldErrors, spec: Object) -> None:
    families, policy = spec.get("ipFamilies", []), spec.get("ipFamilyPolicy")
    seen: set[str] = set()
    for index, family in enumerate(families):
        if family not in FAMILIES:
            errors.add(not_supported(f"{_FAMILIES}[{index}]", family, FAMILIES))
        if family in seen:
            errors.add(duplicate(f"{_FAMILIES}[{index}]", family))
        seen.add(family)
    if policy is not None and policy not in FAMILY_POLICIES:
        errors.add(not_supported(_POLICY, policy, FAMILY_POLICIES))


def _address_format_rules(errors: FieldErrors, ips: list[str]) -> None:
    for index, ip in enumerate(ips):
        if index == 0 and ip == HEADLESS:
            if len(ips) > 1:
                errors.add(invalid(_IPS, ips, "'None' must be the first and only value"))
            continue
        errors.add_each(f"{_IPS}[{index}]", ip, ip_address(ip))


def _family_match_rules(errors: FieldErrors, spec: Object, ips: list[str]) -> None:
    if len(ips) > 1 and len({family_of(ip) for ip in ips}) == 1:
        errors.add(invalid(_IPS, ips, "may specify no more than one IP for each IP family"))
    if is_headless(spec):
        return
    for index, (ip, family) in enumerate(zip(ips, spec.get("ipFamilies", []), strict=False)):
        if family in FAMILIES and family_of(ip) != family:
            text = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            errors.add(invalid(f"{_IPS}[{index}]", ip, text))


def address_update_rules(errors: FieldErrors, spec: Object, before: Object) -> None:
    if needs_address(spec) and needs_address(before):
        _address_update_rules(errors, spec, before)
        _family_update_rules(errors, spec, before)


def _address_update_rules(errors: FieldErrors, spec: Object, before: Object) -> None:
    ips, old = spec.get("clusterIPs", []), before.get("clusterIPs", [])
    if is_headless(spec) and is_headless(before):
        return
    if len(ips) == len(old):
        for index, ip in enumerate(old):
            if ip != ips[index]:
                errors.add(invalid(f"{_IPS}[{index}]", ips, IMMUTABLE_ONCE_SET))
        return
    if not ips:
        errors.add(invalid(f"{_IPS}[0]", ips, "primary clusterIP can not be unset"))
    elif old and ips[0] != old[0]:
        errors.add(invalid(f"{_IPS}[0]", ips, IMMUTABLE_ONCE_SET))
    if len(ips) == 1 and len(old) > 1:
        _needs_single_stack(errors, spec, "clusterIP")


def _family_update_rules(errors: FieldErrors, spec: Object, before: Object) -> None:
    families, old = spec.get("ipFamilies", []), before.get("ipFamilies", [])
    if is_headless(spec) or is_headless(before):
        return
    if len(families) == len(old):
        changed = [family for family, was in zip(families, old, strict=True) if family != was]
        for _ in changed:
            errors.add(invalid(f"{_FAMILIES}[0]", families, IMMUTABLE_ONCE_SET))
        return
    ips = spec.get("clusterIPs", [])
    if len(families) < len(old) and not ips:
        errors.add(invalid(f"{_FAMILIES}[0]", families, "primary ipFamily can not be unset"))
    if families and old and families[0] != old[0]:
        errors.add(invalid(f"{_FAMILIES}[0]", ips, IMMUTABLE_ONCE_SET))
    if len(families) == 1 and len(old) > 1:
        _needs_single_stack(errors, spec, "ipFamily")


def _needs_single_stack(errors: FieldErrors, spec: Object, what: str) -> None:
    policy = spec.get("ipFamilyPolicy")
    if policy != "SingleStack":
        errors.add(
            invalid(_POLICY, policy, f"must be set to 'SingleStack' when releasing the secondary {what}")
        )
