"""Pod security policies: a level of the Pod Security Standards and a version of it, for each of three modes.

`enforce` refuses pods, `audit` annotates audit events, `warn` returns warnings. A namespace chooses them with labels:

    pod-security.cluster.io/enforce: baseline
    pod-security.cluster.io/enforce-version: v1.24

A label that is not there leaves the default of the cluster. A wrong level counts as restricted when it is enforced, so
that a typing error opens nothing, and as privileged in the other two modes; a wrong version counts as latest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from actors.kinds.validation.field_errors import FieldError, invalid
from actors.names import Names

PRIVILEGED, BASELINE, RESTRICTED = "privileged", "baseline", "restricted"
LEVELS: Final = (PRIVILEGED, BASELINE, RESTRICTED)  # from the least strict to the strictest
LATEST: Final = "latest"
ENFORCE, AUDIT, WARN = "enforce", "audit", "warn"
MODES: Final = (ENFORCE, AUDIT, WARN)

WRONG_LEVEL: Final = f"must be one of {', '.join(LEVELS)}"
WRONG_VERSION: Final = 'must be "latest" or "v1.x"'
_VERSION: Final = re.compile(r"v1\.(0|[1-9][0-9]*)", re.ASCII)
_LARGEST: Final = 2**63 - 1


class LevelVersion(NamedTuple):
    level: str = PRIVILEGED
    version: str = LATEST  # or v1.0, v1.1, ...

    def __str__(self) -> str:
        return f"{self.level}:{self.version}"

    def equivalent(self, other: LevelVersion) -> bool:
        """Privileged is the same in all versions."""
        return self == other or self.level == other.level == PRIVILEGED


class Policy(NamedTuple):
    enforce: LevelVersion = LevelVersion()
    audit: LevelVersion = LevelVersion()
    warn: LevelVersion = LevelVersion()

    @property
    def fully_privileged(self) -> bool:
        return all(one.level == PRIVILEGED for one in self)

    def equivalent(self, other: Policy) -> bool:
        return all(one.equivalent(another) for one, another in zip(self, other, strict=True))

    def __str__(self) -> str:
        """The modes that are not privileged."""
        parts = [f"{mode}={one}" for mode, one in zip(MODES, self, strict=True) if one.level != PRIVILEGED]
        return ", ".join(parts) or PRIVILEGED


FULLY_PRIVILEGED: Final = Policy()


class NamespacePolicy(NamedTuple):
    """The policy of a namespace, and what is wrong with the labels that say it."""

    policy: Policy
    errors: tuple[FieldError, ...] = ()
    admits_every_pod: bool = False  # without a check: no mode has anything to report
    admits_every_template: bool = False


def is_level(text: str) -> bool:
    return text in LEVELS


def is_version(text: str) -> bool:
    if text == LATEST:
        return True
    found = _VERSION.fullmatch(text)
    return found is not None and int(found[1]) <= _LARGEST


class PolicyLabels:
    """Reads policies from the labels of namespaces."""

    def __init__(self, names: Names, defaults: Policy) -> None:
        self.prefix = names.key("", "pod-security")
        self.defaults = defaults
        self._keys = tuple((f"{self.prefix}{mode}", f"{self.prefix}{mode}-version") for mode in MODES)
        self._without_labels = _namespace_policy(defaults, ())

    def policy_of(self, labels: Mapping[str, str] | None) -> NamespacePolicy:
        if not labels or not any(key.startswith(self.prefix) for key in labels):
            return self._without_labels
        errors: list[FieldError] = []
        found = [
            self._mode(labels, mode, default, errors)
            for mode, default in zip(range(len(MODES)), self.defaults, strict=True)
        ]
        return _namespace_policy(Policy(*found), tuple(errors))

    def _mode(
        self, labels: Mapping[str, str], mode: int, default: LevelVersion, errors: list[FieldError]
    ) -> LevelVersion:
        level_key, version_key = self._keys[mode]
        level = labels.get(level_key, default.level)
        version = labels.get(version_key, default.version)
        if not is_level(level):
            errors.append(invalid(f"metadata.labels[{level_key}]", level, WRONG_LEVEL))
            level = RESTRICTED if MODES[mode] == ENFORCE else PRIVILEGED
        if not is_version(version):
            errors.append(invalid(f"metadata.labels[{version_key}]", version, WRONG_VERSION))
            version = LATEST
        return LevelVersion(level, version)


def _namespace_policy(policy: Policy, errors: tuple[FieldError, ...]) -> NamespacePolicy:
    templates = policy.audit.level == policy.warn.level == PRIVILEGED
    return NamespacePolicy(policy, errors, not errors and policy.fully_privileged, not errors and templates)


def is_tightened(new: LevelVersion, old: LevelVersion) -> bool:
    """Whether pods that the old enforced level allows may violate the new one."""
    if new == old or new.level == PRIVILEGED:
        return False
    return new.version != old.version or LEVELS.index(new.level) > LEVELS.index(old.level)
