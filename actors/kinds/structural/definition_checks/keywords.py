"""The rules about single keywords of a schema, and about keywords that exclude or need each other.

Children come before their parents. Errors of rules in CEL are collected apart and come last; a node with errors in it,
or below it, has its rules left unchecked.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from actors.kinds.structural.coercion import TYPE_META
from actors.kinds.structural.node import Node
from actors.kinds.structural.rules.definition import Context, check_rules, check_total
from actors.kinds.structural.rules.syntax_checks import check_rule_syntax
from actors.kinds.validation import FieldErrors, forbidden, invalid, not_supported, required
from actors.kinds.values.go_format import Formatted
from actors.names import Names
from actors.time_limit import check_time

_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_CORRELATABLE_MAPS: Final = (None, "granular", "atomic")


@dataclass(frozen=True, slots=True)
class Scope:
    """What the nodes around a node say about it."""

    no_defaults: str | None = None  # the reason why there may be none
    inside_meta: bool = False
    uncorrelated: str = ""  # path of the first node around whose parts are not found again in an old object
    context: Context | None = None  # for the rules of the node; None where rules are not checked

    def without_old_values(self, path: str) -> Scope:
        return self if self.uncorrelated else Scope(self.no_defaults, self.inside_meta, path, self.context)

    def inside(self, node: Node, name: str | None = None) -> Scope:
        """Of a property with its name, of the items, or of additionalProperties."""
        if self.context is None:
            return self
        return Scope(self.no_defaults, self.inside_meta, self.uncorrelated, self.context.child(node, name))

    def without_rules(self) -> Scope:
        return self if self.context is None else replace(self, context=None)


class KeywordChecks:
    def __init__(self, names: Names, *, with_rules: bool) -> None:
        self._names, self._prefix = names, names.extension_prefix
        self._with_rules = with_rules
        self._rule_errors = FieldErrors()

    def check(self, errors: FieldErrors, path: str, root: Node) -> None:
        context = Context.root(root) if self._with_rules else None
        self._node(errors, path, root, Scope(context=context), is_root=True)
        errors.add_all(self._rule_errors.found)
        if context is not None:
            check_total(errors, path, context.total, self._prefix)

    def _node(
        self, errors: FieldErrors, path: str, node: Node, scope: Scope, *, is_root: bool = False
    ) -> None:
        check_time()
        before = len(errors.found)
        self._forbidden(errors, path, node, scope)
        if node.unique_items:
            text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
            errors.add(forbidden(f"{path}.uniqueItems", text))
        self._additional(errors, path, node, scope)
        self._properties(errors, path, node, scope, is_root)
        self._junctors(errors, path, node, scope)
        for name, inner in node.definitions.items():
            self._node(errors, f"{path}.definitions[{name}]", inner, scope.without_rules())
        self._items(errors, path, node, scope)
        for name, inner in node.dependencies.items():
            self._node(errors, f"{path}.dependencies[{name}]", inner, scope.without_rules())
        self._extensions(errors, path, node)
        self._list_map(errors, path, node)
        self._list_items(errors, path, node)
        if node.rules:
            where = f"{path}.{self._prefix}validations"
            check_rule_syntax(errors, where, node.rules)
            if scope.context is not None and len(errors.found) == before:
                check_rules(self._rule_errors, where, scope.context, scope.uncorrelated, self._names)

    def _forbidden(self, errors: FieldErrors, path: str, node: Node, scope: Scope) -> None:
        if node.type and node.type not in _TYPES:
            errors.add(not_supported(f"{path}.type", node.type, _TYPES))
        if node.default is not None and scope.no_defaults is not None:
            errors.add(forbidden(f"{path}.default", f"must not be set {scope.no_defaults}"))
        for keyword in (
            "id",
            "additionalItems",
            "patternProperties",
            "definitions",
            "dependencies",
            "$ref",
        ):
            if keyword in node.unsupported:
                errors.add(forbidden(f"{path}.{keyword}", f"{keyword} is not supported"))
        if node.type == "null":
            text = "type cannot be set to null, use nullable as an alternative"
            errors.add(forbidden(f"{path}.type", text))
        if node.item_list:
            errors.add(forbidden(f"{path}.items", "items must be a schema object and not an array"))
        if scope.inside_meta and node.embedded:
            text = "must not be used inside of resource meta"
            errors.add(forbidden(f"{path}.{self._prefix}embedded-resource", text))

    def _additional(self, errors: FieldErrors, path: str, node: Node, scope: Scope) -> None:
        where = f"{path}.additionalProperties"
        if node.additional is None:
            return
        if node.properties and node.additional is not True:
            errors.add(forbidden(where, "additionalProperties and properties are mutual exclusive"))
        if node.values is None:
            return
        if scope.inside_meta:
            reason = "inside additionalProperties applying to object metadata"
            scope = replace(scope, no_defaults=reason)
        self._node(errors, where, node.values, scope.inside(node.values))

    def _properties(self, errors: FieldErrors, path: str, node: Node, scope: Scope, is_root: bool) -> None:
        if node.map_type not in _CORRELATABLE_MAPS:
            scope = scope.without_old_values(path)
        for name, inner in node.properties.items():
            inside = scope.inside(inner, name)
            if (is_root or node.embedded) and name in TYPE_META:
                inside = replace(inside, inside_meta=True)
                if is_root:
                    inside = replace(inside, no_defaults=f"in top-level {name}")
            self._node(errors, f"{path}.properties[{name}]", inner, inside)

    def _junctors(self, errors: FieldErrors, path: str, node: Node, scope: Scope) -> None:
        if not (node.all_of or node.any_of or node.one_of or node.not_):
            return
        scope = scope.without_rules()
        if node.not_ is not None:
            self._node(errors, f"{path}.not", node.not_, scope)
        for keyword, branches in (("allOf", node.all_of), ("oneOf", node.one_of), ("anyOf", node.any_of)):
            for index, branch in enumerate(branches):
                self._node(errors, f"{path}.{keyword}[{index}]", branch, scope)

    def _items(self, errors: FieldErrors, path: str, node: Node, scope: Scope) -> None:
        if node.items is None and not node.item_list:
            return
        if node.list_type != "map":
            scope = scope.without_old_values(path)
        if node.items is not None:
            self._node(errors, f"{path}.items", node.items, scope.inside(node.items))
        for index, inner in enumerate(node.item_list):
            self._node(errors, f"{path}.items[{index}]", inner, scope.inside(inner))

    def _extensions(self, errors: FieldErrors, path: str, node: Node) -> None:
        prefix = self._prefix
        if node.preserve is False:
            errors.add(invalid(f"{path}.{prefix}preserve-unknown-fields", False, "must be true or undefined"))
        if node.map_type is not None:
            self._needs_type(errors, path, node, "object", "map-type")
            if node.map_type not in ("atomic", "granular"):
                errors.add(not_supported(f"{path}.{prefix}map-type", node.map_type, ("atomic", "granular")))
        if node.list_type is not None and node.type != "array":
            self._needs_type(errors, path, node, "array", "list-type")
        elif node.list_type == "set" and node.items is not None:
            self._set_items(errors, path, node.items)
        if node.list_type not in (None, "atomic", "set", "map"):
            errors.add(
                not_supported(f"{path}.{prefix}list-type", node.list_type or "", ("atomic", "set", "map"))
            )
        if node.list_keys and node.list_type != "map":
            where, text = f"{path}.{prefix}list-type", f"must be map if {prefix}list-map-keys is non-empty"
            missing = node.list_type is None
            errors.add(required(where, text) if missing else invalid(where, node.list_type, text))

    def _needs_type(self, errors: FieldErrors, path: str, node: Node, wanted: str, extension: str) -> None:
        if node.type == wanted:
            return
        where, text = f"{path}.type", f"must be {wanted} if {self._prefix}{extension} is specified"
        errors.add(invalid(where, node.type, text) if node.type else required(where, text))

    def _set_items(self, errors: FieldErrors, path: str, items: Node) -> None:
        text = f"must be atomic as item of a list with {self._prefix}list-type=set"
        shown = Formatted('"null"') if items.list_type is None else items.list_type
        if items.type == "array" and items.list_type not in (None, "atomic"):
            errors.add(invalid(f"{path}.items.{self._prefix}list-type", shown, text))
        if items.type == "object" and items.map_type != "atomic":
            errors.add(invalid(f"{path}.items.{self._prefix}map-type", shown, text))

    def _list_map(self, errors: FieldErrors, path: str, node: Node) -> None:
        if node.list_type != "map":
            return
        prefix, items = self._prefix, node.items
        if not node.list_keys:
            text = f"must not be empty if {prefix}list-type is map"
            errors.add(required(f"{path}.{prefix}list-map-keys", text))
        if items is None and not node.item_list:
            errors.add(required(f"{path}.items", f"must have a schema if {prefix}list-type is map"))
        if node.item_list:
            text = f"must only have a single schema if {prefix}list-type is map"
            errors.add(invalid(f"{path}.items", Formatted("apiextensions.JSONSchemaPropsOrArray{...}"), text))
        if items is None:
            return
        if items.type != "object":
            text = f"must be object if parent array's {prefix}list-type is map"
            errors.add(invalid(f"{path}.items.type", items.type, text))
        else:
            self._list_keys(errors, path, node, items)

    def _list_keys(self, errors: FieldErrors, path: str, node: Node, items: Node) -> None:
        prefix = self._prefix
        where, seen = f"{path}.{prefix}list-map-keys", set()
        for name in node.list_keys:
            declared = items.properties.get(name)
            if declared is None:
                text = "entries must all be names of item properties"
                errors.add(invalid(where, list(node.list_keys), text))
            elif declared.type in ("array", "object"):
                text = f"must be a scalar type if parent array's {prefix}list-type is map"
                errors.add(invalid(f"{path}.items.properties[{name}].type", items.type, text))
            if name in seen:
                errors.add(invalid(where, list(node.list_keys), "must not contain duplicate entries"))
            seen.add(name)

    def _list_items(self, errors: FieldErrors, path: str, node: Node) -> None:
        """Items of sets and maps are found again by their value or keys, so these cannot be null or absent."""
        items = node.items
        if items is None or node.list_type not in ("set", "map"):
            return
        if items.nullable:
            text = f"cannot be nullable when {self._prefix}list-type is {node.list_type}"
            errors.add(forbidden(f"{path}.items.nullable", text))
        if node.list_type != "map":
            return
        reason = f"this property is in {self._prefix}list-map-keys, so it"
        for name in node.list_keys:
            declared, where = items.properties.get(name), f"{path}.items.properties[{name}]"
            if declared is None:
                continue
            if name not in items.required and declared.default is None:
                errors.add(
                    required(f"{where}.default", f"{reason} must have a default or be a required property")
                )
            if declared.nullable:
                errors.add(forbidden(f"{where}.nullable", f"{reason} cannot be nullable"))
