"""The CEL types of schema nodes, with the sizes that cost estimates need.

A node has no type where its schema says nothing that CEL could check: rules cannot be there, and fields of such types
do not exist for rules. Objects have a type of their own each, named by their place: `selfType7.spec`, `.@idx` for the
items of a list, `.@elem` for the values of a map. Sizes without a limit in the schema follow from the largest request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from actors.cel.data.escaping import escape
from actors.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    MessageType,
    Type,
    list_of,
    map_of,
)
from actors.kinds.structural.node import Node

_LARGEST_REQUEST: Final = 3 * 1024 * 1024
_LONGEST_TEXT: Final = _LARGEST_REQUEST - 2
_META: Final = Node(type="string")
_UNNAMED: Final = "object"


@dataclass(frozen=True, slots=True, eq=False)
class Declared:
    """`least` is the size of the shortest JSON of a value, `elements` how many items, members or
    characters it has at most."""

    type: Type
    least: int
    elements: int = 0
    fields: Mapping[str, Declared] | None = None  # of an object, by identifier
    element: Declared | None = None  # of a list or map

    @property
    def is_map(self) -> bool:
        return self.element is not None and self.type.name == "map"

    def most(self, path: Sequence[str]) -> int | None:
        """The size of the value at a path: a variable, then field names, @items, @values and @keys.

        None: the schema has no such value.
        """
        at: Declared | None = self
        for name in path[1:]:
            if at is None:
                return None
            if name in ("@items", "@values"):
                at = at.element
            elif name == "@keys":
                at = _KEY if at.is_map else None
            else:
                at = (at.fields or {}).get(name)
        return None if at is None else at.elements


_KEY: Final = Declared(STRING, 2)


def declare(node: Node, *, is_object: bool) -> Declared | None:
    """`is_object`: the root of a resource, or an embedded object. None: the node has no type."""
    if node.int_or_string:
        return Declared(DYN, 1, _LONGEST_TEXT)
    if is_object:
        node = with_meta(node)
    match node.type:
        case "array":
            return _list(node)
        case "object":
            return _map(node) if node.values is not None else _object(node)
        case "string":
            return _string(node)
        case "boolean":
            return Declared(BOOL, 4)
        case "number":
            return Declared(DOUBLE, 1)
        case "integer":
            return Declared(INT, 1)
    return None


def with_meta(node: Node) -> Node:
    """Rules see kind, apiVersion and the two names of an object, whatever its schema says about them."""
    properties = node.properties
    metadata = properties.get("metadata")
    if (
        _is_text(properties.get("kind"))
        and _is_text(properties.get("apiVersion"))
        and metadata is not None
        and metadata.type == "object"
        and _is_text(metadata.properties.get("name"))
        and _is_text(metadata.properties.get("generateName"))
    ):
        return node
    names = Node(type="object", properties={"name": _META, "generateName": _META})
    return node.but(properties={**properties, "kind": _META, "apiVersion": _META, "metadata": names})


def _is_text(node: Node | None) -> bool:
    return node is not None and node.type == "string"


def _list(node: Node) -> Declared | None:
    if node.items is None:
        return None
    item = declare(node.items, is_object=node.items.embedded)
    if item is None:
        return None
    limit = node.max_items
    most = (_LARGEST_REQUEST - 2) // (item.least + 1) if limit is None else max(limit, 0)
    return Declared(list_of(item.type), 2, most, element=item)


def _map(node: Node) -> Declared | None:
    assert node.values is not None
    value = declare(node.values, is_object=node.values.embedded)
    if value is None:
        return None
    limit = node.max_properties
    most = (_LARGEST_REQUEST - 2) // (value.least + 6) if limit is None else max(limit, 0)
    return Declared(map_of(STRING, value.type), 2, most, element=value)


def _object(node: Node) -> Declared:
    fields: dict[str, Declared] = {}
    least = 2
    for name, inner in node.properties.items():
        declared = declare(inner, is_object=inner.embedded)
        if declared is None:
            continue
        identifier = escape(name)
        if identifier is not None:
            fields[identifier] = declared
        if name in node.required and inner.default is None:
            least += len(name.encode()) + declared.least + 4
    return Declared(Type(_UNNAMED), least, fields=fields)


_FORMATS: Final = {
    "duration": Declared(DURATION, 3, 32),
    "date": Declared(TIMESTAMP, 12, 12),
    "date-time": Declared(TIMESTAMP, 21, 32),
}


def _string(node: Node) -> Declared:
    known = _FORMATS.get(node.format)
    if known is not None:
        return known
    if node.format == "byte":
        return Declared(BYTES, 2, _LONGEST_TEXT if node.max_length is None else max(node.max_length, 0))
    # maxLength counts characters, which may have four bytes.
    return Declared(STRING, 2, _LONGEST_TEXT if node.max_length is None else max(node.max_length, 0) * 4)


def named(declared: Declared, name: str, messages: dict[str, MessageType]) -> Declared:
    """The same with the names of its object types, which are added to `messages`."""
    if declared.fields is not None:
        fields = {
            field: named(inner, f"{name}.{field}", messages) for field, inner in declared.fields.items()
        }
        messages[name] = MessageType(name, {field: inner.type for field, inner in fields.items()})
        return replace(declared, type=Type(name), fields=fields)
    if declared.element is None:
        return declared
    if declared.is_map:
        element = named(declared.element, f"{name}.@elem", messages)
        return replace(declared, type=map_of(STRING, element.type), element=element)
    element = named(declared.element, f"{name}.@idx", messages)
    return replace(declared, type=list_of(element.type), element=element)
