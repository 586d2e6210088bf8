"""Applies a patch to an object and decodes the result like any body. Pure.

The patch applies to the document that a client would read: in the served version, with kind, apiVersion and
resourceVersion, so that a patch with a resourceVersion has it as its precondition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from rewound.actors.errors import (
    BadRequest,
    Cause,
    Invalid,
    PatchFailed,
    RequestError,
    TooLarge,
    Unprocessable,
)
from rewound.actors.golang.format import printed
from rewound.actors.golang.json import unescaped
from rewound.actors.golang.quoting import quoted
from rewound.actors.kinds.core.secret import REDACTED
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.declaration.meta import check_address
from rewound.actors.kinds.schema.decoder import NotDecodable
from rewound.actors.messages import Object, Patch
from rewound.actors.patch.errors import MalformedPatch, PatchError, PatchTooLarge
from rewound.actors.patch.strategic import left_of_patch
from rewound.actors.patch.transform import transform
from rewound.actors.profile import Rules
from rewound.actors.resource.current import Current
from rewound.actors.runtime.large_work import LARGE_BYTES
from rewound.actors.runtime.time_limit import NeedsThread
from rewound.actors.store.document import decode, encode, encode_unversioned
from rewound.actors.versions.features import DIRECTIVES_EVERYWHERE

SECRETS = "secrets"
LONGEST_QUOTE = 4096  # of the patch, in an error message


class Patched(msgspec.Struct, frozen=True):
    object: Object  # in storage form
    problems: tuple[str, ...]
    warnings: tuple[str, ...]


def patch_object(
    definition: Definition, current: Current, command: Patch, *, in_thread: bool = False
) -> Patched:
    """Raises NeedsThread if the patched object is large, unless `in_thread` says that this is a worker thread."""
    document, size = _transformed(definition, _served_document(definition, current), command)
    if size > LARGE_BYTES and not in_thread:
        raise NeedsThread
    try:
        decoded = definition.schema.decode_object(document, command.problems, in_steps=in_thread)
    except NotDecodable as error:
        raise _undecodable(definition, current, document, command, error) from None
    patched = decoded.object
    patched.setdefault("metadata", {})
    check_address(patched, command.namespace, command.name)
    if definition.storage.conversion is not None:
        patched = definition.storage.conversion.to_storage(patched)
    problems = decoded.problems
    if problems and command.field_validation == "Strict":
        raise _strict_refusal(
            definition, current, command, f"strict decoding error: {', '.join(problems)}", document
        )
    return Patched(patched, problems, problems if command.field_validation == "Warn" else ())


def _with_type(definition: Definition, patched: Object) -> Object:
    """A strategic merge patch merges into a typed object, whose kind and apiVersion are not data."""
    return {**patched, "kind": definition.kind, "apiVersion": definition.api_version}


def _served_document(definition: Definition, current: Current) -> Object:
    # Until the version is known it is empty, not absent: a JSON patch may test, replace or remove it.
    stored = current.object
    document = decode(encode_unversioned(stored) if current.proposal else encode(stored, current.offset))
    if definition.storage.conversion is not None:
        document = definition.storage.conversion.from_storage(document)
    return {"kind": definition.kind, "apiVersion": definition.api_version, **document}


def _transformed(definition: Definition, document: Object, command: Patch) -> tuple[object, int]:
    """The patched document and its size in bytes."""
    try:
        patched, size = transform(
            command.format,
            document,
            command.patch,
            definition.fields,
            directives_everywhere=DIRECTIVES_EVERYWHERE in definition.features,
        )
        return _with_type(definition, patched) if command.format == "strategic" else patched, size
    except PatchTooLarge as error:
        raise TooLarge(f"Request entity too large: {error}") from None
    except PatchError as error:
        raise _refusal(error, definition.rules) from None


def _refusal(error: PatchError, rules: Rules) -> RequestError:
    if rules.error_texts == "kubernetes" and error.kubernetes is not None:
        code, text = error.kubernetes
        return BadRequest(text) if code == 400 else PatchFailed(text)
    if isinstance(error, MalformedPatch):
        return BadRequest(str(error))
    why = f": {error}" if rules.error_texts == "explained" else ""
    return Unprocessable(f"the server rejected our request due to an error in our request{why}")


def _undecodable(
    definition: Definition, current: Current, document: object, command: Patch, error: NotDecodable
) -> Invalid:
    restored = command.format == "strategic" and error.restoring
    text = restored or (error.why if definition.rules.error_texts == "kubernetes" else "") or str(error)
    return _invalid_patch(definition, current, command, text, document, go_map=bool(restored))


def _strict_refusal(
    definition: Definition, current: Current, command: Patch, text: str, document: object
) -> BadRequest | Invalid:
    if definition.rules.strict_patch == "400":
        return BadRequest(text)
    is_strategic = command.format == "strategic"
    return _invalid_patch(definition, current, command, text, document, go_map=is_strategic)


def _invalid_patch(
    definition: Definition, current: Current, command: Patch, text: str, document: object, *, go_map: bool
) -> Invalid:
    """`document` is the result of the patch, which v1.25 shows unless it is that of a strategic merge patch."""
    patch = command.patch
    if go_map:
        before = _served_document(definition, current)
        everywhere = DIRECTIVES_EVERYWHERE in definition.features
        patch = left_of_patch(before, patch, definition.fields, directives_everywhere=everywhere)
    if command.format in ("merge", "json") and definition.rules.error_texts == "kubernetes":
        patch = _sorted(document, patch if command.format == "merge" else _containers(patch))
    shown = _shown(definition, patch, go_map=go_map)
    return Invalid(
        "", "", "", [Cause("FieldValueInvalid", f"Invalid value: {quoted(shown)}: {text}", "patch")]
    )


def _sorted(document: Any, touched: Any) -> Any:
    """Sort the members of the objects that a patch touched, which Go reads into maps."""
    if not (isinstance(document, dict) and isinstance(touched, dict)):
        return document
    return {name: _sorted(document[name], touched.get(name)) for name in sorted(document)}


def _containers(operations: Sequence[Object]) -> Object:
    """Return the objects in which the operations of a JSON patch change members, as nested members."""
    found: Object = {}
    for operation in operations:
        inside = found
        for name in str(operation.get("path", "")).split("/")[1:-1]:
            inside = inside.setdefault(name.replace("~1", "/").replace("~0", "~"), {})
    return found


def _shown(definition: Definition, patch: object, *, go_map: bool) -> str:
    """A patch in an error message, but for those of Secrets: the audit log shows messages at any level."""
    if definition.type_name == SECRETS:
        return REDACTED
    return printed(patch, LONGEST_QUOTE) if go_map else unescaped(patch).decode()[:LONGEST_QUOTE]
