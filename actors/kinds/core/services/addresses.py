"""Addresses of services: one or two of them, of one or two families, said once alone and once in a list.

`address_rules` judge what a client sent, before anything is allocated; `address_change_rules` judge a change of
what was allocated.
"""

from __future__ import annotations

from typing import Final

from actors.kinds.core.services.traits import HEADLESS, is_headless, needs_address
from actors.kinds.validation.checks import (
    FieldError,
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
KEPT: Final = "may not change once set"
_IPS: Final = "spec.clusterIPs"
_FAMILIES: Final = "spec.ipFamilies"
_POLICY: Final = "spec.ipFamilyPolicy"


def family_of(address: str) -> str:
    parsed = parse_ip(address)
    return "IPv6" if parsed is not None and parsed.version == 6 else "IPv4"


def address_rules(spec: Object) -> list[FieldError]:
    if not needs_address(spec):
        return []
    ips = spec.get("clusterIPs", [])
    errors = [*_in_step(spec.get("clusterIP", ""), ips), *_family_rules(spec)]
    wrong = _each_address(ips)
    errors += wrong
    if len(ips) > 2:
        errors.append(invalid(_IPS, ips, "may only hold up to 2 values"))
    return errors if wrong else [*errors, *_matching(spec, ips)]


def _in_step(ip: str, ips: list[str]) -> list[FieldError]:
    if ip and not ips:
        return [required(_IPS)]
    if ip and ips[0] != ip:
        return [invalid(_IPS, ips, "first value must match `clusterIP`")]
    if ips and not ip:
        return [invalid(_IPS, ips, "must be empty when `clusterIP` is not specified")]
    return []


def _family_rules(spec: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    families, policy = spec.get("ipFamilies", []), spec.get("ipFamilyPolicy")
    for index, family in enumerate(families):
        if family not in FAMILIES:
            errors.append(not_supported(f"{_FAMILIES}[{index}]", family, FAMILIES))
        if family in families[:index]:
            errors.append(duplicate(f"{_FAMILIES}[{index}]", family))
    if policy is not None and policy not in FAMILY_POLICIES:
        errors.append(not_supported(_POLICY, policy, FAMILY_POLICIES))
    return errors


def _each_address(ips: list[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, ip in enumerate(ips):
        if index == 0 and ip == HEADLESS:
            if len(ips) > 1:
                errors.append(invalid(_IPS, ips, "'None' must be the first and only value"))
            continue
        errors += [invalid(f"{_IPS}[{index}]", ip, text) for text in ip_address(ip)]
    return errors


def _matching(spec: Object, ips: list[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    if len(ips) > 1 and len({family_of(ip) for ip in ips}) == 1:
        errors.append(invalid(_IPS, ips, "may specify no more than one IP for each IP family"))
    if is_headless(spec):
        return errors
    for index, (ip, family) in enumerate(zip(ips, spec.get("ipFamilies", []), strict=False)):
        if family in FAMILIES and family_of(ip) != family:
            text = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            errors.append(invalid(f"{_IPS}[{index}]", ip, text))
    return errors


def address_change_rules(spec: Object, before: Object) -> list[FieldError]:
    if not needs_address(spec) or not needs_address(before):
        return []
    return [*_address_changes(spec, before), *_family_changes(spec, before)]


def _address_changes(spec: Object, before: Object) -> list[FieldError]:
    ips, old = spec.get("clusterIPs", []), before.get("clusterIPs", [])
    if is_headless(spec) and is_headless(before):
        return []
    if len(ips) == len(old):
        return [invalid(f"{_IPS}[{index}]", ips, KEPT) for index, ip in enumerate(old) if ip != ips[index]]
    errors: list[FieldError] = []
    if not ips:
        errors.append(invalid(f"{_IPS}[0]", ips, "primary clusterIP can not be unset"))
    elif old and ips[0] != old[0]:
        errors.append(invalid(f"{_IPS}[0]", ips, KEPT))
    if len(ips) == 1 and len(old) > 1:
        errors += _needs_single_stack(spec, "clusterIP")
    return errors


def _family_changes(spec: Object, before: Object) -> list[FieldError]:
    families, old = spec.get("ipFamilies", []), before.get("ipFamilies", [])
    if is_headless(spec) or is_headless(before):
        return []
    if len(families) == len(old):
        changed = [family for family, was in zip(families, old, strict=True) if family != was]
        return [invalid(f"{_FAMILIES}[0]", families, KEPT) for _ in changed]
    errors: list[FieldError] = []
    ips = spec.get("clusterIPs", [])
    if len(families) < len(old) and not ips:
        errors.append(invalid(f"{_FAMILIES}[0]", families, "primary ipFamily can not be unset"))
    if families and old and families[0] != old[0]:
        errors.append(invalid(f"{_FAMILIES}[0]", ips, KEPT))
    if len(families) == 1 and len(old) > 1:
        errors += _needs_single_stack(spec, "ipFamily")
    return errors


def _needs_single_stack(spec: Object, what: str) -> list[FieldError]:
    policy = spec.get("ipFamilyPolicy")
    if policy == "SingleStack":
        return []
    return [invalid(_POLICY, policy, f"must be set to 'SingleStack' when releasing the secondary {what}")]
