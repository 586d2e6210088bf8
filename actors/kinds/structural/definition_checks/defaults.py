"""Defaults in a schema: each must be valid where it stands, and have no unknown fields.

Defaults inside the metadata of embedded objects are checked as part of an object that has nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from actors.kinds.structural.coercion import TYPE_META, compile_coercion
from actors.kinds.structural.embedded import NotAnObject, compile_validation
from actors.kinds.structural.embedded import compile_coercion as compile_embedded
from actors.kinds.structural.node import Node
from actors.kinds.structural.rules.evaluation import BUDGET, compile_tree
from actors.kinds.structural.validation.exact import validate
from actors.kinds.structural.validation.findings import report
from actors.kinds.validation import FieldErrors, collect, invalid
from actors.kinds.values.go_format import show
from actors.names import Names

_TYPE = {"apiVersion": "validation/v1", "kind": "Validation"}


@dataclass(slots=True)
class _Budget:
    """What the rules of all defaults of a schema may cost together; -1 if they cost more."""

    left: int


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a node is in the nearest object around it: names, and None for an item of a list."""

    root: Node
    names: Names
    budget: _Budget
    steps: tuple[str | None, ...] = ()
    inside_meta: bool = False

    def child(self, name: str | None, *, inside_meta: bool) -> _Place:
        return _Place(self.root, self.names, self.budget, (*self.steps, name), inside_meta)

    def surround(self, value: Any) -> dict[str, Any]:
        for step in reversed(self.steps):
            value = [value] if step is None else {step: value}
        return {**_TYPE, **value}


def check_defaults(errors: FieldErrors, path: str, root: Node, names: Names) -> None:
    """The root is an object like those that are embedded: with a kind, an apiVersion and metadata."""
    root = root.but(embedded=True, extensions=None)
    _check(errors, path, root, _Place(root, names, _Budget(BUDGET)))


def _check(errors: FieldErrors, path: str, node: Node, place: _Place) -> None:
    if place.budget.left < 0:
        return
    if node.embedded:
        place = _Place(node, place.names, place.budget)
    if node.default is not None:
        _check_default(errors, f"{path}.default", node, place)
    if node.items is not None:
        _check(errors, f"{path}.items", node.items, place.child(None, inside_meta=place.inside_meta))
    for name, inner in node.properties.items():
        inside = place.inside_meta or (node.embedded and name in TYPE_META)
        _check(errors, f"{path}.properties[{name}]", inner, place.child(name, inside_meta=inside))


def _check_default(errors: FieldErrors, path: str, node: Node, place: _Place) -> None:
    if place.inside_meta:
        wrong = _metadata_problem(node, place)
        if wrong:
            text = f"must result in valid metadata: {wrong}"
            errors.add(invalid(path, show(node.default), text))
            return
    else:
        dropped: list[str] = []
        compile_coercion_of(node)(node.default, dropped)
        if dropped:
            errors.add(invalid(path, show(node.default), "must not have unknown fields"))
        if _embedded_errors(errors, path, node):
            return
    found = validate(node, node.default).by_text
    report(errors, path, found.values())
    if not found:
        tree = compile_tree(node, place.names, is_object=node is place.root)
        if tree is not None:
            place.budget.left = tree.validate(errors, node.default, node.default, path, place.budget.left)


def compile_coercion_of(node: Node) -> Any:
    """Prunes a value that stands at the node, whatever its type."""
    around = Node(properties={"value": node})
    prune = compile_coercion(around, defaults=False)
    return lambda value, dropped: prune({"value": value}, dropped)["value"]


def _metadata_problem(node: Node, place: _Place) -> str:
    obj = place.surround(node.default)
    root = Node(properties=place.root.properties, embedded=True)
    coerce, rules = compile_embedded(root, drop_invalid=False), compile_validation(root)
    assert coerce is not None and rules is not None
    try:
        coerced = coerce(obj, "", [])
    except NotAnObject as error:
        return str(error)
    found = [
        f"{one.field}: {one.message}" for one in collect(lambda errors: rules(coerced, "", errors) and None)
    ]
    return found[0] if len(found) == 1 else f"[{', '.join(found)}]" if found else ""


def _embedded_errors(errors: FieldErrors, path: str, node: Node) -> bool:
    coerce, rules = compile_embedded(node, drop_invalid=False), compile_validation(node)
    if coerce is None or rules is None:
        return False
    try:
        coerced = coerce(node.default, path, [])
    except NotAnObject as error:
        errors.add(error.error)
        return True
    before = len(errors.found)
    rules(coerced, path, errors)
    return len(errors.found) > before
