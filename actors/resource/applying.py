"""What an apply makes of an object, or of none: the merged configuration, decoded like any body. Pure.

Defaults are filled in after the merge, so that what an applier leaves out goes back to its default, and so that
nobody owns a default by applying something else.
"""

from __future__ import annotations

from actors.errors import BadRequest, Conflict, TooLarge
from actors.kinds.declaration.definition import Definition
from actors.kinds.values.times import seconds_text
from actors.messages import Object, Patch
from actors.patch.bounds import check_bounds
from actors.patch.errors import PatchTooLarge
from actors.patch.managed_fields.apply import Applier, apply
from actors.patch.managed_fields.claims import NotClaimable
from actors.patch.managed_fields.field_view import Door, Doors
from actors.patch.managed_fields.last_applied import kept_current
from actors.resource.decide import Current
from actors.store.addressing import check_name, settle_namespace
from actors.store.document import as_stored, decode, encode


def apply_object(doors: Doors, definition: Definition, current: Current | None, command: Patch) -> Object:
    """The object that the command asks for, in storage form and with its owners."""
    config = command.patch
    sent = config.get("metadata") or {}
    _check_address(command, sent, creating=current is None)
    if sent.get("managedFields") is not None:
        raise BadRequest("metadata.managedFields must be nil")
    if current is None and sent.get("uid"):
        why = (
            f"uid mismatch: the provided object specified uid {sent['uid']}, and no existing object was found"
        )
        raise Conflict(definition.resource, command.name, why)
    wanted = _applied(doors, current, command)
    metadata = wanted["metadata"]
    if current is None:
        metadata["name"] = command.name
    else:
        metadata["resourceVersion"] = sent.get("resourceVersion") or str(current.offset)
        metadata["uid"] = sent.get("uid") or metadata["uid"]
    return wanted


def _check_address(command: Patch, sent: Object, *, creating: bool) -> None:
    settle_namespace(command.namespace, {"metadata": sent})
    if creating or sent.get("name"):
        check_name(command.name, {"metadata": sent})


def _applied(doors: Doors, current: Current | None, command: Patch) -> Object:
    door = doors(command.version, command.subresource)
    stamp = command.stamp
    applier = Applier(stamp.manager, seconds_text(stamp.time), command.force, command.annotation)
    try:
        applied = apply(doors, door, current.object if current else None, command.patch, applier)
    except NotClaimable as error:
        raise BadRequest(f"the applied object cannot be merged: {error}") from None
    wanted = _decoded(door, applied.object) if applied.object is not None else _copied(current)
    metadata = wanted["metadata"]
    metadata.pop("managedFields", None)
    if applied.managed_fields:
        metadata["managedFields"] = applied.managed_fields
    if command.annotation:
        kept_current(metadata, command.patch, command.annotation)
    _check_bounds(wanted)
    return wanted


def _check_bounds(wanted: Object) -> None:
    try:
        check_bounds(wanted)
    except PatchTooLarge as error:
        raise TooLarge(f"Request entity too large: {error}") from None


def _decoded(door: Door, merged: Object) -> Object:
    metadata = {name: value for name, value in merged["metadata"].items() if name != "managedFields"}
    wanted = door.schema.decode_object({**merged, "metadata": metadata}).object
    as_stored(door.schema, wanted)
    return door.store(wanted)


def _copied(current: Current | None) -> Object:
    """An object that the kind's hooks may change."""
    assert current is not None
    return decode(encode(current.object, current.offset))
