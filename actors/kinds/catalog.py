"""All kinds of one dialect, found by address, by group, or by the name they are stored under.

Made once when a server starts: it holds declarations, never anything compiled. `declared` are all kinds there are;
`definitions` are those that clients are served. Only what works on stored objects asks for the former: an object
stays, and is emptied with its namespace, when its kind is no longer served.
"""

from __future__ import annotations

from functools import cached_property
from types import ModuleType

from actors.kinds import (
    admissionregistration,
    apiregistration,
    apps,
    authentication,
    authorization,
    autoscaling,
    batch,
    certificates,
    coordination,
    core,
    discovery,
    events,
    flowcontrol,
    networking,
    node,
    policy,
    rbac,
    scheduling,
    storage,
)
from actors.kinds.declaration.definition import Definition
from actors.kinds.enablement import DEFAULT, Enablement
from actors.names import Names

# In the order in which discovery has always listed them.
_GROUPS = (
    core,
    apiregistration,
    apps,
    events,
    authentication,
    authorization,
    autoscaling,
    batch,
    certificates,
    networking,
    policy,
    rbac,
    storage,
    admissionregistration,
    scheduling,
    coordination,
    node,
    discovery,
    flowcontrol,
)
_GATED = frozenset(
    {core, apps, autoscaling, batch, networking, policy, storage}
)  # fields of theirs wait for features


class Catalog:
    def __init__(
        self, names: Names, features: frozenset[str] = frozenset(), enabled: Enablement = DEFAULT
    ) -> None:
        self.declared: tuple[Definition, ...] = tuple(
            definition for group in _GROUPS for definition in _declare(group, names, features)
        )
        self.definitions = tuple(filter(enabled.serves, self.declared))
        self._by_address = {(d.group, d.version, d.plural): d for d in self.definitions}
        self._by_storage = {d.type_name: d for d in self.declared if not d.storage.stored_as}

    def find(self, group: str, version: str, plural: str) -> Definition | None:
        return self._by_address.get((group, version, plural))

    def storage(self, type_name: str) -> Definition:
        """The definition in whose form objects of a type are stored."""
        return self._by_storage[type_name]

    def serves(self, group: str, plural: str) -> bool:
        """Whether some version of the group has such a resource."""
        return (group, plural) in self._resources

    def group_exists(self, group: str) -> bool:
        return group in self._versions

    def groups(self) -> dict[str, tuple[str, ...]]:
        """Versions by group, the preferred one first."""
        return dict(self._versions)

    @cached_property
    def _resources(self) -> frozenset[tuple[str, str]]:
        return frozenset((d.group, d.plural) for d in self.definitions)

    @cached_property
    def _versions(self) -> dict[str, tuple[str, ...]]:
        versions: dict[str, tuple[str, ...]] = {}
        for definition in self.definitions:
            known = versions.setdefault(definition.group, ())
            if definition.version not in known:
                versions[definition.group] = (*known, definition.version)
        return versions


def _declare(group: ModuleType, names: Names, features: frozenset[str]) -> tuple[Definition, ...]:
    declared: tuple[Definition, ...] = (
        group.declare(names, features) if group in _GATED else group.declare(names)
    )
    return declared
