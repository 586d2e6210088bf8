"""Drops fields of disabled features from objects of clients, unless the old object has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from actors.kinds.features import (
    MIN_DOMAINS,
    PROC_MOUNT,
    SPREAD_INCLUSION,
    SPREAD_LABEL_KEYS,
    USER_NAMESPACES,
)
from actors.messages import Object

_SPREAD: Final = {
    "minDomains": MIN_DOMAINS,
    "nodeTaintsPolicy": SPREAD_INCLUSION,
    "nodeAffinityPolicy": SPREAD_INCLUSION,
    "matchLabelKeys": SPREAD_LABEL_KEYS,
}


_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")


def without_disabled_fields(spec: Object, old: Object | None, features: frozenset[str]) -> Object:
    """The spec without fields of disabled features: a changed copy, or `spec` itself where there are none."""
    before, changed = old or {}, {}
    if "hostUsers" in spec and USER_NAMESPACES not in features and "hostUsers" not in before:
        spec = {part: value for part, value in spec.items() if part != "hostUsers"}
    constraints = spec.get("topologySpreadConstraints")
    if constraints:
        changed["topologySpreadConstraints"] = _without_disabled_spread_fields(constraints, before, features)
    if PROC_MOUNT not in features and _sets_proc_mount(spec) and not _keeps_proc_mount(before):
        changed.update({part: _default_proc_mounts(spec[part]) for part in _CONTAINERS if spec.get(part)})
    return {**spec, **changed} if changed else spec


def _without_disabled_spread_fields(
    constraints: list[Object], before: Object, features: frozenset[str]
) -> list[Object]:
    had = before.get("topologySpreadConstraints", ())
    dropped = {
        part
        for part, feature in _SPREAD.items()
        if feature not in features and not any(part in one for one in had)
    }
    return [{part: value for part, value in one.items() if part not in dropped} for one in constraints]


def _sets_proc_mount(spec: Object) -> bool:
    return any(True for _ in _proc_mounts(spec))


def _keeps_proc_mount(before: Object) -> bool:
    return any(mount != "Default" for mount in _proc_mounts(before))


def _proc_mounts(spec: Object) -> Iterator[str]:
    for part in _CONTAINERS:
        for container in spec.get(part) or ():
            if "procMount" in container.get("securityContext", ()):
                yield container["securityContext"]["procMount"]


def _default_proc_mounts(containers: list[Object]) -> list[Object]:
    return [
        {**one, "securityContext": {**one["securityContext"], "procMount": "Default"}}
        if "procMount" in one.get("securityContext", ())
        else one
        for one in containers
    ]
