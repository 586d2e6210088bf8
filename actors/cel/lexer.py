"""The tokens of a CEL expression, by the published grammar: the longest match counts.

Text that begins no token becomes an `Unrecognized` with the extent that cel-go reports for it: from where a token
should begin up to and including the first character that no token can have there. Scanning continues behind it.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

# Kinds of tokens that are no operator. An operator's kind is its text.
END: Final = "<EOF>"
IDENTIFIER: Final = "IDENTIFIER"
INT: Final = "NUM_INT"
UINT: Final = "NUM_UINT"
FLOAT: Final = "NUM_FLOAT"
STRING: Final = "STRING"
BYTES: Final = "BYTES"

KEYWORDS: Final = frozenset(("in", "true", "false", "null"))

_ESCAPE = r"""\\(?:[abfnrtv"'\\?`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7][0-7])"""
_STRING = (
    rf"(?:'''(?:{_ESCAPE}|[^\\])*?'''|\"\"\"(?:{_ESCAPE}|[^\\])*?\"\"\""
    rf"|'(?:{_ESCAPE}|[^\\'\n\r])*'|\"(?:{_ESCAPE}|[^\\\"\n\r])*\""
    r"|[rR](?:'''[\s\S]*?'''|\"\"\"[\s\S]*?\"\"\"|'[^'\n\r]*'|\"[^\"\n\r]*\"))"
)
_EXPONENT = r"[eE][+-]?[0-9]+"

_TOKEN: Final = re.compile(
    rf"(?P<hidden>[\t \r\n\f]+|//[^\n]*)"
    rf"|(?P<STRING>{_STRING})"
    rf"|(?P<BYTES>[bB]{_STRING})"
    r"|(?P<IDENTIFIER>[A-Za-z_][A-Za-z0-9_]*)"
    rf"|(?P<NUM_FLOAT>[0-9]+\.[0-9]+(?:{_EXPONENT})?|[0-9]+{_EXPONENT}|\.[0-9]+(?:{_EXPONENT})?)"
    r"|(?P<NUM_UINT>(?:0x[0-9a-fA-F]+|[0-9]+)[uU])"
    r"|(?P<NUM_INT>0x[0-9a-fA-F]+|[0-9]+)"
    r"|(?P<operator>==|!=|<=|>=|&&|\|\||[<>\[\]{}().,!?:+*/%-])"
)

# How far a string without its closing quote is still a string, and how far its last escape sequence is one.
_OPEN_STRING: Final = {quote: re.compile(rf"{quote}(?:{_ESCAPE}|[^\\{quote}\n\r])*") for quote in "'\""}
_OPEN_ESCAPE: Final = re.compile(
    r"\\(?:[xX][0-9a-fA-F]{0,1}|u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7}|[0-3][0-7]{0,1})?"
)


class Token(NamedTuple):
    kind: str
    text: str
    offset: int  # in code points


class Unrecognized(NamedTuple):
    """Text that no token begins with."""

    text: str
    offset: int


def tokenize(source: str) -> tuple[list[Token], list[Unrecognized]]:
    """The tokens of `source` without white space and comments, with one of kind END as the last."""
    tokens: list[Token] = []
    unrecognized: list[Unrecognized] = []
    match = _TOKEN.match
    offset, end = 0, len(source)
    while offset < end:
        found = match(source, offset)
        if found is None:
            wrong = Unrecognized(source[offset : _first_wrong(source, offset) + 1], offset)
            unrecognized.append(wrong)
            offset += len(wrong.text)
            continue
        kind = found.lastgroup
        if kind != "hidden":
            text = found.group()
            if kind == "operator" or text in KEYWORDS:
                kind = text
            tokens.append(Token(kind or "", text, offset))
        offset = found.end()
    tokens.append(Token(END, END, end))
    return tokens, unrecognized


def _first_wrong(source: str, offset: int) -> int:
    """The offset of the first character that cannot be in a token that begins at `offset`."""
    first = source[offset]
    if first in "=&|":
        return offset + 1
    if first in _OPEN_STRING:
        found = _OPEN_STRING[first].match(source, offset)
        assert found is not None
        escape = _OPEN_ESCAPE.match(source, found.end())
        return escape.end() if escape else found.end()
    return offset
