"""Parses a CEL expression into its syntax tree, macros expanded.

This parser accepts only correct expressions: one pass of recursive descent over the tokens. If it fails, `recovery`
parses the source again in the manner of cel-go's generated parser, and returns the problems that cel-go prints. Both
bound the depth of an expression by the same number (`MOST_VISITS`): cel-go counts the nested steps of the walk over
its parse tree, one for each grammar rule on the way to a node, so every function here records in `height` how many
steps its node needs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

from rewound.actors.cel import recovery
from rewound.actors.cel.language import Language
from rewound.actors.cel.lexer import (
    BYTES,
    END,
    FLOAT,
    IDENTIFIER,
    INT,
    LONGEST_EXPRESSION,
    MOST_VISITS,
    RESERVED,
    STRING,
    UINT,
    Token,
    bytes_of,
    double_of,
    int_of,
    string_of,
    tokenize,
    uint_of,
)
from rewound.actors.cel.macros import Builder, MacroError
from rewound.actors.cel.syntax import (
    NOWHERE,
    Constant,
    Expression,
    Identifier,
    ListLiteral,
    MapLiteral,
    MessageLiteral,
    Node,
    Problems,
    Select,
    Source,
)
from rewound.actors.versions.features import CEL_CODE_POINTS, CEL_OPTIONALS, TYPES_IN_WORDS

_RELATIONS: Final = {
    "==": "_==_",
    "!=": "_!=_",
    "in": "@in",
    "<": "_<_",
    "<=": "_<=_",
    ">=": "_>=_",
    ">": "_>_",
}
_SUMS: Final = {"+": "_+_", "-": "_-_"}
_PRODUCTS: Final = {"*": "_*_", "/": "_/_", "%": "_%_"}

# Later versions of cel-go count only the steps of operators, selections and indexes, and separately how often each
# grammar rule is within itself. Here brackets count too: an expression that seems too deep is parsed again in the
# manner of cel-go, and is correct if that finds no problem.
_DEEPEST_OF_ALL: Final = 4 * MOST_VISITS
# Calls of Python for an expression in that many brackets: parsing takes ten for each of them, and needs no C stack.
_CALLS: Final = 20 * MOST_VISITS
if sys.getrecursionlimit() < _CALLS:
    sys.setrecursionlimit(_CALLS)
# Deeper brackets cannot stay within MOST_VISITS: every level takes six steps. This bounds the recursion.
_DEEPEST_BRACKETS: Final = MOST_VISITS // 6 + 1


class _NotUnderstood(Exception):
    """The source is not a correct expression."""


def parse(source: str, language: Language) -> Expression | Problems:
    if len(source) > LONGEST_EXPRESSION:
        problems = Problems(Source(source))
        size = f"size: {len(source)}, limit {LONGEST_EXPRESSION}"
        problems.report(NOWHERE, f"expression code point size exceeds limit: {size}")
        return problems
    tokens, unrecognized = tokenize(source)
    if unrecognized:
        return recovery.explain(source, language.features)
    parser = _Parser(tokens, language.features)
    try:
        root = parser.start()
    except (_NotUnderstood, MacroError):
        problems = recovery.explain(source, language.features)
        if problems.count:
            return problems
        parser = _Parser(tokens, language.features, deepest=_DEEPEST_OF_ALL)
        try:
            root = parser.start()
        except (_NotUnderstood, MacroError):
            problems.report(NOWHERE, "Syntax error")
            return problems
    return Expression(source, root, parser.build.positions)


class _Parser:
    __slots__ = (
        *(
            "_brackets",
            "_deepest",
            "_has_optionals",
            "_index",
            "_step",
            "_surrogates",
            "_tokens",
            "build",
            "height",
            "kind",
        ),
    )

    def __init__(self, tokens: list[Token], features: frozenset[str], deepest: int = MOST_VISITS) -> None:
        self._tokens = tokens
        self._deepest = deepest
        self._step = 0 if TYPES_IN_WORDS in features else 1  # of a grammar rule that only passes on a node
        self._has_optionals = CEL_OPTIONALS in features
        self._surrogates = CEL_CODE_POINTS not in features
        self._index = 0
        self._brackets = 0
        self.kind = tokens[0].kind  # of the next token
        self.height = 0
        self.build = Builder(features)

    def start(self) -> Node:
        root = self._expression()
        if self.kind != END or self.height + 1 > self._deepest:
            raise _NotUnderstood
        return root

    def _next(self) -> Token:
        token = self._tokens[self._index]
        if token.kind == END:
            raise _NotUnderstood
        self._index += 1
        self.kind = self._tokens[self._index].kind
        return token

    def _expect(self, kind: str) -> Token:
        if self.kind != kind:
            raise _NotUnderstood
        return self._next()

    def _expression(self) -> Node:
        """Parse conditions. `a ? b : c ? d : e` nest to the right: collect them, then make the calls from the last
        one.
        """
        node = self._either()
        if self.kind != "?":
            self.height += self._step
            return node
        conditions: list[tuple[int, Node, Node, int]] = []
        while self.kind == "?":
            height = self.height
            offset = self._next().offset
            then = self._either()
            conditions.append((offset, node, then, max(height, self.height)))
            self._expect(":")
            node = self._either()
        self.height += self._step
        for offset, condition, then, height in reversed(conditions):
            node = self.build.call(offset, "_?_:_", condition, then, node)
            self.height = 1 + max(height, self.height)
        return node

    def _either(self) -> Node:
        node = self._both()
        height = self.height
        if self.kind == "||":
            terms, offsets = [node], []
            while self.kind == "||":
                offsets.append(self._next().offset)
                terms.append(self._both())
                height = max(height, self.height)
            node = self.build.balanced("_||_", terms, offsets)
        self.height = height + self._step
        return node

    def _both(self) -> Node:
        node = self._relation()
        height = self.height
        if self.kind == "&&":
            terms, offsets = [node], []
            while self.kind == "&&":
                offsets.append(self._next().offset)
                terms.append(self._relation())
                height = max(height, self.height)
            node = self.build.balanced("_&&_", terms, offsets)
        self.height = height + self._step
        return node

    def _relation(self) -> Node:
        node = self._sum()
        height = self.height + self._step
        while self.kind in _RELATIONS:
            token = self._next()
            right = self._sum()
            node = self.build.call(token.offset, _RELATIONS[token.kind], node, right)
            height = 1 + max(height, self.height + self._step)
        self.height = height
        return node

    def _sum(self) -> Node:
        node = self._product()
        while self.kind in _SUMS:
            token, height = self._next(), self.height
            right = self._product()
            node = self.build.call(token.offset, _SUMS[token.kind], node, right)
            self.height = 1 + max(height, self.height)
        return node

    def _product(self) -> Node:
        node = self._unary()
        self.height += self._step
        while self.kind in _PRODUCTS:
            token, height = self._next(), self.height
            right = self._unary()
            node = self.build.call(token.offset, _PRODUCTS[token.kind], node, right)
            self.height = 1 + max(height, self.height + self._step)
        return node

    def _unary(self) -> Node:
        kind = self.kind
        if (kind != "!" and kind != "-") or (
            kind == "-" and self._tokens[self._index + 1].kind in (INT, FLOAT)
        ):
            node = self._member()
            self.height += self._step
            return node
        offset, count = self._tokens[self._index].offset, 0
        while self.kind == kind:
            self._next()
            count += 1
        node = self._member()
        self.height += 2 * self._step
        return self.build.call(offset, f"{kind}_", node) if count % 2 else node

    def _member(self) -> Node:
        node = self._primary()
        while True:
            kind, height = self.kind, self.height + 1
            self.height = 0
            if kind == ".":
                node = self._select(node)
            elif kind == "[":
                offset = self._next().offset
                function = "_[?_]" if self._optional() else "_[_]"
                index = self._inner()
                self._expect("]")
                node = self.build.call(offset, function, node, index)
            elif kind == "{":
                node = self._message(node)
            else:
                self.height = height - 1
                return node
            self.height = max(height, self.height)
            if self.height > self._deepest:
                raise _NotUnderstood

    def _select(self, operand: Node) -> Node:
        dot = self._next().offset
        is_optional = self._optional()
        name = self._expect(IDENTIFIER)
        if is_optional:
            return self.build.call(dot, "_?._", operand, self.build.constant(name.offset, name.text))
        if self.kind != "(":
            return Select(self.build.id_at(dot), operand, name.text)
        offset = self._next().offset
        return self.build.receiver_call(offset, name.text, operand, self._items(")")[0])

    def _optional(self) -> bool:
        """Whether a question mark is next: what follows it is optional."""
        if self.kind != "?" or not self._has_optionals:
            return False
        self._next()
        return True

    def _message(self, named: Node) -> Node:
        offset = self._next().offset
        name = _qualified_name(named)
        fields: list[tuple[str, Node]] = []
        ids: list[int] = []
        optional: list[int] = []
        height = 0
        while self.kind in (IDENTIFIER, "?"):
            if self._optional():
                optional.append(len(fields))
            field = self._expect(IDENTIFIER).text
            ids.append(self.build.id_at(self._expect(":").offset))
            fields.append((field, self._inner()))
            height = max(height, self.height)
            if self.kind != ",":
                break
            self._next()
        else:
            if not fields and self.kind == ",":
                self._next()
        self._expect("}")
        self.height = height
        return MessageLiteral(self.build.id_at(offset), name, tuple(fields), tuple(ids), frozenset(optional))

    def _primary(self) -> Node:
        kind = self.kind
        if kind == IDENTIFIER or kind == ".":
            return self._identifier()
        if kind == "(":
            self._next()
            node = self._inner()
            self._expect(")")
            return node
        if kind == "[":
            offset = self._next().offset
            number = self.build.id_at(offset)
            return ListLiteral(number, *self._items("]"))
        if kind == "{":
            return self._map()
        self.height = 0
        return self._literal()

    def _identifier(self) -> Node:
        prefix = "." if self.kind == "." and self._next() else ""
        token = self._expect(IDENTIFIER)
        if token.text in RESERVED:
            raise _NotUnderstood
        name = prefix + token.text
        if self.kind == "(":
            offset = self._next().offset
            return self.build.global_call(offset, name, self._items(")")[0])
        self.height = 0
        return Identifier(self.build.id_at(token.offset), name)

    def _items(self, closing: str) -> tuple[tuple[Node, ...], frozenset[int]]:
        """Parse expressions up to the closing bracket; return them, and the indexes of those that are optional.

        A list may end with a comma and have optional items, arguments may not.
        """
        items: list[Node] = []
        optional: list[int] = []
        height = 0
        while self.kind != closing:
            if self.kind == "," and not items:
                break
            if closing == "]" and self._optional():
                optional.append(len(items))
            items.append(self._inner())
            height = max(height, self.height)
            if self.kind != ",":
                break
            if self._tokens[self._index + 1].kind == closing:
                break
            self._next()
        if self.kind == "," and closing == "]":
            self._next()
        self._expect(closing)
        self.height = height
        return tuple(items), frozenset(optional)

    def _map(self) -> Node:
        offset = self._next().offset
        entries: list[tuple[Node, Node]] = []
        optional: list[int] = []
        height = 0
        while self.kind != "}" and not (self.kind == "," and not entries):
            if self._optional():
                optional.append(len(entries))
            key = self._inner()
            height = max(height, self.height + 1)
            self._expect(":")
            entries.append((key, self._inner()))
            height = max(height, self.height + 1)
            if self.kind != ",":
                break
            self._next()
        else:
            if self.kind == ",":
                self._next()
        self._expect("}")
        self.height = height
        return MapLiteral(self.build.id_at(offset), tuple(entries), frozenset(optional))

    def _literal(self) -> Constant:
        sign, token = "", self._next()
        offset = token.offset
        if token.kind == "-":
            sign, token = "-", self._next()
            if token.kind not in (INT, FLOAT):
                raise _NotUnderstood
        read = _LITERALS.get(token.kind)
        if read is None:
            raise _NotUnderstood
        if token.kind == STRING and not self._surrogates:
            value: Any = string_of(token.text, surrogates=False)
        else:
            value = read(sign, token.text)
        if value is None and token.kind != "null":
            raise _NotUnderstood
        return self.build.constant(offset, value)

    def _inner(self) -> Node:
        """Parse an expression within brackets."""
        self._brackets += 1
        if self._brackets > (_DEEPEST_BRACKETS if self._step else MOST_VISITS):
            raise _NotUnderstood
        node = self._expression()
        self._brackets -= 1
        self.height += 1 - self._step
        return node


_LITERALS: Final[dict[str, Callable[[str, str], Any]]] = {
    INT: lambda sign, text: int_of(text, sign),
    UINT: lambda sign, text: uint_of(text),
    FLOAT: lambda sign, text: double_of(text, sign),
    STRING: lambda sign, text: string_of(text),
    BYTES: lambda sign, text: bytes_of(text),
    "true": lambda sign, text: True,
    "false": lambda sign, text: False,
    "null": lambda sign, text: None,
}


def _qualified_name(node: Node) -> str:
    names: list[str] = []
    while isinstance(node, Select):
        names.append(node.field)
        node = node.operand
    if not isinstance(node, Identifier):
        raise _NotUnderstood
    names.append(node.name)
    return ".".join(reversed(names))
