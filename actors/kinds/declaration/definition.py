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
from actors.kinds.declaration.columns import USUAL, Column
from actors.kinds.schema.decoder import Schema
from actors.kinds.schema.fields import Struct
from actors.kinds.validation.checks import CheckName, FieldError
from actors.messages import Object

Change = Callable[[Object, Object], None]
Judge = Callable[[Object, Object], list[FieldError]]
Blend = Callable[[Object, Object], Object]  # (what was sent, the object as it is) -> as it would be

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
    """A path below an object. `kind` is empty where it takes and gives the object itself.

    With a `view` the object is shown as something else, and what is sent has that form too: a PUT or PATCH is
    absorbed into the object, which is then judged like any other change of it; a POST is submitted to it.
    """

    name: str
    verbs: tuple[str, ...] = ("get", "patch", "update")
    kind: str = ""
    group: str = ""
    version: str = ""
    prepare: Change = leave  # (new, old)
    validate: Judge = accept
    view: Definition | None = None
    absorb: Blend | None = None
    submit: Callable[[Object, Object, int], Object] | None = None  # a Blend that is told the time
    by_agent: bool = False  # only the agent on an object's node could answer
    not_yet: str = ""  # what is told of it as long as this server cannot do it
    sought_as: Resource | None = None  # what a get does not find, where clients know it by a name of its own
    # Paths that a write through here leaves as they were. None: all but metadata and the field of this name, or
    # the status where there is no such field.
    resets: tuple[str, ...] | None = None


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
    refused_in: str = ""  # the group that refusals name, where it is not the one it is stored under
    conversion: Conversion | None = None
    also_takes: str = ""  # an older apiVersion in which bodies may still come
    deprecated: str = ""  # what every answer warns of, where this version is going away
    on_by_default: bool = True  # False: served only when --runtime-config asks for it
    answered: bool = False  # told at once when it is made, and never stored
    submits_to: tuple[str, str] = ("", "")  # what is made here goes to a subresource of another resource

    known_finalizers: bool = True  # plain finalizer names must be ones that the API knows
    judges_metadata: bool = False  # validate_create looks at metadata too, in an order of its own
    creates_on_update: bool = False
    unconditional_update: bool = True
    delete_returns_object: bool = False
    strategic: bool = True  # takes strategic merge patches, which need more than a schema says
    orphans: bool = False  # what it owns stays when it is deleted without a word about that
    owns: bool = True  # False: nothing can be its dependent, so nothing is asked about them
    orphans_warning: str = ""  # what whoever deletes it so is told
    deletes_itself: bool = (
        False  # goes a way of its own when it is deleted, and tells of conflicts as updates do
    )
    undeletable: Mapping[str, str] = field(default_factory=dict)  # names of those that stay -> why they do

    columns: tuple[Column, ...] = USUAL  # of tables
    row_conditions: Callable[[Object], list[Object]] | None = (
        None  # what tables say of a row besides its cells
    )
    annotated_fields: frozenset[str] = frozenset()  # annotations that no partial metadata shows: fields once

    # Fields of stored objects that lists can be narrowed by, besides name and namespace.
    selectable: Mapping[str, Callable[[Object], str]] = field(default_factory=dict)
    selector_names: Mapping[str, str] = field(default_factory=dict)  # this view's label -> the stored one
    own_selector_text: bool = False  # speaks of labels, not of known field selectors
    selector_refusal: str = "field label not supported: {label}"  # what it says then

    resets: tuple[str, ...] | None = None  # paths that a write leaves as they were; None: a status of its own
    fill: Callable[[Object], None] | None = None  # defaults that look at more than one field
    prepare_create: Callable[[Object], None] = leave
    prepare_update: Change = leave
    validate_create: Callable[[Object], list[FieldError]] = accept
    validate_update: Judge = accept  # with the passes over metadata that the kind itself makes
    settle: Callable[[Object], None] = leave  # what being stored makes of an object that was accepted
    warnings: Callable[[Object, Object | None], list[str]] = no_warnings
    mark_deleted: Callable[[Object], None] = leave
    # Seconds that a deleted object still has, by what it is and what was asked for; None: it goes at once.
    grace: Callable[[Object, int | None], int] | None = None
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
    def stored_group(self) -> str:
        """The group under which the rules of stored objects refuse, whatever group they are seen in."""
        return self.refused_in or self.type_name.partition(".")[2]

    @cached_property
    def has_items(self) -> bool:
        """Whether single objects have paths; what is only ever created has none."""
        return not {"get", "update", "patch", "delete"}.isdisjoint(self.verbs)

    @cached_property
    def is_view(self) -> bool:
        """Made of objects of another kind and stored under no name of its own, as a scale is."""
        return self.conversion is not None and not self.stored_as

    @cached_property
    def schema(self) -> Schema:
        return Schema(self.fields, self.api_version, self.kind, self.fill, self.also_takes)

    @cached_property
    def has_status(self) -> bool:
        return "status" in self._subresources

    @cached_property
    def _subresources(self) -> dict[str, Subresource]:
        return {one.name: one for one in self.subresources}

    def subresource(self, name: str) -> Subresource | None:
        return self._subresources.get(name)

    def reset_by(self, subresource: str) -> tuple[str, ...]:
        """Paths that nobody comes to own through this door, because it puts them back."""
        through = self._subresources.get(subresource)
        declared = through.resets if through is not None else self.resets
        if declared is not None:
            return declared
        if subresource and subresource in self.fields.by_name:
            return tuple(name for name in self.fields.by_name if name not in ("metadata", subresource))
        return ("status",) if self.has_status else ()

    def seen_through(self, subresource: str) -> Definition:
        """What is shown and taken at a path: the object itself, or a view of it."""
        found = self._subresources.get(subresource) if subresource else None
        return found.view if found is not None and found.view is not None else self

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
            return self.selector_refusal.format(label=label)
        return f'"{label}" is not a known field selector: only "metadata.name", "metadata.namespace"'

    @cached_property
    def _selectors(self) -> frozenset[str]:
        return frozenset(self.selector_names or self.selectable)
