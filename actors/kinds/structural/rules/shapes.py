"""How rules read the values of an object: the shape of each node of its schema."""

from __future__ import annotations

from actors.cel.data.shape import Shape
from actors.cel.data.shapes import (
    BooleanShape,
    IntegerShape,
    IntOrStringShape,
    ListShape,
    MapShape,
    NumberShape,
    ObjectShape,
    OpaqueObjectShape,
    StringShape,
    UnknownShape,
    UntypedShape,
)
from actors.kinds.structural.node import Node
from actors.kinds.structural.rules.declared import with_meta


def shape_of(node: Node, prefix: str, *, is_object: bool = False) -> Shape:
    """`is_object`: the root of a resource, whose type and names rules see. `prefix` is that of schema extensions."""
    nullable = node.nullable
    if node.int_or_string:
        return IntOrStringShape(nullable)
    match node.type:
        case "object":
            return _object(with_meta(node) if is_object or node.embedded else node, prefix)
        case "array":
            items = None if node.items is None else shape_of(node.items, prefix)
            return ListShape(items, node.list_type, node.list_keys, nullable)
        case "string":
            return StringShape(node.format, nullable)
        case "number":
            return NumberShape(nullable)
        case "integer":
            return IntegerShape(nullable)
        case "boolean":
            return BooleanShape(nullable)
    return UnknownShape(nullable) if node.preserve else UntypedShape(node.type, prefix, nullable)


def _object(node: Node, prefix: str) -> Shape:
    if node.properties:
        shapes = {name: shape_of(inner, prefix) for name, inner in node.properties.items()}
        return ObjectShape(shapes, node.nullable)
    if node.values is not None:
        return MapShape(shape_of(node.values, prefix), node.nullable)
    return ObjectShape(None, node.nullable) if node.preserve else OpaqueObjectShape(node.nullable)
