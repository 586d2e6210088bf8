"""Warnings about pods and templates that are valid but may not work as their authors expect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from actors.kinds.core.pods.affinity import PREFERRED, REQUIRED
from actors.kinds.core.pods.keys import PodKeys
from actors.kinds.core.pods.windows import containers_of
from actors.kinds.declaration.deprecated_labels import deprecated_labels, requirement_warnings
from actors.kinds.values.quantity import NANOS, nanos_of
from actors.messages import Object
from actors.names import Names
from actors.quoting import quoted_start

_SOON: Final = "deprecated in v1.22, support removal is planned in v1.26"
_OLD_SOURCES: Final = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": _SOON,
    "storageos": _SOON,
    "quobyte": _SOON,
    "glusterfs": "deprecated in v1.25, this feature will be removed soon after in a subsequent release",
}
_NAME_IN_PATHS: Final = {"storageos": "storageOS"}
_USE_SYSCTLS: Final = 'non-functional in v1.11+; use the "sysctls" field instead'
_USE_PROFILE: Final = (
    'deprecated since v1.19, non-functional in a future release; use the "seccompProfile" field instead'
)
_IN_BYTES: Final = ("memory", "ephemeral-storage")


class PodWarnings:
    def __init__(self, names: Names) -> None:
        self._keys = PodKeys.of(names)
        self._old_labels = deprecated_labels(names)
        self._old_annotations = {
            names.key("critical-pod", "scheduler.alpha"): (
                'non-functional in v1.16+; use the "priorityClassName" field instead'
            ),
            names.key("sysctls", "security.alpha"): _USE_SYSCTLS,
            names.key("unsafe-sysctls", "security.alpha"): _USE_SYSCTLS,
        }

    def of(self, pod: Object, field: str = "") -> list[str]:
        """Warnings about a pod, or about the template at `field`."""
        prefix = f"{field}." if field else ""
        spec, annotations = pod["spec"], pod["metadata"].get("annotations", {})
        return [
            *self._labels(spec, f"{prefix}spec"),
            *(
                f"{prefix}metadata.annotations[{key}]: {text}"
                for key, text in self._old_annotations.items()
                if key in annotations
            ),
            *_sources(spec, f"{prefix}spec"),
            *_repeated_entries(spec, f"{prefix}spec"),
            *_fractions(spec.get("overhead", {}), f"{prefix}spec.overhead"),
            *self._profiles(spec, annotations, prefix),
        ]

    def _labels(self, spec: Object, field: str) -> Iterator[str]:
        known = self._old_labels
        for key in spec.get("nodeSelector", ()):
            if key in known:
                yield f"{field}.nodeSelector[{key}]: {known[key]}"
        affinity = spec.get("affinity", {}).get("nodeAffinity", {})
        here = f"{field}.affinity.nodeAffinity"
        for index, term in enumerate(affinity.get(REQUIRED, {}).get("nodeSelectorTerms") or ()):
            expressions = term.get("matchExpressions", ())
            path = f"{here}.{REQUIRED}.nodeSelectorTerms[{index}].matchExpressions"
            yield from requirement_warnings(known, expressions, path)
        for index, weighted in enumerate(affinity.get(PREFERRED, ())):
            expressions = weighted["preference"].get("matchExpressions", ())
            path = f"{here}.{PREFERRED}[{index}].preference.matchExpressions"
            yield from requirement_warnings(known, expressions, path)
        for index, constraint in enumerate(spec.get("topologySpreadConstraints", ())):
            key = constraint["topologyKey"]
            if key in known:
                yield f"{field}.topologySpreadConstraints[{index}].topologyKey: {key} is {known[key]}"

    def _profiles(self, spec: Object, annotations: Object, prefix: str) -> Iterator[str]:
        here = f"{prefix}metadata.annotations"
        if self._keys.pod_seccomp in annotations and _has_no_seccomp_profile(spec):
            yield f"{here}[{self._keys.pod_seccomp}]: {_USE_PROFILE}"
        for container, path in containers_of(spec, f"{prefix}spec"):
            key = self._keys.container_seccomp + container["name"] if annotations else ""
            if key in annotations and _has_no_seccomp_profile(container):
                yield f"{here}[{key}]: {_USE_PROFILE}"
            if container["resources"]:
                yield from _container_fractions(container["resources"], f"{path}.resources")
            env = container.get("env", ())
            if len({variable["name"] for variable in env}) < len(env):
                yield from _duplicates(env, "name", f"{path}.env")


def _has_no_seccomp_profile(holder: Object) -> bool:
    return "seccompProfile" not in holder.get("securityContext", {})


def _sources(spec: Object, field: str) -> Iterator[str]:
    for index, volume in enumerate(spec.get("volumes", ())):
        for source, text in _OLD_SOURCES.items():
            if source in volume:
                yield f"{field}.volumes[{index}].{_NAME_IN_PATHS.get(source, source)}: {text}"


def _repeated_entries(spec: Object, field: str) -> Iterator[str]:
    yield from _duplicates(spec.get("hostAliases", ()), "ip", f"{field}.hostAliases")
    secrets = spec.get("imagePullSecrets", ())
    yield from _duplicates(secrets, "name", f"{field}.imagePullSecrets")
    for index, secret in enumerate(secrets):
        if not secret.get("name"):
            yield f'{field}.imagePullSecrets[{index}].name: invalid empty name ""'
    yield from _duplicates(spec.get("volumes", ()), "name", f"{field}.volumes")


def _duplicates(entries: Iterable[Object], part: str, field: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, entry in enumerate(entries):
        value = entry.get(part, "")
        if value in seen:
            yield f"{field}[{index}].{part}: duplicate {part} {quoted_start(value)}"
        seen.add(value)


def _container_fractions(resources: Object, field: str) -> Iterator[str]:
    for name in _IN_BYTES:
        for part in ("limits", "requests"):
            yield from _fractions(resources.get(part, {}), f"{field}.{part}", name)


def _fractions(amounts: Object, field: str, *names: str) -> Iterator[str]:
    for name in names or _IN_BYTES:
        amount = amounts.get(name)
        if amount is None or (amount[-1] != "m" and amount.isalnum()):
            continue  # a whole number
        if nanos_of(amount) % NANOS:
            yield f"{field}[{name}]: fractional byte value {quoted_start(amount)} is invalid, must be an integer"
