"""Checks the rules of a schema when its definition is written: types, cost, and what oldSelf can be compared with.

`Context` follows the walk over the schema. It finds the type of a node in the type of the nearest node around it that
has rules, because a rule sees the fields below it by that type; without such a node the type is made from the node.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import Final

from actors.cel.cost.definition import (
    MOST_OF_A_DEFINITION,
    MOST_OF_A_RULE,
    TotalCost,
    cardinality_below,
    exceeds_budget,
    rule_cost,
)
from actors.cel.data.escaping import escape
from actors.kinds.structural.node import Node, Rule
from actors.kinds.structural.rules.compilation import compile_rules
from actors.kinds.structural.rules.declared import Declared, declare
from actors.kinds.validation import FieldErrors, forbidden, invalid, undecided
from actors.kinds.values.go_format import Formatted
from actors.names import Names
from actors.quoting import quoted
from actors.time_limit import check_time

_NO_TYPE: Final = "unable to convert structural schema to CEL declarations"


@dataclass(slots=True, eq=False)
class Context:
    """Of one node: whether it or a node around it has rules, how often it can occur, and its type."""

    node: Node
    total: TotalCost
    parent: Context | None = None
    name: str | None = None  # of the property; None for items and values
    cardinality: int | None = 1
    in_scope: bool = False
    _declared: Declared | None = field(default=None, init=False)
    _is_known: bool = field(default=False, init=False)

    @staticmethod
    def root(node: Node) -> Context:
        return Context(node, TotalCost(), in_scope=bool(node.rules))

    def child(self, node: Node, name: str | None = None) -> Context:
        """Of a property with its name, of the items, or of additionalProperties."""
        around = self.node
        is_map = around.additional is not None
        most = around.max_properties if is_map else around.max_items
        cardinality = cardinality_below(self.cardinality, around.type, most, is_map)
        return Context(node, self.total, self, name, cardinality, self.in_scope or bool(node.rules))

    def declared(self) -> Declared | None:
        """The type of the node; None if it has none, or if a node around it with rules has none."""
        if not self._is_known:
            self._declared, self._is_known = self._find(), True
        return self._declared

    def _find(self) -> Declared | None:
        if self.parent is not None and self.parent.in_scope:
            around = self.parent.declared()
            if around is None:
                return None
            found = around.element if self.name is None else _field(around, self.name)
            if found is not None:
                return found
        return declare(self.node, is_object=self.parent is None or self.node.embedded)


def _field(around: Declared, name: str) -> Declared | None:
    identifier = escape(name)
    return None if identifier is None else (around.fields or {}).get(identifier)


def check_rules(errors: FieldErrors, path: str, context: Context, uncorrelated: str, names: Names) -> None:
    """`path` is that of the rules; `uncorrelated` that of the node whose parts have no old values, if any."""
    check_time()
    declared = context.declared()
    if declared is None:
        why = f"failed to construct type information for {path.rpartition('.')[2]} rules: {_NO_TYPE}"
        errors.add(undecided(path, f"internal error: {why}"))
        return
    rules = context.node.rules
    for index, one in enumerate(compile_rules(rules, declared, names, zlib.crc32(path.encode()))):
        check_time()
        where = f"{path}[{index}].rule"
        cost = rule_cost(one.cost, context.cardinality, declared.least)
        if cost > MOST_OF_A_RULE:
            errors.add(forbidden(where, exceeds_budget("estimated rule cost", cost, MOST_OF_A_RULE)))
        context.total.add(where, cost)
        if one.error:
            errors.add(invalid(where, _shown(one.rule), one.error))
        if one.is_transition and uncorrelated:
            text = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelated}"
            errors.add(invalid(where, one.rule.rule, text))


def check_total(errors: FieldErrors, path: str, total: TotalCost, prefix: str) -> None:
    if total.total <= MOST_OF_A_DEFINITION:
        return
    text = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
    for _, where in total.dearest:
        errors.add(forbidden(where, text))
    what = f"{prefix}validations estimated rule cost total for entire OpenAPIv3 schema"
    errors.add(forbidden(path, exceeds_budget(what, total.total, MOST_OF_A_DEFINITION)))


def _shown(rule: Rule) -> Formatted:
    return Formatted(
        f"apiextensions.ValidationRule{{Rule:{quoted(rule.rule)}, Message:{quoted(rule.message)}}}"
    )
