"""Request bodies: bytes of a media type to decoded objects, with what was wrong with their fields.

Unknown and duplicate fields are dropped with a warning, dropped silently, or refused, as fieldValidation says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import orjson

from actors.errors import BadRequest, TooLarge
from actors.kinds.core.pods.eviction import DELETE_OPTIONS
from actors.kinds.declaration.definition import Definition
from actors.kinds.schema.decoder import Decoded, NotDecodable
from actors.messages import Object
from actors.names import Names
from actors.patch.errors import MalformedPatch, PatchTooLarge
from actors.patch.transform import read_patch
from gateway.requests.call import Call
from gateway.requests.errors import UnsupportedPatch
from gateway.wire import yaml
from gateway.wire.aside import read_aside
from gateway.wire.negotiate import UnsupportedMediaType, body_media
from gateway.wire.patch_types import PATCH_FORMATS, PATCH_MEDIA, STRATEGIC
from gateway.wire.protobuf import NotProtobuf, read_object

# Bytes whose reading takes a millisecond or so, most often; larger ones must not hold up other requests.
_OFF_LOOP = 64 * 1024
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Body:
    object: Object  # in storage form
    problems: tuple[str, ...]


async def decode_body(call: Call, definition: Definition, names: Names, field_validation: str) -> Body:
    decoded = await _decode(call, definition, names)
    if decoded.problems:
        _judge(call, definition, decoded.problems, field_validation)
    stored = decoded.object
    if definition.storage.conversion is not None:
        stored = definition.storage.conversion.to_storage(stored)
    stored.setdefault("metadata", {})
    return Body(stored, decoded.problems)


async def _decode(call: Call, definition: Definition, names: Names) -> Decoded:
    raw = call.request.body
    media = body_media(call.request.headers.get(b"content-type"), names)
    try:
        schema = definition.schema
        # The way of nearly all writes, without one more coroutine.
        if media == "json" and len(raw) <= _OFF_LOOP:
            return schema.decode_json(raw)
        if media == "json":
            return await _unhurried(raw, schema.decode_json, raw)
        if media == "protobuf":
            return await _unhurried(raw, _decode_message, definition, raw)
        loaded = await yaml.load_off_loop(raw)
        return await _unhurried(raw, schema.decode_object, loaded.value, loaded.problems)
    except (NotDecodable, NotProtobuf, yaml.YamlError) as error:
        raise BadRequest(str(error)) from None


async def _unhurried(raw: bytes, read: Callable[..., T], *arguments: Any) -> T:
    """In a thread where it takes long, so that others are served meanwhile."""
    if len(raw) <= _OFF_LOOP:
        return read(*arguments)
    return await read_aside(read, *arguments)


def _decode_message(definition: Definition, raw: bytes) -> Decoded:
    schema = definition.schema
    body = read_object(definition.fields, raw, schema.check_type)
    return schema.decode_object(body.object, body.problems)


def _judge(call: Call, definition: Definition, problems: tuple[str, ...], field_validation: str) -> None:
    if field_validation == "Strict":
        kind, listed = definition.kind, ", ".join(yaml.in_one(problems))
        raise BadRequest(
            f'{kind} in version "{definition.version}" cannot be handled as a {kind}: '
            f"strict decoding error: {listed}"
        )
    if field_validation != "Ignore":
        call.warnings.extend(problems)


async def decode_delete_options(call: Call, names: Names) -> dict[str, Any] | None:
    """The DeleteOptions of a body, unchecked; None without one."""
    raw = call.request.body
    if not raw:
        return None
    media = body_media(call.request.headers.get(b"content-type"), names)
    value: Any
    try:
        if media == "json":
            value = orjson.loads(raw)
        elif media == "protobuf":
            value = read_object(DELETE_OPTIONS, raw).object
        else:
            value = (await yaml.load_off_loop(raw)).value
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


async def decode_patch(call: Call, format_: str) -> tuple[Any, tuple[str, ...]]:
    """Value and doubtful fields of a patch that is no apply."""
    try:
        return await _read_patch(format_, call.request.body)
    except PatchTooLarge as error:
        raise TooLarge(f"Request entity too large: {error}") from None
    except MalformedPatch as error:
        raise BadRequest(str(error)) from None


async def _read_patch(format_: str, raw: bytes) -> tuple[Any, tuple[str, ...]]:
    return await _unhurried(raw, read_patch, format_, raw)


async def decode_applied(call: Call, definition: Definition, field_validation: str) -> Body:
    """The partial object of an apply as it was sent, once it is known to decode."""
    value, problems = await _load_applied(call.request.body)
    if not isinstance(value, dict):
        raise BadRequest("the body of an apply must be an object")
    if not value.get("apiVersion") or not value.get("kind"):
        raise BadRequest("the body of an apply must say its apiVersion and kind")
    try:
        decoded = definition.schema.decode_object(value, problems)
    except NotDecodable as error:
        raise BadRequest(str(error)) from None
    if decoded.problems:
        _judge(call, definition, decoded.problems, field_validation)
    return Body(value, decoded.problems)


async def _load_applied(raw: bytes) -> tuple[Any, tuple[str, ...]]:
    """JSON is YAML too, and what most programs send; read as such it costs a tenth. Doubled keys have lines in YAML."""
    if raw.lstrip()[:1] == b"{":
        try:
            value, problems = await _read_patch("merge", raw)
            if not problems:
                return value, problems
        except MalformedPatch:
            pass
    try:
        loaded = await yaml.load_off_loop(raw)
    except yaml.YamlError as error:
        raise BadRequest(str(error)) from None
    return loaded.value, loaded.problems
