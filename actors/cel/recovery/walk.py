"""Walks over the parse tree of a wrong expression and reports what cel-go's own walk does besides syntax errors."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from actors.cel.lexer import BYTES, FLOAT, INT, STRING, UINT
from actors.cel.limits import MOST_VISITS, RESERVED
from actors.cel.literals import bytes_of, double_of, int_of, string_of, uint_of
from actors.cel.macros import Builder, MacroError
from actors.cel.recovery.descent import Tree
from actors.cel.recovery.strategy import Abandoned
from actors.cel.source import NOWHERE, Problems
from actors.cel.syntax import Identifier, Node, Select

Visit = Generator["Tree | None", Node, Node]

_INVALID: Final = {
    INT: "invalid int literal",
    UINT: "invalid uint literal",
    FLOAT: "invalid double literal",
    STRING: "unable to unescape string",
    BYTES: "unable to unescape string",
}


class Walk:
    """Visits are generators that a loop runs: they yield the trees to visit next and are sent what those became."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._build = Builder()

    def start(self, tree: Tree) -> None:
        first = self._visit(tree)
        running = [] if isinstance(first, Node) else [first]
        node: Node | None = None
        while running:
            try:
                inner = running[-1].send(node)  # type: ignore[arg-type]  # None starts a generator
            except StopIteration as finished:
                node = finished.value
                running.pop()
                continue
            node = None
            if len(running) >= MOST_VISITS:
                self._problems.report(NOWHERE, "max recursion depth exceeded")
                raise Abandoned
            visit = self._visit(inner)
            if isinstance(visit, Node):
                node = visit
            else:
                running.append(visit)

    def _visit(self, tree: Tree | None) -> Visit | Node:
        if tree is None:
            return self._nothing(-1)
        rule = tree.rule
        if rule == "start" or rule == "relation" or rule == "calc":
            return self._pass(tree)
        if rule == "expr":
            return self._conditional(tree)
        if rule == "conditionalOr" or rule == "conditionalAnd":
            return self._logical(tree)
        if rule == "binary":
            return self._binary(tree)
        if rule == "MemberExpr":
            return self._member(tree.first)
        if rule == "LogicalNot" or rule == "Negate":
            return self._negated(tree)
        if rule == "mapInitializerList":
            return self._entries(tree)
        if rule == "unary":
            return self._nothing(tree.start.offset)
        return self._member(tree)

    def _nothing(self, offset: int) -> Node:
        return Node(self._build.id_at(offset))

    def _pass(self, tree: Tree) -> Visit:
        return (yield tree.first)

    def _conditional(self, tree: Tree) -> Visit:
        condition = yield tree.first
        if tree.operator is None:
            return condition
        then = yield tree.second
        otherwise = yield tree.third
        return self._build.call(tree.operator.offset, "_?_:_", condition, then, otherwise)

    def _logical(self, tree: Tree) -> Visit:
        terms: list[Node] = []
        for item in tree.items:
            terms.append((yield item))
        function = "_||_" if tree.rule == "conditionalOr" else "_&&_"
        return self._build.balanced(function, terms, [operator.offset for operator in tree.operators])

    def _binary(self, tree: Tree) -> Visit:
        assert tree.operator is not None
        left = yield tree.first
        right = yield tree.second
        return self._build.call(tree.operator.offset, tree.operator.text, left, right)

    def _negated(self, tree: Tree) -> Visit:
        operand = yield tree.first
        if len(tree.operators) % 2 == 0:
            return operand
        return self._build.call(tree.operators[0].offset, tree.operators[0].text, operand)

    def _member(self, tree: Tree | None) -> Visit | Node:
        assert tree is not None
        if tree.rule == "PrimaryExpr":
            assert tree.first is not None
            return self._primary(tree.first)
        if tree.rule == "SelectOrCall":
            return self._select(tree)
        if tree.rule == "Index":
            return self._index(tree)
        return self._message(tree)

    def _select(self, tree: Tree) -> Visit:
        operand = yield tree.first
        if tree.name is None or tree.operator is None:
            return self._nothing(tree.start.offset)
        if not tree.operators:
            return Select(self._build.id_at(tree.operator.offset), operand, tree.name.text)
        arguments = yield from self._all(tree.items)
        offset = tree.operators[0].offset
        try:
            return self._build.receiver_call(offset, tree.name.text, operand, tuple(arguments))
        except MacroError as error:
            return self._wrong(error.offset, error.message)

    def _index(self, tree: Tree) -> Visit:
        assert tree.operator is not None
        target = yield tree.first
        index = yield tree.second
        return self._build.call(tree.operator.offset, "_[_]", target, index)

    def _message(self, tree: Tree) -> Visit:
        assert tree.operator is not None
        named = yield tree.first
        if self._is_qualified_name(named) and tree.second is not None:
            fields = tree.second
            for value, _ in zip(fields.values, fields.operators, strict=False):
                yield value
        return Node(self._build.id_at(tree.operator.offset))

    def _is_qualified_name(self, node: Node) -> bool:
        """Report the first part that is no name, and everything selected of it."""
        selected: list[Node] = []
        while isinstance(node, Select):
            selected.append(node)
            node = node.operand
        if isinstance(node, Identifier):
            return True
        for wrong in (node, *reversed(selected)):
            self._problems.report_at(self._build.positions[wrong.id], "expected a qualified name")
        return False

    def _primary(self, tree: Tree) -> Visit | Node:
        if tree.rule == "Nested":
            return self._pass(tree)
        if tree.rule == "IdentOrGlobalCall":
            return self._identifier(tree)
        if tree.rule == "CreateList":
            return self._list(tree)
        if tree.rule == "CreateStruct":
            return self._map(tree)
        if tree.rule == "ConstantLiteral":
            return self._literal(tree)
        return self._wrong(tree.start.offset, "invalid primary expression")

    def _identifier(self, tree: Tree) -> Visit:
        if tree.name is None:
            return self._nothing(tree.start.offset)
        name = tree.name.text
        if name in RESERVED:
            return self._wrong(tree.start.offset, f"reserved identifier: {name}")
        if tree.operator is not None:
            name = f".{name}"
        if not tree.operators:
            return Identifier(self._build.id_at(tree.name.offset), name)
        arguments = yield from self._all(tree.items)
        try:
            return self._build.global_call(tree.operators[0].offset, name, tuple(arguments))
        except MacroError as error:
            return self._wrong(error.offset, error.message)

    def _list(self, tree: Tree) -> Visit:
        yield from self._all(tree.items)
        return self._nothing(tree.start.offset)

    def _map(self, tree: Tree) -> Visit:
        if tree.second is not None:
            yield tree.second
        return self._nothing(tree.start.offset)

    def _entries(self, tree: Tree) -> Visit:
        for number, _ in enumerate(tree.operators):
            if number >= len(tree.values):
                break
            yield tree.items[number]
            yield tree.values[number]
        return self._nothing(tree.start.offset)

    def _literal(self, tree: Tree) -> Node:
        literal = tree.first
        assert literal is not None
        if literal.name is None or literal.rule == "literal":
            return self._wrong(tree.start.offset, "invalid literal")
        message = _INVALID.get(literal.rule)
        if message is not None and _value(literal.rule, literal.sign, literal.name.text) is None:
            return self._wrong(tree.start.offset, message)
        return self._nothing(tree.start.offset)

    def _all(self, trees: list[Tree]) -> Generator[Tree | None, Node, list[Node]]:
        nodes: list[Node] = []
        for tree in trees:
            nodes.append((yield tree))
        return nodes

    def _wrong(self, offset: int, message: str) -> Node:
        self._problems.report_at(offset, message)
        return Node(self._build.id_at(offset))


def _value(kind: str, sign: str, text: str) -> object:
    if kind == INT:
        return int_of(text, sign)
    if kind == UINT:
        return uint_of(text)
    if kind == FLOAT:
        return double_of(text, sign)
    return string_of(text) if kind == STRING else bytes_of(text)
