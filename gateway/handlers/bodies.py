"""Decodes request bodies of any media type, and reports unknown and duplicate fields.

fieldValidation decides whether such fields are dropped with a warning, dropped silently, or refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import orjson

from actors.errors import BadRequest, TooLarge
from actors.kinds.core.pods.eviction import DELETE_OPTIONS
from actors.kinds.declaration.definition import Definition
from actors.kinds.schema.decoder import Decoded, NotDecodable
from actors.messages import Object
from actors.names import Names
from actors.patch.errors import MalformedPatch, PatchTooLarge
from actors.patch.transform import read_patch
from gateway.requests.context import RequestContext
from gateway.requests.errors import UnsupportedPatch
from gateway.wire import yaml
from gateway.wire.negotiate import UnsupportedMediaType, body_media
from gateway.wire.patch_types import PATCH_FORMATS, PATCH_MEDIA, STRATEGIC
from gateway.wire.protobuf import NotProtobuf, read_object
from gateway.wire.worker_threads import decode_in_thread

# About a millisecond of decoding, which other requests may wait for.
_THREAD_THRESHOLD = 64 * 1024
T = TypeVar("T")


class Body(NamedTuple):
    """A tuple, because every write creates one and a dataclass costs more."""

    object: Object  # in its storage version
    problems: tuple[str, ...]


def decode_at_once(
    context: RequestContext, definition: Definition, names: Names, field_validation: str
) -> Body | None:
    """A body that needs neither conversion to JSON nor a thread, as most do; else None, and `decode_body` decodes it.

    It saves two coroutines on every write.
    """
    raw = context.request.body
    if (
        len(raw) > _THREAD_THRESHOLD
        or body_media(context.request.headers.get(b"content-type"), names) != "json"
    ):
        return None
    try:
        decoded = definition.schema.decode_json(raw)
    except NotDecodable as error:
        raise BadRequest(str(error)) from None
    return _stored_body(context, definition, decoded, field_validation)


async def decode_body(
    context: RequestContext, definition: Definition, names: Names, field_validation: str
) -> Body:
    decoded = await _decode(context, definition, names)
    return _stored_body(context, definition, decoded, field_validation)


def _stored_body(
    context: RequestContext, definition: Definition, decoded: Decoded, field_validation: str
) -> Body:
    if decoded.problems:
        _report_problems(context, definition, decoded.problems, field_validation)
    stored = decoded.object
    if definition.storage.conversion is not None:
        stored = definition.storage.conversion.to_storage(stored)
    stored.setdefault("metadata", {})
    return Body(stored, decoded.problems)


async def _decode(context: RequestContext, definition: Definition, names: Names) -> Decoded:
    raw = context.request.body
    media = body_media(context.request.headers.get(b"content-type"), names)
    try:
        schema = definition.schema
        if media == "json":
            return await _decode_by_size(raw, schema.decode_json, raw)
        if media == "protobuf":
            return await _decode_by_size(raw, _decode_message, definition, raw)
        loaded = await yaml.load_in_thread(raw)
        return await _decode_by_size(raw, schema.decode_object, loaded.value, loaded.problems)
    except (NotDecodable, NotProtobuf, yaml.YamlError) as error:
        raise BadRequest(str(error)) from None


async def _decode_by_size(raw: bytes, read: Callable[..., T], *arguments: Any) -> T:
    """Decode here if the body is small, else in a worker thread."""
    if len(raw) <= _THREAD_THRESHOLD:
        return read(*arguments)
    return await decode_in_thread(read, *arguments)


def _decode_message(definition: Definition, raw: bytes) -> Decoded:
    schema = definition.schema
    body = read_object(definition.fields, raw, schema.check_type)
    return schema.decode_object(body.object, body.problems)


def _report_problems(
    context: RequestContext, definition: Definition, problems: tuple[str, ...], field_validation: str
) -> None:
    if field_validation == "Strict":
        kind, listed = definition.kind, ", ".join(yaml.merge_problems(problems))
        raise BadRequest(
            f'{kind} in version "{definition.version}" cannot be handled as a {kind}: '
            f"strict decoding error: {listed}"
        )
    if field_validation != "Ignore":
        context.warnings.extend(problems)


async def decode_delete_options(context: RequestContext, names: Names) -> dict[str, Any] | None:
    """The DeleteOptions of a body, not validated; None without a body."""
    raw = context.request.body
    if not raw:
        return None
    media = body_media(context.request.headers.get(b"content-type"), names)
    value: Any
    try:
        if media == "json":
            value = orjson.loads(raw)
        elif media == "protobuf":
            value = read_object(DELETE_OPTIONS, raw).object
        else:
            value = (await yaml.load_in_thread(raw)).value
    except (orjson.JSONDecodeError, NotProtobuf, yaml.YamlError) as error:
        raise BadRequest(f"the body of the request is not DeleteOptions: {error}") from None
    if value is None:
        return None
    if not isinstance(value, dict):
        raise BadRequest("the body of the request must be an object of kind DeleteOptions, or be left out")
    return value


def patch_format(content_type: bytes, definition: Definition) -> str:
    format_ = PATCH_FORMATS.get(content_type.partition(b";")[0].strip().lower())
    if format_ is None:
        raise UnsupportedPatch
    if format_ == "strategic" and not definition.strategic_merge_patch:
        raise UnsupportedMediaType(tuple(media for media in PATCH_MEDIA if media != STRATEGIC))
    return format_


async def decode_patch(context: RequestContext, format_: str) -> tuple[Any, tuple[str, ...]]:
    """Value of a patch that is no apply, and problems with its fields."""
    try:
        return await _read_patch(format_, context.request.body)
    except PatchTooLarge as error:
        raise TooLarge(f"Request entity too large: {error}") from None
    except MalformedPatch as error:
        raise BadRequest(str(error)) from None


async def _read_patch(format_: str, raw: bytes) -> tuple[Any, tuple[str, ...]]:
    return await _decode_by_size(raw, read_patch, format_, raw)


async def decode_applied(context: RequestContext, definition: Definition, field_validation: str) -> Body:
    """The object of an apply as the client sent it, after checking that it decodes."""
    value, problems = await _load_applied(context.request.body)
    if not isinstance(value, dict):
        raise BadRequest("the body of an apply must be an object")
    if not value.get("apiVersion") or not value.get("kind"):
        raise BadRequest("the body of an apply must say its apiVersion and kind")
    try:
        decoded = definition.schema.decode_object(value, problems)
    except NotDecodable as error:
        raise BadRequest(str(error)) from None
    if decoded.problems:
        _report_problems(context, definition, decoded.problems, field_validation)
    return Body(value, decoded.problems)


async def _load_applied(raw: bytes) -> tuple[Any, tuple[str, ...]]:
    """Read JSON as JSON, at a tenth of the cost, unless keys are duplicate: only YAML problems have line numbers."""
    if raw.lstrip()[:1] == b"{":
        try:
            value, problems = await _read_patch("merge", raw)
            if not problems:
                return value, problems
        except MalformedPatch:
            pass
    try:
        loaded = await yaml.load_in_thread(raw)
    except yaml.YamlError as error:
        raise BadRequest(str(error)) from None
    return loaded.value, loaded.problems
