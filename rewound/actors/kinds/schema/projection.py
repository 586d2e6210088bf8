"""The declarations of one version of Kubernetes, made from those of all versions.

    structs = structs_of("1.28")
    structs.project(JOB_SPEC)      the fields that 1.28 has, declared as there

A struct in which nothing differs is itself: versions share it. A struct of all versions is only for code that adds or
arranges members; what decodes, describes or prunes documents uses the projection, which definitions have.
"""

from __future__ import annotations

from functools import cache

from msgspec.structs import replace

from rewound.actors.kinds.schema.fields import (
    CustomStruct,
    Field,
    ListOf,
    MapOf,
    Struct,
    StructOr,
    Type,
)
from rewound.actors.versions.version import exists_in, minor


@cache
def structs_of(version: str) -> Structs:
    """Return the projection to a version; structs are compared by identity, so there is only one."""
    return Structs(version)


class Structs:
    def __init__(self, version: str) -> None:
        self._version = version
        self._made: dict[Struct, Struct] = {}

    @property
    def count(self) -> int:
        """How many structs it knows."""
        return len(self._made)

    def project(self, struct: Struct) -> Struct:
        """Return the struct as the version has it."""
        found = self._made.get(struct)
        if found is None:
            seen: set[Struct] = set()
            if self._differs(struct, seen):
                return self._make(struct)
            self._made |= {one: one for one in seen}
            found = struct
        return found

    def _differs(self, struct: Struct, seen: set[Struct]) -> bool:
        """Whether the version declares this struct, or one inside it, otherwise."""
        known = self._made.get(struct)
        if known is not None:
            return known is not struct
        if struct in seen or isinstance(struct, CustomStruct):
            return False
        seen.add(struct)
        if not self.exists(struct.atomic_since):
            return True
        for field in struct.fields:
            if (field.since or field.until) and not self._has(field):
                return True
            if field.before and self._earlier(field):
                return True
            inner = struct_inside(field.type)
            if inner is not None and self._differs(inner, seen):
                return True
        return False

    def _make(self, struct: Struct) -> Struct:
        # A recursive struct contains the projection that is being made.
        atomic = struct.atomic and self.exists(struct.atomic_since)
        made = Struct(struct.of, atomic=atomic, union=struct.union)
        self._made |= {struct: made, made: made}
        made.set_fields(tuple(self._field(field) for field in struct.fields if self._has(field)))
        return made

    def exists(self, since: str, until: str = "") -> bool:
        """Whether the version has what is declared with these limits."""
        return exists_in(self._version, since, until)

    def _has(self, field: Field) -> bool:
        return exists_in(self._version, field.since, field.until)

    def _earlier(self, field: Field) -> dict[str, object]:
        """Return the attributes that differ in this version from the newest declaration of the field."""
        differs: dict[str, object] = {}
        if not field.before:
            return differs
        for one in sorted(field.before, key=lambda one: -minor(one.version)):
            if minor(self._version) < minor(one.version):
                differs |= one.differs
        return differs

    def _field(self, field: Field) -> Field:
        earlier = self._earlier(field)
        type_ = self._type(earlier.pop("type", field.type))  # type: ignore[arg-type]
        return field if type_ is field.type and not earlier else replace(field, type=type_, **earlier)

    def _type(self, type_: Type) -> Type:
        """Return the type with the projections of the structs in it; the same object if none differs."""
        if isinstance(type_, Struct):
            return self.project(type_)
        if isinstance(type_, ListOf):
            item = self._type(type_.item)
            return type_ if item is type_.item else replace(type_, item=item)
        if isinstance(type_, MapOf):
            value = self._type(type_.value)
            return type_ if value is type_.value else replace(type_, value=value)
        if isinstance(type_, StructOr):
            struct, other = self.project(type_.struct), self._type(type_.other)
            same = struct is type_.struct and other is type_.other
            return type_ if same else replace(type_, struct=struct, other=other)
        return type_


def struct_inside(type_: Type) -> Struct | None:
    """Return the struct that values of a type contain at most one level down, through lists and maps."""
    while True:
        if isinstance(type_, Struct):
            return type_
        if isinstance(type_, ListOf):
            type_ = type_.item
        elif isinstance(type_, MapOf):
            type_ = type_.value
        else:
            return type_.struct if isinstance(type_, StructOr) else None
