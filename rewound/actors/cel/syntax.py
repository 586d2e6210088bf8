"""The source of a CEL expression, problems with it, and its syntax tree.

Problems have the text that cel-go prints: message, line, caret. The parser makes the tree, with macros expanded into
comprehensions.

Every node has an `id` that is unique in its expression; the results of the checker for a node (its type, the function
overloads that a call may resolve to) and of cost estimates are in dicts by that id. Operators are calls of functions
with the names that cel-go gives them: `_+_`, `_==_`, `_&&_`, `_?_:_`, `_[_]`, `@in`, `!_`, `-_`, and for optional
values `_?._` and `_[?_]`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

# If there are more problems, only their number is printed.
MOST_PROBLEMS: Final = 100

# Messages leave out source lines of more bytes.
_LONGEST_LINE: Final = 16384


@dataclass(frozen=True, slots=True)
class Location:
    line: int  # from 1
    column: int  # from 0, in code points


NOWHERE: Final = Location(-1, -1)


@dataclass(frozen=True, slots=True)
class Problem:
    location: Location
    message: str


class Source:
    """The text of an expression with its lines."""

    __slots__ = ("_starts", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = [0]
        for line in text.split("\n"):
            self._starts.append(self._starts[-1] + len(line) + 1)

    def location(self, offset: int) -> Location:
        if not self.text:
            return Location(1, -1)  # of the end of nothing
        line = 1
        for start in self._starts[1:-1]:
            if start > offset:
                break
            line += 1
        return Location(line, offset - self._starts[line - 1])

    def line(self, number: int) -> str | None:
        if not self.text or not 0 < number < len(self._starts):
            return None
        return self.text[self._starts[number - 1] : self._starts[number] - 1]


@dataclass(slots=True)
class Problems:
    """The problems of an expression. Those beyond MOST_PROBLEMS are only counted."""

    source: Source
    reported: list[Problem] = field(default_factory=list)
    count: int = 0

    def report(self, location: Location, message: str) -> None:
        self.count += 1
        if self.count <= MOST_PROBLEMS:
            self.reported.append(Problem(location, message))

    def report_at(self, offset: int, message: str) -> None:
        self.report(self.source.location(offset), message)

    def __str__(self) -> str:
        in_order = sorted(self.reported, key=lambda problem: (problem.location.line, problem.location.column))
        texts = [_display(self.source, problem) for problem in in_order]
        if self.count > MOST_PROBLEMS:
            texts.append(f"{self.count - MOST_PROBLEMS} more errors were truncated")
        return "\n".join(texts)


def _display(source: Source, problem: Problem) -> str:
    location = problem.location
    text = f"ERROR: <input>:{location.line}:{location.column + 1}: {problem.message}"
    line = source.line(location.line)
    if line is None or len(line.encode()) > _LONGEST_LINE:
        return text
    line = line.replace("\t", " ")
    column = max(location.column, 0)
    before, at = line[:column], line[column : column + 1]
    dots = "".join("." if character < "\x80" else "．" for character in before)
    caret = "^" if at < "\x80" else "＾"
    return f"{text}\n | {line}\n | {dots}{caret}"


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    id: int


@dataclass(frozen=True, slots=True, eq=False)
class Constant(Node):
    """`value` is None, a bool, an int, a float, a str, a bytes, or a `Uint` of `actors.cel.values`."""

    value: Any


@dataclass(frozen=True, slots=True, eq=False)
class Identifier(Node):
    name: str  # with a leading dot if the expression has one


@dataclass(frozen=True, slots=True, eq=False)
class Select(Node):
    """operand.field, or whether the field exists (`test_only`, from the macro has)."""

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
    optional: frozenset[int] = frozenset()  # indexes of the items that are added if they have a value: [?a]


@dataclass(frozen=True, slots=True, eq=False)
class MapLiteral(Node):
    entries: tuple[tuple[Node, Node], ...]
    optional: frozenset[int] = (
        frozenset()
    )  # indexes of the entries that are added if they have a value: {?a: b}


@dataclass(frozen=True, slots=True, eq=False)
class MessageLiteral(Node):
    """Name{field: value}."""

    name: str
    fields: tuple[tuple[str, Node], ...]
    field_ids: tuple[int, ...]
    optional: frozenset[int] = (
        frozenset()
    )  # indexes of the fields that are set if they have a value: Name{?a: b}


@dataclass(frozen=True, slots=True, eq=False)
class Comprehension(Node):
    """For each `variable` of `range`: while `condition` holds, `accumulator` becomes `step`; then `result`.

    With a `second` variable, the first one is the index or key, and the second one the item or value.
    """

    variable: str
    range: Node
    accumulator: str
    initial: Node
    condition: Node
    step: Node
    result: Node
    second: str = ""


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed expression with what error messages need of its source."""

    source: str
    root: Node
    positions: dict[
        int, int
    ]  # node id -> the offset in code points that messages show for it (by cel-go's rules)


def conjuncts(node: Node) -> Iterator[Node]:
    """The operands of `a && b && c`; any other node is the only one."""
    if isinstance(node, Call) and node.function == "_&&_":
        for one in node.arguments:
            yield from conjuncts(one)
    else:
        yield node
