"""Decodes request bodies of any media type, and reports unknown and duplicate fields.

fieldValidation decides whether such fields are dropped with a warning, dropped silently, or refused. The event loop
decodes small bodies itself; large ones are decoded by `LargeWork`, after their values are counted and the memory that
they need is taken from the budget.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

import orjson
import trio

from rewound.actors.errors import BadRequest, IllTyped, TooLarge
from rewound.actors.golang.json import unescaped
from rewound.actors.golang.quoting import quoted_start
from rewound.actors.kinds.core.pod import DELETE_OPTIONS
from rewound.actors.kinds.core.secret import REDACTED
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.registry import Registry
from rewound.actors.kinds.schema.decoder import TYPED, Decoded, NotDecodable, OtherKind, Unrecognized
from rewound.actors.kinds.schema.json_tree import NotJson, parse_tree
from rewound.actors.kinds.schema.scalars import json_type_of
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.patch.errors import MalformedPatch, PatchTooLarge
from rewound.actors.patch.managed_fields.applied_types import find_typing_error, undeclared
from rewound.actors.patch.transform import read_patch
from rewound.actors.profile import DOCUMENTED, Rules
from rewound.actors.resource.patching import SECRETS
from rewound.actors.runtime.large_work import (
    LARGE_BYTES,
    MAX_STORED_VALUES,
    MAX_VALUES,
    LargeWork,
    check_values,
    is_large,
)
from rewound.gateway.exchange import SentNames
from rewound.gateway.memory.budget import MemoryBudget
from rewound.gateway.pipeline.context import RequestContext
from rewound.gateway.pipeline.errors import UnsupportedPatch
from rewound.gateway.pipeline.options import delete_options_document
from rewound.gateway.wire import yaml
from rewound.gateway.wire.cbor.reader import NotCbor, read_custom, read_values
from rewound.gateway.wire.cbor.reader import read_object as read_cbor_object
from rewound.gateway.wire.negotiate import (
    APPLY_CBOR,
    STRATEGIC,
    Media,
    UnsupportedMediaType,
    body_media,
    custom_media,
    patch_formats,
    patch_media_of,
)
from rewound.gateway.wire.protobuf import NotProtobuf, read_object

# Bytes of YAML, protobuf and CBOR that the event loop decodes itself: some milliseconds in Python.
_SMALL = 8 * 1024
_SMALL_CBOR = 2 * 1024  # a value may have one byte
# The pydantic decoder takes up to 10 microseconds per value, in one call that holds the interpreter lock.
_VALUES_AT_ONCE = 5_000
_SUMMARY = 30  # bytes of an unrecognized body in the message
# Memory of a decoded body, with the copies that admission, preparation and encoding make.
_COPIES, _BYTES_PER_VALUE = 3, 150
# A small patch can cause much work: each operation may move the items of a long list.
_BYTES_PER_OPERATION = 256

T = TypeVar("T")


_NO_TYPE: Final = "couldn't get version/kind; json parse error: "
_SCHEME: Final = (
    "pkg/api/legacyscheme/scheme.go:30"  # as kube-apiserver names the place of its built-in kinds
)


class Body(NamedTuple):
    """A decoded body. A tuple, because every write creates one and a dataclass costs more."""

    object: Object  # in its storage version
    problems: tuple[str, ...]
    large: bool = False  # the write is decided in a worker thread


class DecodedPatch(NamedTuple):
    value: Any
    problems: tuple[str, ...]
    large: bool = False


class Bodies:
    def __init__(
        self,
        names: Names,
        rules: Rules,
        registry: Registry,
        large_work: LargeWork,
        memory: MemoryBudget,
        *,
        cbor: bool,
    ) -> None:
        """`cbor`: the server takes bodies in CBOR."""
        self._names, self._rules, self._registry = names, rules, registry
        self._cbor = cbor
        self._large_work = large_work
        self._memory = memory

    async def decode(self, context: RequestContext, definition: Definition, field_validation: str) -> Body:
        raw, media = context.request.body, self._media(context)
        work: Callable[..., Body]
        if media == "json":
            if not is_large(raw) and not definition.has_large_defaults:
                return self._decode_json(context, definition, field_validation, in_thread=False)
            work, in_thread = self._decode_json, True
        elif media == "protobuf":
            if definition.is_custom:
                raise UnsupportedMediaType(custom_media(self._names, cbor=self._cbor))
            work, in_thread = self._decode_protobuf, len(raw) > _SMALL
        elif media == "cbor":
            work, in_thread = self._decode_cbor, len(raw) > _SMALL_CBOR or definition.has_large_defaults
        else:
            work, in_thread = self._decode_yaml, _is_large_yaml(raw) or definition.has_large_defaults
        return await self.run(context, work, context, definition, field_validation, in_thread=in_thread)

    async def delete_options(self, context: RequestContext) -> dict[str, Any] | None:
        """The DeleteOptions in the body, not validated; None without a body."""
        raw = context.request.body
        if not raw:
            return None
        check_short(raw, "DeleteOptions")
        media = self._media(context)
        try:
            if media == "json":
                value = orjson.loads(raw)
            elif media == "protobuf":
                in_thread = len(raw) > _SMALL
                value = await self.run(context, _read_delete_options, raw, in_thread=in_thread)
            elif media == "cbor":
                in_thread = len(raw) > _SMALL
                value = await self.run(context, _read_cbor_options, raw, in_thread=in_thread)
            else:
                value = (await self.run(context, yaml.load, raw, in_thread=_is_large_yaml(raw))).value
        except NotCbor as error:
            prefix = "" if error.is_recognizable else "unable to determine group/version/kind: "
            raise BadRequest(f"{prefix}{error}") from None
        except orjson.JSONDecodeError as error:
            raise BadRequest(f"{_NO_TYPE}{_as_go_says(raw) or error}") from None
        except (NotProtobuf, yaml.YamlError) as error:
            raise BadRequest(f"the body of the request is not DeleteOptions: {error}") from None
        if value is None:
            return None
        if not isinstance(value, dict):
            raise BadRequest(f"{_NO_TYPE}json: cannot unmarshal {json_type_of(value)} into {TYPED}")
        if _is_audited(context):
            _keep_for_audit(context, delete_options_document(self._names, value))
        return value

    async def patch(self, context: RequestContext, format_: str) -> DecodedPatch:
        """A JSON, merge or strategic merge patch, and problems with its fields."""
        try:
            return await self._read_patch(context, format_)
        except PatchTooLarge as error:
            raise TooLarge(f"Request entity too large: {error}") from None
        except MalformedPatch as error:
            raise BadRequest(str(error)) from None

    async def applied(self, context: RequestContext, definition: Definition, field_validation: str) -> Body:
        """The object of an apply as the client sent it, after checking that it decodes."""
        in_thread = _is_large_apply(context.request.body) or definition.has_large_defaults
        return await self.run(
            context,
            self._decode_applied,
            context,
            definition,
            field_validation,
            in_thread,
            in_thread=in_thread,
        )

    async def applied_view(self, context: RequestContext, view: Definition) -> DecodedPatch:
        """The body of an apply to a subresource with another kind, such as scale."""
        in_thread = _is_large_apply(context.request.body)
        loaded, _ = await self.run(
            context, self._check_applied, context, view, in_thread, in_thread=in_thread
        )
        return loaded

    async def load(self, context: RequestContext, definition: Definition) -> None:
        """Compile the schema of a custom kind in the thread for large work: it takes up to seconds."""
        await self._large_work.run(context.user.name, definition.load)

    async def run(
        self, context: RequestContext, work: Callable[..., T], *arguments: Any, in_thread: bool
    ) -> T:
        """Run work on a body: in the event loop if it is small, else in the thread for large work."""
        if not in_thread:
            return work(*arguments)
        return await self._large_work.run(context.user.name, work, *arguments)

    def _media(self, context: RequestContext) -> Media:
        block = context.block
        if block.media is None:
            content_type = context.request.headers.get(b"content-type")
            block.media = body_media(content_type, self._names, cbor=self._cbor)
        return block.media

    # The following run in the event loop for small bodies, and in a thread for large ones.

    def _decode_json(
        self,
        context: RequestContext,
        definition: Definition,
        field_validation: str,
        *,
        in_thread: bool = True,
    ) -> Body:
        raw = context.request.body
        in_steps = in_thread and self._check(context, raw) > _VALUES_AT_ONCE
        try:
            decoded = definition.schema.decode_json(raw, in_steps=in_steps)
        except NotDecodable as error:
            if isinstance(error, OtherKind):
                raise self._of_other_kind(definition, error) from None
            raise _not_decodable(definition, raw, error, self._rules) from None
        return _stored_body(context, definition, decoded, field_validation, large=in_thread)

    def _of_other_kind(self, definition: Definition, error: OtherKind) -> BadRequest:
        if self._rules.error_texts == "explained" or definition.is_custom:
            return BadRequest(str(error))
        kind, version = error.kind, error.api_version.rpartition("/")[2]
        wanted = f"no kind {quoted_start(kind)} is registered for version {quoted_start(error.api_version)}"
        why = f'{wanted} in scheme "{_SCHEME}"'
        if self._registry.built_in.of_kind(error.api_version, kind) is not None:
            here = definition.group.partition(".")[0] or "core"
            why = f"converting ({version}.{kind}) to ({here}.{definition.kind}): unknown conversion"
        return BadRequest(
            f"{kind} in version {quoted_start(version)} cannot be handled as a {definition.kind}: {why}"
        )

    def _decode_protobuf(
        self, context: RequestContext, definition: Definition, field_validation: str
    ) -> Body:
        try:
            read = read_object(definition.fields, context.request.body, definition.schema.check_type)
        except (NotDecodable, NotProtobuf) as error:
            raise BadRequest(str(error)) from None
        in_thread = len(context.request.body) > _SMALL
        return self._decode_tree(context, definition, field_validation, read.object, read.problems, in_thread)

    def _decode_cbor(self, context: RequestContext, definition: Definition, field_validation: str) -> Body:
        raw, most_values = context.request.body, _most_values(context)
        problems: tuple[str, ...] = ()
        try:
            if definition.is_custom:
                value = read_custom(raw, most_values) or {}
                definition.schema.require_type(value)
            else:
                type_name = f"{definition.version}.{definition.kind}"
                value, problems = read_cbor_object(definition.fields, type_name, raw, most_values)
        except NotDecodable as error:
            raise BadRequest(str(error)) from None
        except NotCbor as error:
            raise _not_cbor(definition, raw, error) from None
        return self._decode_tree(
            context, definition, field_validation, value, problems, len(raw) > _SMALL_CBOR
        )

    def _decode_yaml(self, context: RequestContext, definition: Definition, field_validation: str) -> Body:
        raw = context.request.body
        loaded = _load_yaml(raw, _most_values(context))
        try:
            definition.schema.require_type(loaded.value)
        except NotDecodable as error:
            raise BadRequest(str(error)) from None
        return self._decode_tree(
            context, definition, field_validation, loaded.value, loaded.problems, _is_large_yaml(raw)
        )

    def _decode_tree(
        self,
        context: RequestContext,
        definition: Definition,
        field_validation: str,
        value: Any,
        problems: tuple[str, ...],
        in_thread: bool,
    ) -> Body:
        large = in_thread and self._check_tree(context, value)
        try:
            decoded = definition.schema.decode_object(value, problems, in_steps=large)
        except OtherKind as error:
            raise self._of_other_kind(definition, error) from None
        except NotDecodable as error:
            raise BadRequest(str(error)) from None
        large = large or definition.has_large_defaults
        return _stored_body(context, definition, decoded, field_validation, large=large)

    def _decode_applied(
        self, context: RequestContext, definition: Definition, field_validation: str, in_thread: bool
    ) -> Body:
        loaded, problems = self._check_applied(context, definition, in_thread)
        if problems:
            _report_problems(context, definition, problems, field_validation)
        return Body(loaded.value, problems, loaded.large)

    def _check_applied(
        self, context: RequestContext, definition: Definition, in_thread: bool
    ) -> tuple[DecodedPatch, tuple[str, ...]]:
        """The body with its duplicate fields, and all problems with its fields, after checking that it decodes."""
        loaded = self._load_applied(context, in_thread)
        value = loaded.value
        if not isinstance(value, dict):
            raise BadRequest("the body of an apply must be an object")
        if not value.get("apiVersion") or not value.get("kind"):
            raise BadRequest("the body of an apply must say its apiVersion and kind")
        try:
            decoded = definition.schema.decode_object(value, loaded.problems, in_steps=loaded.large)
        except NotDecodable as error:
            if self._rules.ill_typed_apply == "500":
                _refuse_ill_typed(definition, value)
                if error.restoring:
                    raise IllTyped.values(value, _unreadable(error.restoring)) from None
            raise BadRequest(str(error)) from None
        unknown = decoded.problems[len(loaded.problems) :]
        if unknown and self._rules.apply_unknown_fields == "refused":
            if self._rules.ill_typed_apply == "500":
                _refuse_ill_typed(definition, value, unknown)
            raise BadRequest(
                f"the applied object cannot be merged: {', '.join(unknown)}; remove it or correct its name: "
                f"{definition.kind} of {definition.api_version} does not have it"
            )
        return loaded, decoded.problems

    def _load_applied(self, context: RequestContext, in_thread: bool) -> DecodedPatch:
        """Parse JSON as JSON, at a tenth of the cost, unless it has duplicate keys: only YAML problems have lines."""
        raw = context.request.body
        if _is_cbor_patch(context):
            return self._load_applied_cbor(context, in_thread)
        if _looks_like_json(raw):
            if in_thread:
                self._check(context, raw)
            try:
                value, problems = read_patch("merge", raw)
                if not problems:
                    return DecodedPatch(value, problems, in_thread)
            except MalformedPatch:
                pass
        loaded = _load_yaml(raw, _most_values(context))
        if _is_audited(context):
            _keep_for_audit(context, loaded.value)
        large = in_thread and self._check_tree(context, loaded.value)
        return DecodedPatch(loaded.value, loaded.problems, large)

    def _load_applied_cbor(self, context: RequestContext, in_thread: bool) -> DecodedPatch:
        try:
            value = read_values(context.request.body, _most_values(context))
        except NotCbor as error:
            raise BadRequest(f"error decoding YAML: {error}") from None
        if _is_audited(context):
            _keep_for_audit(context, value)
        return DecodedPatch(value, (), in_thread and self._check_tree(context, value))

    async def _read_patch(self, context: RequestContext, format_: str) -> DecodedPatch:
        raw = context.request.body
        in_thread = is_large(raw)
        return await self.run(context, self._parse_patch, context, format_, in_thread, in_thread=in_thread)

    def _parse_patch(self, context: RequestContext, format_: str, large: bool) -> DecodedPatch:
        raw = context.request.body
        if large:
            self._check(context, raw)
        value, problems = read_patch(format_, raw)
        if format_ == "json" and len(value) * _BYTES_PER_OPERATION > LARGE_BYTES:
            large = True
        return DecodedPatch(value, problems, large)

    def _check_tree(self, context: RequestContext, value: Any) -> bool:
        """Whether the value of a YAML or protobuf body is large; TooLarge if it has too many values.

        Only in a worker thread.
        """
        try:
            written = unescaped(value)
        except TypeError:
            return True  # the decoder reports the error
        if not is_large(written):
            return False
        self._check(context, written)
        return True

    def _check(self, context: RequestContext, raw: bytes) -> int:
        """The number of values in a large JSON text; reserves memory for them. Only in a worker thread."""
        values = check_values(raw, _most_values(context))
        needed = len(raw) * _COPIES + values * _BYTES_PER_VALUE
        trio.from_thread.run_sync(self._memory.take, context.request, needed)
        return values


def check_short(raw: bytes, kind: str) -> None:
    """Raise TooLarge for a large body of a kind that is never stored and has few fields."""
    if len(raw) > LARGE_BYTES:
        raise TooLarge(
            f"Request entity too large: a {kind} may have {LARGE_BYTES} bytes at most, this one has {len(raw)}"
        )


def _unreadable(why: str) -> str:
    """Return why an applied value cannot be read, as Kubernetes says it."""
    if why.startswith("illegal base64"):
        return f"error decoding from json: {why}"
    return re.sub(r"Go struct field \S+ of type string$", "Go value of type string", why)


def _refuse_ill_typed(definition: Definition, value: dict[str, Any], unknown: tuple[str, ...] = ()) -> None:
    """Refuse an applied object with an error of Kubernetes; `unknown`: problems with fields that the kind lacks."""
    if definition.is_custom:
        wrong = undeclared(problem.removeprefix('unknown field "').removesuffix('"') for problem in unknown)
    else:
        wrong = find_typing_error(definition.fields, value, definition.features)
    if wrong:
        raise IllTyped.fields(value, wrong)


def _read_delete_options(raw: bytes) -> Any:
    return read_object(DELETE_OPTIONS, raw).object


def _read_cbor_options(raw: bytes) -> Any:
    return read_cbor_object(DELETE_OPTIONS, "v1.DeleteOptions", raw, MAX_VALUES).value


def _is_cbor_patch(context: RequestContext) -> bool:
    return patch_media_of(context.request.headers.get(b"content-type", b"")) == APPLY_CBOR


def _is_large_apply(raw: bytes) -> bool:
    return is_large(raw) if _looks_like_json(raw) else _is_large_yaml(raw)


def _looks_like_json(raw: bytes) -> bool:
    return raw[:256].lstrip()[:1] == b"{"


def _has_aliases(raw: bytes) -> bool:
    return b"&" in raw and b"*" in raw


def _is_large_yaml(raw: bytes) -> bool:
    """Whether the body is long, or has aliases, which may expand to much more."""
    return len(raw) > _SMALL or _has_aliases(raw)


def _most_values(context: RequestContext) -> int:
    return MAX_STORED_VALUES if context.request.method == "PUT" else MAX_VALUES


def _load_yaml(raw: bytes, most_values: int) -> yaml.Loaded:
    try:
        return yaml.load(raw, most_values)
    except yaml.YamlError as error:
        raise BadRequest(str(error)) from None


def _stored_body(
    context: RequestContext,
    definition: Definition,
    decoded: Decoded,
    field_validation: str,
    *,
    large: bool,
) -> Body:
    if decoded.problems:
        _report_problems(context, definition, decoded.problems, field_validation)
    stored, exchange = decoded.object, context.exchange
    if exchange is not None and exchange.keeps_request:
        _keep_for_audit(context, _document(definition, stored))
    if definition.storage.conversion is not None:
        stored = definition.storage.conversion.to_storage(stored)
    metadata = stored.setdefault("metadata", {})
    if exchange is not None and isinstance(metadata, dict):
        get = metadata.get
        exchange.written = SentNames(get("namespace"), get("name"), get("uid"), get("resourceVersion"))
    return Body(stored, decoded.problems, large)


def keep_patch_for_audit(context: RequestContext) -> None:
    """Keep the patch for the audit event, as the client sent it; one in CBOR is kept when it is decoded."""
    if _is_audited(context) and not _is_cbor_patch(context):
        assert context.exchange is not None
        context.exchange.request_json = context.request.body


def _is_audited(context: RequestContext) -> bool:
    """Whether the audit event has the object of the request."""
    exchange = context.exchange
    return exchange is not None and exchange.keeps_request


def _keep_for_audit(context: RequestContext, value: Any) -> None:
    assert context.exchange is not None
    try:
        context.exchange.request_json = unescaped(value)
    except TypeError:
        pass  # not JSON: the decoder reports the error


def _document(definition: Definition, decoded: Object) -> Object:
    """A decoded object as a document of its version."""
    metadata = decoded.get("metadata") or {}
    if isinstance(metadata, dict) and definition.null_creation_time:
        metadata = {"creationTimestamp": None, **metadata}
    return {
        "kind": definition.kind,
        "apiVersion": definition.api_version,
        **decoded,
        "metadata": metadata,
    }


def _not_decodable(
    definition: Definition, raw: bytes, error: NotDecodable, rules: Rules = DOCUMENTED
) -> BadRequest:
    if not isinstance(error, Unrecognized):
        return BadRequest(str(error))
    summary = REDACTED if definition.type_name == SECRETS else _summary(raw)
    why = (error.why if rules.error_texts == "kubernetes" else "") or str(error)
    return BadRequest(
        f"the object provided is unrecognized (must be of type {definition.kind}): {why} ({summary})"
    )


def _not_cbor(definition: Definition, raw: bytes, error: NotCbor) -> BadRequest:
    kind = definition.kind
    if error.is_recognizable:
        return BadRequest(f'{kind} in version "{definition.version}" cannot be handled as a {kind}: {error}')
    why = Unrecognized(f"unable to determine group/version/kind: {error}")
    return _not_decodable(definition, raw, why)


def _summary(raw: bytes) -> str:
    """The beginning of an unrecognized body: as text if it starts like JSON, else in hexadecimal."""
    if not raw:
        return "<empty>"
    first = raw[:_SUMMARY]
    text = first.decode("utf-8", "replace") if raw.startswith(b"{") else first.hex()
    return text + (" ..." if len(raw) > _SUMMARY else "")


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


def patch_format(content_type: bytes, definition: Definition, *, cbor: bool) -> str:
    formats = patch_formats(cbor=cbor)
    format_ = formats.get(patch_media_of(content_type))
    if format_ is None and not definition.is_custom:
        raise UnsupportedPatch(formats)
    if format_ is None or (format_ == "strategic" and not definition.strategic_merge_patch):
        raise UnsupportedMediaType(tuple(media for media in formats if media != STRATEGIC))
    return format_


def _as_go_says(raw: bytes) -> str:
    """Why a short text is no JSON, in Go's words; empty if it is."""
    try:
        parse_tree(raw)
    except NotJson as error:
        return error.reason
    return ""
