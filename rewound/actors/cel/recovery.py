"""What is wrong with an expression that the parser refuses, in the words of cel-go's generated parser.

cel-go parses with ANTLR, which continues after a syntax error (it deletes or inserts a token, or skips tokens up to
one that can follow), reports further errors that way, and then still walks over what it could build, which finds
invalid literals, reserved names and wrong arguments of macros. This module does the same: it has the token sets of
every place of the grammar (below), `Strategy` reports and recovers as ANTLR's default error strategy does within
cel-go's limits, `Descent` builds the parse tree, `Walk` walks over it.

It is slower than the parser and runs only for invalid expressions. No step is recursive in Python: rules are
generators that a loop runs, so that only cel-go's limits bound the nesting. A generator yields the rules that it
needs (with what follows them there) and is sent their trees. A rule that meets a token that does not fit, and cannot
recover in place, returns its tree as it is then.

A token that does not fit is deleted if the next one fits; otherwise the expected one is inserted if the token can
follow it; otherwise the rule is given up: tokens are skipped up to one that can follow a rule that is still open. No
further error is reported between an error and the next token that fits.

    start: expr EOF
    expr: conditionalOr ('?' conditionalOr ':' expr)?
    conditionalOr: conditionalAnd ('||' conditionalAnd)*
    conditionalAnd: relation ('&&' relation)*
    relation: calc | relation ('<'|'<='|'>='|'>'|'=='|'!='|'in') relation
    calc: unary | calc ('*'|'/'|'%') calc | calc ('+'|'-') calc
    unary: member | '!'+ member | '-'+ member
    member: primary | member '.' IDENTIFIER ('(' exprList? ')')? | member '.' '?'? (IDENTIFIER | ESC_IDENTIFIER)
        | member '[' '?'? expr ']'
        | member '{' fieldInitializerList? ','? '}'
    primary: '.'? IDENTIFIER ('(' exprList? ')')? | '(' expr ')' | '[' exprList? ','? ']'
        | '{' mapInitializerList? ','? '}' | literal
    exprList: expr (',' expr)*
    fieldInitializerList: IDENTIFIER ':' expr (',' IDENTIFIER ':' expr)*
    mapInitializerList: expr ':' expr (',' expr ':' expr)*
    literal: '-'? NUM_INT | NUM_UINT | '-'? NUM_FLOAT | STRING | BYTES | 'true' | 'false' | 'null'
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Final, NoReturn

from rewound.actors.cel.lexer import (
    BYTES,
    DEEPEST_RULE,
    END,
    ESCAPED,
    FLOAT,
    IDENTIFIER,
    INT,
    MOST_RECOVERIES,
    MOST_SKIPPED_TOKENS,
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
    Identifier,
    ListLiteral,
    MapLiteral,
    Node,
    Problems,
    Select,
    Source,
)
from rewound.actors.versions.features import CEL_CODE_POINTS, CEL_OPTIONALS, TYPES_IN_WORDS

# In a set of tokens: the rule may end here, so whatever can follow the rule is allowed too.
RULE_END: Final = ""

_NAMES: Final = (
    END,
    *(
        "==",
        "!=",
        "in",
        "<",
        "<=",
        ">=",
        ">",
        "&&",
        "||",
        "[",
        "]",
        "{",
        "}",
        "(",
        ")",
        ".",
        ",",
        "-",
        "!",
        "?",
        ":",
    ),
    *("+", "*", "/", "%", "true", "false", "null", FLOAT, INT, UINT, STRING, BYTES, IDENTIFIER, ESCAPED),
)
# In a set of tokens: a question mark where later versions have optional values.
OPTIONAL: Final = "optional"

_ORDER: Final = {kind: number for number, kind in enumerate(_NAMES)}
_UNQUOTED: Final = {END, FLOAT, INT, UINT, STRING, BYTES, IDENTIFIER, ESCAPED}

Kinds = frozenset[str]


def _kinds(*kinds: str) -> Kinds:
    return frozenset(kinds)


def listed(kinds: Kinds) -> str:
    """Format a set of tokens as messages print it: one token, or several in braces in the order of the grammar."""
    names = [kind if kind in _UNQUOTED else f"'{kind}'" for kind in sorted(kinds, key=_ORDER.__getitem__)]
    return names[0] if len(names) == 1 else "{" + ", ".join(names) + "}"


def first_listed(kinds: Kinds) -> str:
    return min(kinds, key=_ORDER.__getitem__)


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """A place in a rule where the parser may meet a token that does not fit."""

    here: Kinds  # tokens that can be here
    behind: Kinds = frozenset()  # tokens that can follow the expected one
    loop: bool = False  # the end of one round of a loop


LITERAL: Final = _kinds("-", INT, UINT, FLOAT, STRING, BYTES, "true", "false", "null")
PRIMARY: Final = LITERAL | _kinds(".", IDENTIFIER, "(", "[", "{")
EXPRESSION: Final = PRIMARY | _kinds("!")
RELATIONS: Final = _kinds("==", "!=", "in", "<", "<=", ">=", ">")
PRODUCTS: Final = _kinds("*", "/", "%")
SUMS: Final = _kinds("+", "-")
_SUFFIXES: Final = _kinds(".", "[", "{", RULE_END)
_ENDS: Final = _kinds(RULE_END)

# What follows a rule, for each place where another rule uses it.
AFTER_EXPRESSION_IN_START: Final = _kinds(END)
AFTER_CONDITION: Final = _kinds("?", RULE_END)
AFTER_THEN: Final = _kinds(":")
AFTER_ELSE: Final = _ENDS
AFTER_AND: Final = _kinds("||", RULE_END)
AFTER_RELATION_IN_AND: Final = _kinds("&&", RULE_END)
AFTER_OPERAND_OF_RELATION: Final = RELATIONS | _ENDS
AFTER_OPERAND_OF_CALC: Final = PRODUCTS | SUMS | _ENDS
AFTER_MEMBER: Final = _ENDS
AFTER_PRIMARY: Final = _SUFFIXES
AFTER_ARGUMENTS: Final = _kinds(")")
AFTER_INDEX: Final = _kinds("]")
AFTER_NESTED: Final = _kinds(")")
AFTER_ELEMENTS: Final = _kinds(",", "]")
AFTER_ENTRIES: Final = _kinds(",", "}")
AFTER_LITERAL: Final = _ENDS
AFTER_ITEM: Final = _kinds(",", RULE_END)
AFTER_KEY: Final = _kinds(":")

# Where a token is expected.
END_OF_START: Final = Place(_kinds(END), _ENDS)
QUESTION: Final = Place(_kinds("?"), EXPRESSION)
ELSE: Final = Place(_kinds(":"), EXPRESSION)
OR: Final = Place(_kinds("||"), EXPRESSION)
AND: Final = Place(_kinds("&&"), EXPRESSION)
RELATION: Final = Place(RELATIONS, EXPRESSION)
PRODUCT: Final = Place(PRODUCTS, EXPRESSION)
SUM: Final = Place(SUMS, EXPRESSION)
NOT: Final = Place(_kinds("!"), EXPRESSION)
NEGATE: Final = Place(_kinds("-"), PRIMARY)
SELECT_DOT: Final = Place(_kinds("."), _kinds(IDENTIFIER))
SELECT_NAME: Final = Place(_kinds(IDENTIFIER), _SUFFIXES | _kinds("("))
OPTIONAL_NAME: Final = Place(_kinds(IDENTIFIER), _SUFFIXES)
ESCAPED_NAME: Final = Place(_kinds(IDENTIFIER, ESCAPED), _ENDS)
OPTION: Final = Place(_kinds("?"))
SELECT_OPEN: Final = Place(_kinds("("), EXPRESSION | _kinds(")"))
SELECT_CLOSE: Final = Place(_kinds(")"), _SUFFIXES)
INDEX_OPEN: Final = Place(_kinds("["), EXPRESSION | _kinds(OPTIONAL))
INDEX_CLOSE: Final = Place(_kinds("]"), _SUFFIXES)
MESSAGE_OPEN: Final = Place(_kinds("{"), _kinds(OPTIONAL, IDENTIFIER, ESCAPED, ",", "}"))
MESSAGE_COMMA: Final = Place(_kinds(","), _kinds("}"))
MESSAGE_CLOSE: Final = Place(_kinds("}"), _SUFFIXES)
LEADING_DOT: Final = Place(_kinds("."), _kinds(IDENTIFIER))
NAME: Final = Place(_kinds(IDENTIFIER), _kinds("(", RULE_END))
CALL_OPEN: Final = Place(_kinds("("), EXPRESSION | _kinds(")"))
CALL_CLOSE: Final = Place(_kinds(")"), _ENDS)
NESTED_OPEN: Final = Place(_kinds("("), EXPRESSION)
NESTED_CLOSE: Final = Place(_kinds(")"), _ENDS)
LIST_OPEN: Final = Place(_kinds("["), EXPRESSION | _kinds(OPTIONAL, ",", "]"))
LIST_COMMA: Final = Place(_kinds(","), _kinds("]"))
LIST_CLOSE: Final = Place(_kinds("]"), _ENDS)
MAP_OPEN: Final = Place(_kinds("{"), EXPRESSION | _kinds(OPTIONAL, ",", "}"))
MAP_COMMA: Final = Place(_kinds(","), _kinds("}"))
MAP_CLOSE: Final = Place(_kinds("}"), _ENDS)
ITEM_COMMA: Final = Place(_kinds(","), EXPRESSION)
FIELD_NAME: Final = Place(_kinds(IDENTIFIER), _kinds(":"))
FIELD_COLON: Final = Place(_kinds(":"), EXPRESSION)
FIELD_COMMA: Final = Place(_kinds(","), _kinds(OPTIONAL, IDENTIFIER, ESCAPED))
NEXT_FIELD_NAME: Final = Place(_kinds(IDENTIFIER), _kinds(":"))
NEXT_FIELD_COLON: Final = Place(_kinds(":"), EXPRESSION)
ENTRY_COLON: Final = Place(_kinds(":"), EXPRESSION)
ENTRY_COMMA: Final = Place(_kinds(","), EXPRESSION | _kinds(OPTIONAL))
NEXT_ENTRY_COLON: Final = Place(_kinds(":"), EXPRESSION)
SIGN: Final = Place(_kinds("-"), _kinds(INT, FLOAT))
LITERALS: Final = {kind: Place(_kinds(kind), _ENDS) for kind in LITERAL - {"-"}}

# Where the parser checks the next token before it decides how to continue. Places at which the rule may end are left
# out: there every token fits.
BEFORE_UNARY: Final = Place(EXPRESSION)
BEFORE_NOTS: Final = Place(_kinds("!"))
AFTER_NOT: Final = Place(PRIMARY | _kinds("!"), loop=True)
BEFORE_NEGATES: Final = Place(_kinds("-"))
AFTER_NEGATE: Final = Place(PRIMARY, loop=True)
BEFORE_SELECT_ARGUMENTS: Final = Place(EXPRESSION | _kinds(")"))
BEFORE_INDEX: Final = Place(EXPRESSION | _kinds(OPTIONAL))
BEFORE_FIELDS: Final = Place(_kinds(OPTIONAL, IDENTIFIER, ESCAPED, ",", "}"))
BEFORE_MESSAGE_COMMA: Final = Place(_kinds(",", "}"))
BEFORE_PRIMARY: Final = Place(PRIMARY)
BEFORE_NAME: Final = Place(_kinds(".", IDENTIFIER))
BEFORE_CALL_ARGUMENTS: Final = Place(EXPRESSION | _kinds(")"))
BEFORE_ELEMENTS: Final = Place(EXPRESSION | _kinds(OPTIONAL, ",", "]"))
BEFORE_LIST_COMMA: Final = Place(_kinds(",", "]"))
BEFORE_ENTRIES: Final = Place(EXPRESSION | _kinds(OPTIONAL, ",", "}"))
BEFORE_MAP_COMMA: Final = Place(_kinds(",", "}"))
BEFORE_LITERAL: Final = Place(LITERAL)


_DIRECTIVE: Final = re.compile(r"%[#0+\- ]*(\*|[0-9]*)(\.(?:\*|[0-9]*))?(.?)", re.DOTALL)


class Abandoned(Exception):
    """The parse ended at a limit of cel-go; the problem is reported."""


class Mismatch(Exception):
    """The next token does not fit at `place`, and deleting or inserting one token does not help."""

    def __init__(self, place: Place) -> None:
        self.place = place


class NoAlternative(Exception):
    """No alternative of a rule begins with the tokens from the next one to `last`."""

    def __init__(self, place: Place, last: Token) -> None:
        self.place = place
        self.last = last


class Strategy:
    """The tokens of an expression, and the position of the parser in them."""

    def __init__(self, text: str, problems: Problems, features: frozenset[str]) -> None:
        self._text = text
        self._problems = problems
        self.has_optionals, self.has_escapes = TYPES_IN_WORDS in features, CEL_CODE_POINTS in features
        self._tokens, self._unrecognized = tokenize(text, escaped=self.has_escapes)
        self._index = 0
        self._reported = 0  # how many of self._unrecognized are reported
        self._recovering = False
        self._error_index = -1
        self._error_places: set[int] = set()
        self._recoveries = 0
        self.open_rules: list[Kinds] = []  # what follows each open rule, the innermost last

    def look(self, ahead: int = 0) -> Token:
        """Return the token `ahead` of the next. Text that is no token is reported when the parser first looks beyond
        it.
        """
        token = self._tokens[min(self._index + ahead, len(self._tokens) - 1)]
        while (
            self._reported < len(self._unrecognized)
            and self._unrecognized[self._reported].offset < token.offset
        ):
            wrong = self._unrecognized[self._reported]
            self._reported += 1
            self._report(wrong.offset, f"token recognition error at: '{wrong.text}'")
        return token

    @property
    def kind(self) -> str:
        return self.look().kind

    def match(self, kind: str, place: Place) -> Token:
        token = self.look()
        if token.kind == kind:
            self._matched()
            self._consume()
            return token
        return self._recover_inline(place)

    def sync(self, place: Place) -> None:
        """Check that the next token fits before an optional part or a loop. Delete it if the one after it does."""
        if self._recovering or self.kind in self._in_grammar(place.here):
            return
        if place.loop:
            self._report_unwanted(place)
            self._skip_to(self._expected(place.here) | self._recovery_set(), None)
        elif not self._delete(place):
            raise Mismatch(place)

    def give_up(self, error: Mismatch | NoAlternative) -> None:
        """Report `error` and skip the tokens that cannot follow the open rules."""
        if not self._recovering:
            self._recovering = True
            if isinstance(error, Mismatch):
                token = self.look()
                self._report(
                    token.offset, f"mismatched input {_shown(token)} expecting {self._listed(error.place)}"
                )
            else:
                input_text = self._text_to(error.last)
                message = f"no viable alternative at input '{_escaped(input_text)}'"
                if input_text in (".true", ".false", ".null"):
                    message = f"mismatched input '{input_text[1:]}' expecting IDENTIFIER"
                self._report(error.last.offset, message)
        self._count_recovery()
        skipped = 0
        if self._error_index == self._index and id(error.place) in self._error_places:
            self._consume()
            skipped = 1
        self._error_index = self._index
        self._error_places.add(id(error.place))
        self._skip_to(self._recovery_set(), MOST_SKIPPED_TOKENS - skipped)

    def abandon(self, message: str) -> NoReturn:
        self._problems.report(NOWHERE, message)
        raise Abandoned

    def _recover_inline(self, place: Place) -> Token:
        self._count_recovery()
        if self._delete(place):
            token = self.look()
            self._consume()
            return token
        if self.kind in self._expected(place.behind):
            return self._insert(place)
        raise Mismatch(place)

    def _delete(self, place: Place) -> bool:
        if self.look(1).kind not in self._expected(place.here):
            return False
        self._report_unwanted(place)
        self._consume()
        self._matched()
        return True

    def _insert(self, place: Place) -> Token:
        token = self.look()
        if not self._recovering:
            self._recovering = True
            self._report(token.offset, f"missing {self._listed(place)} at {_shown(token)}")
        if token.kind == END and self._index:
            token = self._tokens[self._index - 1]
        return Token(first_listed(self._expected(place.here)), "<missing>", token.offset)

    def _report_unwanted(self, place: Place) -> None:
        if self._recovering:
            return
        self._recovering = True
        token = self.look()
        self._report(token.offset, f"extraneous input {_shown(token)} expecting {self._listed(place)}")

    def _matched(self) -> None:
        self._recovering = False
        self._error_index = -1
        self._error_places.clear()

    def _consume(self) -> None:
        if self.kind != END:
            self._index += 1
            self.look()

    def _skip_to(self, kinds: Kinds, most: int | None) -> None:
        skipped = 0
        while self.kind != END and self.kind not in kinds:
            if skipped == most:
                self.abandon(f"error recovery token lookahead limit exceeded: {MOST_SKIPPED_TOKENS}")
            self._consume()
            skipped += 1

    def _count_recovery(self) -> None:
        if self._recoveries == MOST_RECOVERIES:
            self._report(self.look().offset, f"error recovery attempt limit exceeded: {MOST_RECOVERIES}")
            raise Abandoned
        self._recoveries += 1

    def _expected(self, kinds: Kinds) -> Kinds:
        """Return `kinds`, and what follows the open rules if `kinds` may end them."""
        following, expected = kinds, self._in_grammar(kinds) - {RULE_END}
        for outer in reversed(self.open_rules):
            if RULE_END not in following:
                return expected
            following = outer
            expected |= outer - {RULE_END}
        return expected | {END} if RULE_END in following else expected

    def _in_grammar(self, kinds: Kinds) -> Kinds:
        """The tokens of a place that the version has there."""
        if OPTIONAL in kinds:
            kinds = kinds - {OPTIONAL} | ({"?"} if self.has_optionals else frozenset())
        return kinds if self.has_escapes else kinds - {ESCAPED}

    def _recovery_set(self) -> Kinds:
        return frozenset().union(*self.open_rules) - {RULE_END}

    def _listed(self, place: Place) -> str:
        return listed(self._expected(place.here))

    def _text_to(self, last: Token) -> str:
        """Return the source from the next token to the end of `last`, without text that is no token."""
        first = self.look()
        if first.kind == END:
            return END
        end = last.offset if last.kind == END else last.offset + len(last.text)
        parts, start = [], first.offset
        for wrong in self._unrecognized:
            if first.offset <= wrong.offset < end:
                parts.append(self._text[start : wrong.offset])
                start = wrong.offset + len(wrong.text)
        return "".join(parts) + self._text[start:end]

    def _report(self, offset: int, message: str) -> None:
        self._problems.report_at(offset, formatted(f"Syntax error: {message}"))


def formatted(message: str) -> str:
    """Return the message as Go prints it when used as a format without arguments, which cel-go does."""
    return _DIRECTIVE.sub(_missing, message) if "%" in message else message


def _missing(found: re.Match[str]) -> str:
    width, precision, verb = found.groups()
    stars = ("%!(BADWIDTH)" if width == "*" else "") + ("%!(BADPREC)" if precision == ".*" else "")
    if not verb:
        return f"{stars}%!(NOVERB)"
    return stars + ("%" if verb == "%" else f"%!{verb}(MISSING)")


def _shown(token: Token) -> str:
    return f"'{_escaped(token.text)}'"


def _escaped(text: str) -> str:
    return text.replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


@dataclass(slots=True)
class Tree:
    """What one rule matched. `rule` is the name of the alternative, if the parser got as far as choosing one."""

    rule: str
    start: Token
    first: Tree | None = None
    second: Tree | None = None
    third: Tree | None = None
    name: Token | None = None  # the identifier, or the literal's token
    operator: Token | None = None
    operators: list[Token] = field(default_factory=list)
    sign: str = ""  # of a literal, or the question mark of what is optional
    items: list[Tree] = field(default_factory=list)
    values: list[Tree] = field(default_factory=list)
    names: list[Token] = field(default_factory=list)
    optional: dict[int, int] = field(
        default_factory=dict
    )  # offsets of question marks by the index of an item


Rule = Generator["Call", Tree, Tree]
Call = tuple[str, Callable[[], Rule], Kinds]


class Descent:
    def __init__(self, text: str, problems: Problems, features: frozenset[str]) -> None:
        self._tokens = Strategy(text, problems, features)
        self._depths: dict[str, int] = {}
        self._more = 1 if TYPES_IN_WORDS in features else 0

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
            if depth >= DEEPEST_RULE + self._more:
                self._tokens.abandon(f"expression recursion limit exceeded: {DEEPEST_RULE}")
            running.append((called, body()))
        assert tree is not None
        return tree

    def _start(self) -> Rule:
        tree = Tree("start", self._tokens.look())
        try:
            tree.first = yield self._expression(AFTER_EXPRESSION_IN_START)
            self._tokens.match("<EOF>", END_OF_START)
        except (Mismatch, NoAlternative) as error:
            self._tokens.give_up(error)
        return tree

    def _expression(self, following: Kinds) -> Call:
        return ("expr", self._expression_rule, following)

    def _expression_rule(self) -> Rule:
        tokens = self._tokens
        tree = Tree("expr", tokens.look())
        try:
            tree.first = yield ("conditionalOr", self._either, AFTER_CONDITION)
            if tokens.kind == "?":
                tree.operator = tokens.match("?", QUESTION)
                tree.second = yield ("conditionalOr", self._either, AFTER_THEN)
                tokens.match(":", ELSE)
                tree.third = yield self._expression(AFTER_ELSE)
        except (Mismatch, NoAlternative) as error:
            tokens.give_up(error)
        return tree

    def _either(self) -> Rule:
        tree = Tree("conditionalOr", self._tokens.look())
        tree.items.append((yield ("conditionalAnd", self._both, AFTER_AND)))
        while self._tokens.kind == "||":
            tree.operators.append(self._tokens.match("||", OR))
            tree.items.append((yield ("conditionalAnd", self._both, AFTER_AND)))
        return tree

    def _both(self) -> Rule:
        tree = Tree("conditionalAnd", self._tokens.look())
        tree.items.append((yield ("relation", self._relation, AFTER_RELATION_IN_AND)))
        while self._tokens.kind == "&&":
            tree.operators.append(self._tokens.match("&&", AND))
            tree.items.append((yield ("relation", self._relation, AFTER_RELATION_IN_AND)))
        return tree

    def _relation(self) -> Rule:
        tree = yield from self._relation_operand()
        while self._tokens.kind in RELATIONS:
            tree = Tree("binary", tree.start, first=tree)
            tree.operator = self._tokens.match(self._tokens.kind, RELATION)
            tree.second = yield ("relation", self._relation_operand, AFTER_OPERAND_OF_RELATION)
        return tree

    def _relation_operand(self) -> Rule:
        tree = Tree("relation", self._tokens.look())
        tree.first = yield ("calc", self._sum, AFTER_OPERAND_OF_RELATION)
        return tree

    def _sum(self) -> Rule:
        return self._calculation(0)

    def _calculation(self, precedence: int) -> Rule:
        """Parse operators of at least `precedence`, from the left: products have 2, sums 1."""
        tree = Tree("calc", self._tokens.look())
        tree.first = yield ("unary", self._unary, AFTER_OPERAND_OF_CALC)
        while True:
            kind = self._tokens.kind
            if kind in PRODUCTS and precedence <= 2:
                place, inner = PRODUCT, 3
            elif kind in SUMS and precedence <= 1:
                place, inner = SUM, 2
            else:
                return tree
            tree = Tree("binary", tree.start, first=tree)
            tree.operator = self._tokens.match(kind, place)
            body = self._product_operand if inner == 3 else self._sum_operand
            tree.second = yield ("calc", body, AFTER_OPERAND_OF_CALC)

    def _product_operand(self) -> Rule:
        return self._calculation(3)

    def _sum_operand(self) -> Rule:
        return self._calculation(2)

    def _unary(self) -> Rule:
        tokens = self._tokens
        tree = Tree("unary", tokens.look())
        try:
            tokens.sync(BEFORE_UNARY)
            tree.rule = self._choose_unary()
            if tree.rule == "LogicalNot":
                tokens.sync(BEFORE_NOTS)
                self._operators("!", NOT, AFTER_NOT, tree)
            elif tree.rule == "Negate":
                tokens.sync(BEFORE_NEGATES)
                self._operators("-", NEGATE, AFTER_NEGATE, tree)
            tree.first = yield ("member", self._member, AFTER_MEMBER)
        except (Mismatch, NoAlternative) as error:
            tokens.give_up(error)
        return tree

    def _choose_unary(self) -> str:
        """Choose an alternative. A minus before a number belongs to the literal; before any other token that begins
        no operand, nothing fits.
        """
        kind = self._tokens.kind
        if kind == "!":
            return "LogicalNot"
        if kind == "-":
            behind = self._tokens.look(1)
            if behind.kind in (INT, FLOAT):
                return "MemberExpr"
            if behind.kind in PRIMARY:
                return "Negate"
            raise NoAlternative(BEFORE_UNARY, behind)
        if kind in PRIMARY:
            return "MemberExpr"
        raise NoAlternative(BEFORE_UNARY, self._tokens.look())

    def _operators(self, kind: str, place: Place, behind: Place, tree: Tree) -> None:
        tokens = self._tokens
        while True:
            tree.operators.append(tokens.match(kind, place))
            tokens.sync(behind)
            if tokens.kind == kind:
                after = tokens.look(1)
                if kind == "-" and after.kind not in PRIMARY:
                    raise NoAlternative(behind, after)
            elif kind == "-" and tokens.kind not in PRIMARY:
                raise NoAlternative(behind, tokens.look())
            else:
                return

    def _member(self) -> Rule:
        tokens = self._tokens
        tree = Tree("PrimaryExpr", tokens.look())
        try:
            tree.first = yield ("primary", self._primary, AFTER_PRIMARY)
            while True:
                kind = tokens.kind
                if kind == ".":
                    self._check_select()
                    tree = Tree("SelectOrCall", tree.start, first=tree)
                    yield from self._select(tree)
                elif kind == "[":
                    tree = Tree("Index", tree.start, first=tree)
                    tree.operator = tokens.match("[", INDEX_OPEN)
                    if tokens.has_optionals:
                        tokens.sync(BEFORE_INDEX)
                    tree.sign = self._optional()
                    tree.second = yield self._expression(AFTER_INDEX)
                    tokens.match("]", INDEX_CLOSE)
                elif kind == "{":
                    tree = Tree("CreateMessage", tree.start, first=tree)
                    yield from self._message(tree)
                else:
                    return tree
        except (Mismatch, NoAlternative) as error:
            tokens.give_up(error)
        return tree

    def _check_select(self) -> None:
        """Later versions look at the name behind the dot before they go on."""
        if not self._more:
            return
        found = self._tokens.look(1)
        if found.kind not in (IDENTIFIER, ESCAPED) and not (found.kind == "?" and self._tokens.has_optionals):
            raise NoAlternative(SELECT_DOT, found)

    def _select(self, tree: Tree) -> Generator[Call, Tree, None]:
        tokens = self._tokens
        tree.operator = tokens.match(".", SELECT_DOT)
        tree.sign = self._optional()
        if tokens.has_escapes and (tree.sign or tokens.kind != IDENTIFIER):
            tree.name = yield from self._escaped_name(AFTER_PRIMARY)
        else:
            tree.name = tokens.match(IDENTIFIER, OPTIONAL_NAME if tree.sign else SELECT_NAME)
        if tokens.kind == "(" and not tree.sign and tree.name.kind == IDENTIFIER:
            tree.operators.append(tokens.match("(", SELECT_OPEN))
            yield from self._arguments(tree, BEFORE_SELECT_ARGUMENTS, SELECT_CLOSE)

    def _optional(self) -> str:
        """Skip a question mark, and return it: what follows it is optional."""
        if not self._tokens.has_optionals or self._tokens.kind != "?":
            return ""
        return self._tokens.match("?", OPTION).text

    def _note_optional(self, tree: Tree, index: int) -> None:
        offset = self._tokens.look().offset
        if self._optional():
            tree.optional[index] = offset

    def _escaped_name(self, following: Kinds) -> Generator[Call, Tree, Token]:
        """A name, between backticks or not; one of kind END if there is none."""
        found = yield ("escapeIdent", self._name, following)
        return found.name or Token(END, "", found.start.offset)

    def _name(self) -> Rule:
        yield from ()
        tokens = self._tokens
        tree = Tree("escapeIdent", tokens.look())
        try:
            tokens.sync(ESCAPED_NAME)
            tree.name = tokens.match(tokens.kind, ESCAPED_NAME)
        except (Mismatch, NoAlternative) as error:
            tokens.give_up(error)
        return tree

    def _arguments(self, tree: Tree, before: Place, close: Place) -> Generator[Call, Tree, None]:
        self._tokens.sync(before)
        if self._tokens.kind in EXPRESSION:
            tree.items = (yield ("exprList", self._items, AFTER_ARGUMENTS)).items
        self._tokens.match(")", close)

    def _message(self, tree: Tree) -> Generator[Call, Tree, None]:
        tokens = self._tokens
        tree.operator = tokens.match("{", MESSAGE_OPEN)
        tokens.sync(BEFORE_FIELDS)
        if self._begins_field(tokens.look()):
            tree.second = yield ("fieldInitializerList", self._fields, AFTER_ENTRIES)
        tokens.sync(BEFORE_MESSAGE_COMMA)
        if tokens.kind == ",":
            tokens.match(",", MESSAGE_COMMA)
        tokens.match("}", MESSAGE_CLOSE)

    def _primary(self) -> Rule:
        tokens = self._tokens
        tree = Tree("primary", tokens.look())
        try:
            tokens.sync(BEFORE_PRIMARY)
            kind = tokens.kind
            if kind == "." and self._more and tokens.look(1).kind != IDENTIFIER:
                tree.rule = "IdentOrGlobalCall"
                raise NoAlternative(BEFORE_PRIMARY, tokens.look(1))
            if kind == "." or kind == IDENTIFIER:
                yield from self._identifier(tree)
            elif kind == "(":
                tree.rule = "Nested"
                tokens.match("(", NESTED_OPEN)
                tree.first = yield self._expression(AFTER_NESTED)
                tokens.match(")", NESTED_CLOSE)
            elif kind == "[":
                yield from self._list(tree)
            elif kind == "{":
                yield from self._map(tree)
            elif kind in LITERAL:
                tree.rule = "ConstantLiteral"
                tokens.open_rules.append(AFTER_LITERAL)
                tree.first = self._literal()
                tokens.open_rules.pop()
            else:
                raise NoAlternative(BEFORE_PRIMARY, tokens.look())
        except (Mismatch, NoAlternative) as error:
            tokens.give_up(error)
        return tree

    def _identifier(self, tree: Tree) -> Generator[Call, Tree, None]:
        tokens = self._tokens
        tree.rule = "IdentOrGlobalCall"
        tokens.sync(BEFORE_NAME)
        if tokens.kind == ".":
            tree.operator = tokens.match(".", LEADING_DOT)
        tree.name = tokens.match(IDENTIFIER, NAME)
        if tokens.kind == "(":
            tree.operators.append(tokens.match("(", CALL_OPEN))
            yield from self._arguments(tree, BEFORE_CALL_ARGUMENTS, CALL_CLOSE)

    def _list(self, tree: Tree) -> Generator[Call, Tree, None]:
        tokens = self._tokens
        tree.rule = "CreateList"
        tree.operator = tokens.match("[", LIST_OPEN)
        tokens.sync(BEFORE_ELEMENTS)
        if self._begins_item(tokens.look()):
            found = yield ("exprList", self._items, AFTER_ELEMENTS)
            tree.items, tree.optional = found.items, found.optional
        tokens.sync(BEFORE_LIST_COMMA)
        if tokens.kind == ",":
            tokens.match(",", LIST_COMMA)
        tokens.match("]", LIST_CLOSE)

    def _map(self, tree: Tree) -> Generator[Call, Tree, None]:
        tokens = self._tokens
        tree.rule = "CreateStruct"
        tree.operator = tokens.match("{", MAP_OPEN)
        tokens.sync(BEFORE_ENTRIES)
        if self._begins_item(tokens.look()):
            tree.second = yield ("mapInitializerList", self._entries, AFTER_ENTRIES)
        tokens.sync(BEFORE_MAP_COMMA)
        if tokens.kind == ",":
            tokens.match(",", MAP_COMMA)
        tokens.match("}", MAP_CLOSE)

    def _items(self) -> Rule:
        tokens = self._tokens
        tree = Tree("exprList", tokens.look())
        self._note_optional(tree, len(tree.items))
        tree.items.append((yield self._expression(AFTER_ITEM)))
        while tokens.kind == "," and self._begins_item(tokens.look(1)):
            tokens.match(",", ITEM_COMMA)
            self._note_optional(tree, len(tree.items))
            tree.items.append((yield self._expression(AFTER_ITEM)))
        return tree

    def _begins_item(self, token: Token) -> bool:
        return token.kind in EXPRESSION or (token.kind == "?" and self._tokens.has_optionals)

    def _begins_field(self, token: Token) -> bool:
        return token.kind in (IDENTIFIER, ESCAPED) or (token.kind == "?" and self._tokens.has_optionals)

    def _field(self, tree: Tree, place: Place) -> Generator[Call, Tree, Token]:
        self._note_optional(tree, len(tree.names))
        if self._tokens.has_escapes:
            return (yield from self._escaped_name(AFTER_KEY))
        return self._tokens.match(IDENTIFIER, place)

    def _fields(self) -> Rule:
        tokens = self._tokens
        tree = Tree("fieldInitializerList", tokens.look())
        try:
            tree.names.append((yield from self._field(tree, FIELD_NAME)))
            tree.operators.append(tokens.match(":", FIELD_COLON))
            tree.values.append((yield self._expression(AFTER_ITEM)))
            while tokens.kind == "," and self._begins_field(tokens.look(1)):
                tokens.match(",", FIELD_COMMA)
                tree.names.append((yield from self._field(tree, NEXT_FIELD_NAME)))
                tree.operators.append(tokens.match(":", NEXT_FIELD_COLON))
                tree.values.append((yield self._expression(AFTER_ITEM)))
        except (Mismatch, NoAlternative) as error:
            tokens.give_up(error)
        return tree

    def _entries(self) -> Rule:
        tokens = self._tokens
        tree = Tree("mapInitializerList", tokens.look())
        try:
            self._note_optional(tree, len(tree.items))
            tree.items.append((yield self._expression(AFTER_KEY)))
            tree.operators.append(tokens.match(":", ENTRY_COLON))
            tree.values.append((yield self._expression(AFTER_ITEM)))
            while tokens.kind == "," and self._begins_item(tokens.look(1)):
                tokens.match(",", ENTRY_COMMA)
                self._note_optional(tree, len(tree.items))
                tree.items.append((yield self._expression(AFTER_KEY)))
                tree.operators.append(tokens.match(":", NEXT_ENTRY_COLON))
                tree.values.append((yield self._expression(AFTER_ITEM)))
        except (Mismatch, NoAlternative) as error:
            tokens.give_up(error)
        return tree

    def _literal(self) -> Tree:
        tokens = self._tokens
        tree = Tree("literal", tokens.look())
        try:
            tokens.sync(BEFORE_LITERAL)
            behind = tokens.look(1) if tokens.kind == "-" else tokens.look()
            if behind.kind not in (LITERALS if tokens.kind != "-" else (INT, FLOAT)):
                raise NoAlternative(BEFORE_LITERAL, behind)
            if tokens.kind == "-":
                tree.sign = tokens.match("-", SIGN).text
            tree.name = tokens.match(behind.kind, LITERALS[behind.kind])
            tree.rule = behind.kind
        except (Mismatch, NoAlternative) as error:
            tokens.give_up(error)
        return tree


Visit = Generator["Tree | None", Node, Node]

_INVALID: Final = {
    INT: "invalid int literal",
    UINT: "invalid uint literal",
    FLOAT: "invalid double literal",
    STRING: "unable to unescape string",
    BYTES: "unable to unescape string",
}


class Walk:
    """Visits are generators that a loop runs: they yield the trees to visit next and are sent the results."""

    def __init__(self, problems: Problems, features: frozenset[str]) -> None:
        self._problems = problems
        self._build = Builder(features)
        self._counts_all = TYPES_IN_WORDS not in features
        self._surrogates = CEL_CODE_POINTS not in features
        self._has_optionals = CEL_OPTIONALS in features

    def start(self, tree: Tree) -> None:
        first = self._visit(tree)
        running = [] if isinstance(first, Node) else [(first, 1 if self._counts_all else 0)]
        node: Node | None = None
        while running:
            visit, depth = running[-1]
            try:
                inner = visit.send(node)  # type: ignore[arg-type]  # None starts a generator
            except StopIteration as finished:
                node = finished.value
                running.pop()
                continue
            node = None
            if self._counts_all or _is_counted(inner):
                depth += 1
            if depth > MOST_VISITS:
                self._problems.report(NOWHERE, "max recursion depth exceeded")
                raise Abandoned
            found = self._visit(inner)
            if isinstance(found, Node):
                node = found
            else:
                running.append((found, depth))

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
        if tree.name.kind != IDENTIFIER:
            self._problems.report_at(tree.name.offset, _wrong_name(tree.name))
        if tree.sign and not self._has_optionals:
            return self._wrong(tree.operator.offset, "unsupported syntax '.?'")
        if tree.sign:
            name = self._build.constant(tree.name.offset, tree.name.text)
            return self._build.call(tree.operator.offset, "_?._", operand, name)
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
        if tree.sign and not self._has_optionals:
            return self._wrong(tree.operator.offset, "unsupported syntax '[?'")
        index = yield tree.second
        return self._build.call(tree.operator.offset, f"_[{tree.sign}_]", target, index)

    def _message(self, tree: Tree) -> Visit:
        assert tree.operator is not None
        named = yield tree.first
        if self._is_qualified_name(named) and tree.second is not None:
            fields = tree.second
            found = zip(fields.names, fields.values, fields.operators, strict=False)
            for index, (name, value, _) in enumerate(found):
                if self._is_unsupported(fields, index):
                    continue
                if name.kind != IDENTIFIER:
                    self._problems.report_at(fields.start.offset, _wrong_name(name))
                    break
                yield value
        return Node(self._build.id_at(tree.operator.offset))

    def _is_qualified_name(self, node: Node) -> bool:
        """Whether the tree is a qualified name. If not, report its first part that is no name, and every selection on
        it.
        """
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
        for index, item in enumerate(tree.items):
            if not self._is_unsupported(tree, index):
                yield item
        return ListLiteral(self._build.id_at(tree.start.offset), ())

    def _map(self, tree: Tree) -> Visit:
        if tree.second is not None:
            yield tree.second
        return MapLiteral(self._build.id_at(tree.start.offset), ())

    def _entries(self, tree: Tree) -> Visit:
        for number, _ in enumerate(tree.operators):
            if number >= len(tree.values):
                break
            if self._is_unsupported(tree, number):
                continue
            yield tree.items[number]
            yield tree.values[number]
        return self._nothing(tree.start.offset)

    def _literal(self, tree: Tree) -> Node:
        literal = tree.first
        assert literal is not None
        if literal.name is None or literal.rule == "literal":
            return self._wrong(tree.start.offset, "invalid literal")
        message = _INVALID.get(literal.rule)
        if message is not None and self._value(literal.rule, literal.sign, literal.name.text) is None:
            if literal.rule == STRING and not self._surrogates:
                message = "invalid unicode code point"
            return self._wrong(tree.start.offset, message)
        return self._build.constant(tree.start.offset, None)

    def _value(self, kind: str, sign: str, text: str) -> object:
        if kind == INT:
            return int_of(text, sign)
        if kind == UINT:
            return uint_of(text)
        if kind == FLOAT:
            return double_of(text, sign)
        return string_of(text, surrogates=self._surrogates) if kind == STRING else bytes_of(text)

    def _is_unsupported(self, tree: Tree, index: int) -> bool:
        """Whether an item is optional where nothing can be; if so, report it."""
        if self._has_optionals or index not in tree.optional:
            return False
        self._problems.report_at(tree.optional[index], "unsupported syntax '?'")
        return True

    def _all(self, trees: list[Tree]) -> Generator[Tree | None, Node, list[Node]]:
        nodes: list[Node] = []
        for tree in trees:
            nodes.append((yield tree))
        return nodes

    def _wrong(self, offset: int, message: str) -> Node:
        self._problems.report_at(offset, message)
        return Node(self._build.id_at(offset))


def _wrong_name(name: Token) -> str:
    return "unsupported syntax: '`'" if name.kind == ESCAPED else "unsupported ident kind"


def _is_counted(tree: Tree | None) -> bool:
    """Whether later versions count the visit of a tree."""
    if tree is None:
        return False
    if tree.rule == "MemberExpr":
        return tree.first is not None and tree.first.rule in ("SelectOrCall", "Index")
    return tree.rule in ("binary", "SelectOrCall", "Index") or (
        tree.rule == "expr" and tree.operator is not None
    )


def explain(text: str, features: frozenset[str]) -> Problems:
    """Return the problems of an expression that the parser refused."""
    problems = Problems(Source(text))
    try:
        tree = Descent(text, problems, features).start()
        Walk(problems, features).start(tree)
    except Abandoned:
        pass
    return problems
