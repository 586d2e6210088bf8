"""Server-side apply: merges the applied configuration into an object, or creates one, and decodes the result.

Pure, except that a webhook may have to convert objects to the versions of other managers.

Defaulting happens after the merge, so that fields that an applier leaves out get their default again, and so that no
manager owns a default that it did not apply.
"""

from __future__ import annotations

from rewound.actors.errors import BadRequest, Conflict, IllTyped, TooLarge
from rewound.actors.kinds.declaration.definition import ConvertByWebhook, Definition
from rewound.actors.kinds.declaration.meta import check_address
from rewound.actors.kinds.values.times import seconds_text
from rewound.actors.messages import Object, Patch
from rewound.actors.patch.errors import PatchTooLarge
from rewound.actors.patch.managed_fields.applied_types import find_typing_error, find_wrong_type
from rewound.actors.patch.managed_fields.apply import AmbiguousItems, Applier, apply, refresh_annotation
from rewound.actors.patch.managed_fields.atomic_lists import check_atomic_lists
from rewound.actors.patch.managed_fields.field_view import FieldView, FieldViews
from rewound.actors.patch.managed_fields.ownership import find_mismatch, no_conversion
from rewound.actors.patch.transform import check_bounds
from rewound.actors.resource.current import Current, check_sent_version
from rewound.actors.store.document import decode, encode


async def apply_object(
    views: FieldViews,
    definition: Definition,
    current: Current | None,
    command: Patch,
    convert: ConvertByWebhook = no_conversion,
    *,
    in_thread: bool = False,
) -> Object:
    """The object to store, in the storage version and with its managedFields. Raises ApplyConflict, among others."""
    sent = command.patch.get("metadata") or {}
    if sent.get("managedFields") is not None:
        raise BadRequest("metadata.managedFields must be nil")
    if definition.is_custom:
        _check_types(definition, views(command.version, command.subresource), current, command)
    wanted = await _applied(views, definition, current, command, convert, in_thread)
    # After conflicts with other managers, as in v1.25.
    if current is None and sent.get("uid"):
        why = (
            f"uid mismatch: the provided object specified uid {sent['uid']}, and no existing object was found"
        )
        raise Conflict(definition.resource, command.name, why)
    named = current is None or "name" in sent
    check_address({"metadata": sent}, command.namespace, command.name if named else None)
    check_sent_version(definition, sent)
    metadata = wanted["metadata"]
    if current is None:
        metadata["name"] = command.name
    else:
        # An empty version asks for an unconditional update, as in other writes; not every kind allows it.
        version = sent.get("resourceVersion") if "resourceVersion" in sent else current.version
        metadata["resourceVersion"] = version or ""
        metadata["uid"] = sent.get("uid") or metadata["uid"]
    return wanted


def _check_types(definition: Definition, view: FieldView, current: Current | None, command: Patch) -> None:
    """Check the types of a custom object; the decoder has checked those of built-in kinds."""
    assert definition.custom is not None
    wrong = find_wrong_type(definition.custom, command.patch)
    if wrong and definition.rules.ill_typed_apply == "500":
        raise IllTyped.fields(command.patch, wrong)
    if wrong:
        raise BadRequest(f"the applied object cannot be merged: {wrong}")
    wrong = find_mismatch(view.shape, view.show(current.object)) if current is not None else ""
    if wrong:
        raise BadRequest(f"the object cannot be merged with the stored one: {wrong}")


async def _applied(
    views: FieldViews,
    definition: Definition,
    current: Current | None,
    command: Patch,
    convert: ConvertByWebhook,
    in_thread: bool,
) -> Object:
    view = views(command.version, command.subresource)
    context = command.context
    applier = Applier(context.manager, seconds_text(context.time), command.force, command.annotation)
    try:
        if not definition.is_custom:
            check_atomic_lists(definition.fields, command.patch)
        applied = await apply(
            views, view, current.object if current else None, command.patch, applier, convert
        )
    except AmbiguousItems as error:
        if definition.rules.ill_typed_apply == "500" and not definition.is_custom:
            found = find_typing_error(definition.fields, command.patch, definition.features)
            raise IllTyped.fields(command.patch, found or str(error)) from None
        raise BadRequest(f"the applied object cannot be merged: {error}") from None
    wanted = _decoded(view, applied.object, in_thread) if applied.object is not None else _copied(current)
    metadata = wanted["metadata"]
    metadata.pop("managedFields", None)
    if applied.managed_fields:
        metadata["managedFields"] = applied.managed_fields
    if command.annotation:
        refresh_annotation(metadata, command.patch, command.annotation)
    _check_bounds(wanted)
    return wanted


def _check_bounds(wanted: Object) -> None:
    try:
        check_bounds(wanted)
    except PatchTooLarge as error:
        raise TooLarge(f"Request entity too large: {error}") from None


def _decoded(view: FieldView, merged: Object, in_steps: bool) -> Object:
    metadata = {name: value for name, value in merged["metadata"].items() if name != "managedFields"}
    wanted = view.schema.decode_merged({**merged, "metadata": metadata}, in_steps=in_steps).object
    view.schema.null_empty_lists(wanted)
    return view.store(wanted)


def _copied(current: Current | None) -> Object:
    """A copy that the strategy of the kind may change."""
    assert current is not None
    return decode(encode(current.object, current.offset))
