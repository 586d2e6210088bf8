"""A kind as declared: who it is, what it holds, and the few places where it differs from every other kind.

Group modules create definitions; the catalog lists them; actors and gateway read them and decide nothing about a
kind on their own. Functions in a definition are pure and see objects in storage form, without kind and apiVersion.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from actors.errors import Resource
from actors.kinds.declaration.columns import DEFAULT_COLUMNS, Column
from actors.kinds.declaration.strategy import (
    PrepareForUpdate,
    Strategy,
    ValidateUpdate,
    no_preparation,
    no_validation,
)
from actors.kinds.declaration.versions import Versions
from actors.kinds.schema.decoder import Schema
from actors.kinds.schema.fields import Struct
from actors.kinds.validation.checks import CheckName
from actors.messages import Object
from actors.quoting import quoted_start

ITEM_VERBS = ("create", "delete", "get", "list", "patch", "update", "watch")
ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subresource:
    """A path below an object. `kind` is empty where clients send and get the object itself.

    With a `view` clients send and get another form of the object: `update_object` applies a PUT or PATCH of that
    form to the object, which is then validated like any other update of it; `submit` applies a POST.
    """

    name: str
    verbs: tuple[str, ...] = ("get", "patch", "update")
    kind: str = ""
    group: str = ""
    version: str = ""
    prepare: PrepareForUpdate = no_preparation
    validate: ValidateUpdate = no_validation
    view: Definition | None = None
    check_read: Callable[[Object], None] | None = None  # raises what a get of an object without a view gets
    update_object: Callable[[Object, Object], Object] | None = None  # (sent, current) -> updated
    submit: Callable[[Object, Object, int], Object] | None = None  # (sent, current, time) -> updated
    forwarded: bool = False  # the pod, the service or the kubelet of the node responds
    options: Definition | None = None  # of a forwarded request, from its query; admission reviews them
    issues_token: bool = False  # a POST returns a TokenRequest with a token, and stores nothing
    not_found_resource: Resource | None = None  # the resource that the 404 response of a get names
    # Paths that a write through here does not change. None: all but metadata and the field of this name, or
    # the status where there is no such field.
    reset_fields: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Conversion:
    """Between the version of a definition and the version in which its objects are stored."""

    to_storage: Callable[[Object], Object]
    from_storage: Callable[[Object], Object]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryNames:
    """Other names of a resource that discovery lists."""

    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    list_kind: str = ""  # empty: the kind followed by List


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """Where created objects go, and in which form."""

    stored_as: str = ""  # the type name of another definition whose objects these are
    conversion: Conversion | None = None
    error_group: str = ""  # the group that errors name, where it is not the one it is stored under
    also_accepts: str = ""  # an older apiVersion that bodies may still have
    field_annotations: frozenset[str] = frozenset()  # fields in storage: PartialObjectMetadata omits them
    ephemeral: bool = False  # returned to the caller, never persisted
    computed: bool = False  # computed when it is read, never persisted
    submits_to: tuple[str, str] = ("", "")  # (plural, subresource) that a create is submitted to
    versions: Versions | None = None  # of a custom kind: stored objects name the one that they are in
    # The version whose storageVersionHash clients know, because Kubernetes stores it; empty: that of the definition.
    announced_version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    returns_object: bool = False  # otherwise a delete returns a Status
    promises_object: bool = True  # False: OpenAPI says that it returns a Status, although it does not
    has_dependents: bool = True  # False: nothing can be its dependent, so propagation policies do not apply
    orphans_by_default: bool = False  # without a propagation policy, dependents are orphaned
    default_policy_warning: str = ""  # for clients that delete without a propagation policy
    undeletable: Mapping[str, str] = field(default_factory=dict)  # names that cannot be deleted -> why
    # The uid is a precondition of every delete, which webhooks see; refusals read like those of an update.
    uid_is_precondition: bool = False
    only_known_finalizers: bool = True  # unqualified finalizer names must be ones that the API knows
    # (object, requested seconds) -> seconds until a deleted object is removed; None: it is removed at once.
    grace_period: Callable[[Object, int | None], int] | None = None
    mark_deleted: Callable[[Object], None] = no_preparation  # further changes to an object marked as deleted
    only_marked_first: bool = False  # the first delete removes nothing, also of an object without finalizers
    has_own_finalizers: Callable[[Object], bool] = lambda _: False  # besides metadata.finalizers


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Field selectors, besides metadata.name and metadata.namespace."""

    fields: Mapping[str, Callable[[Object], str]] = field(default_factory=dict)  # label -> value in storage
    stored_labels: Mapping[str, str] = field(default_factory=dict)  # this version's label -> the stored one
    own_label_conversion: bool = False  # unknown fields are unsupported labels, not unknown field selectors
    unsupported_message: str = "field label not supported: {label}"


@dataclass(frozen=True, slots=True)
class Table:
    columns: tuple[Column, ...] = DEFAULT_COLUMNS
    row_conditions: Callable[[Object], list[Object]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomKind:
    """What a custom kind has instead of a declaration: the `fields` of its definition are those at the top level."""

    schema: Schema
    openapi: Mapping[str, Any]  # the openAPIV3Schema of this version
    extension_prefix: str  # of the extensions in it


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Definition:
    group: str
    version: str
    kind: str
    plural: str
    names: DiscoveryNames = DiscoveryNames()
    namespaced: bool
    check_name: CheckName
    fields: Struct
    set_defaults: Callable[[Object], None] | None = None  # defaults that depend on more than one field
    custom: CustomKind | None = None
    verbs: tuple[str, ...] = ALL_VERBS
    strategic_merge_patch: bool = True  # takes such patches, which need more than a schema says
    subresources: tuple[Subresource, ...] = ()
    deprecation_warning: str = ""  # part of every response
    on_by_default: bool = True  # False: served only when --runtime-config asks for it
    create_refusal: str = ""  # why no object can be created at present; empty: objects can be created

    storage: Storage = Storage()
    deletion: Deletion = Deletion()
    selection: Selection = Selection()
    table: Table = Table()
    strategy: Strategy = field(default_factory=Strategy)

    def __repr__(self) -> str:
        return f"<Definition of {self.kind} in {self.api_version}>"

    @cached_property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def resource(self) -> Resource:
        return Resource(self.group, self.plural)

    @cached_property
    def type_name(self) -> str:
        """What the journal calls these objects: plural name, dot, group."""
        return self.storage.stored_as or str(self.resource)

    @cached_property
    def is_stored(self) -> bool:
        return not (self.storage.ephemeral or self.storage.computed)

    @cached_property
    def error_group(self) -> str:
        """The group that errors of stored objects name, whatever group clients use."""
        return self.storage.error_group or self.type_name.partition(".")[2]

    @cached_property
    def has_items(self) -> bool:
        """Whether single objects have paths; resources that can only be created have none."""
        return not {"get", "update", "patch", "delete"}.isdisjoint(self.verbs)

    @property
    def is_custom(self) -> bool:
        """Whether a CustomResourceDefinition declares the kind. Unlike `custom`, it compiles nothing."""
        return self.custom is not None

    @property
    def is_loaded(self) -> bool:
        """Whether requests can use it at once; else `load` must have run in a worker thread before."""
        return True

    def load(self) -> None:
        """Compile the schema."""

    def continues(self, previous: Definition) -> bool:
        """Whether this is the definition of the same custom kind as `previous`, of a later schema."""
        return False

    @cached_property
    def list_kind(self) -> str:
        return self.names.list_kind or f"{self.kind}List"

    @cached_property
    def is_view(self) -> bool:
        """Converted from objects of another kind and stored under no name of its own, as a scale is."""
        return self.storage.conversion is not None and not self.storage.stored_as

    @cached_property
    def schema(self) -> Schema:
        if self.custom is not None:
            return self.custom.schema
        return Schema(self.fields, self.api_version, self.kind, self.set_defaults, self.storage.also_accepts)

    @cached_property
    def has_status(self) -> bool:
        return "status" in self._subresources

    @cached_property
    def _subresources(self) -> dict[str, Subresource]:
        return {one.name: one for one in self.subresources}

    def subresource(self, name: str) -> Subresource | None:
        return self._subresources.get(name)

    def reset_fields(self, subresource: str) -> tuple[str, ...]:
        """Paths that no manager comes to own through a write at this path, because the write resets them."""
        found = self._subresources.get(subresource)
        declared = found.reset_fields if found is not None else self.strategy.reset_fields
        if declared is not None:
            return declared
        if subresource and subresource in self.fields.by_name:
            return tuple(name for name in self.fields.by_name if name not in ("metadata", subresource))
        return ("status",) if self.has_status else ()

    def definition_at(self, subresource: str) -> Definition:
        """The definition of what clients send and get at a path: the object itself, or a view of it."""
        found = self._subresources.get(subresource) if subresource else None
        return found.view if found is not None and found.view is not None else self

    def has_finalizers(self, stored: Object) -> bool:
        """Whether controllers still have something to do before a deleted object may be removed."""
        return bool(stored["metadata"].get("finalizers")) or self.deletion.has_own_finalizers(stored)

    def selects(self, label: str) -> bool:
        """Whether field selectors of this version may name the field."""
        if label == "metadata.name" or label in self._selectors:
            return True
        return label == "metadata.namespace" and (self.namespaced or not self.selection.own_label_conversion)

    def stored_field(self, label: str) -> str:
        """The name that a field of this version has in storage."""
        return self.selection.stored_labels.get(label, label)

    def unsupported_field_text(self, label: str) -> str:
        if self.selection.own_label_conversion:
            return self.selection.unsupported_message.format(label=label)
        return (
            f'{quoted_start(label)} is not a known field selector: only "metadata.name", "metadata.namespace"'
        )

    @cached_property
    def _selectors(self) -> frozenset[str]:
        return frozenset(self.selection.stored_labels or self.selection.fields)
