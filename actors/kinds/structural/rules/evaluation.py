"""Evaluates the rules of a schema on an object: parents before children, items in order.

A rule that uses oldSelf runs only where the old object has a value at the same place: properties and keys of maps
correspond by name, items of keyed lists by their keys, items of other lists do not. All rules of an object share one
budget; the rule that exceeds it ends the evaluation.

On the event loop rules run as long as they are cheap together; then `need_thread` asks for a worker thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from actors.cel.data.escaping import escape
from actors.cel.data.shape import Shape
from actors.cel.values import BadData, EvaluationError, EvaluationStopped
from actors.kinds.structural.node import Node, Rule, has_rules
from actors.kinds.structural.rules.compilation import CompiledRule, compile_rules
from actors.kinds.structural.rules.declared import Declared, declare
from actors.kinds.structural.rules.shapes import shape_of
from actors.kinds.structural.validation.findings import NO_PATH
from actors.kinds.validation import FieldErrors, invalid
from actors.names import Names
from actors.time_limit import need_thread

BUDGET: Final = 10_000_000  # of one object
_CHEAP: Final = 20_000  # some milliseconds
_OUT_OF_BUDGET: Final = (
    "validation failed due to running out of cost budget, no further validation rules will be run"
)


class _Stopped(Exception):
    """Nothing more is evaluated."""


class _Run:
    """One evaluation of all rules of an object."""

    __slots__ = ("errors", "left")

    def __init__(self, errors: FieldErrors, budget: int) -> None:
        self.errors, self.left = errors, budget

    def spend(self, cost: int) -> bool:
        if cost > self.left:
            return False
        self.left -= cost
        if self.left < BUDGET - _CHEAP:
            need_thread()
        return True


class RuleTree:
    """The rules of a node and of all nodes in it."""

    __slots__ = ("_items", "_keys", "_properties", "_rules", "_shape", "_type", "_values")

    def __init__(
        self,
        node: Node,
        rules: tuple[CompiledRule, ...],
        shape: Shape,
        items: RuleTree | None,
        properties: Mapping[str, RuleTree],
        values: RuleTree | None,
    ) -> None:
        self._rules, self._shape, self._type = rules, shape, node.type
        self._items, self._properties, self._values = items, properties, values
        self._keys = node.list_keys if node.type == "array" and node.list_type == "map" else ()

    def validate(
        self, errors: FieldErrors, new: Any, old: Any = None, path: str = "", budget: int = BUDGET
    ) -> int:
        """Add what the rules find wrong; returns what is left of the budget, -1 if it was exceeded."""
        run = _Run(errors, budget)
        try:
            self._validate(run, path, new, old)
        except _Stopped:
            return -1
        return run.left

    def _validate(self, run: _Run, path: str, new: Any, old: Any) -> None:
        if new is None:
            return
        if self._rules:
            self._evaluate(run, path or NO_PATH, new, old)
        if type(new) is list:
            if self._items is not None:
                find = self._old_finder(old)
                for index, item in enumerate(new):
                    self._items._validate(run, f"{path}[{index}]", item, find(item))
        elif type(new) is dict:
            before = old if type(old) is dict else {}
            if self._values is not None:
                for name, member in new.items():
                    self._values._validate(run, f"{path}[{name}]", member, before.get(name))
            for name, tree in self._properties.items():
                if name in new:
                    here = f"{path}.{name}" if path else name
                    tree._validate(run, here, new[name], before.get(name))

    def _old_finder(self, old: Any) -> Callable[[Any], Any]:
        if not self._keys or type(old) is not list:
            return _no_old_value
        by_key: dict[Any, Any] = {}
        for item in old:
            key = _key_of(item, self._keys)
            if key is not None:
                by_key.setdefault(key, item)
        return lambda item: by_key.get(_key_of(item, self._keys))

    def _evaluate(self, run: _Run, path: str, new: Any, old: Any) -> None:
        if run.left <= 0:
            self._stop(run, path, _OUT_OF_BUDGET)
        variables = (self._read(new), None if old is None else self._read(old))
        for one in self._rules:
            if one.error:
                self._fail(run, path, f"rule compile error: {one.error}")
            elif one.program is not None and (old is not None or not one.is_transition):
                result, cost = one.program.evaluate(variables, need_thread)
                if not run.spend(cost):
                    self._stop(run, path, _OUT_OF_BUDGET)
                if result is not True:
                    self._report(run, path, one.rule, result)

    def _read(self, value: Any) -> Any:
        try:
            return self._shape.wrap(value)
        except BadData as error:
            return error

    def _report(self, run: _Run, path: str, rule: Rule, result: Any) -> None:
        if not isinstance(result, (EvaluationError, EvaluationStopped)):
            self._fail(run, path, rule.message or f"failed rule: {rule.rule.strip()}")
            return
        text, said = result.message, (rule.message or rule.rule).strip()
        if text.startswith("no such overload"):
            why = "call arguments did not match a supported operator, function or macro signature for rule"
            self._fail(run, path, f"'{text}': {why}: {said}")
        elif text.startswith("operation cancelled: actual cost limit exceeded"):
            why = "no further validation rules will be run due to call cost exceeds limit for rule"
            self._stop(run, path, f"'{text}': {why}: {said}")
        else:
            self._fail(run, path, f"{text} evaluating rule: {said}")

    def _fail(self, run: _Run, path: str, text: str) -> None:
        run.errors.add(invalid(path, self._type, text))

    def _stop(self, run: _Run, path: str, text: str) -> None:
        self._fail(run, path, text)
        raise _Stopped


def _no_old_value(_: Any) -> Any:
    return None


def _key_of(item: Any, names: Sequence[str]) -> Any:
    """What identifies an item of a keyed list; None without all keys, or with keys that are no scalars."""
    if type(item) is not dict:
        return None
    key = []
    for name in names:
        value = item.get(name)
        if value is None or isinstance(value, (dict, list)):
            return None
        key.append((type(value), value))
    return tuple(key)


def compile_tree(node: Node, names: Names, *, is_object: bool) -> RuleTree | None:
    """The rules of a schema; None without any. `is_object`: the node is the root of a resource."""
    if not has_rules(node):
        return None
    return _tree(node, names, declare(node, is_object=is_object), is_object)


def _tree(node: Node, names: Names, declared: Declared | None, is_object: bool) -> RuleTree | None:
    if declared is None:
        return None
    rules = compile_rules(node.rules, declared, names) if node.rules else ()
    items = values = None
    if node.items is not None:
        items = _tree(node.items, names, declared.element, node.items.embedded)
    if node.values is not None:
        values = _tree(node.values, names, declared.element, node.values.embedded)
    properties = {
        name: tree
        for name, inner in node.properties.items()
        if has_rules(inner) and (tree := _property_tree(name, inner, names, declared)) is not None
    }
    if not (rules or items or values or properties):
        return None
    shape = shape_of(node, names.extension_prefix, is_object=is_object)
    return RuleTree(node, rules, shape, items, properties, values)


def _property_tree(name: str, inner: Node, names: Names, around: Declared) -> RuleTree | None:
    identifier = escape(name)
    if identifier is None:
        return _tree(inner, names, declare(inner, is_object=inner.embedded), inner.embedded)
    return _tree(inner, names, (around.fields or {}).get(identifier), inner.embedded)
