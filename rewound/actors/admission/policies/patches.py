"""What the value of a mutation makes of the object: a merged apply configuration, or a JSON patch.

An apply configuration is merged like one of server-side apply, but nobody owns what it sets: an update that does not
set it removes it again, unless the policy matches that one too. It may not change what is atomic. A JSON patch whose
test fails changes nothing.

`Refused` is an error that the failurePolicy of a policy decides about; other errors always refuse the write.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import orjson

from rewound.actors.admission.request import AdmissionRequest
from rewound.actors.admission.webhooks.documents import Patched, stored_form
from rewound.actors.cel import mutations
from rewound.actors.cel.mutations import NotNative, ObjectValue, PatchValue
from rewound.actors.cel.values import EvaluationError, walked
from rewound.actors.errors import WebhookFailed
from rewound.actors.golang.json import unescaped
from rewound.actors.kinds.declaration.definition import CustomKind, Definition
from rewound.actors.kinds.declaration.meta import METADATA
from rewound.actors.kinds.schema.decoder import NotDecodable
from rewound.actors.kinds.schema.fields import (
    ANY_JSON,
    BOOL,
    DOUBLE,
    INT64,
    INT_OR_STRING,
    STRING,
    Field,
    ListOf,
    MapOf,
    Struct,
    Type,
)
from rewound.actors.messages import Object
from rewound.actors.patch.errors import MalformedPatch, PatchDoesNotFit, PatchTooLarge
from rewound.actors.patch.json_patch import apply_json_patch, parse_json_patch
from rewound.actors.patch.managed_fields.applied_types import find_atomics, find_typing_error
from rewound.actors.patch.managed_fields.apply import merge
from rewound.actors.patch.managed_fields.topology import NOTHING, Record, SchemaShapes, Shapes
from rewound.actors.patch.transform import check_bounds
from rewound.actors.runtime.budget import Budget, OverBudget, ThreadBudget
from rewound.actors.runtime.time_limit import is_in_thread

_NO_SCHEME: Final = 'in scheme "pkg/api/legacyscheme/scheme.go:30"'


class Refused(Exception):
    """A mutation that cannot be applied, in the words of Kubernetes."""


def apply_configuration(
    request: AdmissionRequest, definition: Definition, document: Object, value: ObjectValue
) -> Patched:
    """Merge a configuration into the object that `document` shows in the version of `definition`."""
    budget = ThreadBudget()
    if wrong := mutations.type_errors(value, budget):
        raise Refused(f"type mismatch: {wrong}")
    try:
        config = mutations.to_object(value, budget)
    except NotNative:
        raise Refused("invalid return type: *dynamic.ObjectVal") from None
    except OverBudget as error:
        raise Refused(f"internal error: {error}") from None
    viewed = request.viewed_in(definition)
    config |= {"apiVersion": viewed.api_version, "kind": viewed.kind}
    merged = merge(_shape(viewed), document, _checked(viewed, definition, config))
    try:
        after = viewed.schema.decode_object(merged, in_steps=is_in_thread()).object
    except NotDecodable as error:
        kind, why = f"{viewed.group}/{viewed.version}, Kind={viewed.kind}", error.restoring or str(error)
        if why.startswith("illegal base64"):
            why = f"error decoding from json: {why}"
        raise Refused(f"unable to convert unstructured object to {kind}: {why}") from None
    return _stored(request, viewed, document, after)


def _checked(viewed: Definition, definition: Definition, config: Object) -> Object:
    failed = "error applying patch: failed to convert patch object to typed object"
    if viewed.api_version != definition.api_version:
        raise Refused(f"{failed}: no corresponding type for {viewed.api_version}, Kind={viewed.kind}")
    struct = _struct(viewed)
    if wrong := find_typing_error(struct, config, viewed.features, zero_keys=True):
        raise Refused(f"{failed}: {wrong}")
    if atomics := find_atomics(struct, None, config):
        text = "may not mutate atomic arrays, maps or structs"
        raise Refused(f"error applying patch: invalid ApplyConfiguration: {text}: {', '.join(atomics)}")
    return config


def _stored(request: AdmissionRequest, viewed: Definition, document: Object, after: Object) -> Patched:
    after.setdefault("metadata", {})
    return stored_form(request, viewed, document if "metadata" in document else {"metadata": {}}, after)


def apply_operations(
    request: AdmissionRequest, definition: Definition, document: Object, value: Any
) -> Patched:
    """Apply a list of operations of a JSON patch."""
    viewed = request.viewed_in(definition)
    try:
        operations = _operations(value, ThreadBudget())
    except OverBudget as error:
        raise Refused(f"internal error: {error}") from None
    try:
        before, parsed = orjson.loads(unescaped(document)), parse_json_patch(operations)
        patched = apply_json_patch(before, parsed, tests_null=True)
        check_bounds(patched)
    except PatchDoesNotFit as error:
        why = _why(error.document, error.operation)
        if why is None:
            return Patched(request.object or {}, changed=False)
        raise Refused(f"JSON Patch: {why}") from None
    except (MalformedPatch, PatchTooLarge) as error:
        raise Refused(f"JSON Patch: {error}") from None
    return _stored(request, viewed, document, _decoded(viewed, patched))


def _operations(value: Any, budget: Budget) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for operation in walked(value, budget):
        budget.take(_OPERATION)
        found.append(_operation(operation, budget))
    return found


_OPERATION: Final = 300  # bytes


def _operation(one: Any, budget: Budget) -> dict[str, Any]:
    if one.__class__ is not PatchValue:
        raise Refused(
            "type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch: "
            "unsupported type conversion"
        )
    fields = one.fields
    made = {"op": fields.get("op", ""), "path": fields.get("path", "")}
    if fields.get("from"):
        made["from"] = fields["from"]
    if "value" in fields:
        value = fields["value"]
        if value.__class__ is ObjectValue and (wrong := mutations.type_errors(value, budget)):
            raise Refused(f"type mismatch: {wrong}")
        try:
            made["value"] = mutations.to_json(value, budget)
        except EvaluationError as error:
            text = "JSONPath valueExpression evaluated to a type that could not marshal to JSON"
            raise Refused(f"{text}: {error.message}") from None
    return made


def _decoded(viewed: Definition, patched: Any) -> Object:
    """Decode strictly, as Kubernetes does for what a policy patched. Raises WebhookFailed, an internal error."""
    if not viewed.is_custom and isinstance(patched, dict):
        api_version, kind = patched.get("apiVersion"), patched.get("kind")
        if (api_version, kind) != (viewed.api_version, viewed.kind):
            raise WebhookFailed(f'no kind "{kind}" is registered for version "{api_version}" {_NO_SCHEME}')
    try:
        decoded = viewed.schema.decode_object(patched, in_steps=is_in_thread())
        if not decoded.problems or viewed.is_custom:
            return decoded.object
        # Kubernetes' library writes members in their order, and the first error counts.
        problems = viewed.schema.decode_object(_sorted(patched), in_steps=True).problems
        raise WebhookFailed(f"strict decoding error: {', '.join(problems)}")
    except NotDecodable as error:
        raise WebhookFailed(_without_kind(viewed, _first_error(viewed, patched) or str(error))) from None


def _first_error(viewed: Definition, patched: Any) -> str:
    try:
        viewed.schema.decode_object(_sorted(patched), in_steps=True)
    except NotDecodable as error:
        return str(error)
    return ""


def _without_kind(viewed: Definition, text: str) -> str:
    return text.partition(f"cannot be handled as a {viewed.kind}: ")[2] or text


def _sorted(document: Any) -> Any:
    return orjson.loads(orjson.dumps(document, option=orjson.OPT_SORT_KEYS))


def _why(document: Any, operation: Mapping[str, Any]) -> str | None:
    """Return why an operation does not fit a document, as Kubernetes' library says it; None: its test failed."""
    op, path, source = operation.get("op"), operation["path"], operation.get("from", "")
    if op in ("move", "copy") and "from" not in operation:
        return f"{op} operation failed to decode from: operation, missing from field: missing value"
    match op:
        case "add" | "remove":
            found = _parent(document, path)
            if found is None:
                return f'{op} operation does not apply: doc is missing path: "{path}": missing value'
            return f"error in {op} for path: '{path}': {_member_error(found, _key(path), op)}"
        case "replace":
            what = "path" if _parent(document, path) is None else "key"
            return f"replace operation does not apply: doc is missing {what}: {path}: missing value"
        case "test":
            if path == "":
                return None
            found = _parent(document, path)
            if found is None:
                return f"test operation does not apply: is missing path: {path}: missing value"
            wrong = _member_error(found, _key(path), "get")
            return f"error in test for path: '{path}': {wrong}" if wrong else None
        case "move" | "copy":
            return _why_not_moved(document, str(op), source, path)
    return f"Unexpected kind: {op}"


def _why_not_moved(document: Any, op: str, source: str, path: str) -> str:
    at, to = _parent(document, source), _parent(document, path)
    if at is None:
        return f"{op} operation does not apply: doc is missing from path: {source}: missing value"
    wrong = _member_error(at, _key(source), "get")
    if wrong:
        start = (
            f"error in move for path: '{_key(source)}'"
            if op == "move"
            else f"error in copy for from: '{source}'"
        )
        return f"{start}: {wrong}"
    if to is None:
        return f"{op} operation does not apply: doc is missing destination path: {path}: missing value"
    wrong = _member_error(to, _key(path), "add")
    if wrong:
        start = (
            f"error in move for path: '{path}'" if op == "move" else "error while adding value during copy"
        )
        return f"{start}: {wrong}"
    return f"error in move for path: '{_key(source)}': {_member_error(at, _key(source), 'remove')}"


def _key(path: str) -> str:
    return path.rpartition("/")[2].replace("~1", "/").replace("~0", "~")


def _parent(document: Any, path: str) -> Any:
    """Return the list or map that a path leads into, or None."""
    parts = path.split("/")
    if len(parts) < 2:
        return None
    node = document
    for part in parts[1:-1]:
        token = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, list):
            node = None if _member_error(node, token, "get") else node[int(token)]
        else:
            node = node.get(token)
        if not isinstance(node, dict | list):
            return None
    return node


def _member_error(parent: Any, key: str, op: str) -> str:
    if isinstance(parent, dict):
        missing = op == "remove" and key not in parent
        return f"Unable to remove nonexistent key: {key}: missing value" if missing else ""
    try:
        index = int(key)
    except ValueError:
        if op == "add" and key == "-":
            return ""
        wrong = f'strconv.Atoi: parsing "{key}": invalid syntax'
        return f"value was not a proper array index: '{key}': {wrong}" if op == "add" else wrong
    size = len(parent) + (op == "add")
    return (
        "" if -size <= index < size else f"Unable to access invalid index: {index}: invalid index referenced"
    )


@lru_cache(maxsize=256)
def _shape(viewed: Definition) -> Record:
    """The shape of all fields, also of those that no manager owns."""
    shapes, custom = Shapes(), viewed.custom
    if custom is None:
        return shapes.root(viewed.fields, NOTHING)
    metadata = shapes.of_field(METADATA, NOTHING)
    return SchemaShapes(custom.extension_prefix, metadata, metadata).root(custom.openapi)


@lru_cache(maxsize=256)
def _struct(viewed: Definition) -> Struct:
    """The fields of a kind; those of a custom kind are read from its schema."""
    custom = viewed.custom
    if custom is None:
        return viewed.fields
    found = _type_of(custom, custom.openapi)
    fields = () if not isinstance(found, Struct) else found.fields
    return Struct(viewed.kind, METADATA, *(one for one in fields if one.name != "metadata"))


def _type_of(custom: CustomKind, schema: Mapping[str, Any]) -> Type:
    prefix = custom.extension_prefix
    if schema.get(f"{prefix}int-or-string"):
        return INT_OR_STRING
    if schema.get(f"{prefix}preserve-unknown-fields") or schema.get(f"{prefix}embedded-resource"):
        return ANY_JSON
    match schema.get("type"):
        case "object":
            values = schema.get("additionalProperties")
            if isinstance(values, Mapping):
                return MapOf(_type_of(custom, values))
            properties = schema.get("properties")
            if not properties:
                return ANY_JSON
            atomic = schema.get(f"{prefix}map-type") == "atomic"
            return Struct("", *(_field(custom, *one) for one in properties.items()), atomic=atomic)
        case "array":
            return ListOf(_type_of(custom, schema.get("items") or {}))
        case "string":
            return STRING
        case "boolean":
            return BOOL
        case "integer":
            return INT64
        case "number":
            return DOUBLE
    return ANY_JSON


def _field(custom: CustomKind, name: str, schema: Mapping[str, Any]) -> Field:
    prefix = custom.extension_prefix
    return Field(
        name,
        _type_of(custom, schema),
        0,
        default=schema.get("default"),
        list_type=schema.get(f"{prefix}list-type") or "",
        list_keys=tuple(schema.get(f"{prefix}list-map-keys") or ()),
        map_type=schema.get(f"{prefix}map-type") or "",
    )
