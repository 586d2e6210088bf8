"""Sysctl patterns that a PodSecurityPolicy allows or forbids: names, or prefixes of names followed by '*'."""

from __future__ import annotations

import re
from typing import Final

from actors.kinds.core.pods.security import LONGEST_SYSCTL, SYSCTL_PART
from actors.kinds.validation.field_errors import FieldErrors, forbidden, invalid

_PATTERN: Final = rf"({SYSCTL_PART}\.)*([a-z0-9][-_a-z0-9]*)?[a-z0-9*]"
_is_pattern = re.compile(_PATTERN).fullmatch


def sysctl_rules(errors: FieldErrors, sysctls: list[str], field: str) -> None:
    for index, one in enumerate(sysctls):
        if not one:
            errors.add(invalid(f"{field}[{index}]", one, "empty sysctl not allowed"))
        elif len(one) > LONGEST_SYSCTL or not _is_pattern(one):
            text = f"must have at most {LONGEST_SYSCTL} characters and match regex {_PATTERN}"
            errors.add(invalid(f"{field}[{index}]", one, text))
    if "*" in sysctls and len(sysctls) > 1:
        errors.add(forbidden(f"{field}.items", "if '*' is present, must not specify other sysctls"))


def overlap_rules(errors: FieldErrors, allowed: list[str], forbidden_patterns: list[str]) -> None:
    """No sysctl is both allowed and forbidden; the error names the narrower of two patterns that overlap."""
    for i, one in enumerate(allowed):
        for j, other in enumerate(forbidden_patterns):
            if _covers(other, one):
                text = f"sysctl overlaps with {other}"
                errors.add(invalid(f"spec.allowedUnsafeSysctls[{i}]", one, text))
            elif _covers(one, other):
                text = f"sysctl overlaps with {one}"
                errors.add(invalid(f"spec.forbiddenSysctls[{j}]", other, text))


def _covers(wide: str, narrow: str) -> bool:
    """Whether the first pattern matches everything that the second matches."""
    if not wide.endswith("*"):
        return wide == narrow
    return narrow.removesuffix("*").startswith(wide.removesuffix("*"))
