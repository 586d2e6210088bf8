"""Builds the parse tree of a wrong expression, rule by rule of the grammar, as far as recovery gets.

Each rule is a generator: it yields the rules that it needs (with what follows them there) and is sent their trees. A
rule that meets a token that does not fit, and cannot recover in place, returns its tree as it is then.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field

from actors.cel.lexer import FLOAT, IDENTIFIER, INT, Token
from actors.cel.limits import DEEPEST_RULE
from actors.cel.recovery import grammar as at
from actors.cel.recovery.strategy import Mismatch, NoAlternative, Strategy
from actors.cel.source import Problems


@dataclass(slots=True)
class Tree:
    """What one rule matched. `rule` is the alternative's name where the parser got as far as choosing one."""

    rule: str
    start: Token
    first: Tree | None = None
    second: Tree | None = None
    third: Tree | None = None
    name: Token | None = None  # the identifier, or the literal's token
    operator: Token | None = None
    operators: list[Token] = field(default_factory=list)
    sign: str = ""
    items: list[Tree] = field(default_factory=list)
    values: list[Tree] = field(default_factory=list)
    names: list[Token] = field(default_factory=list)


Rule = Generator["Call", Tree, Tree]
Call = tuple[str, Callable[[], Rule], at.Kinds]


class Descent:
    def __init__(self, text: str, problems: Problems) -> None:
        self._tokens = Strategy(text, problems)
        self._depths: dict[str, int] = {}

    def start(self) -> Tree:
        return self._run(self._start())

    def _run(self, rule: Rule) -> Tree:
        """Run `rule` with the rules that it yields. A loop instead of recursion: sources can nest deeply."""
        running: list[tuple[str, Rule]] = [("start", rule)]
        tree: Tree | None = None
        while running:
            name, current = running[-1]
            try:
                called, body, following = current.send(tree)  # type: ignore[arg-type]  # None starts a generator
            except StopIteration as finished:
                tree = finished.value
                running.pop()
                self._depths[name] = self._depths.get(name, 1) - 1
                if running:
                    self._tokens.open_rules.pop()
                continue
            tree = None
            self._tokens.open_rules.append(following)
            depth = self._depths[called] = self._depths.get(called, 0) + 1
            if depth >= DEEPEST_RULE:
                self._tokens.abandon(f"expression recursion limit exceeded: {DEEPEST_RULE}")
            running.append((called, body()))
        assert tree is not None
        return tree

    def _start(self) -> Rule:
        tree = Tree("start", self._tokens.look())
        try:
            tree.first = yield self._expression(at.AFTER_EXPRESSION_IN_START)
            self._tokens.match("<EOF>", at.END_OF_START)
        except (Mismatch, NoAlternative) as error:
            self._tokens.give_up(error)
        return tree

    def _expression(self, following: at.Kinds) -> Call:
        return ("expr", self._expression_rule, following)

    def _expression_rule(self) -> Rule:
        tokens = self._tokens
        tree = Tree("expr", tokens.look())
        try:
            tree.first = yield ("conditionalOr", self._either, at.AFTER_CONDITION)
            if tokens.kind == "?":
                tree.operator = tokens.match("?", at.QUESTION)
                tree.second = yield ("conditionalOr", self._either, at.AFTER_THEN)
                tokens.match(":", at.ELSE)
                tree.third = yield self._expression(at.AFTER_ELSE)
        except (Mismatch, NoAlternative) as error:
            tokens.give_up(error)
        return tree

    def _either(self) -> Rule:
        tree = Tree("conditionalOr", self._tokens.look())
        tree.items.append((yield ("conditionalAnd", self._both, at.AFTER_AND)))
        while self._tokens.kind == "||":
            tree.operators.append(self._tokens.match("||", at.OR))
            tree.items.append((yield ("conditionalAnd", self._both, at.AFTER_AND)))
        return tree

    def _both(self) -> Rule:
        tree = Tree("conditionalAnd", self._tokens.look())
        tree.items.append((yield ("relation", self._relation, at.AFTER_RELATION_IN_AND)))
        while self._tokens.kind == "&&":
            tree.operators.append(self._tokens.match("&&", at.AND))
            tree.items.append((yield ("relation", self._relation, at.AFTER_RELATION_IN_AND)))
        return tree

    def _relation(self) -> Rule:
        tree = yield from self._relation_operand()
        while self._tokens.kind in at.RELATIONS:
            tree = Tree("binary", tree.start, first=tree)
            tree.operator = self._tokens.match(self._tokens.kind, at.RELATION)
            tree.second = yield ("relation", self._relation_operand, at.AFTER_OPERAND_OF_RELATION)
        return tree

    def _relation_operand(self) -> Rule:
        tree = Tree("relation", self._tokens.look())
        tree.first = yield ("calc", self._sum, at.AFTER_OPERAND_OF_RELATION)
        return tree

    def _sum(self) -> Rule:
        return self._calculation(0)

    def _calculation(self, precedence: int) -> Rule:
        """Operators of at least `precedence`, from the left: products have 2, sums 1."""
        tree = Tree("calc", self._tokens.look())
        tree.first = yield ("unary", self._unary, at.AFTER_OPERAND_OF_CALC)
        while True:
            kind = self._tokens.kind
            if kind in at.PRODUCTS and precedence <= 2:
                place, inner = at.PRODUCT, 3
            elif kind in at.SUMS and precedence <= 1:
                place, inner = at.SUM, 2
            else:
                return tree
            tree = Tree("binary", tree.start, first=tree)
            tree.operator = self._tokens.match(kind, place)
            body = self._product_operand if inner == 3 else self._sum_operand
            tree.second = yield ("calc", body, at.AFTER_OPERAND_OF_CALC)

    def _product_operand(self) -> Rule:
        return self._calculation(3)

    def _sum_operand(self) -> Rule:
        return self._calculation(2)

    def _unary(self) -> Rule:
        tokens = self._tokens
        tree = Tree("unary", tokens.look())
        try:
            tokens.sync(at.BEFORE_UNARY)
            tree.rule = self._choose_unary()
            if tree.rule == "LogicalNot":
                tokens.sync(at.BEFORE_NOTS)
                self._operators("!", at.NOT, at.AFTER_NOT, tree)
            elif tree.rule == "Negate":
                tokens.sync(at.BEFORE_NEGATES)
                self._operators("-", at.NEGATE, at.AFTER_NEGATE, tree)
            tree.first = yield ("member", self._member, at.AFTER_MEMBER)
        except (Mismatch, NoAlternative) as error:
            tokens.give_up(error)
        return tree

    def _choose_unary(self) -> str:
        """A minus in front of a number belongs to the literal; in front of what cannot be negated nothing fits."""
        kind = self._tokens.kind
        if kind == "!":
            return "LogicalNot"
        if kind == "-":
            behind = self._tokens.look(1)
            if behind.kind in (INT, FLOAT):
                return "MemberExpr"
            if behind.kind in at.PRIMARY:
                return "Negate"
            raise NoAlternative(at.BEFORE_UNARY, behind)
        if kind in at.PRIMARY:
            return "MemberExpr"
        raise NoAlternative(at.BEFORE_UNARY, self._tokens.look())

    def _operators(self, kind: str, place: at.Place, behind: at.Place, tree: Tree) -> None:
        tokens = self._tokens
        while True:
            tree.operators.append(tokens.match(kind, place))
            tokens.sync(behind)
            if tokens.kind == kind:
                after = tokens.look(1)
                if kind == "-" and after.kind not in at.PRIMARY:
                    raise NoAlternative(behind, after)
            elif kind == "-" and tokens.kind not in at.PRIMARY:
                raise NoAlternative(behind, tokens.look())
            else:
                return

    def _member(self) -> Rule:
        tokens = self._tokens
        tree = Tree("PrimaryExpr", tokens.look())
        try:
            tree.first = yield ("primary", self._primary, at.AFTER_PRIMARY)
            while True:
                kind = tokens.kind
                if kind == ".":
                    tree = Tree("SelectOrCall", tree.start, first=tree)
                    yield from self._select(tree)
                elif kind == "[":
                    tree = Tree("Index", tree.start, first=tree)
                    tree.operator = tokens.match("[", at.INDEX_OPEN)
                    tree.second = yield self._expression(at.AFTER_INDEX)
                    tokens.match("]", at.INDEX_CLOSE)
                elif kind == "{":
                    tree = Tree("CreateMessage", tree.start, first=tree)
                    yield from self._message(tree)
                else:
                    return tree
        except (Mismatch, NoAlternative) as error:
            tokens.give_up(error)
        return tree

    def _select(self, tree: Tree) -> Generator[Call, Tree, None]:
        tokens = self._tokens
        tree.operator = tokens.match(".", at.SELECT_DOT)
        tree.name = tokens.match(IDENTIFIER, at.SELECT_NAME)
        if tokens.kind == "(":
            tree.operators.append(tokens.match("(", at.SELECT_OPEN))
            yield from self._arguments(tree, at.BEFORE_SELECT_ARGUMENTS, at.SELECT_CLOSE)

    def _arguments(self, tree: Tree, before: at.Place, close: at.Place) -> Generator[Call, Tree, None]:
        self._tokens.sync(before)
        if self._tokens.kind in at.EXPRESSION:
            tree.items = (yield ("exprList", self._items, at.AFTER_ARGUMENTS)).items
        self._tokens.match(")", close)

    def _message(self, tree: Tree) -> Generator[Call, Tree, None]:
        tokens = self._tokens
        tree.operator = tokens.match("{", at.MESSAGE_OPEN)
        tokens.sync(at.BEFORE_FIELDS)
        if tokens.kind == IDENTIFIER:
            tree.second = yield ("fieldInitializerList", self._fields, at.AFTER_ENTRIES)
        tokens.sync(at.BEFORE_MESSAGE_COMMA)
        if tokens.kind == ",":
            tokens.match(",", at.MESSAGE_COMMA)
        tokens.match("}", at.MESSAGE_CLOSE)

    def _primary(self) -> Rule:
        tokens = self._tokens
        tree = Tree("primary", tokens.look())
        try:
            tokens.sync(at.BEFORE_PRIMARY)
            kind = tokens.kind
            if kind == "." or kind == IDENTIFIER:
                yield from self._identifier(tree)
            elif kind == "(":
                tree.rule = "Nested"
                tokens.match("(", at.NESTED_OPEN)
                tree.first = yield self._expression(at.AFTER_NESTED)
                tokens.match(")", at.NESTED_CLOSE)
            elif kind == "[":
                yield from self._list(tree)
            elif kind == "{":
                yield from self._map(tree)
            elif kind in at.LITERAL:
                tree.rule = "ConstantLiteral"
                tokens.open_rules.append(at.AFTER_LITERAL)
                tree.first = self._literal()
                tokens.open_rules.pop()
            else:
                raise NoAlternative(at.BEFORE_PRIMARY, tokens.look())
        except (Mismatch, NoAlternative) as error:
            tokens.give_up(error)
        return tree

    def _identifier(self, tree: Tree) -> Generator[Call, Tree, None]:
        tokens = self._tokens
        tree.rule = "IdentOrGlobalCall"
        tokens.sync(at.BEFORE_NAME)
        if tokens.kind == ".":
            tree.operator = tokens.match(".", at.LEADING_DOT)
        tree.name = tokens.match(IDENTIFIER, at.NAME)
        if tokens.kind == "(":
            tree.operators.append(tokens.match("(", at.CALL_OPEN))
            yield from self._arguments(tree, at.BEFORE_CALL_ARGUMENTS, at.CALL_CLOSE)

    def _list(self, tree: Tree) -> Generator[Call, Tree, None]:
        tokens = self._tokens
        tree.rule = "CreateList"
        tree.operator = tokens.match("[", at.LIST_OPEN)
        tokens.sync(at.BEFORE_ELEMENTS)
        if tokens.kind in at.EXPRESSION:
            tree.items = (yield ("exprList", self._items, at.AFTER_ELEMENTS)).items
        tokens.sync(at.BEFORE_LIST_COMMA)
        if tokens.kind == ",":
            tokens.match(",", at.LIST_COMMA)
        tokens.match("]", at.LIST_CLOSE)

    def _map(self, tree: Tree) -> Generator[Call, Tree, None]:
        tokens = self._tokens
        tree.rule = "CreateStruct"
        tree.operator = tokens.match("{", at.MAP_OPEN)
        tokens.sync(at.BEFORE_ENTRIES)
        if tokens.kind in at.EXPRESSION:
            tree.second = yield ("mapInitializerList", self._entries, at.AFTER_ENTRIES)
        tokens.sync(at.BEFORE_MAP_COMMA)
        if tokens.kind == ",":
            tokens.match(",", at.MAP_COMMA)
        tokens.match("}", at.MAP_CLOSE)

    def _items(self) -> Rule:
        tokens = self._tokens
        tree = Tree("exprList", tokens.look())
        tree.items.append((yield self._expression(at.AFTER_ITEM)))
        while tokens.kind == "," and tokens.look(1).kind in at.EXPRESSION:
            tokens.match(",", at.ITEM_COMMA)
            tree.items.append((yield self._expression(at.AFTER_ITEM)))
        return tree

    def _fields(self) -> Rule:
        tokens = self._tokens
        tree = Tree("fieldInitializerList", tokens.look())
        try:
            tree.names.append(tokens.match(IDENTIFIER, at.FIELD_NAME))
            tree.operators.append(tokens.match(":", at.FIELD_COLON))
            tree.values.append((yield self._expression(at.AFTER_ITEM)))
            while tokens.kind == "," and tokens.look(1).kind == IDENTIFIER:
                tokens.match(",", at.FIELD_COMMA)
                tree.names.append(tokens.match(IDENTIFIER, at.NEXT_FIELD_NAME))
                tree.operators.append(tokens.match(":", at.NEXT_FIELD_COLON))
                tree.values.append((yield self._expression(at.AFTER_ITEM)))
        except (Mismatch, NoAlternative) as error:
            tokens.give_up(error)
        return tree

    def _entries(self) -> Rule:
        tokens = self._tokens
        tree = Tree("mapInitializerList", tokens.look())
        try:
            tree.items.append((yield self._expression(at.AFTER_KEY)))
            tree.operators.append(tokens.match(":", at.ENTRY_COLON))
            tree.values.append((yield self._expression(at.AFTER_ITEM)))
            while tokens.kind == "," and tokens.look(1).kind in at.EXPRESSION:
                tokens.match(",", at.ENTRY_COMMA)
                tree.items.append((yield self._expression(at.AFTER_KEY)))
                tree.operators.append(tokens.match(":", at.NEXT_ENTRY_COLON))
                tree.values.append((yield self._expression(at.AFTER_ITEM)))
        except (Mismatch, NoAlternative) as error:
            tokens.give_up(error)
        return tree

    def _literal(self) -> Tree:
        tokens = self._tokens
        tree = Tree("literal", tokens.look())
        try:
            tokens.sync(at.BEFORE_LITERAL)
            behind = tokens.look(1) if tokens.kind == "-" else tokens.look()
            if behind.kind not in (at.LITERALS if tokens.kind != "-" else (INT, FLOAT)):
                raise NoAlternative(at.BEFORE_LITERAL, behind)
            if tokens.kind == "-":
                tree.sign = tokens.match("-", at.SIGN).text
            tree.name = tokens.match(behind.kind, at.LITERALS[behind.kind])
            tree.rule = behind.kind
        except (Mismatch, NoAlternative) as error:
            tokens.give_up(error)
        return tree
