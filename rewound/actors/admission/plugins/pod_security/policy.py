"""Pod security policies: a level of the Pod Security Standards and a version of it, for each of three modes.

`enforce` rejects pods, `audit` annotates audit events, `warn` returns warnings. A namespace chooses them with labels:

    pod-security.cluster.io/enforce: baseline
    pod-security.cluster.io/enforce-version: v1.24

Without a label the default of the cluster applies. An invalid level counts as restricted when it is enforced, so that a
typo allows nothing, and as privileged in the other two modes; an invalid version counts as latest.

The default of the cluster and the exemptions come from the configuration of the plugin; its versions v1, v1beta1 and
v1alpha1 have the same fields:

    apiVersion: pod-security.admission.config.cluster.io/v1
    kind: PodSecurityConfiguration
    defaults: {enforce: baseline, enforce-version: v1.25, warn: restricted}
    exemptions: {usernames: [ci], namespaces: [cluster-system], runtimeClasses: [sandboxed]}
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from rewound.actors.admission.configuration import PluginConfiguration
from rewound.actors.errors import Resource
from rewound.actors.kinds.validation import FieldError, dns_label, dns_subdomain, invalid
from rewound.actors.names import Names
from rewound.actors.selectors.facts import unpack_labels
from rewound.actors.store.feed import Feed
from rewound.journal.log import Journal
from rewound.journal.records import Event

PRIVILEGED, BASELINE, RESTRICTED = "privileged", "baseline", "restricted"
LEVELS: Final = (PRIVILEGED, BASELINE, RESTRICTED)  # from the least to the most strict
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
        """Whether both mean the same; privileged is the same in all versions."""
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
    """The policy of a namespace, and the errors in its labels."""

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


VERSIONS: Final = ("v1", "v1beta1", "v1alpha1")
_DEFAULTS: Final = tuple(key for mode in MODES for key in (mode, f"{mode}-version"))
_EXEMPTIONS: Final = ("usernames", "namespaces", "runtimeClasses")


class PodSecurityConfiguration(msgspec.Struct, frozen=True):
    defaults: Policy = FULLY_PRIVILEGED
    exempt_users: frozenset[str] = frozenset()
    exempt_namespaces: frozenset[str] = frozenset()
    exempt_runtime_classes: frozenset[str] = frozenset()


def parse_configuration(names: Names, given: PluginConfiguration | None) -> PodSecurityConfiguration:
    """Parse the configuration. Raises AdmissionConfigurationError if it is invalid."""
    if given is None:
        return PodSecurityConfiguration()
    group = names.group("pod-security.admission.config")
    given.check_type(*((f"{group}/{version}", "PodSecurityConfiguration") for version in VERSIONS))
    given.check_fields("defaults", "exemptions")
    defaults = _mapping(given, "defaults", _DEFAULTS)
    exemptions = _mapping(given, "exemptions", _EXEMPTIONS)
    return PodSecurityConfiguration(
        Policy(*(_level_version(given, defaults, mode) for mode in MODES)),
        _names(given, exemptions, "usernames", _wrong_user),
        _names(given, exemptions, "namespaces", dns_label),
        _names(given, exemptions, "runtimeClasses", dns_subdomain),
    )


def _mapping(given: PluginConfiguration, member: str, known: tuple[str, ...]) -> Mapping[str, Any]:
    found = given.document.get(member)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise given.error(member, "must be a mapping")
    for key in found:
        if key not in known:
            raise given.error(f"{member}.{key}", f"is not known; there are {', '.join(known)}")
    return found


def _level_version(given: PluginConfiguration, defaults: Mapping[str, Any], mode: str) -> LevelVersion:
    level = defaults.get(mode) or PRIVILEGED
    version = defaults.get(f"{mode}-version") or LATEST
    if not isinstance(level, str) or not is_level(level):
        raise given.error(f"defaults.{mode}", WRONG_LEVEL)
    if not isinstance(version, str) or not is_version(version):
        raise given.error(f"defaults.{mode}-version", WRONG_VERSION)
    return LevelVersion(level, version)


def _names(
    given: PluginConfiguration,
    exemptions: Mapping[str, Any],
    member: str,
    wrong: Callable[[str], list[str]],
) -> frozenset[str]:
    found = exemptions.get(member)
    if found is None:
        return frozenset()
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise given.error(f"exemptions.{member}", "must be a list of strings")
    seen: set[str] = set()
    for index, name in enumerate(found):
        if texts := wrong(name):
            raise given.error(f"exemptions.{member}[{index}]", ", ".join(texts))
        if name in seen:
            raise given.error(f"exemptions.{member}[{index}]", "is in the list twice")
        seen.add(name)
    return frozenset(seen)


def _wrong_user(name: str) -> list[str]:
    return [] if name else ["username must not be empty"]


NAMESPACES = Resource("", "namespaces")


class NamespacePolicies:
    """Caches the policy of every namespace, because every create of a pod needs it; the feed keeps it up to date."""

    def __init__(self, labels: PolicyLabels, journal: Journal, feed: Feed) -> None:
        self._labels = labels
        self._journal = journal
        self._type_id = journal.type_id("namespaces")
        self._known: dict[str, NamespacePolicy] = {}
        feed.follow(self._committed, frozenset({self._type_id}))

    def of(self, namespace: str) -> NamespacePolicy | None:
        """The policy; None if there is no such namespace. Any thread may call it."""
        return self._known.get(namespace) or self._look_up(namespace)

    def _look_up(self, namespace: str) -> NamespacePolicy | None:
        with self._journal.read() as view:
            row = view.get(self._type_id, "", namespace)
        if row is None:
            return None
        # In the worker thread: do not overwrite what the feed has put there meanwhile.
        return self._known.setdefault(namespace, self._labels.policy_of(unpack_labels(row.facts)))

    def _committed(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type_id != self._type_id:
                continue
            if event.removed:
                self._known.pop(event.name, None)
            else:
                self._known[event.name] = self._labels.policy_of(unpack_labels(event.facts))
