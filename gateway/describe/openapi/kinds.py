"""Which types are kinds, and in which groups and versions the server serves them."""

from __future__ import annotations

from collections.abc import Iterator

from actors.kinds.catalog import Catalog
from actors.kinds.declaration.definition import Definition
from actors.kinds.schema.fields import STRING, CustomStruct, Field, Struct
from gateway.wire import meta_types
from gateway.wire.meta_types import list_of

GroupVersionKind = dict[str, str]

_TYPE_FIELDS = (Field("apiVersion", STRING, 0), Field("kind", STRING, 0))
_META_KINDS = (
    meta_types.STATUS,
    meta_types.API_VERSIONS,
    meta_types.API_GROUP,
    meta_types.API_GROUP_LIST,
    meta_types.API_RESOURCE_LIST,
)


class Kinds:
    def __init__(self, catalog: Catalog, built_in: Catalog) -> None:
        """DeleteOptions and WatchEvent are listed for the built-in group versions only, so that a kind added at run
        time does not change the documents of other groups.
        """
        self._served: dict[str, list[GroupVersionKind]] = {}
        self._structs: dict[str, Struct] = {}
        for definition in _built_in(catalog):
            self._add(definition.fields, definition.group, definition.version, definition.kind)
            if "list" in definition.verbs:
                self._add(
                    list_of(definition.fields), definition.group, definition.version, f"{definition.kind}List"
                )
        for struct in _META_KINDS:
            self._add(struct, "", "v1", struct.name)
        for struct in (meta_types.DELETE_OPTIONS, meta_types.WATCH_EVENT):
            for group, versions in built_in.groups().items():
                for version in versions:
                    self._add(struct, group, version, struct.name)

    def _add(self, struct: Struct, group: str, version: str, kind: str) -> None:
        self._structs[struct.of] = struct
        served = self._served.setdefault(struct.of, [])
        served_kind = {"group": group, "version": version, "kind": kind}
        if served_kind not in served:
            served.append(served_kind)

    def struct(self, struct: Struct) -> Struct:
        """The declaration of the kind itself, for a type that other types embed in a variant."""
        return self._structs.get(struct.of, struct)

    def served_as(self, struct: Struct) -> list[GroupVersionKind]:
        if isinstance(struct, CustomStruct):
            return [{"group": struct.group, "version": struct.version, "kind": struct.kind}]
        return self._served.get(struct.of, [])

    def type_fields(self, struct: Struct) -> tuple[Field, ...]:
        """apiVersion and kind, which every kind has and none declares."""
        if isinstance(struct, CustomStruct):
            return _TYPE_FIELDS
        if struct.of not in self._served or struct is meta_types.WATCH_EVENT or "kind" in struct.by_name:
            return ()
        return _TYPE_FIELDS


def _built_in(catalog: Catalog) -> Iterator[Definition]:
    """Those of custom kinds say themselves what they are; thousands of them would have to be compiled."""
    for definition in catalog.definitions:
        if definition.is_custom:
            continue
        yield definition
        yield from (one.view for one in definition.subresources if one.view is not None)
