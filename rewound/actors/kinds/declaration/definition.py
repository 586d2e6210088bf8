"""A kind as declared: its names, its fields, and the few places where it differs from every other kind.

Group modules create definitions; the catalog lists them; actors and gateway read them, and make no decisions about a
kind themselves. Functions in a definition are pure and see objects in storage form, without kind and apiVersion.

The `Strategy` of a kind is its own steps in a create or an update, under the names that Kubernetes has for them.
`actors.resource.decide` calls the functions in this order: `prepare_for_*`, `validate_*`, admission, `canonicalize`.
`prepare_for_*` and `canonicalize` change the working copy they are given, at its top level and in the maps directly
below it; deeper parts belong to the command too, and are replaced, never changed. Validation changes nothing but the
collector that it adds errors to. Kinds with a status subresource use the functions at the end of this module
directly, or in their own preparations.

`Versions` are those of one custom kind, and how an object gets from one to another. Stored objects name the version
that they were written in, because the storage version of a definition may change while old objects stay. Everything
between reading and writing an object happens in the version that the client uses:

    stored (v1)  --upgrade-->  in the form of the current schema of v1  --convert-->  v2: patched, admitted, validated
    written (v2)  --convert-->  the storage version, pruned and defaulted by its schema

With strategy None a conversion changes only apiVersion, and each version has the fields that its schema declares.
With strategy Webhook only the webhook can convert: code that needs an object in another version awaits a
`ConvertByWebhook`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from rewound.actors.errors import NotFound, Resource
from rewound.actors.golang.quoting import quoted_start
from rewound.actors.kinds.declaration.columns import DEFAULT_COLUMNS, Column
from rewound.actors.kinds.schema.decoder import Schema
from rewound.actors.kinds.schema.fields import Struct, zero_struct
from rewound.actors.kinds.validation import CheckName, FieldErrors, refuse_name
from rewound.actors.messages import Object
from rewound.actors.profile import DOCUMENTED, Rules

PrepareForUpdate = Callable[[Object, Object], None]  # (new, old)
ValidateUpdate = Callable[[FieldErrors, Object, Object], None]  # (errors, new, old)


def no_validation(_: FieldErrors, *__: Object) -> None:
    """Add no errors: for kinds without rules of their own."""


class Strategy(msgspec.Struct, frozen=True, kw_only=True):
    allow_create_on_update: bool = False
    allow_unconditional_update: bool = True
    validates_metadata: bool = False  # validate_create checks metadata too, in its own order
    # Paths that a write resets, so that no manager owns them. None: the status, if it is a subresource.
    reset_fields: tuple[str, ...] | None = None
    # None: the kind has no such step.
    default_times: Callable[[Object, str], None] | None = None  # (new, now): before its fields have owners
    stamp: Callable[[Object, Object | None, str], None] | None = (
        None  # (new, old, now): defaults that are times
    )
    prepare_for_create: Callable[[Object], None] | None = None
    prepare_for_update: PrepareForUpdate | None = None
    validate_create: Callable[[FieldErrors, Object], None] = no_validation
    validate_update: ValidateUpdate = no_validation  # includes the metadata checks that the kind itself makes
    canonicalize: Callable[[Object], None] | None = None  # brings a valid object into its stored form
    warnings: Callable[[Object, Object | None], list[str]] | None = None  # (new, old); no old on create


Upgrade = Callable[[Object], Object]


def _always() -> bool:
    return True


class VersionSchema(NamedTuple):
    """What conversions need of the schema of one version."""

    upgrade: Upgrade  # prunes and defaults an object that was stored under an earlier schema
    prune: Upgrade
    default_status: Upgrade  # adds the default of the status to an object that has none
    same: str  # the first version with the same schema
    # Whether the event loop can use both: else they take up to a second.
    is_loaded: Callable[[], bool] = _always


class Versions:
    def __init__(
        self,
        name: str,
        kind: str,
        list_kind: str,
        storage: str,
        since: int,
        schemas: Mapping[str, VersionSchema],
        webhook: Object | None = None,
    ) -> None:
        """All objects written at or after the offset `since` have the form of these schemas.

        `webhook` is that of the CustomResourceDefinition; None with strategy None.
        """
        self.name = name  # of the CustomResourceDefinition
        self.kind, self.list_kind = kind, list_kind
        self.storage = storage  # the apiVersion in which objects are written
        self._since = since
        self._schemas = schemas
        self.webhook = webhook

    def __contains__(self, version: str) -> bool:
        return version in self._schemas

    def is_current(self, version: str, offset: int) -> bool:
        """Whether an object that was stored in a version at an offset has the form of the current schema."""
        return version == self.storage and offset >= self._since

    def upgrade(self, stored: Object, version: str) -> Object:
        """Return a stored object in the form of the current schema of its version."""
        return self._schema(version).upgrade(stored)

    def is_loaded(self, version: str) -> bool:
        """Whether the event loop can upgrade and prune objects of a version; otherwise only a worker thread may."""
        return self._schema(version).is_loaded()

    def same_schema(self, source: str, target: str) -> bool:
        return self._schema(source).same == self._schema(target).same

    def prune(self, converted: Object, version: str) -> Object:
        """Return an object that was converted to a version, without what its schema does not declare."""
        return self._schema(version).prune(converted)

    def convert(self, one: Object, source: str, target: str) -> Object:
        """Convert without a webhook: versions differ only in which fields their schemas declare."""
        if source == target:
            return one
        assert self.webhook is None, f"only the webhook of {self.name} converts from {source} to {target}"
        return one if self.same_schema(source, target) else self.prune(one, target)

    def in_stored_form(self, converted: Object, source: str, *, applied: bool = False) -> Object:
        """Return the stored form of an object that was converted to the storage version.

        `applied`: it may have nulls where the schema declares no type: validation allows them, and nobody reads them.
        """
        if applied:
            return self.upgrade(converted, self.storage)
        if source == self.storage or (self.webhook is None and self.same_schema(source, self.storage)):
            return self._schema(self.storage).default_status(converted)
        return self.upgrade(converted, self.storage)

    def _schema(self, version: str) -> VersionSchema:
        """Return the schema of a version, or that of the storage version if the definition no longer has
        the version.
        """
        return self._schemas.get(version) or self._schemas[self.storage]


# Converts an object by the webhook of its definition: (versions, object, source, target). Raises ConversionFailed if
# the webhook fails.
ConvertByWebhook = Callable[[Versions, Object, str, str], Awaitable[Object]]


ITEM_VERBS = ("create", "delete", "get", "list", "patch", "update", "watch")
ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


class Subresource(msgspec.Struct, frozen=True, kw_only=True):
    """A path below an object. `kind` is empty if clients send and get the object itself.

    With a `view` clients send and get another form of the object: `update_object` applies a PUT or PATCH of that form
    to the object, which is then validated like any other update of it; `submit` applies a POST.
    """

    name: str
    verbs: tuple[str, ...] = ("get", "patch", "update")
    kind: str = ""
    group: str = ""
    version: str = ""
    stamp: Callable[[Object, Object, str], None] | None = None  # (new, old, now): defaults that are times
    prepare: PrepareForUpdate | None = None
    validate: ValidateUpdate = no_validation
    warnings: Callable[[Object, Object | None], list[str]] | None = None  # of writes through here
    view: Definition | None = None
    check_read: Callable[[Object], None] | None = None  # raises the error of a get if there is no view
    update_object: Callable[[Object, Object], Object] | None = None  # (sent, current) -> updated
    submit: Callable[[Object, Object, int], Object] | None = None  # (sent, current, time) -> updated
    evicts: bool = False  # a POST deletes the object, if its disruption budgets allow that
    forwarded: bool = False  # the pod, the service or the kubelet of the node responds
    options: Definition | None = None  # of a forwarded request, from its query; admission reviews them
    issues_token: bool = False  # a POST returns a TokenRequest with a token, and stores nothing
    not_found_resource: Resource | None = None  # the resource that the 404 response of a get names
    replicas: tuple[str, ...] = ()  # of a scale: where the object has them, if a write through here owns them
    # Paths that a write through here does not change. None: all but metadata and the field of this name; without such
    # a field, the status.
    reset_fields: tuple[str, ...] | None = None
    # The versions of Kubernetes that have it, and the gate that must be on.
    since: str = ""
    until: str = ""
    gate: str = ""


class Conversion(msgspec.Struct, frozen=True):
    """Conversion between the version of a definition and the version in which its objects are stored."""

    to_storage: Callable[[Object], Object]
    from_storage: Callable[[Object], Object]


class DiscoveryNames(msgspec.Struct, frozen=True, kw_only=True):
    """Other names of a resource that discovery lists."""

    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    list_kind: str = ""  # empty: the kind followed by List


class Storage(msgspec.Struct, frozen=True, kw_only=True):
    """Where created objects go, and in which form."""

    stored_as: str = ""  # the type name of another definition whose objects these are
    type_name: str = ""  # in the journal; empty: plural name, dot, group
    conversion: Conversion | None = None
    error_group: str = ""  # the group that errors name, if it is not the one it is stored under
    also_accepts: str = ""  # an older apiVersion that bodies may still have
    field_annotations: frozenset[str] = frozenset()  # fields in storage: PartialObjectMetadata omits them
    ephemeral: bool = False  # returned to the caller, never persisted
    computed: bool = False  # computed when it is read, never persisted
    submits_to: tuple[str, str] = ("", "")  # (plural, subresource) that a create is submitted to
    versions: Versions | None = None  # of a custom kind: stored objects name their version
    # The version whose storageVersionHash clients know, because Kubernetes stores it; empty: that of the definition.
    announced_version: str = ""
    announced_since: Mapping[str, str] = msgspec.field(
        default_factory=dict
    )  # Kubernetes version -> announced_version


class Deletion(msgspec.Struct, frozen=True, kw_only=True):
    returns_object: bool = False  # otherwise a delete returns a Status
    promises_object: bool = True  # False: OpenAPI documents a Status, although it returns the object
    has_dependents: bool = True  # False: it cannot own other objects, so propagation policies do not apply
    orphans_by_default: bool = False  # without a propagation policy, dependents are orphaned
    default_policy_warning: str = ""  # for clients that delete without a propagation policy
    undeletable: Mapping[str, str] = msgspec.field(
        default_factory=dict
    )  # names that cannot be deleted -> why
    # The uid is a precondition of every delete, which webhooks see; refusals are worded like those of an update.
    uid_is_precondition: bool = False
    only_known_finalizers: bool = True  # unqualified finalizer names must be ones that the API knows
    # (object, requested seconds) -> seconds until a deleted object is removed; None: it is removed at once.
    grace_period: Callable[[Object, int | None], int] | None = None
    mark_deleted: Callable[[Object], None] | None = None  # further changes to an object marked as deleted
    only_marked_first: bool = False  # the first delete removes nothing, even without finalizers
    has_own_finalizers: Callable[[Object], bool] = lambda _: False  # besides metadata.finalizers


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Field selectors, besides metadata.name and metadata.namespace."""

    fields: Mapping[str, Callable[[Object], str]] = msgspec.field(
        default_factory=dict
    )  # label -> value in storage
    stored_labels: Mapping[str, str] = msgspec.field(
        default_factory=dict
    )  # this version's label -> the stored one
    own_label_conversion: bool = False  # unknown fields are unsupported labels, not unknown field selectors
    unsupported_message: str = "field label not supported: {label}"
    # Fields that objects may have had before they became selectable, with bytes that JSON with the field contains.
    late: Mapping[str, bytes] = msgspec.field(default_factory=dict)


class Table(msgspec.Struct, frozen=True):
    columns: tuple[Column, ...] = DEFAULT_COLUMNS
    row_conditions: Callable[[Object], list[Object]] | None = None


class CustomKind(msgspec.Struct, frozen=True, kw_only=True):
    """What a custom kind has instead of a declaration: the `fields` of its definition are only the top level."""

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
    strategic_merge_patch: bool = True  # accepts such patches, which need more than a schema declares
    subresources: tuple[Subresource, ...] = ()
    # Part of every response, from the version `deprecated` on (empty: always). Alpha and beta versions that name
    # neither get the usual ones, unless Kubernetes does not announce their end.
    deprecation_warning: str = ""
    deprecated: str = ""
    announces_end: bool = True
    # The versions of Kubernetes that serve it, and the gate that must be on.
    since: str = ""
    until: str = ""
    gate: str = ""
    on_by_default: bool = True  # False: served only if --runtime-config enables it
    null_creation_time: bool = True  # metadata without a creation time has null, as Go wrote it before 1.34
    create_refusal: str = ""  # why no object can be created now; empty: objects can be created

    storage: Storage = Storage()
    deletion: Deletion = Deletion()
    selection: Selection = Selection()
    table: Table = Table()
    strategy: Strategy = field(default_factory=Strategy)
    rules: Rules = DOCUMENTED  # what a command results in may depend on them
    features: frozenset[str] = frozenset()  # of the server, for rules that depend on the version

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
        """The name of this type in the journal: plural name, dot, group, unless `storage` says otherwise."""
        return self.storage.stored_as or self.storage.type_name or str(self.resource)

    @cached_property
    def is_stored(self) -> bool:
        return not (self.storage.ephemeral or self.storage.computed)

    @cached_property
    def error_group(self) -> str:
        """The group that errors about stored objects name, whatever group clients use."""
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
        """Whether requests can use it at once; otherwise `load` must first run in a worker thread."""
        return True

    def load(self) -> None:
        """Compile the schema."""

    @property
    def has_large_defaults(self) -> bool:
        """Whether defaults may turn a small object into a large one: then only a worker thread may fill them in."""
        return False

    def continues(self, previous: Definition) -> bool:
        """Whether this is a newer definition of the same custom kind as `previous`."""
        return False

    @cached_property
    def list_kind(self) -> str:
        return self.names.list_kind or f"{self.kind}List"

    @cached_property
    def converts_by_webhook(self) -> bool:
        """Whether a webhook may have to convert objects before clients can read them."""
        versions = self.storage.versions
        return versions is not None and versions.webhook is not None

    @cached_property
    def is_view(self) -> bool:
        """Whether it is converted from objects of another kind and not stored itself, as a scale is."""
        return self.storage.conversion is not None and not self.storage.stored_as

    @cached_property
    def always_present(self) -> frozenset[str]:
        """The members that every stored object has."""
        fields = self.fields.fields
        return frozenset(one.name for one in fields if isinstance(one.type, Struct) and one.always_present)

    @cached_property
    def schema(self) -> Schema:
        if self.custom is not None:
            return self.custom.schema
        older = self.storage.also_accepts
        return Schema(
            *(self.fields, self.api_version, self.kind, self.set_defaults, older, self.features),
            ignores_in_schemas=self.rules.nested_schemas == "ignored",
        )

    @cached_property
    def has_status(self) -> bool:
        return "status" in self._subresources

    @cached_property
    def _subresources(self) -> dict[str, Subresource]:
        return {one.name: one for one in self.subresources}

    def subresource(self, name: str) -> Subresource | None:
        return self._subresources.get(name)

    def reset_fields(self, subresource: str) -> tuple[str, ...]:
        """Return paths that no manager owns through a write at this path, because the write resets them."""
        found = self._subresources.get(subresource)
        declared = found.reset_fields if found is not None else self.strategy.reset_fields
        if declared is not None:
            return declared
        if subresource and subresource in self.fields.by_name:
            return tuple(name for name in self.fields.by_name if name not in ("metadata", subresource))
        return ("status",) if self.has_status else ()

    def definition_at(self, subresource: str) -> Definition:
        """Return the definition of what clients send and get at a path: the object itself, or a view of it."""
        found = self._subresources.get(subresource) if subresource else None
        return found.view if found is not None and found.view is not None else self

    def warnings_at(self, subresource: str) -> Callable[[Object, Object | None], list[str]] | None:
        """Return what warns of writes at a path; writes through a subresource have no warnings of the others."""
        found = self._subresources.get(subresource) if subresource else None
        return self.strategy.warnings if found is None else found.warnings

    def not_found(self, name: str) -> NotFound:
        """The error for a missing object. Raises BadRequest if no object can have the name."""
        refuse_name(name)
        return NotFound(self.resource, name)

    def has_finalizers(self, stored: Object) -> bool:
        """Whether controllers still have to do something before a deleted object may be removed."""
        return bool(stored["metadata"].get("finalizers")) or self.deletion.has_own_finalizers(stored)

    def selects(self, label: str) -> bool:
        """Whether field selectors of this version may name the field."""
        if label == "metadata.name" or label in self._selectors:
            return True
        return label == "metadata.namespace" and (self.namespaced or not self.selection.own_label_conversion)

    def stored_field(self, label: str) -> str:
        """Return the name that a field of this version has in storage."""
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


def reset_status_and_generation(status: Struct, new: Object) -> None:
    """Prepare a new object: the first generation, with an empty status."""
    clear_status(status, new)
    new["metadata"]["generation"] = 1


def clear_status(status: Struct, new: Object) -> None:
    new["status"] = zero_struct(status, defaults=False)


def keep_status(new: Object, old: Object) -> None:
    new["status"] = old["status"]


def keep_spec(new: Object, old: Object) -> None:
    new["spec"] = old["spec"]


def keep_metadata(new: Object, old: Object) -> None:
    """For status updates that change nothing else: keep all metadata that clients can set."""
    metadata, before = new["metadata"], old["metadata"]
    for part in ("labels", "annotations", "finalizers", "ownerReferences"):
        metadata.pop(part, None)
        if part in before:
            metadata[part] = before[part]


def status_subresource(validate: ValidateUpdate) -> Subresource:
    """Return the status subresource for kinds where it changes neither spec nor metadata."""
    return Subresource(
        name="status",
        prepare=keep_spec_and_metadata,
        validate=validate,
        reset_fields=("spec", "metadata"),
    )


def keep_spec_and_metadata(new: Object, old: Object) -> None:
    keep_spec(new, old)
    keep_metadata(new, old)


def bump_generation(new: Object, old: Object, *parts: str) -> None:
    """Increment the generation if one of the parts has changed; by default the spec."""
    if any(new.get(part) != old.get(part) for part in parts or ("spec",)):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def keep_status_and_bump_generation(new: Object, old: Object) -> None:
    keep_status(new, old)
    bump_generation(new, old)
