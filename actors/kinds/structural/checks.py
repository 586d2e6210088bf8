"""What v1.25 refuses about the schema of a CustomResourceDefinition when the definition is written.

The order is that of v1.25: structural rules (`definition_checks.structure`), and only if there are none, defaults
(`definition_checks.defaults`); then every keyword, children before parents (`definition_checks.keywords`); then the
rules in CEL (`rules`), if the schema around them has no errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from actors.kinds.structural.definition_checks.defaults import check_defaults
from actors.kinds.structural.definition_checks.keywords import KeywordChecks
from actors.kinds.structural.definition_checks.structure import check_structure
from actors.kinds.structural.node import Node, has_rules, parse_schema
from actors.kinds.validation import FieldErrors, collect, forbidden, invalid
from actors.kinds.values.go_format import Formatted
from actors.messages import Object
from actors.names import Names
from actors.time_limit import need_thread

_AT_ROOT_WITH_STATUS: Final = (
    "[Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern "
    "MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields "
    "XValidations]"
)


def check_schema(
    errors: FieldErrors, path: str, schema: Object, *, names: Names, has_status: bool = False
) -> None:
    """`path` is that of the openAPIV3Schema; `has_status`: the version has a status subresource."""
    root = parse_schema(schema, names)
    if has_rules(root):
        need_thread()  # each takes a millisecond to check, and a long one a second
    found = collect(_check, path, root, names, has_status)
    errors.add_all(found)


def _check(errors: FieldErrors, path: str, root: Node, names: Names, has_status: bool) -> None:
    prefix = names.extension_prefix
    if has_status:
        _check_root_with_status(errors, path, root)
    if root.nullable:
        errors.add(forbidden(f"{path}.nullable", "nullable cannot be true at the root"))
    not_convertible = next(_not_convertible(root, prefix), "")
    sound = False
    if not not_convertible:
        sound = not errors.added_by(check_structure, path, root, prefix) and not errors.added_by(
            check_defaults, path, root, names
        )
    KeywordChecks(names, with_rules=sound).check(errors, path, root)
    if not errors.found and not_convertible:
        errors.add(invalid(path, "", not_convertible))


def _check_root_with_status(errors: FieldErrors, path: str, root: Node) -> None:
    """The schema of the status must be found at properties.status, and nowhere else."""
    if root.type and root.type != "object":
        text = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
        errors.add(invalid(f"{path}.type", root.type, text))
    elif _has_more_than_allowed(root):
        text = (
            f"only {_AT_ROOT_WITH_STATUS} fields are allowed at the root of the schema if the status subresource "
            "is enabled"
        )
        errors.add(invalid(path, Formatted("apiextensions.JSONSchemaProps{...}"), text))


def _has_more_than_allowed(root: Node) -> bool:
    return any(
        (
            root.default is not None,
            root.nullable,
            root.enum,
            root.max_properties is not None,
            root.min_properties is not None,
            root.all_of,
            root.any_of,
            root.one_of,
            root.not_,
            root.additional is not None,
            root.unsupported,
            root.embedded,
            root.int_or_string,
            root.list_keys,
            root.list_type is not None,
            root.map_type is not None,
        )
    )


_UNSUPPORTED_NAMES: Final = (
    ("id", "id"),
    ("$schema", "schema"),
    ("$ref", "$ref"),
    ("patternProperties", "patternProperties"),
    ("dependencies", "dependencies"),
    ("additionalItems", "additionalItems"),
    ("definitions", "definitions"),
)


def _not_convertible(node: Node, prefix: str) -> Iterator[str]:
    """Why a schema cannot be a structural one at all; the first reason counts."""
    for keyword, name in _UNSUPPORTED_NAMES:
        if keyword in node.unsupported:
            yield f"OpenAPIV3Schema '{name}' is not supported"
    if node.preserve is False:
        yield f"internal error: '{prefix}preserve-unknown-fields' must be true or undefined"
    if node.item_list:
        yield "OpenAPIV3Schema 'items' must be a schema, but is an array"
    for inner in (node.not_, node.items, node.values):
        if inner is not None:
            yield from _not_convertible(inner, prefix)
    for inner in (*node.all_of, *node.any_of, *node.one_of, *node.properties.values()):
        yield from _not_convertible(inner, prefix)
