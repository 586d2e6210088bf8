"""The tokens of a CEL expression by the published grammar, the values of its literals, and cel-go's limits.

The longest match wins. Text that begins no token becomes an `Unrecognized` with the extent that cel-go reports: from
where a token should begin up to and including the first character that no token can have there. Scanning continues
after it. The functions for literals return None for one that has the right form but no value (too large ...).
"""

from __future__ import annotations

import math
import re
from typing import Final, NamedTuple

from rewound.actors.cel.values import Uint

LONGEST_EXPRESSION: Final = 100_000  # code points
MOST_VISITS: Final = 250  # nested steps of the walk over the parse tree
DEEPEST_RULE: Final = 250  # nested applications of one grammar rule
MOST_RECOVERIES: Final = 30  # attempts to continue after a syntax error
MOST_SKIPPED_TOKENS: Final = 256  # tokens per attempt

RESERVED: Final = frozenset(
    (
        "as",
        "break",
        "const",
        "continue",
        "else",
        "false",
        "for",
        "function",
        "if",
        "import",
        "in",
        "let",
        "loop",
    )
) | frozenset(("package", "namespace", "null", "return", "true", "var", "void", "while"))


# Kinds of tokens other than operators. The kind of an operator is its text.
END: Final = "<EOF>"
IDENTIFIER: Final = "IDENTIFIER"
INT: Final = "NUM_INT"
UINT: Final = "NUM_UINT"
FLOAT: Final = "NUM_FLOAT"
STRING: Final = "STRING"
BYTES: Final = "BYTES"
ESCAPED: Final = "ESC_IDENTIFIER"  # between backticks; no server of Kubernetes allows it

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
    r"|(?P<ESC_IDENTIFIER>`[A-Za-z0-9_./ -]+`)"
    r"|(?P<IDENTIFIER>[A-Za-z_][A-Za-z0-9_]*)"
    rf"|(?P<NUM_FLOAT>[0-9]+\.[0-9]+(?:{_EXPONENT})?|[0-9]+{_EXPONENT}|\.[0-9]+(?:{_EXPONENT})?)"
    r"|(?P<NUM_UINT>(?:0x[0-9a-fA-F]+|[0-9]+)[uU])"
    r"|(?P<NUM_INT>0x[0-9a-fA-F]+|[0-9]+)"
    r"|(?P<operator>==|!=|<=|>=|&&|\|\||[<>\[\]{}().,!?:+*/%-])"
)

# How far an unterminated string extends, and how far its last escape sequence does.
_OPEN_STRING: Final = {quote: re.compile(rf"{quote}(?:{_ESCAPE}|[^\\{quote}\n\r])*") for quote in "'\""}
_OPEN_ESCAPE: Final = re.compile(
    r"\\(?:[xX][0-9a-fA-F]{0,1}|u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7}|[0-3][0-7]{0,1})?"
)


_OPEN_NAME: Final = re.compile("`[A-Za-z0-9_./ -]*")


class Token(NamedTuple):
    kind: str
    text: str
    offset: int  # in code points


class Unrecognized(NamedTuple):
    """Text that begins no token."""

    text: str
    offset: int


def tokenize(source: str, *, escaped: bool = False) -> tuple[list[Token], list[Unrecognized]]:
    """Return the tokens of `source` without white space and comments; the last one is of kind END.

    `escaped`: the grammar has names between backticks.
    """
    tokens: list[Token] = []
    unrecognized: list[Unrecognized] = []
    match = _TOKEN.match
    offset, end = 0, len(source)
    while offset < end:
        found = match(source, offset)
        if found is None or (found.lastgroup == ESCAPED and not escaped):
            end_of_wrong = _first_wrong(source, offset, escaped)
            wrong = Unrecognized(source[offset : end_of_wrong + 1], offset)
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


def _first_wrong(source: str, offset: int, escaped: bool) -> int:
    """Return the offset of the first character that cannot be in a token that begins at `offset`."""
    first = source[offset]
    if first in "=&|":
        return offset + 1
    if first == "`" and escaped:
        begun = _OPEN_NAME.match(source, offset)
        assert begun is not None
        return begun.end()
    if first in _OPEN_STRING:
        found = _OPEN_STRING[first].match(source, offset)
        assert found is not None
        escape = _OPEN_ESCAPE.match(source, found.end())
        return escape.end() if escape else found.end()
    return offset


_ESCAPES: Final = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "`": "`",
    "?": "?",
}
_LITERAL_ESCAPE: Final = re.compile(r"\\(?:[xX](..)|u(....)|U(........)|([0-3][0-7][0-7])|(.))", re.DOTALL)
_LINE_ENDS: Final = re.compile(r"\r\n?")


def int_of(text: str, sign: str = "") -> int | None:
    value = int(sign + text[2:], 16) if text.startswith("0x") else _decimal(sign + text)
    return value if value is not None and -(2**63) <= value < 2**63 else None


def uint_of(text: str) -> Uint | None:
    text = text[:-1]
    value = int(text[2:], 16) if text.startswith("0x") else _decimal(text)
    return Uint(value) if value is not None and value < 2**64 else None


def _decimal(text: str) -> int | None:
    """Parse decimal digits, or return None for more than 64 bits need: converting long decimals takes
    quadratic time.
    """
    digits = text.lstrip("-").lstrip("0")
    return int(text) if len(digits) <= 20 else None


def double_of(text: str, sign: str = "") -> float | None:
    value = float(sign + text)
    return value if math.isfinite(value) else None


def string_of(text: str, *, surrogates: bool = True) -> str | None:
    """The value of a string literal, with a replacement character for each of the `surrogates` if it may have any."""
    raw, body = _body(text)
    if raw or "\\" not in body:
        return body
    try:
        return _LITERAL_ESCAPE.sub(_character if surrogates else _code_point, body)
    except (ValueError, OverflowError):
        return None


def bytes_of(text: str) -> bytes | None:
    raw, body = _body(text[1:])
    if raw or "\\" not in body:
        return body.encode()
    parts: list[bytes] = []
    end = 0
    for found in _LITERAL_ESCAPE.finditer(body):
        parts.append(body[end : found.start()].encode())
        short, unicode, long, octal, character = found.groups()
        if unicode or long:
            return None
        parts.append(
            bytes([int(short, 16) if short else int(octal, 8)])
            if short or octal
            else _ESCAPES[character].encode()
        )
        end = found.end()
    parts.append(body[end:].encode())
    return b"".join(parts)


def _body(text: str) -> tuple[bool, str]:
    """Return whether a string literal is raw, and the text between its quotes."""
    text = _LINE_ENDS.sub("\n", text)
    raw = text[0] in "rR"
    if raw:
        text = text[1:]
    quotes = 3 if len(text) >= 6 and text[:3] in ("'''", '"""') else 1
    return raw, text[quotes:-quotes]


def _character(found: re.Match[str]) -> str:
    short, unicode, long, octal, character = found.groups()
    if character:
        return _ESCAPES[character]
    code = int(octal, 8) if octal else int(short or unicode or long, 16)
    return "�" if 0xD800 <= code <= 0xDFFF else chr(code)


def _code_point(found: re.Match[str]) -> str:
    character = _character(found)
    if character == "\ufffd" and found[0].lower() not in ("\\ufffd", "\\u0000fffd"):
        raise ValueError
    return character
