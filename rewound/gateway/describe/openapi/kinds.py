"""Which types are kinds, and in which groups and versions the server serves them."""

from __future__ import annotations

from collections.abc import Iterator

from rewound.actors.kinds.catalog import Catalog
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.schema.fields import STRING, CustomStruct, Field, Struct
from rewound.actors.names import Names
from rewound.gateway.wire import meta_types
from rewound.gateway.wire.meta_types import list_of

GroupVersionKind = dict[str, str]

_TYPE_FIELDS = (Field("apiVersion", STRING, 0), Field("kind", STRING, 0))
_META_KINDS = (
    meta_types.STATUS,
    meta_types.API_VERSIONS,
    meta_types.API_GROUP,
    meta_types.API_GROUP_LIST,
    meta_types.API_RESOURCE_LIST,
)
# The group versions with DeleteOptions and WatchEvent: those for which Kubernetes has types, served or not; with the
# first and the last version of Kubernetes that has them. A dot at the end of a group stands for the domain of the
# dialect.
_GROUP_VERSIONS = """
    : v1
    admission.: v1 v1beta1
    admissionregistration.: v1 v1beta1 v1alpha1/1.26
    apiextensions.: v1 v1beta1
    apiregistration.: v1 v1beta1
    apps: v1 v1beta1 v1beta2
    authentication.: v1 v1beta1 v1alpha1/1.26
    authorization.: v1 v1beta1
    autoscaling: v1 v2 v2beta1 v2beta2
    batch: v1 v1beta1
    certificates.: v1 v1beta1 v1alpha1/1.27
    coordination.: v1 v1beta1 v1alpha1/1.31/1.31 v1alpha2/1.32
    discovery.: v1 v1beta1
    events.: v1 v1beta1
    extensions: v1beta1
    flowcontrol.apiserver.: v1alpha1/1.25/1.28 v1beta1 v1beta2 v1beta3/1.26 v1/1.29
    imagepolicy.: v1alpha1
    internal.apiserver.: v1alpha1
    networking.: v1 v1alpha1/1.25/1.33 v1beta1
    node.: v1 v1alpha1 v1beta1
    policy: v1 v1beta1
    rbac.authorization.: v1 v1alpha1 v1beta1
    resource.: v1/1.34 v1alpha1/1.26/1.26 v1alpha2/1.27/1.30 v1alpha3/1.31 v1beta1/1.32 v1beta2/1.33
    scheduling.: v1 v1alpha1 v1alpha2/1.36 v1beta1
    storage.: v1 v1alpha1 v1beta1
    storagemigration.: v1alpha1/1.30/1.34 v1beta1/1.35
"""
# Where Kubernetes registered Status too.
_STATUS_VERSIONS = "resource.: v1alpha1/1.26/1.26 v1alpha2/1.27/1.30"


class Kinds:
    def __init__(self, catalog: Catalog, names: Names) -> None:
        self._served: dict[str, list[GroupVersionKind]] = {}
        self._structs: dict[str, Struct] = {}
        self._project = catalog.struct
        for definition in _built_in(catalog):
            self._add(definition.fields, definition.group, definition.version, definition.kind)
            if "list" in definition.verbs:
                self._add(
                    list_of(definition.fields), definition.group, definition.version, f"{definition.kind}List"
                )
        for struct in _META_KINDS:
            self._add(struct, "", "v1", struct.name)
        for struct in (meta_types.DELETE_OPTIONS, meta_types.WATCH_EVENT):
            for group, version in _group_versions(_GROUP_VERSIONS, names, catalog):
                self._add(struct, group, version, struct.name)
        for group, version in _group_versions(_STATUS_VERSIONS, names, catalog):
            self._add(meta_types.STATUS, group, version, meta_types.STATUS.name)
        self.exists = catalog.exists

    def _add(self, struct: Struct, group: str, version: str, kind: str) -> None:
        self._structs[struct.of] = struct
        served = self._served.setdefault(struct.of, [])
        served_kind = {"group": group, "version": version, "kind": kind}
        if served_kind not in served:
            served.append(served_kind)

    def struct(self, struct: Struct) -> Struct:
        """The declaration of the kind itself, for a variant of the type that other types embed."""
        return self._project(self._structs.get(struct.of, struct))

    def served_as(self, struct: Struct) -> list[GroupVersionKind]:
        if isinstance(struct, CustomStruct):
            return [{"group": struct.group, "version": struct.version, "kind": struct.kind}]
        return self._served.get(struct.of, [])

    def type_fields(self, struct: Struct) -> tuple[Field, ...]:
        """apiVersion and kind, which every kind has and none declares."""
        if isinstance(struct, CustomStruct):
            return _TYPE_FIELDS
        if (
            struct.of not in self._served
            or struct.of == meta_types.WATCH_EVENT.of
            or "kind" in struct.by_name
        ):
            return ()
        return _TYPE_FIELDS


def _group_versions(table: str, names: Names, catalog: Catalog) -> Iterator[tuple[str, str]]:
    for line in table.strip("\n").splitlines():
        group, _, versions = line.strip().partition(":")
        named = names.group(group[:-1]) if group.endswith(".") else group
        for version, *limits in (one.split("/") for one in versions.split()):
            if not limits or catalog.exists(*limits):
                yield named, version


def _built_in(catalog: Catalog) -> Iterator[Definition]:
    """Built-in kinds only: custom kinds have their own schemas, and thousands would have to be compiled."""
    for definition in catalog.definitions:
        if definition.is_custom:
            continue
        yield definition
        yield from (one.view for one in definition.subresources if one.view is not None)
