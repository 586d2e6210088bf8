"""The schema of a custom resource (JSONSchemaProps) as a tree of immutable nodes.

`parse_schema` reads the `openAPIV3Schema` of a CustomResourceDefinition, decoded but not checked: everything that
`checks` refuses has a place in a node too. All other modules of this folder read nodes; none reads the JSON. Extensions
have the prefix of the dialect:

    parse_schema({"type": "array", "x-cluster-list-type": "set", "items": {"type": "string"}}, NAMES["cluster"])

A default of null counts as no default, as in v1.25.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from actors.messages import Object
from actors.names import Names
from actors.time_limit import check_time

NO_NODES: Final[Mapping[str, Any]] = MappingProxyType({})

# Keywords that JSONSchemaProps has and no structural schema may use.
UNSUPPORTED: Final = (
    "id",
    "$schema",
    "$ref",
    "patternProperties",
    "dependencies",
    "additionalItems",
    "definitions",
)


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """One CEL rule, as written."""

    rule: str
    message: str


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Node:
    type: str = ""
    format: str = ""
    title: str = ""
    description: str = ""
    nullable: bool = False
    default: Any = None
    properties: Mapping[str, Node] = field(default_factory=lambda: NO_NODES)
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
    # What no structural schema has.
    item_list: tuple[Node, ...] = ()
    definitions: Mapping[str, Node] = field(default_factory=lambda: NO_NODES)
    dependencies: Mapping[str, Node] = field(default_factory=lambda: NO_NODES)
    unsupported: frozenset[str] = frozenset()
    external_docs: bool = False
    example: bool = False

    @property
    def values(self) -> Node | None:
        """The schema of members that `properties` does not name."""
        return self.additional if isinstance(self.additional, Node) else None


def parse_schema(schema: Object, names: Names) -> Node:
    return _Parser(names.extension_prefix).node(schema)


def has_rules(node: Node | None) -> bool:
    if node is None:
        return False
    inner = (node.items, node.values, *node.properties.values())
    return bool(node.rules) or any(map(has_rules, inner))


class _Parser:
    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def node(self, schema: Object) -> Node:
        check_time()
        get = schema.get
        items = get("items")
        return Node(
            type=get("type") or "",
            format=get("format") or "",
            title=get("title") or "",
            description=get("description") or "",
            nullable=bool(get("nullable")),
            default=get("default"),
            properties=self._named(get("properties")),
            additional=self._additional(get("additionalProperties")),
            items=self.node(items) if isinstance(items, dict) else None,
            required=tuple(get("required") or ()),
            enum=tuple(get("enum") or ()),
            maximum=get("maximum"),
            minimum=get("minimum"),
            exclusive_maximum=bool(get("exclusiveMaximum")),
            exclusive_minimum=bool(get("exclusiveMinimum")),
            multiple_of=get("multipleOf"),
            max_length=get("maxLength"),
            min_length=get("minLength"),
            pattern=get("pattern") or "",
            max_items=get("maxItems"),
            min_items=get("minItems"),
            unique_items=bool(get("uniqueItems")),
            max_properties=get("maxProperties"),
            min_properties=get("minProperties"),
            all_of=self._several(get("allOf")),
            any_of=self._several(get("anyOf")),
            one_of=self._several(get("oneOf")),
            not_=self._optional(get("not")),
            item_list=self._several(items if isinstance(items, list) else None),
            definitions=self._named(get("definitions")),
            dependencies=self._named(
                {name: one for name, one in (get("dependencies") or {}).items() if isinstance(one, dict)}
            ),
            unsupported=frozenset(name for name in UNSUPPORTED if _is_set(name, get(name))),
            external_docs=get("externalDocs") is not None,
            example=get("example") is not None,
            **self._extensions(schema),
        )

    def _extensions(self, schema: Object) -> dict[str, Any]:
        prefix = self._prefix
        found: dict[str, Any] = {}
        for key, value in schema.items():
            if value is None or not key.startswith(prefix):
                continue
            match key[len(prefix) :]:
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
                    found["rules"] = tuple(
                        Rule(one.get("rule") or "", one.get("message") or "") for one in value
                    )
        return found

    def _optional(self, schema: Object | None) -> Node | None:
        return None if schema is None else self.node(schema)

    def _additional(self, schema: Object | bool | None) -> Node | bool | None:
        return self.node(schema) if isinstance(schema, dict) else schema

    def _several(self, schemas: list[Object] | None) -> tuple[Node, ...]:
        return tuple(self.node(one) for one in schemas or ())

    def _named(self, schemas: Mapping[str, Object] | None) -> Mapping[str, Node]:
        if not schemas:
            return NO_NODES
        return MappingProxyType({name: self.node(one) for name, one in schemas.items()})


def _is_set(keyword: str, value: Any) -> bool:
    """Whether v1.25 sees the keyword: empty texts and maps count as absent, but an empty $ref does not."""
    return value is not None if keyword in ("$ref", "additionalItems") else bool(value)
