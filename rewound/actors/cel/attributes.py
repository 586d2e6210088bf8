"""Variables and selections on them: self.spec.names[0], x[key], (a ? b : c).d.

A step is what the planner makes of a node. An `Attribute` collects the selections on a variable or on the result of
another step, so that a chain of them is one closure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rewound.actors.cel.costs import COST, Cells
from rewound.actors.cel.data import DataObject
from rewound.actors.cel.json_data import JsonMap, from_json
from rewound.actors.cel.mutations import Constructed
from rewound.actors.cel.values import (
    NONE,
    BadData,
    EvaluationError,
    ListValue,
    MapLike,
    Optional,
    Uint,
    go_type_name,
    list_get,
    list_index,
    list_size,
    no_such_overload,
    printed,
)

Run = Callable[[Cells], Any]


class Step:
    """`run` evaluates the node and counts its cost; it raises an EvaluationError for a CEL error."""

    run: Run


class Fixed(Step):
    """A constant, which costs nothing."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.run = lambda _: value


class Operation(Step):
    def __init__(self, run: Run) -> None:
        self.run = run


class Qualifier:
    """A selection by a constant key (`dynamic` is None), or by one that is evaluated; a.?b and a[?b] are optional."""

    __slots__ = ("dynamic", "is_optional", "key")

    def __init__(self, key: Any, dynamic: Run | None = None, *, is_optional: bool = False) -> None:
        self.key, self.dynamic, self.is_optional = key, dynamic, is_optional


class Attribute(Step):
    """`slot` is the cell of the variable; without one, `operand` is the step that the selections start from."""

    def __init__(self, slot: int | None, operand: Run | None, qualifiers: tuple[Qualifier, ...] = ()) -> None:
        self._slot, self._operand, self._qualifiers = slot, operand, qualifiers
        self._run: Run | None = None

    @property
    def run(self) -> Run:  # type: ignore[override]
        """Costs 1, and 1 for each selection."""
        if self._run is None:
            self._run = self._compile(1)
        return self._run

    def resolve(self) -> Run:
        """Evaluate a branch of ?: or a key in brackets, which costs only its selections."""
        return self._compile(0)

    def select(self, qualifier: Qualifier) -> Attribute:
        return Attribute(self._slot, self._operand, (*self._qualifiers, qualifier))

    def _compile(self, own: int) -> Run:
        slot, operand, qualifiers = self._slot, self._operand, self._qualifiers
        if slot is None:
            assert operand is not None
            return _operand_chain(operand, own, qualifiers)
        fixed = all(one.dynamic is None and not one.is_optional for one in qualifiers)
        if not fixed:
            return _variable_chain(slot, own, qualifiers)
        keys = [qualifier.key for qualifier in qualifiers]
        if len(keys) < 2:
            return (_variable, _one_key)[len(keys)](slot, own, *keys)
        others = _two_keys(slot, own, *keys) if len(keys) == 2 else _variable_chain(slot, own, qualifiers)
        return _keys_of_json(slot, own, keys, others)


class Choice(Attribute):
    """condition ? one : other, which costs only what it evaluates. A selection on it applies to both branches."""

    def __init__(self, condition: Run, one: Attribute, other: Attribute) -> None:
        super().__init__(None, None)
        self._condition, self._one, self._other = condition, one, other

    def resolve(self) -> Run:
        return self._compile(0)

    def select(self, qualifier: Qualifier) -> Attribute:
        return Choice(self._condition, self._one.select(qualifier), self._other.select(qualifier))

    def _compile(self, own: int) -> Run:
        condition, one, other = self._condition, self._one.resolve(), self._other.resolve()

        def run(cells: Cells) -> Any:
            chosen = condition(cells)
            if chosen is True:
                return one(cells)
            if chosen is False:
                return other(cells)
            raise no_such_overload()

        return run


def branch(step: Step) -> Attribute:
    return step if isinstance(step, Attribute) else Attribute(None, step.run)


def select(value: Any, key: Any) -> Any:
    if value.__class__ is Optional:
        return select_if_present(value, key)
    if isinstance(value, MapLike):
        return value.get(key)
    if isinstance(value, list | ListValue):
        return list_get(value, key)
    if isinstance(value, EvaluationError):
        raise value
    if isinstance(value, Constructed):
        return value.get(key)
    raise EvaluationError(f"no such key: {printed(key)}")


def select_if_present(value: Any, key: Any) -> Optional:
    """Select from what may be optional; the result is optional, and has no value if there is no such key."""
    if value.__class__ is Optional:
        if not value.has_value:
            return NONE
        value = value.value
    if isinstance(value, MapLike):
        present, found = value.find(key)
        return Optional(found) if present else NONE
    if isinstance(value, list | ListValue):
        position = list_index(key)
        return Optional(list_get(value, position)) if 0 <= position < list_size(value) else NONE
    if isinstance(value, EvaluationError):
        raise value
    return NONE


def _variable(slot: int, own: int) -> Run:
    def run(cells: Cells) -> Any:
        cells[COST] += own
        value = cells[slot]
        if isinstance(value, EvaluationError):
            raise value
        return value

    return run


def _one_key(slot: int, own: int, key: Any) -> Run:
    cost = own + 1

    def run(cells: Cells) -> Any:
        cells[COST] += cost
        value = cells[slot]
        if value.__class__ is DataObject:
            # The most frequent operation of rules: DataObject.get without the call.
            field = value.properties.fields.get(key)
            if field is not None:
                name, wrap, direct = field
                raw = value.raw.get(name)
                if raw is not None:
                    return raw if raw.__class__ is direct else wrap(raw)
        return value.get(key) if isinstance(value, MapLike) else select(value, key)

    return run


def _keys_of_json(slot: int, own: int, keys: list[Any], otherwise: Run) -> Run:
    """Several keys of a JSON document, without wrapping the maps on the way; `otherwise` selects from all else."""
    *around, last = keys
    cost = own + len(keys)

    def run(cells: Cells) -> Any:
        value = cells[slot]
        if value.__class__ is JsonMap:
            raw: Any = value.raw
            for key in around:
                raw = raw.get(key)
                if raw.__class__ is not dict:
                    return otherwise(cells)
            found = raw.get(last)
            if found is not None:
                cells[COST] += cost
                return found if found.__class__ is str else from_json(found)
        return otherwise(cells)

    return run


def _two_keys(slot: int, own: int, first: Any, second: Any) -> Run:
    cost = own + 1

    def run(cells: Cells) -> Any:
        cells[COST] += cost
        value = cells[slot]
        try:
            value = value.get(first) if isinstance(value, MapLike) else select(value, first)
        except BadData:
            cells[COST] += value.__class__ is not BadData  # cel-go reports the error when it selects from it
            raise
        cells[COST] += 1
        return value.get(second) if isinstance(value, MapLike) else select(value, second)

    return run


def _variable_chain(slot: int, own: int, qualifiers: tuple[Qualifier, ...]) -> Run:
    def run(cells: Cells) -> Any:
        cells[COST] += own
        return _follow(cells, cells[slot], qualifiers)

    return run


def _operand_chain(operand: Run, own: int, qualifiers: tuple[Qualifier, ...]) -> Run:
    if not own and not qualifiers:
        return operand

    def run(cells: Cells) -> Any:
        try:
            value = operand(cells)
        finally:
            cells[COST] += own
        return _follow(cells, value, qualifiers)

    return run


def _follow(cells: Cells, value: Any, qualifiers: tuple[Qualifier, ...]) -> Any:
    last = len(qualifiers) - 1
    for index, qualifier in enumerate(qualifiers):
        if value is NONE:
            break
        cells[COST] += 1
        before = value
        key = qualifier.key if qualifier.dynamic is None else _key(qualifier.dynamic(cells))
        try:
            value = select_if_present(value, key) if qualifier.is_optional else select(value, key)
        except BadData:
            cells[COST] += index < last and before.__class__ is not BadData
            raise
    return value


def _key(key: Any) -> Any:
    if key.__class__ not in (str, int, Uint, bool, float):
        raise EvaluationError(f"invalid qualifier type: {go_type_name(key)}")
    return key
