"""Objects as webhooks get them, and back: served documents, JSON patches applied to them, storage form. Pure."""

from __future__ import annotations

from copy import copy
from typing import Any, NamedTuple

import orjson

from rewound.actors.admission.request import CONNECT, AdmissionRequest
from rewound.actors.errors import BadRequest, TooLarge, WebhookFailed
from rewound.actors.golang.json import unescaped
from rewound.actors.kinds.declaration.definition import ConvertByWebhook, Definition
from rewound.actors.kinds.schema.decoder import NotDecodable
from rewound.actors.messages import Object
from rewound.actors.patch.errors import MalformedPatch, PatchDoesNotFit, PatchTooLarge
from rewound.actors.patch.json_patch import apply_json_patch, parse_json_patch
from rewound.actors.patch.managed_fields.managers import read_entries
from rewound.actors.patch.transform import check_bounds
from rewound.actors.runtime.large_work import COUNTED_BYTES, MAX_STORED_VALUES, check_values

INVALID_MANAGERS = (
    ".metadata.managedFields was in an invalid state after admission; "
    "this could be caused by an outdated mutating admission controller; please fix your requests"
)


class Patched(NamedTuple):
    object: Object  # in storage form
    changed: bool
    warnings: tuple[str, ...] = ()


def new_document(request: AdmissionRequest, definition: Definition, version: str = "") -> Object | None:
    """The object of a request in the version of a definition; None for a delete. `version` is for one without."""
    if request.object is None:
        return None
    viewed = request.viewed_in(definition)
    stored = request.object
    if request.operation == CONNECT:
        options = {name: value for name, value in stored.items() if name != "metadata"}
        return {"kind": viewed.kind, "apiVersion": viewed.api_version, **options}
    if viewed is definition:
        stored = _converted(definition, stored, request.definition.api_version)
    return _document(request, viewed, stored, version)


def old_document(request: AdmissionRequest, definition: Definition, version: str) -> Object | None:
    if request.old is None:
        return None
    viewed = definition.definition_at(request.subresource)
    old = request.old
    if definition.storage.versions is not None:
        old = _converted(definition, old, request.old_version or request.definition.api_version)
    if viewed.storage.versions is None:
        old = _converted(viewed, old)
    return _document(request, viewed, old, version)


async def in_version(
    request: AdmissionRequest, definition: Definition, convert: ConvertByWebhook
) -> AdmissionRequest:
    """A copy of a request, with its objects converted to a definition by webhook. Raises ConversionFailed."""
    versions, source, target = (
        definition.storage.versions,
        request.definition.api_version,
        definition.api_version,
    )
    assert versions is not None
    shown = copy(request)
    if request.object is not None and request.viewed_in(definition) is definition:
        shown.object = await convert(versions, request.object, source, target)
    if request.old is not None:
        shown.old = await convert(versions, request.old, request.old_version or source, target)
    return shown


def _converted(viewed: Definition, stored: Object, written_in: str = "") -> Object:
    """`written_in`: the version that an object of a custom kind is in; `in_version` has converted those of webhooks."""
    versions = viewed.storage.versions
    if versions is not None:
        return (
            versions.convert(stored, written_in, viewed.api_version) if versions.webhook is None else stored
        )
    conversion = viewed.storage.conversion
    # A copy, because conversions may change what they get.
    return conversion.from_storage(orjson.loads(unescaped(stored))) if conversion else stored


def _document(request: AdmissionRequest, viewed: Definition, shown: Object, version: str) -> Object:
    metadata = dict(shown.get("metadata") or {})
    if request.namespace and request.definition.namespaced:
        metadata.setdefault("namespace", request.namespace)
    if version and not metadata.get("resourceVersion"):
        metadata["resourceVersion"] = version
    if not viewed.is_custom and viewed.null_creation_time:
        metadata.setdefault("creationTimestamp", None)  # Go's types always have it
    return {"kind": viewed.kind, "apiVersion": viewed.api_version, **shown, "metadata": metadata}


def parse_patch(raw: bytes) -> list[dict[str, Any]]:
    """The operations of a JSON patch in a review. Raises WebhookFailed if it is not one."""
    try:
        if len(raw) > COUNTED_BYTES:
            check_values(raw, MAX_STORED_VALUES)
        return parse_json_patch(orjson.loads(raw))
    except TooLarge:
        raise WebhookFailed(f"the patch has more than {MAX_STORED_VALUES} values") from None
    except (orjson.JSONDecodeError, MalformedPatch, PatchTooLarge) as error:
        raise WebhookFailed(str(error)) from None


def apply_patch(
    request: AdmissionRequest, definition: Definition, document: Object, operations: list[dict[str, Any]]
) -> Patched:
    """The object after the patch of a webhook that got `document`. WebhookFailed if there is none.

    Where a conversion webhook converts, the object is in the version of `definition`.
    """
    viewed = request.viewed_in(definition)
    before = _decoded(viewed, orjson.loads(unescaped(document)))
    try:
        patched = apply_json_patch(orjson.loads(unescaped(document)), operations)
        check_bounds(patched)
    except (MalformedPatch, PatchDoesNotFit, PatchTooLarge) as error:
        raise WebhookFailed(str(error)) from None
    return stored_form(request, viewed, before, _decoded(viewed, patched))


def stored_form(request: AdmissionRequest, viewed: Definition, before: Object, after: Object) -> Patched:
    """What a change makes of the object of a request; both are in the version of `viewed`, `after` is decoded.

    `changed` is right only if `before` is decoded too.
    """
    warnings = _keep_valid_managers(before["metadata"], after["metadata"])
    changed = after != before
    if changed:
        _check_namespace(before["metadata"], after["metadata"])
    viewed.schema.null_empty_lists(after)
    if viewed.storage.conversion is not None:
        after = viewed.storage.conversion.to_storage(after)
    elif viewed.storage.versions is not None and viewed.storage.versions.webhook is None:
        after = viewed.storage.versions.convert(after, viewed.api_version, request.definition.api_version)
    return Patched(after, changed, warnings)


def _decoded(viewed: Definition, document: Any) -> Object:
    try:
        decoded = viewed.schema.decode_object(document, in_steps=True).object
    except NotDecodable as error:
        raise WebhookFailed(str(error)) from None
    decoded.setdefault("metadata", {})
    return decoded


def _keep_valid_managers(before: Object, after: Object) -> tuple[str, ...]:
    """Restore managedFields that a patch has made unreadable."""
    entries = after.get("managedFields")
    if entries == before.get("managedFields") or not entries or read_entries(entries) is not None:
        return ()
    after.pop("managedFields")
    if "managedFields" in before:
        after["managedFields"] = before["managedFields"]
    return (INVALID_MANAGERS,)


def _check_namespace(before: Object, after: Object) -> None:
    if "namespace" in after and after["namespace"] != before.get("namespace"):
        raise BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
