"""Checks of literals, after the types of an expression are inferred.

All items of a list literal must have one type, and the constant arguments of `duration`, `timestamp`, `matches` and
`format` must be valid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rewound.actors.cel.formatting import check_format, is_checked
from rewound.actors.cel.go_regexp import InvalidExpression
from rewound.actors.cel.library import compile_expression
from rewound.actors.cel.operations import CONVERSIONS
from rewound.actors.cel.syntax import (
    Call,
    Comprehension,
    Constant,
    ListLiteral,
    MapLiteral,
    MessageLiteral,
    Node,
    Select,
)
from rewound.actors.cel.types import Type, is_optional
from rewound.actors.cel.values import EvaluationError
from rewound.actors.versions.features import (
    CEL_FORMAT_CALLS,
    CEL_NAMED_GROUPS,
    CEL_STRINGS,
    CEL_VALIDATED_LITERALS,
)

Report = Callable[[Node, str], None]


def check_literals(root: Node, types: dict[int, Type], features: frozenset[str], report: Report) -> None:
    formats = CEL_STRINGS in features
    waiting = [(root, False)]
    while waiting:
        node, in_format = waiting.pop()
        match node:
            case ListLiteral() if not in_format:
                _check_list(node, types, report)
            case MapLiteral() if not in_format:
                _check_map(node, types, report)
            case Call():
                if CEL_VALIDATED_LITERALS in features:
                    _check_argument(node, features, report)
                if node.function == "format" and formats:
                    in_format = True
                    if CEL_FORMAT_CALLS in features:
                        _check_format(node, types, report)
        waiting.extend((inner, in_format) for inner in _inner(node))


def _inner(node: Node) -> Iterator[Node]:
    match node:
        case Select():
            yield node.operand
        case Call():
            if node.target is not None:
                yield node.target
            yield from node.arguments
        case ListLiteral():
            yield from node.items
        case MapLiteral():
            for entry in node.entries:
                yield from entry
        case MessageLiteral():
            for _, value in node.fields:
                yield value
        case Comprehension():
            yield from (node.range, node.initial, node.condition, node.step, node.result)


def _plain(of: Type) -> Type:
    """A wrapper of a type is as good as the type."""
    return of.parameters[0] if of.name == "wrapper" else of


def _check_list(node: ListLiteral, types: dict[int, Type], report: Report) -> None:
    first: Type | None = None
    for index, item in enumerate(node.items):
        of = _plain(types[item.id])
        if index in node.optional and is_optional(of):
            of = of.parameters[0]
        if first is None:
            first = of
        elif of != first:
            report(item, f"expected type '{first}' but found '{of}'")
            return


def _check_map(node: MapLiteral, types: dict[int, Type], report: Report) -> None:
    firsts: list[Type] = []
    for index, entry in enumerate(node.entries):
        found = [_plain(types[part.id]) for part in entry]
        if index in node.optional and is_optional(found[1]):
            found[1] = found[1].parameters[0]
        if not firsts:
            firsts = found
        for part, first, of in zip(entry, firsts, found, strict=True):
            if of != first:
                report(part, f"expected type '{first}' but found '{of}'")


def _check_argument(node: Call, features: frozenset[str], report: Report) -> None:
    if node.function not in ("duration", "timestamp", "matches") or not node.arguments:
        return
    argument = node.arguments[0]
    if not isinstance(argument, Constant):
        return
    try:
        if node.function == "matches":
            compile_expression(argument.value, named=CEL_NAMED_GROUPS in features)
        else:
            CONVERSIONS[node.function](argument.value)
    except (EvaluationError, InvalidExpression):
        report(argument, f"invalid {node.function} argument")


def _check_format(node: Call, types: dict[int, Type], report: Report) -> None:
    if not is_checked(node.target, node.arguments):
        return
    assert isinstance(node.target, Constant) and isinstance(node.arguments[0], ListLiteral)
    wrong = check_format(node, node.target.value, node.arguments[0], types)
    if wrong is not None:
        report(*wrong)
