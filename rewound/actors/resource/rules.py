"""Decides what a command changes: pure functions of (definition, current object, command).

No clock, no randomness, no trio: time, uid and random letters are in the command's context, so that a command decided
again on the same state gives the same bytes. The order of the steps decides which error a client gets first:
preconditions, then preparation by the strategy of the kind, then validation (`prepare_*`), then validating admission,
then whether the name is free (`decide_*`). No function changes a command: they prepare a working copy.

Objects here have no kind, apiVersion or resourceVersion: the version is added when the offset is known. Objects of
custom kinds are in the version of the command, except for deletes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from rewound.actors.admission.request import working_copy
from rewound.actors.errors import (
    STALE,
    AlreadyExists,
    BadRequest,
    Cause,
    Conflict,
    Forbidden,
    Invalid,
    Resource,
)
from rewound.actors.golang.quoting import quoted_start
from rewound.actors.kinds.declaration.definition import Definition, Subresource
from rewound.actors.kinds.declaration.meta import metadata_rules, metadata_update_rules
from rewound.actors.kinds.validation import (
    FieldError,
    FieldErrors,
    TooManyErrors,
    collect,
    name_is_path_segment,
)
from rewound.actors.kinds.values.times import micros_of, seconds_text, wrapped_micros
from rewound.actors.messages import Create, Delete, DeleteOptions, Object, Patch, Replace, Submit
from rewound.actors.patch.managed_fields.managers import same_but_for_times
from rewound.actors.store.addressing import not_found
from rewound.actors.store.proposal import Proposal

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
LONGEST_GENERATED_BASE = 58  # 63 characters less the five random ones


@dataclass(frozen=True, slots=True)
class Current:
    """The current object and the offset of the event that wrote it.

    Until that event is committed, the offset is unknown, and 0 here: no client can name it yet.
    """

    offset: int
    object: Object
    proposal: Proposal | None = None  # of the event, while it is not committed
    # Of a custom kind: the version that the stored object is in, and that object if `object` is in another one.
    api_version: str = ""
    stored: Object | None = None

    @property
    def version(self) -> str | None:
        return None if self.proposal is not None else str(self.offset)

    @property
    def written(self) -> int | Proposal:
        return self.offset if self.proposal is None else self.proposal


class Store(NamedTuple):
    """A tuple, because almost every write creates one and a dataclass costs more."""

    object: Object
    created: bool


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove the object. `returned` is the object in the response, if it is not the one last stored.

    `last` is stored first: watchers see the object with a deletionTimestamp before its removal.
    """

    returned: Object | None = None
    last: Object | None = None


@dataclass(frozen=True, slots=True)
class Keep:
    """Change nothing."""


Decision = Store | Remove | Keep


class Decided(NamedTuple):
    """A tuple, because every write creates one and a dataclass costs more."""

    decision: Decision
    current: Current | None
    verb: str  # what the journal records
    created: bool = False
    warnings: tuple[str, ...] = ()
    stored: Object | None = None  # of a custom kind: what `Store` stores, in the storage version


def prepare_create(definition: Definition, command: Create, new: Object) -> None:
    """Turn `new`, a working copy, into the object to store; raise if it is invalid."""
    metadata = new["metadata"]
    if "resourceVersion" in metadata and not command.dry_run:  # v1.25 checks it when it stores
        _refuse_version_on_create(metadata)
    drop_system_metadata(metadata)
    if definition.namespaced:
        metadata["namespace"] = command.namespace
    metadata["uid"] = command.context.uid
    metadata["creationTimestamp"] = seconds_text(command.context.time)
    definition.strategy.prepare_for_create(new)
    if errors := _validate_new(definition, new):
        raise _invalid(definition, metadata.get("name", ""), errors)


def decide_create(definition: Definition, current: Current | None, prepared: Object) -> Store:
    if current is not None:
        metadata = prepared["metadata"]
        generated = bool(metadata.get("generateName"))
        terminating = "deletionTimestamp" in current.object["metadata"]
        raise AlreadyExists(
            definition.resource, metadata["name"], generated=generated, terminating=terminating
        )
    definition.strategy.canonicalize(prepared)
    return Store(prepared, True)


def _validate_new(definition: Definition, created: Object) -> list[FieldError]:
    """What `collect` does, with one call less for each create."""
    errors, strategy = FieldErrors(), definition.strategy
    try:
        if not strategy.validates_metadata:
            validate_metadata_create(errors, created["metadata"], definition)
        strategy.validate_create(errors, created)
    except TooManyErrors:
        pass
    return errors.found


def prepare_replace(
    definition: Definition, current: Current, command: Replace, new: Object, *, unversioned: bool = False
) -> Object:
    """The object to store: `new`, a working copy, or the current object changed by a subresource such as scale.

    `unversioned`: it may lack a version, because that of the current object was unknown when it was patched.
    Other forms of the object, such as its scale, may lack one too: they change the current object.
    """
    old, version = current.object, new["metadata"].pop("resourceVersion", "")
    subresource = definition.subresource(command.subresource)
    viewed = subresource is not None and subresource.update_object is not None
    if version or not (unversioned or viewed):
        _check_version(definition, command.name, version, current)
    if subresource is not None and subresource.update_object is not None:
        _validate_sent(subresource, new)
        new = working_copy(subresource.update_object(new, working_copy(old)))
        subresource = None
    _inherit_metadata(new["metadata"], old["metadata"])
    if errors := collect(_prepare_and_validate, definition, new, old, subresource):
        raise _invalid(definition, new["metadata"].get("name", command.name), errors)
    return new


def decide_replace(definition: Definition, current: Current, prepared: Object) -> Decision:
    old = current.object
    definition.strategy.canonicalize(prepared)
    terminating = "deletionTimestamp" in old["metadata"]
    if terminating and not definition.has_finalizers(prepared) and not _grace_seconds(old["metadata"]):
        return Remove(returned=prepared)
    if is_unchanged(prepared, old) and _in_storage_version(definition, current):
        return Keep()
    return Store(prepared, created=False)


def _in_storage_version(definition: Definition, current: Current) -> bool:
    """Whether the stored object is in the present storage version; an update writes it in that version otherwise."""
    versions = definition.storage.versions
    return versions is None or current.api_version == versions.storage


def is_unchanged(new: Object, old: Object) -> bool:
    """Whether the objects are equal, except for the times in managedFields."""
    if new == old:
        return True
    if {**new, "metadata": None} != {**old, "metadata": None}:
        return False
    metadata, other = new["metadata"], old["metadata"]
    if {**metadata, "managedFields": None} != {**other, "managedFields": None}:
        return False
    return same_but_for_times(metadata.get("managedFields", []), other.get("managedFields", []))


def decide_submit(
    definition: Definition, current: Current | None, command: Submit, document: Object
) -> Store:
    """`document` is validated even if there is no object: its errors come before NotFound."""
    subresource = definition.subresource(command.subresource)
    assert subresource is not None and subresource.submit is not None
    metadata = document["metadata"]
    _validate_sent(subresource, document)
    if current is None:
        raise not_found(definition, command.name)
    check_sent_uid(definition, command.name, metadata.get("uid"), current.object["metadata"]["uid"])
    check_version_precondition(definition, command.name, metadata.get("resourceVersion"), current.version)
    new = subresource.submit(document, working_copy(current.object), command.context.time)
    return Store(new, created=False)


def _validate_sent(subresource: Subresource, sent: Object) -> None:
    """Validate an object of a subresource that has its own kind."""
    view = subresource.view
    if view is not None and (errors := collect(view.strategy.validate_create, sent)):
        raise _invalid(view, sent["metadata"].get("name", ""), errors)


def is_pending(definition: Definition, current: Current, command: Delete) -> bool:
    """Whether a delete only repeats one whose grace period lasts. Raises what forbids it whatever admission says."""
    if command.verb == "delete" and command.name in definition.deletion.undeletable:
        raise Forbidden(definition.resource, command.name, definition.deletion.undeletable[command.name])
    options, metadata = command.options, current.object["metadata"]
    check_delete(definition, command.name, options, metadata["uid"], current.version)
    left, wanted = _grace_seconds(metadata), options.grace_period_seconds
    return bool(left) and (wanted is None or (1 if wanted < 0 else wanted) >= left)


def decide_delete(definition: Definition, current: Current, command: Delete) -> Decision:
    """What a delete does that is not pending."""
    metadata, requested = current.object["metadata"], command.options.grace_period_seconds
    finalizers = _finalizers_for(_policy_of(definition, command, metadata), metadata.get("finalizers", []))
    if "deletionTimestamp" in metadata:
        if (left := _grace_seconds(metadata)) and requested is not None:
            return _shorten_grace_period(definition, current.object, finalizers, left, requested)
        return _delete_while_finalizing(definition, current.object, finalizers)
    grace_period = definition.deletion.grace_period
    seconds = grace_period(current.object, requested) if grace_period else 0
    deleted = _with_deletion_timestamp(definition, current.object, finalizers, command.context.time, seconds)
    if definition.deletion.only_marked_first:
        return Store(deleted, created=False)
    return _store_or_remove(definition, deleted)


def _refuse_version_on_create(metadata: Object) -> None:
    """A text that is no version of any object counts as none, as in v1.25."""
    if version_number(metadata.pop("resourceVersion", "")):
        raise BadRequest("resourceVersion should not be set on objects to be created")


def version_number(text: str) -> int | None:
    """A resourceVersion as a number: that of 64 bits, maybe with zeros before it. None for any other text."""
    digits = text.lstrip("0")
    if not text or len(digits) > len(_LARGEST_VERSION) or not (text.isascii() and text.isdecimal()):
        return None
    number = int(digits or "0")
    return number if number < 2**64 else None


_LARGEST_VERSION = str(2**64 - 1)


def check_sent_version(metadata: Object) -> None:
    """Raise BadRequest for a version that is none, in an update or apply that may create."""
    text = metadata.get("resourceVersion") or ""
    if text and version_number(text) is None:
        raise _not_a_version(text)


def _not_a_version(text: str) -> BadRequest:
    return BadRequest(
        f"metadata.resourceVersion: Invalid value: {quoted_start(text)}: must be a version this API gave"
    )


def drop_system_metadata(metadata: Object) -> None:
    """Drop metadata that only the server may set."""
    if not _SYSTEM_METADATA.isdisjoint(metadata):
        for system in _SYSTEM_METADATA:
            metadata.pop(system, None)


_SYSTEM_METADATA = frozenset({"selfLink", "generation", "deletionTimestamp", "deletionGracePeriodSeconds"})


def generate_name(metadata: Object, suffix: str) -> str:
    """The name of the new object, from generateName if it has none; "" without either."""
    base = metadata.get("generateName", "")
    if base and not metadata.get("name"):
        metadata["name"] = base[:LONGEST_GENERATED_BASE] + suffix
    return str(metadata.get("name", ""))


def _inherit_metadata(metadata: Object, old: Object) -> None:
    """Copy the metadata that no update may change; validation checks the rest."""
    metadata.pop("selfLink", None)
    metadata["uid"] = metadata.get("uid") or old["uid"]
    metadata["creationTimestamp"] = old["creationTimestamp"]
    for key in ("generation", "deletionTimestamp", "namespace"):
        if key in old:
            metadata[key] = old[key]
        elif key == "generation":
            metadata.pop(key, None)
    if "deletionGracePeriodSeconds" in old:
        metadata.setdefault("deletionGracePeriodSeconds", old["deletionGracePeriodSeconds"])


def _prepare_and_validate(
    errors: FieldErrors, definition: Definition, new: Object, old: Object, subresource: Subresource | None
) -> None:
    if subresource is not None:
        subresource.prepare(new, old)
        validate_metadata_update(errors, new["metadata"], old["metadata"], definition)
        subresource.validate(errors, new, old)
    else:
        definition.strategy.prepare_for_update(new, old)
        validate_metadata_update(errors, new["metadata"], old["metadata"], definition)
        definition.strategy.validate_update(errors, new, old)


def check_uid(definition: Definition, command: Replace, current: Current | None) -> None:
    """Raise Conflict if a replace has the uid of another object of that name.

    A patch is not checked: it merges into the current object, and validation refuses a changed uid.
    """
    actual = current.object["metadata"]["uid"] if current is not None else ""
    check_sent_uid(definition, command.name, command.object["metadata"].get("uid"), actual)


def check_unchanged_version(definition: Definition, current: Current, command: Replace) -> None:
    """Raise Conflict if the object has changed since the command was first decided and the command has a version."""
    version = version_number(command.object["metadata"].get("resourceVersion") or "")
    if version and (current.proposal is not None or version != current.offset):
        raise Conflict(definition.resource, command.name, STALE)


def _check_version(definition: Definition, name: str, version: str, current: Current) -> None:
    if version and version == current.version:
        return
    number = version_number(version) if version else 0
    if number == 0:
        if definition.strategy.allow_unconditional_update:
            return
        cause = Cause(
            "FieldValueInvalid",
            "Invalid value: 0x0: must be specified for an update",
            "metadata.resourceVersion",
        )
        raise Invalid(definition.group, definition.plural, name, [cause])
    if number is None:
        raise _not_a_version(version)
    if current.proposal is not None or number != current.offset:
        raise Conflict(definition.resource, name, STALE)


def may_not_create(definition: Definition, command: Replace | Patch) -> Forbidden:
    """The error for a replace or apply that would create without the right to create."""
    why = f"User {quoted_start(command.context.user)} cannot create this object"
    return Forbidden(definition.resource, command.name, why)


def _invalid(definition: Definition, name: str, errors: list[FieldError]) -> Invalid:
    return Invalid(definition.error_group, definition.kind, name, [error.cause() for error in errors])


def _policy_of(definition: Definition, command: Delete, metadata: Object) -> str:
    """The propagation policy: of the request, or else of the finalizers, or else the default of the kind."""
    if not definition.deletion.has_dependents:
        return "Background"
    decided = not {ORPHAN, FOREGROUND}.isdisjoint(metadata.get("finalizers", ()))
    default = "Orphan" if definition.deletion.orphans_by_default and not decided else ""
    return command.options.propagation_policy or default


def _finalizers_for(policy: str, finalizers: list[str]) -> list[str]:
    if not policy:
        return finalizers
    kept = [name for name in finalizers if name not in (ORPHAN, FOREGROUND)]
    if policy == "Orphan":
        return [*kept, ORPHAN]
    return [*kept, FOREGROUND] if policy == "Foreground" else kept


def _grace_seconds(metadata: Object) -> int:
    """The grace period of an object that is being deleted, in seconds."""
    seconds: int = metadata.get("deletionGracePeriodSeconds", 0)
    return seconds


def _delete_while_finalizing(definition: Definition, current: Object, finalizers: list[str]) -> Decision:
    """Delete an object that waits for its finalizers: a request may still change the propagation policy."""
    metadata = current["metadata"]
    unchanged = set(finalizers) == set(metadata.get("finalizers", ()))
    if unchanged or definition.deletion.has_own_finalizers(current):
        return Keep() if definition.has_finalizers(current) else Remove()
    if not finalizers:
        return Remove()
    return Store({**current, "metadata": {**metadata, "finalizers": finalizers}}, created=False)


def _shorten_grace_period(
    definition: Definition, current: Object, finalizers: list[str], left: int, requested: int
) -> Decision:
    """Delete an object in its grace period: a request can only shorten it."""
    wanted = 1 if requested < 0 else requested
    metadata = dict(current["metadata"])
    begun = micros_of(metadata["deletionTimestamp"]) - wrapped_micros(left)
    metadata["deletionTimestamp"] = seconds_text(begun + wrapped_micros(wanted))
    metadata["deletionGracePeriodSeconds"] = wanted
    metadata.pop("finalizers", None)
    if finalizers:
        metadata["finalizers"] = finalizers
    return _store_or_remove(definition, {**current, "metadata": metadata})


def _store_or_remove(definition: Definition, deleted: Object) -> Decision:
    if definition.has_finalizers(deleted) or _grace_seconds(deleted["metadata"]):
        return Store(deleted, created=False)
    return Remove(last=deleted if definition.deletion.grace_period else None)


def _with_deletion_timestamp(
    definition: Definition, current: Object, finalizers: list[str], time: int, seconds: int
) -> Object:
    """A copy of the object with deletionTimestamp, grace period and finalizers."""
    metadata = dict(current["metadata"])
    deleted = {**current, "metadata": metadata}
    metadata["deletionTimestamp"] = seconds_text(time + wrapped_micros(seconds))
    metadata["deletionGracePeriodSeconds"] = seconds
    metadata.pop("finalizers", None)
    if finalizers:
        metadata["finalizers"] = finalizers
    if metadata.get("generation"):
        metadata["generation"] += 1
    definition.deletion.mark_deleted(deleted)
    return deleted


UNCOMMITTED = "not committed yet"


def check_sent_uid(definition: Definition, name: str, uid: str | None, actual: str) -> None:
    """Check the uid in a sent object."""
    if uid:
        _check_uid(definition, name, uid, actual)


def check_version_precondition(
    definition: Definition, name: str, version: str | None, actual: str | None
) -> None:
    """`actual` is None while the object's last write is not committed: no client can name its version yet."""
    if version is not None and version != actual:
        meta = actual or UNCOMMITTED
        why = f"ResourceVersion in precondition: {version}, ResourceVersion in object meta: {meta}"
        raise Conflict(definition.resource, name, f"Precondition failed: {why}")


def check_delete(
    definition: Definition, name: str, options: DeleteOptions, uid: str, actual: str | None
) -> None:
    """`uid` and `actual` are the uid and the version of the current object."""
    if definition.deletion.uid_is_precondition:
        if options.uid is not None:
            _check_uid(definition, name, options.uid, uid)
        check_version_precondition(definition, name, options.resource_version, actual)
        return
    kind = Resource(definition.error_group, definition.kind)
    if options.uid is not None and options.uid != uid:
        why = f"the UID in the precondition ({options.uid}) does not match the UID in record ({uid})"
        raise Conflict(kind, name, f"{why}. The object might have been deleted and then recreated")
    version = options.resource_version
    if version is not None and version != actual:
        record = f"does not match the ResourceVersion in record ({actual or UNCOMMITTED})"
        why = f"the ResourceVersion in the precondition ({version}) {record}"
        raise Conflict(kind, name, f"{why}. The object might have been modified")


def _check_uid(definition: Definition, name: str, uid: str, actual: str) -> None:
    if uid != actual:
        why = f"UID in precondition: {uid}, UID in object meta: {actual}"
        raise Conflict(definition.resource, name, f"Precondition failed: {why}")


def validate_metadata_create(errors: FieldErrors, metadata: Object, definition: Definition) -> None:
    """For kinds whose strategy does not validate it."""
    metadata_rules(
        errors,
        metadata,
        namespaced=definition.namespaced,
        check_name=definition.check_name,
        known_finalizers=definition.deletion.only_known_finalizers,
    )


def validate_metadata_update(
    errors: FieldErrors, metadata: Object, old: Object, definition: Definition
) -> None:
    metadata_rules(
        errors,
        metadata,
        namespaced=definition.namespaced,
        check_name=name_is_path_segment,
        known_finalizers=False,
    )
    if not errors.found:
        errors.valid_metadata = metadata
    metadata_update_rules(errors, metadata, old, known_finalizers=False)
