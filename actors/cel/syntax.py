"""The syntax tree of a CEL expression, as the parser makes it: macros are expanded into comprehensions.

Every node has an `id` that is unique in its expression; what the checker finds out about a node (its type, the
function overloads that a call may mean) and what cost estimates say are kept in dicts by that id. Operators are calls
of functions with the names that cel-go gives them: `_+_`, `_==_`, `_&&_`, `_?_:_`, `_[_]`, `@in`, `!_`, `-_`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    id: int


@dataclass(frozen=True, slots=True, eq=False)
class Constant(Node):
    """`value` is None, a bool, an int, a float, a str, a bytes, or a `Uint` of `actors.cel.values`."""

    value: Any


@dataclass(frozen=True, slots=True, eq=False)
class Identifier(Node):
    name: str  # with a leading dot where the expression has one


@dataclass(frozen=True, slots=True, eq=False)
class Select(Node):
    """operand.field, or whether it is there (`test_only`, from the macro has)."""

    operand: Node
    field: str
    test_only: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Call(Node):
    function: str
    arguments: tuple[Node, ...]
    target: Node | None = None  # the receiver in target.function(arguments)


@dataclass(frozen=True, slots=True, eq=False)
class ListLiteral(Node):
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True, eq=False)
class MapLiteral(Node):
    entries: tuple[tuple[Node, Node], ...]
    entry_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class MessageLiteral(Node):
    """Name{field: value}."""

    name: str
    fields: tuple[tuple[str, Node], ...]
    field_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Comprehension(Node):
    """For each `variable` of `range`: while `condition` holds, `accumulator` becomes `step`; then `result`."""

    variable: str
    range: Node
    accumulator: str
    initial: Node
    condition: Node
    step: Node
    result: Node


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed expression with what error messages need of its source."""

    source: str
    root: Node
    positions: dict[
        int, int
    ]  # node id -> the offset in code points that messages show for it (cel-go's rules)
