"""Describes JSON syntax errors as Go's encoding/json does: the invalid character and what it follows.

`json_tree` calls this with the error of the standard library's parser, which has the position but other words.
Clients of this API know Go's words. Only one character of the text itself is repeated, because it may be a secret.
Rejected: our own parser just for these words.
"""

from __future__ import annotations

import json
import re
from typing import Final

from rewound.actors.golang.quoting import quoted

END: Final = "unexpected end of JSON input"

_CONTEXTS: Final = {
    "Expecting value": "looking for beginning of value",
    "Expecting property name enclosed in double quotes": "looking for beginning of object key string",
    "Expecting ':' delimiter": "after object key",
    "Extra data": "after top-level value",
}
_VALUE: Final = _CONTEXTS["Expecting value"]
_BLANKS: Final = " \t\r\n"
_LITERALS: Final = {"t": "true", "f": "false", "n": "null"}
_IN_OBJECT: Final = "after object key:value pair"
_IN_LIST: Final = "after array element"
_BRACKETS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]', re.DOTALL)


def describe_error(error: json.JSONDecodeError) -> str:
    text, at = error.doc, error.pos
    if error.msg.startswith("Invalid control character"):
        return _invalid_character(text[at], "in string literal")
    if error.msg.startswith("Unterminated string") or not text[at:].strip(_BLANKS):
        return END
    if error.msg.startswith("Invalid \\"):
        return _escape_error(text, at if text[at] == "\\" else at - 1)
    if error.msg == "Expecting value" and text[at] in _LITERALS:
        return _literal_error(text, at, _LITERALS[text[at]])
    if error.msg == "Expecting value" and text[at] == "-":
        return _invalid_character(text[at + 1], "in numeric literal") if text[at + 1 :] else END
    if error.msg == "Expecting ',' delimiter":
        return _invalid_character(text[at], _container(text[:at]))
    return _invalid_character(text[at], _CONTEXTS.get(error.msg, _VALUE))


def _invalid_character(letter: str, context: str) -> str:
    shown = r"\'" if letter == "'" else '"' if letter == '"' else quoted(letter)[1:-1]
    return f"invalid character '{shown}' {context}"


def _literal_error(text: str, at: int, word: str) -> str:
    for index, wanted in enumerate(word):
        if at + index == len(text):
            return END
        if text[at + index] != wanted:
            return _invalid_character(text[at + index], f"in literal {word} (expecting '{wanted}')")
    return END


def _escape_error(text: str, begin: int) -> str:
    if text[begin + 1 : begin + 2] != "u":
        return _invalid_character(text[begin + 1], "in string escape code") if begin + 1 < len(text) else END
    wrong = re.compile("[^0-9a-fA-F]").search(text, begin + 2)
    return _invalid_character(wrong[0], r"in \u hexadecimal character escape") if wrong else END


def _container(before: str) -> str:
    """Return whether the innermost open bracket at the end of this text is an object or a list."""
    open_ones = [""]
    for found in _BRACKETS.finditer(before):
        if found[0] in ("{", "["):
            open_ones.append(found[0])
        elif found[0] in ("}", "]"):
            open_ones.pop()
    return _IN_OBJECT if open_ones[-1] == "{" else _IN_LIST
