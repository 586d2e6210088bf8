"""A kind as declared: who it is, what it holds, and the few places where it differs from every other kind.

Group modules make these; the catalog lists them; actors and gateway ask them and decide nothing about a
kind on their own. Hooks are pure: `prepare_*` may change the object they are given, validation never does.
Objects that hooks see are in storage form, without kind and apiVersion.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from actors.errors import Resource
from actors.kinds.checks import CheckName, FieldError
from actors.kinds.fields import Struct
from actors.kinds.schema import Schema
from actors.messages import Object

Change = Callable[[Object, Object], None]
Judge = Callable[[Object, Object], list[FieldError]]

ITEM_VERBS = ("create", "delete", "get", "list", "patch", "update", "watch")
ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


def leave(_: Object, *__: Object) -> None:
    """The preparation of kinds that need none."""


def accept(_: Object, *__: Object) -> list[FieldError]:
    """The judgement of kinds without rules of their own."""
    return []


def no_warnings(_: Object, __: Object | None) -> list[str]:
    return []


@dataclass(frozen=True, slots=True, kw_only=True)
class Subresource:
    """A path below an object. `kind` is empty where it takes and gives the object itself."""

    name: str
    verbs: tuple[str, ...] = ("get", "patch", "update")
    kind: str = ""
    group: str = ""
    version: str = ""
    prepare: Change = leave  # (new, old)
    validate: Judge = accept


@dataclass(frozen=True, slots=True)
class Conversion:
    """A second view of objects that are stored in another version."""

    to_storage: Callable[[Object], Object]
    from_storage: Callable[[Object], Object]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Definition:
    group: str
    version: str
    kind: str
    plural: str
    fields: Struct
    namespaced: bool
    check_name: CheckName
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[Subresource, ...] = ()
    stored_as: str = ""  # the type name of another definition whose objects these are
    conversion: Conversion | None = None

    known_finalizers: bool = True  # plain finalizer names must be ones that the API knows
    judges_metadata: bool = False  # validate_create looks at metadata too, in an order of its own
    creates_on_update: bool = False
    unconditional_update: bool = True
    counts_generation: bool = False
    delete_returns_object: bool = False

    # Fields of stored objects that lists can be narrowed by, besides name and namespace.
    selectable: Mapping[str, Callable[[Object], str]] = field(default_factory=dict)
    selector_names: Mapping[str, str] = field(default_factory=dict)  # this view's label -> the stored one
    own_selector_text: bool = False  # speaks of labels, not of known field selectors

    fill: Callable[[Object], None] | None = None  # defaults that look at more than one field
    prepare_create: Callable[[Object], None] = leave
    prepare_update: Change = leave
    validate_create: Callable[[Object], list[FieldError]] = accept
    validate_update: Judge = accept  # with the passes over metadata that the kind itself makes
    warnings: Callable[[Object, Object | None], list[str]] = no_warnings
    mark_deleted: Callable[[Object], None] = leave
    holds_back: Callable[[Object], bool] = lambda _: False  # besides metadata.finalizers

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
        return self.stored_as or str(self.resource)

    @cached_property
    def schema(self) -> Schema:
        return Schema(self.fields, self.api_version, self.kind, self.fill)

    @cached_property
    def has_status(self) -> bool:
        return "status" in self._subresources

    @cached_property
    def _subresources(self) -> dict[str, Subresource]:
        return {one.name: one for one in self.subresources}

    def subresource(self, name: str) -> Subresource | None:
        return self._subresources.get(name)

    def prepare_subresource(self, name: str, new: Object, old: Object) -> None:
        self._subresources[name].prepare(new, old)

    def validate_subresource(self, name: str, new: Object, old: Object) -> list[FieldError]:
        return self._subresources[name].validate(new, old)

    def prepare_status_update(self, new: Object, old: Object) -> None:
        self.prepare_subresource("status", new, old)

    def validate_status_update(self, new: Object, old: Object) -> list[FieldError]:
        return self.validate_subresource("status", new, old)

    def held(self, stored: Object) -> bool:
        """Something must still be done before a deleted object may go."""
        return bool(stored["metadata"].get("finalizers")) or self.holds_back(stored)

    def selects(self, label: str) -> bool:
        """Lists of this view may be narrowed by the field."""
        if label == "metadata.name" or label in self._selectors:
            return True
        return label == "metadata.namespace" and (self.namespaced or not self.own_selector_text)

    def stored_field(self, label: str) -> str:
        """The name under which the journal's facts have a field of this view."""
        return self.selector_names.get(label, label)

    def unsupported_field_text(self, label: str) -> str:
        if self.own_selector_text:
            return f"field label not supported: {label}"
        return f'"{label}" is not a known field selector: only "metadata.name", "metadata.namespace"'

    @cached_property
    def _selectors(self) -> frozenset[str]:
        return frozenset(self.selector_names or self.selectable)
