"""Objects inside custom resources (embedded-resource): type and metadata are decoded and validated as in any object.

Both functions return None for schemas without any, which most are. The paths of unknown fields in such metadata are
added to the context; metadata that cannot be decoded raises `NotAnObject` with the text of v1.25.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from rewound.actors.golang.format import show
from rewound.actors.kinds.declaration.meta import OBJECT_META, metadata_rules
from rewound.actors.kinds.schema.exact_decoder import ExactDecoder
from rewound.actors.kinds.structural.schema_node import Node, may_have
from rewound.actors.kinds.validation import (
    FieldError,
    FieldErrors,
    collect,
    dns_1035_label,
    invalid,
    name_is_path_segment,
    required,
)
from rewound.actors.messages import Object

Visit = Callable[[Any, str, Any], Any]  # (value, path, context) -> value

_PROBLEM: Final = 'unknown field "'


class NotAnObject(Exception):
    """An embedded object has a kind, an apiVersion or metadata of the wrong type."""

    def __init__(self, error: FieldError) -> None:
        self.error = error
        super().__init__(f"{error.field}: {error.message}")


def has_embedded(node: Node) -> bool:
    inner = [*node.properties.values(), *(one for one in (node.items, node.values) if one is not None)]
    return node.embedded or any(map(has_embedded, inner))


def compile_coercion(node: Node | None, *, drop_invalid: bool) -> Visit | None:
    """Return what decodes the metadata of embedded objects. `drop_invalid`: for stored objects, which are never
    refused.
    """
    if node is None or not may_have(node, "embedded-resource"):
        return None
    here = _Coercer(drop_invalid).coerce if node.embedded else None
    return _visit(node, lambda inner: compile_coercion(inner, drop_invalid=drop_invalid), here)


def compile_validation(node: Node | None) -> Visit | None:
    """Return what adds the errors of embedded objects; the context is the collector."""
    if node is None or not may_have(node, "embedded-resource"):
        return None
    return _visit(node, compile_validation, _validate if node.embedded else None)


def _visit(
    node: Node, compile_inner: Callable[[Node | None], Visit | None], here: Visit | None
) -> Visit | None:
    inner = {name: step for name, one in node.properties.items() if (step := compile_inner(one)) is not None}
    items, values = compile_inner(node.items), compile_inner(node.values)
    if not inner and items is None and values is None:
        return here

    def visit(value: Any, path: str, context: Any) -> Any:
        if type(value) is list and items is not None:
            return [items(item, f"{path}[{index}]", context) for index, item in enumerate(value)]
        if type(value) is not dict:
            return value
        found = here(value, path, context) if here is not None else dict(value)
        for name, member in found.items():
            if name in inner:
                found[name] = inner[name](member, _child(path, name), context)
            elif values is not None and name not in node.properties:
                found[name] = values(member, f"{path}[{name}]", context)
        return found

    return visit


def _child(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


class _Coercer:
    def __init__(self, drop_invalid: bool) -> None:
        self._drop_invalid = drop_invalid

    def coerce(self, value: Any, path: str, unknown: list[str]) -> Any:
        if type(value) is not dict:
            return value
        found = dict(value)
        for name in ("apiVersion", "kind"):
            if name in found and type(found[name]) is not str:
                if not self._drop_invalid:
                    raise NotAnObject(invalid(_child(path, name), show(found[name]), "must be a string"))
                del found[name]
        if "metadata" in found:
            self._metadata(found, _child(path, "metadata"), unknown)
        return found

    def _metadata(self, found: Object, path: str, unknown: list[str]) -> None:
        decoder = ExactDecoder(defaults=False)
        sent = found["metadata"]
        try:
            found["metadata"] = decoder.struct(OBJECT_META, {} if sent is None else sorted_members(sent))
        except ValueError as error:
            if not self._drop_invalid:
                raise NotAnObject(invalid(path, show(sent), str(error))) from None
            found["metadata"] = valid_metadata(sent)
            return
        unknown.extend(f"{path}.{one}" for one in unknown_names(decoder.problems))


def sorted_members(value: Any) -> Any:
    """Sort members: unknown fields of metadata are reported by name, not in the order of the document."""
    return dict(sorted(value.items())) if type(value) is dict else value


def unknown_names(problems: tuple[str, ...]) -> list[str]:
    return [one.removeprefix(_PROBLEM)[:-1] for one in problems if one.startswith(_PROBLEM)]


def valid_metadata(sent: Any) -> Object:
    """Return the members of stored metadata that can be decoded."""
    found: Object = {}
    for name, member in sent.items() if isinstance(sent, Mapping) else ():
        try:
            found.update(ExactDecoder(defaults=False).struct(OBJECT_META, {name: member}))
        except ValueError:
            continue
    return found


def _validate(value: Any, path: str, errors: FieldErrors) -> Any:
    if type(value) is dict:
        for name in ("apiVersion", "kind"):
            if name not in value:
                errors.add(required(_child(path, name), "must not be empty"))
        if "apiVersion" in value:
            _version_rules(errors, value["apiVersion"], _child(path, "apiVersion"))
        if "kind" in value:
            _kind_rules(errors, value["kind"], _child(path, "kind"))
        if "metadata" in value:
            _metadata_rules(errors, value["metadata"], _child(path, "metadata"))
        return dict(value)
    return value


def _version_rules(errors: FieldErrors, version: Any, path: str) -> None:
    if type(version) is not str:
        errors.add(invalid(path, show(version), "must be a string"))
    elif not version:
        errors.add(invalid(path, version, "must not be empty"))
    elif version.count("/") > 1:
        errors.add(invalid(path, version, f"unexpected GroupVersion string: {version}"))


def _kind_rules(errors: FieldErrors, kind: Any, path: str) -> None:
    if type(kind) is not str:
        errors.add(invalid(path, show(kind), "must be a string"))
    elif not kind:
        errors.add(invalid(path, kind, "must not be empty"))
    elif wrong := dns_1035_label(kind.lower()):
        text = f"may have mixed case, but should otherwise match: {','.join(wrong)}"
        errors.add(invalid(path, kind, text))


def _metadata_rules(errors: FieldErrors, metadata: Any, path: str) -> None:
    try:
        decoded = ExactDecoder(defaults=False).struct(OBJECT_META, {} if metadata is None else metadata)
    except ValueError as error:
        errors.add(invalid(path, show(metadata), str(error)))
        return
    decoded.setdefault("name", "fakename")
    found = collect(
        metadata_rules,
        decoded,
        namespaced="namespace" in decoded,
        check_name=name_is_path_segment,
        known_finalizers=False,
    )
    errors.add_all(
        FieldError(one.reason, path + one.field.removeprefix("metadata"), one.message) for one in found
    )
