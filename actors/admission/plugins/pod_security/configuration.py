"""The configuration of PodSecurity: the policy of namespaces without labels, and who is exempt from checks.

    apiVersion: pod-security.admission.config.cluster.io/v1
    kind: PodSecurityConfiguration
    defaults: {enforce: baseline, enforce-version: v1.25, warn: restricted}
    exemptions: {usernames: [ci], namespaces: [cluster-system], runtimeClasses: [sandboxed]}

The versions v1, v1beta1 and v1alpha1 have the same fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from actors.admission.configuration import PluginConfiguration
from actors.admission.plugins.pod_security.policy import (
    FULLY_PRIVILEGED,
    LATEST,
    MODES,
    PRIVILEGED,
    WRONG_LEVEL,
    WRONG_VERSION,
    LevelVersion,
    Policy,
    is_level,
    is_version,
)
from actors.kinds.validation.checks import dns_label, dns_subdomain
from actors.names import Names

VERSIONS: Final = ("v1", "v1beta1", "v1alpha1")
_DEFAULTS: Final = tuple(key for mode in MODES for key in (mode, f"{mode}-version"))
_EXEMPTIONS: Final = ("usernames", "namespaces", "runtimeClasses")


@dataclass(frozen=True, slots=True)
class PodSecurityConfiguration:
    defaults: Policy = FULLY_PRIVILEGED
    exempt_users: frozenset[str] = frozenset()
    exempt_namespaces: frozenset[str] = frozenset()
    exempt_runtime_classes: frozenset[str] = frozenset()


def parse_configuration(names: Names, given: PluginConfiguration | None) -> PodSecurityConfiguration:
    """AdmissionConfigurationError for what is wrong with it."""
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
