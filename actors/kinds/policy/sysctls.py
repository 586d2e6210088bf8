"""Sysctl patterns that a PodSecurityPolicy allows or forbids: names, or prefixes of names followed by '*'."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from actors.kinds.core.pods.security import LONGEST_SYSCTL, SYSCTL_PART
from actors.kinds.validation import FieldErrors, forbidden, invalid

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
    """No sysctl is both allowed and forbidden; the error names the narrower of two patterns that overlap.

    Patterns that are too long have an error already.
    """
    index = _Patterns(forbidden_patterns)
    for i, one in enumerate(allowed):
        if len(one) > LONGEST_SYSCTL:
            continue
        wider = set(index.covering(one))
        for j in sorted(wider.union(index.covered_by(one))):
            other = forbidden_patterns[j]
            if j in wider:
                text = f"sysctl overlaps with {other}"
                errors.add(invalid(f"spec.allowedUnsafeSysctls[{i}]", one, text))
            else:
                text = f"sysctl overlaps with {one}"
                errors.add(invalid(f"spec.forbiddenSysctls[{j}]", other, text))


class _Patterns:
    """Finds the patterns that overlap with another one, without a comparison with each of them.

    One pattern covers another when it matches everything that the other matches.
    """

    def __init__(self, patterns: list[str]) -> None:
        self._names: dict[str, list[int]] = {}  # patterns without '*'
        self._prefixes: dict[str, list[int]] = {}  # patterns that end in '*', without it
        self._sorted: list[tuple[str, int]] = []
        for index, pattern in enumerate(patterns):
            if len(pattern) > LONGEST_SYSCTL:
                continue
            stem = pattern.removesuffix("*")
            (self._names if stem == pattern else self._prefixes).setdefault(stem, []).append(index)
            self._sorted.append((stem, index))
        self._sorted.sort()
        self._lengths = sorted({len(prefix) for prefix in self._prefixes})

    def covering(self, pattern: str) -> Iterator[int]:
        """Indices of the patterns that cover this one."""
        stem = pattern.removesuffix("*")
        if stem == pattern:
            yield from self._names.get(pattern, ())
        for length in self._lengths:
            if length > len(stem):
                return
            yield from self._prefixes.get(stem[:length], ())

    def covered_by(self, pattern: str) -> Iterator[int]:
        """Indices of the patterns that this one covers."""
        if not pattern.endswith("*"):
            yield from self._names.get(pattern, ())
            return
        prefix = pattern[:-1]
        for at in range(bisect_left(self._sorted, (prefix, -1)), len(self._sorted)):
            stem, index = self._sorted[at]
            if not stem.startswith(prefix):
                return
            yield index
