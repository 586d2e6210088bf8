"""The schema of a custom resource (JSONSchemaProps) as a tree of immutable nodes.

`parse_schema` reads the `openAPIV3Schema` of a CustomResourceDefinition, decoded but not checked: nodes also have
attributes for everything that `definition_checks` refuses. All other modules of this folder read nodes; none reads
the JSON. Extensions have the prefix of the dialect:

    parse_schema({"type": "array", "x-cluster-list-type": "set", "items": {"type": "string"}}, NAMES["cluster"])

A default of null counts as no default, as in v1.25.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.runtime.time_limit import check_time

NO_NODES: Final[Mapping[str, Any]] = MappingProxyType({})

# Keywords whose values are copied -> the attribute of a node.
_PLAIN: Final = {
    "type": "type",
    "format": "format",
    "title": "title",
    "description": "description",
    "nullable": "nullable",
    "default": "default",
    "maximum": "maximum",
    "minimum": "minimum",
    "exclusiveMaximum": "exclusive_maximum",
    "exclusiveMinimum": "exclusive_minimum",
    "multipleOf": "multiple_of",
    "maxLength": "max_length",
    "minLength": "min_length",
    "pattern": "pattern",
    "maxItems": "max_items",
    "minItems": "min_items",
    "uniqueItems": "unique_items",
    "maxProperties": "max_properties",
    "minProperties": "min_properties",
}
_JUNCTORS: Final = {"allOf": "all_of", "anyOf": "any_of", "oneOf": "one_of"}
_NESTED: Final = frozenset(
    ("properties", "additionalProperties", "items", "required", "enum", "not", "definitions", "dependencies")
) | frozenset(_JUNCTORS)
# Keywords of JSONSchemaProps that no structural schema may use.
_UNSUPPORTED: Final = frozenset(
    ("id", "$schema", "$ref", "patternProperties", "dependencies", "additionalItems", "definitions")
)
# Even an empty value of these is unsupported; empty values of the others count as absent.
_UNSUPPORTED_EMPTY: Final = frozenset(("$ref", "additionalItems", "dependencies"))


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """One CEL rule, as written."""

    rule: str
    message: str
    message_expression: str = ""
    reason: str = ""
    field_path: str = ""
    optional_old_self: bool | None = None


class Node:
    """Immutable. An instance has only what the schema declares; class attributes are the defaults, to save memory."""

    type: str = ""
    format: str = ""
    title: str = ""
    description: str = ""
    nullable: bool = False
    default: Any = None
    properties: Mapping[str, Node] = NO_NODES
    additional: Node | bool | None = None  # None: not declared
    items: Node | None = None
    required: tuple[str, ...] = ()
    enum: tuple[Any, ...] = ()
    maximum: float | None = None
    minimum: float | None = None
    exclusive_maximum: bool = False
    exclusive_minimum: bool = False
    multiple_of: float | None = None
    max_length: int | None = None
    min_length: int | None = None
    pattern: str = ""
    max_items: int | None = None
    min_items: int | None = None
    unique_items: bool = False
    max_properties: int | None = None
    min_properties: int | None = None
    all_of: tuple[Node, ...] = ()
    any_of: tuple[Node, ...] = ()
    one_of: tuple[Node, ...] = ()
    not_: Node | None = None
    # Extensions.
    preserve: bool | None = None  # of unknown fields
    embedded: bool = False
    int_or_string: bool = False
    list_type: str | None = None
    list_keys: tuple[str, ...] = ()
    map_type: str | None = None
    rules: tuple[Rule, ...] = ()
    # Keywords that no structural schema has.
    item_list: tuple[Node, ...] = ()
    definitions: Mapping[str, Node] = NO_NODES
    dependencies: Mapping[str, Node] = NO_NODES
    unsupported: frozenset[str] = frozenset()
    # Only of the root: which extensions the schema has anywhere, without their prefix.
    extensions: frozenset[str] | None = None

    def __init__(self, **declared: Any) -> None:
        self.__dict__.update(declared)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"schema nodes are immutable: {name}")

    def replaced(self, **declared: Any) -> Node:
        """Return the same node with these values replaced."""
        return Node(**{**self.__dict__, **declared})

    @property
    def values(self) -> Node | None:
        """The schema of members that `properties` does not name."""
        return self.additional if isinstance(self.additional, Node) else None

    def children(self) -> Iterator[Node]:
        """Yield the schemas in it that a value may have to match."""
        yield from self.properties.values()
        yield from (*self.all_of, *self.any_of, *self.one_of)
        yield from (one for one in (self.items, self.values, self.not_) if one is not None)


def parse_schema(schema: Object, names: Names) -> Node:
    parser = _Parser(names.extension_prefix)
    return parser.node(schema).replaced(extensions=frozenset(parser.extensions))


def may_have(node: Node, extension: str) -> bool:
    """Whether a schema may have an extension: if not, there is no need to search it."""
    return node.extensions is None or extension in node.extensions


def count_nodes(node: Node, most: int) -> int:
    """Return how many nodes, enum values and required names a schema has; counting stops soon after `most`."""
    count, waiting = 0, [node]
    while waiting and count <= most:
        one = waiting.pop()
        count += 1 + len(one.enum) + len(one.required)
        waiting += one.children()
    return count


def has_rules(node: Node | None) -> bool:
    if node is None or not may_have(node, "validations"):
        return False
    return bool(node.rules) or any(map(has_rules, (node.items, node.values, *node.properties.values())))


def rules_in(schemas: Iterable[Node]) -> list[Rule]:
    """Return all rules of schemas."""
    found: list[Rule] = []
    remaining: list[Node | None] = list(schemas)
    while remaining:
        node = remaining.pop()
        if node is not None and may_have(node, "validations"):
            check_time()
            found += node.rules
            remaining += (node.items, node.values, *node.properties.values())
    return found


class _Parser:
    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self.extensions: set[str] = set()  # that were found

    def node(self, schema: Object) -> Node:
        check_time()
        found: dict[str, Any] = {}
        unsupported: list[str] = []
        for keyword, value in schema.items():
            if value is None:
                continue
            plain = _PLAIN.get(keyword)
            if plain is not None:
                found[plain] = value
            elif keyword in _NESTED:
                self._nested(found, keyword, value)
            elif keyword.startswith(self._prefix):
                self._extension(found, keyword[len(self._prefix) :], value)
            if keyword in _UNSUPPORTED and (value or keyword in _UNSUPPORTED_EMPTY):
                unsupported.append(keyword)
        if unsupported:
            found["unsupported"] = frozenset(unsupported)
        return Node(**found)

    def _nested(self, found: dict[str, Any], keyword: str, value: Any) -> None:
        match keyword:
            case "properties" | "definitions":
                if value:
                    found[keyword] = self._named(value)
            case "items":
                found["items" if isinstance(value, dict) else "item_list"] = self._one_or_several(value)
            case "additionalProperties":
                found["additional"] = self.node(value) if isinstance(value, dict) else value
            case "required" | "enum":
                found[keyword] = tuple(value)
            case "not":
                found["not_"] = self.node(value)
            case "dependencies":
                found[keyword] = self._named(
                    {name: one for name, one in value.items() if isinstance(one, dict)}
                )
            case _:
                found[_JUNCTORS[keyword]] = self._one_or_several(value)

    def _extension(self, found: dict[str, Any], name: str, value: Any) -> None:
        self.extensions.add(name)
        match name:
            case "preserve-unknown-fields":
                found["preserve"] = bool(value)
            case "embedded-resource":
                found["embedded"] = bool(value)
            case "int-or-string":
                found["int_or_string"] = bool(value)
            case "list-type":
                found["list_type"] = value
            case "list-map-keys":
                found["list_keys"] = tuple(value)
            case "map-type":
                found["map_type"] = value
            case "validations":
                found["rules"] = tuple(map(_rule, value))

    def _one_or_several(self, value: Any) -> Any:
        return self.node(value) if isinstance(value, dict) else tuple(map(self.node, value))

    def _named(self, schemas: Mapping[str, Object]) -> Mapping[str, Node]:
        return MappingProxyType({name: self.node(one) for name, one in schemas.items()})


def _rule(written: Object) -> Rule:
    parts = ("rule", "message", "messageExpression", "reason", "fieldPath")
    rule, message, message_expression, reason, field_path = (written.get(part) or "" for part in parts)
    old_self = written.get("optionalOldSelf")
    return Rule(rule, message, message_expression, reason, field_path, old_self)
