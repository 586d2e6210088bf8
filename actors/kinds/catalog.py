"""All kinds of one dialect, found by address, by group, or by the name they are stored under.

Made once when a server starts: it holds declarations, never anything compiled.
"""

from __future__ import annotations

from functools import cached_property

from actors.kinds import (
    admissionregistration,
    apiregistration,
    apps,
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
from actors.kinds.definition import Definition
from actors.names import Names

# In the order in which discovery has always listed them.
_GROUPS = (
    core,
    apiregistration,
    apps,
    events,
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


class Catalog:
    def __init__(self, names: Names) -> None:
        self.definitions: tuple[Definition, ...] = tuple(
            definition for group in _GROUPS for definition in group.declare(names)
        )
        self._by_address = {(d.group, d.version, d.plural): d for d in self.definitions}
        self._by_storage = {d.type_name: d for d in self.definitions if not d.stored_as}

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
