"""An immutable snapshot of all kinds, to find them by address, by kind, by short name, or by their type in the
journal.

`Registry` publishes one snapshot after another; a request, or a task that derives something, uses one snapshot to its
end. A snapshot contains declarations, nothing compiled. The next snapshot is derived from the one before: copies of a
few dicts, and work for the types that change.

`declared` are all kinds; `definitions` are those that clients are served. Only code that works on stored objects
needs the former: objects remain, and are deleted with their namespace, after their kind is no longer served.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TypeVar

import msgspec

from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.schema.fields import Struct
from rewound.actors.kinds.schema.projection import Structs, structs_of
from rewound.actors.versions.version import FIRST

T = TypeVar("T")
Address = tuple[str, str, str]  # group, version, plural

_VERSION = re.compile(r"v([0-9]+)(?:(alpha|beta)([0-9]+))?")
_STAGES = (None, "beta", "alpha")
_MAX_NUMBER = 2**63 - 1


def _everything(_: Definition) -> bool:
    return True


def _nothing(_: Definition) -> bool:
    return False


def _no_catalog() -> None:
    return None


class StoredType(msgspec.Struct, frozen=True, eq=False):
    """One type of the journal with its definitions, one for each group version. Replaced as a whole when
    one changes.
    """

    definitions: tuple[Definition, ...]
    served: tuple[Definition, ...]  # to clients

    @property
    def storage(self) -> Definition:
        """The definition in whose form objects are stored."""
        return next(one for one in self.definitions if not one.storage.stored_as)


class Catalog:
    def __init__(self, structs: Structs | None = None) -> None:
        """`structs` are those of the version of Kubernetes; without them, of the first."""
        self.structs = structs or structs_of(FIRST)
        self._types: dict[str, StoredType] = {}
        self._served: dict[Address, Definition] = {}
        self._group_versions: dict[tuple[str, str], tuple[Definition, ...]] = {}
        self._groups: dict[str, tuple[str, ...]] = {}
        self._kinds: dict[tuple[str, str], Definition] = {}
        self._short_names: dict[str, tuple[Definition, ...]] = {}
        # The snapshot that this one was derived from, and the types that differ. A weak reference: old snapshots are
        # not retained.
        self._previous: Callable[[], Catalog | None] = _no_catalog
        self._changed: tuple[str, ...] = ()

    # The next snapshot.

    def adding(
        self, definitions: Iterable[Definition], serves: Callable[[Definition], bool] = _everything
    ) -> Catalog:
        """Return the next snapshot, with these definitions as the only ones of their types.

        `serves` says which of them clients are served. Raises ValueError for an address that another type has.
        """
        every, by_type = tuple(definitions), dict[str, list[Definition]]()
        for one in every:
            by_type.setdefault(one.type_name, []).append(one)
        made = self._copy(by_type)
        for type_name, views in by_type.items():
            made._drop_type(type_name)
            made._types[type_name] = StoredType(tuple(views), tuple(filter(serves, views)))
        for one in every:
            made._kinds[one.api_version, one.kind] = one
            if serves(one):
                made._add(one)
        return made

    def retiring(self, type_name: str) -> Catalog:
        """Return the next snapshot, in which a type is declared but not served.

        Its stored objects can still be deleted with their namespace.
        """
        return self.adding(self._types[type_name].definitions, _nothing)

    def without(self, type_name: str) -> Catalog:
        """Return the next snapshot, without this type. Raises KeyError if it is not declared."""
        made = self._copy((type_name,))
        made._drop_type(type_name)
        del made._types[type_name]
        return made

    def _copy(self, changed: Iterable[str]) -> Catalog:
        """Return a copy for the next snapshot, in which the types in `changed` will differ."""
        made = Catalog(self.structs)
        made._previous, made._changed = weakref.ref(self), tuple(changed)
        made._types = dict(self._types)
        made._served = dict(self._served)
        made._group_versions = dict(self._group_versions)
        made._groups = dict(self._groups)
        made._kinds = dict(self._kinds)
        made._short_names = dict(self._short_names)
        return made

    # These three change a new copy before it is published.

    def _drop_type(self, type_name: str) -> None:
        """Drop everything by which a type's definitions are found."""
        old = self._types.get(type_name)
        if old is None:
            return
        for one in old.definitions:
            if self._kinds.get((one.api_version, one.kind)) == one:
                del self._kinds[one.api_version, one.kind]
        for one in old.served:
            self._remove(one)

    def _add(self, definition: Definition) -> None:
        group, version = definition.group, definition.version
        other = self._served.setdefault((group, version, definition.plural), definition)
        if other != definition:
            raise ValueError(f"{definition.plural} of {definition.api_version} is {other.type_name} already")
        self._group_versions[group, version] = (*self.of_version(group, version), definition)
        versions = self._groups.get(group, ())
        if version not in versions:
            self._groups[group] = tuple(sorted((*versions, version), key=preference))
        for name in definition.names.short_names:
            self._short_names[name] = (*self.by_short_name(name), definition)

    def _remove(self, definition: Definition) -> None:
        group, version = definition.group, definition.version
        del self._served[group, version, definition.plural]
        left = _without(definition, self._group_versions.pop((group, version)))
        if left:
            self._group_versions[group, version] = left
        else:
            versions = _without(version, self._groups.pop(group))
            if versions:
                self._groups[group] = versions
        for name in definition.names.short_names:
            named = _without(definition, self._short_names.pop(name))
            if named:
                self._short_names[name] = named

    def struct(self, struct: Struct) -> Struct:
        """Return a struct that no definition has, such as DeleteOptions, as the version declares it."""
        return self.structs.project(struct)

    def exists(self, since: str, until: str = "") -> bool:
        """Whether the version of Kubernetes has what is declared with these limits."""
        return self.structs.exists(since, until)

    # What is served.

    @cached_property
    def definitions(self) -> tuple[Definition, ...]:
        return tuple(self._served.values())

    def find(self, group: str, version: str, plural: str) -> Definition | None:
        return self._served.get((group, version, plural))

    def holds(self, definition: Definition) -> bool:
        """Whether exactly this definition is served."""
        return self._served.get((definition.group, definition.version, definition.plural)) == definition

    def successor(self, definition: Definition) -> Definition | None:
        """Return the definition that replaces this one, for watches that continue, or None.

        It is the same one, or that of the same custom kind after a change of its CustomResourceDefinition.
        """
        found = self._served.get((definition.group, definition.version, definition.plural))
        return found if found == definition or (found is not None and found.continues(definition)) else None

    def serves(self, group: str, plural: str) -> bool:
        """Whether some version of the group has this resource."""
        return any((group, version, plural) in self._served for version in self._groups.get(group, ()))

    def by_short_name(self, name: str) -> tuple[Definition, ...]:
        return self._short_names.get(name, ())

    def of_version(self, group: str, version: str) -> tuple[Definition, ...]:
        """Return the definitions of a group version: the same tuple in every snapshot until one of them changes."""
        return self._group_versions.get((group, version), ())

    def group_exists(self, group: str) -> bool:
        return group in self._groups

    def groups(self) -> dict[str, tuple[str, ...]]:
        """Return the versions of each group, the preferred one first."""
        return dict(self._groups)

    # What is declared.

    @cached_property
    def declared(self) -> tuple[Definition, ...]:
        return tuple(definition for one in self._types.values() for definition in one.definitions)

    def stored_types(self) -> list[str]:
        """Return the names of the types whose objects are stored."""
        return [name for name, one in self._types.items() if any(d.is_stored for d in one.definitions)]

    def stored_type(self, type_name: str) -> StoredType | None:
        return self._types.get(type_name)

    def storage(self, type_name: str) -> Definition:
        """Return the definition in whose form objects of a type are stored."""
        return self._types[type_name].storage

    def of_kind(self, api_version: str, kind: str) -> Definition | None:
        return self._kinds.get((api_version, kind))

    def changed_since(self, previous: Catalog) -> list[str]:
        """Return the names of the types that were added, removed or changed."""
        if self._previous() is previous:
            return list(self._changed)
        names = self._types | previous._types
        return [name for name in names if self._types.get(name) != previous._types.get(name)]


def _without(one: T, among: tuple[T, ...]) -> tuple[T, ...]:
    return tuple(other for other in among if other != one)


def preference(version: str) -> tuple[int, int, int, str]:
    """A sort key in the order of Kubernetes: stable, beta, alpha, each newest first; then other names by alphabet.

    So replacing a kind never changes which version of its group clients prefer.
    """
    match = _VERSION.fullmatch(version)
    if match is None or max(numbers := (int(match[1]), int(match[3] or 0))) > _MAX_NUMBER:
        return len(_STAGES), 0, 0, version
    return _STAGES.index(match[2]), -numbers[0], -numbers[1], version
