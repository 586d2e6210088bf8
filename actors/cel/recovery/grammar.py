"""The token sets of CEL's grammar: what can stand at a place of a rule, and what can stand behind it.

start: expr EOF
expr: conditionalOr ('?' conditionalOr ':' expr)?
conditionalOr: conditionalAnd ('||' conditionalAnd)*
conditionalAnd: relation ('&&' relation)*
relation: calc | relation ('<'|'<='|'>='|'>'|'=='|'!='|'in') relation
calc: unary | calc ('*'|'/'|'%') calc | calc ('+'|'-') calc
unary: member | '!'+ member | '-'+ member
member: primary | member '.' IDENTIFIER ('(' exprList? ')')? | member '[' expr ']'
      | member '{' fieldInitializerList? ','? '}'
primary: '.'? IDENTIFIER ('(' exprList? ')')? | '(' expr ')' | '[' exprList? ','? ']'
       | '{' mapInitializerList? ','? '}' | literal
exprList: expr (',' expr)*
fieldInitializerList: IDENTIFIER ':' expr (',' IDENTIFIER ':' expr)*
mapInitializerList: expr ':' expr (',' expr ':' expr)*
literal: '-'? NUM_INT | NUM_UINT | '-'? NUM_FLOAT | STRING | BYTES | 'true' | 'false' | 'null'
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from actors.cel.lexer import BYTES, END, FLOAT, IDENTIFIER, INT, STRING, UINT

# In a set of tokens: the rule may end here, so whatever follows the rule can stand here too.
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
    *("+", "*", "/", "%", "true", "false", "null", FLOAT, INT, UINT, STRING, BYTES, IDENTIFIER),
)
_ORDER: Final = {kind: number for number, kind in enumerate(_NAMES)}
_UNQUOTED: Final = {END, FLOAT, INT, UINT, STRING, BYTES, IDENTIFIER}

Kinds = frozenset[str]


def _kinds(*kinds: str) -> Kinds:
    return frozenset(kinds)


def listed(kinds: Kinds) -> str:
    """A set of tokens as messages print it: one token, or several in braces in the order of the grammar."""
    names = [kind if kind in _UNQUOTED else f"'{kind}'" for kind in sorted(kinds, key=_ORDER.__getitem__)]
    return names[0] if len(names) == 1 else "{" + ", ".join(names) + "}"


def first_listed(kinds: Kinds) -> str:
    return min(kinds, key=_ORDER.__getitem__)


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """A place in a rule where the parser can be when it meets a token that does not fit."""

    here: Kinds  # what can stand here
    behind: Kinds = frozenset()  # what can stand behind the token that is expected here
    loop: bool = False  # the end of one round of a loop


LITERAL: Final = _kinds("-", INT, UINT, FLOAT, STRING, BYTES, "true", "false", "null")
PRIMARY: Final = LITERAL | _kinds(".", IDENTIFIER, "(", "[", "{")
EXPRESSION: Final = PRIMARY | _kinds("!")
RELATIONS: Final = _kinds("==", "!=", "in", "<", "<=", ">=", ">")
PRODUCTS: Final = _kinds("*", "/", "%")
SUMS: Final = _kinds("+", "-")
_SUFFIXES: Final = _kinds(".", "[", "{", RULE_END)
_ENDS: Final = _kinds(RULE_END)

# What follows a rule where another rule names it.
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
SELECT_OPEN: Final = Place(_kinds("("), EXPRESSION | _kinds(")"))
SELECT_CLOSE: Final = Place(_kinds(")"), _SUFFIXES)
INDEX_OPEN: Final = Place(_kinds("["), EXPRESSION)
INDEX_CLOSE: Final = Place(_kinds("]"), _SUFFIXES)
MESSAGE_OPEN: Final = Place(_kinds("{"), _kinds(IDENTIFIER, ",", "}"))
MESSAGE_COMMA: Final = Place(_kinds(","), _kinds("}"))
MESSAGE_CLOSE: Final = Place(_kinds("}"), _SUFFIXES)
LEADING_DOT: Final = Place(_kinds("."), _kinds(IDENTIFIER))
NAME: Final = Place(_kinds(IDENTIFIER), _kinds("(", RULE_END))
CALL_OPEN: Final = Place(_kinds("("), EXPRESSION | _kinds(")"))
CALL_CLOSE: Final = Place(_kinds(")"), _ENDS)
NESTED_OPEN: Final = Place(_kinds("("), EXPRESSION)
NESTED_CLOSE: Final = Place(_kinds(")"), _ENDS)
LIST_OPEN: Final = Place(_kinds("["), EXPRESSION | _kinds(",", "]"))
LIST_COMMA: Final = Place(_kinds(","), _kinds("]"))
LIST_CLOSE: Final = Place(_kinds("]"), _ENDS)
MAP_OPEN: Final = Place(_kinds("{"), EXPRESSION | _kinds(",", "}"))
MAP_COMMA: Final = Place(_kinds(","), _kinds("}"))
MAP_CLOSE: Final = Place(_kinds("}"), _ENDS)
ITEM_COMMA: Final = Place(_kinds(","), EXPRESSION)
FIELD_NAME: Final = Place(_kinds(IDENTIFIER), _kinds(":"))
FIELD_COLON: Final = Place(_kinds(":"), EXPRESSION)
FIELD_COMMA: Final = Place(_kinds(","), _kinds(IDENTIFIER))
NEXT_FIELD_NAME: Final = Place(_kinds(IDENTIFIER), _kinds(":"))
NEXT_FIELD_COLON: Final = Place(_kinds(":"), EXPRESSION)
ENTRY_COLON: Final = Place(_kinds(":"), EXPRESSION)
ENTRY_COMMA: Final = Place(_kinds(","), EXPRESSION)
NEXT_ENTRY_COLON: Final = Place(_kinds(":"), EXPRESSION)
SIGN: Final = Place(_kinds("-"), _kinds(INT, FLOAT))
LITERALS: Final = {kind: Place(_kinds(kind), _ENDS) for kind in LITERAL - {"-"}}

# Where the parser looks whether the next token fits before it chooses what to do. Places at which the rule may end are
# left out: there every token fits.
BEFORE_UNARY: Final = Place(EXPRESSION)
BEFORE_NOTS: Final = Place(_kinds("!"))
AFTER_NOT: Final = Place(PRIMARY | _kinds("!"), loop=True)
BEFORE_NEGATES: Final = Place(_kinds("-"))
AFTER_NEGATE: Final = Place(PRIMARY, loop=True)
BEFORE_SELECT_ARGUMENTS: Final = Place(EXPRESSION | _kinds(")"))
BEFORE_FIELDS: Final = Place(_kinds(IDENTIFIER, ",", "}"))
BEFORE_MESSAGE_COMMA: Final = Place(_kinds(",", "}"))
BEFORE_PRIMARY: Final = Place(PRIMARY)
BEFORE_NAME: Final = Place(_kinds(".", IDENTIFIER))
BEFORE_CALL_ARGUMENTS: Final = Place(EXPRESSION | _kinds(")"))
BEFORE_ELEMENTS: Final = Place(EXPRESSION | _kinds(",", "]"))
BEFORE_LIST_COMMA: Final = Place(_kinds(",", "]"))
BEFORE_ENTRIES: Final = Place(EXPRESSION | _kinds(",", "}"))
BEFORE_MAP_COMMA: Final = Place(_kinds(",", "}"))
BEFORE_LITERAL: Final = Place(LITERAL)
