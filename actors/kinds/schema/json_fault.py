"""What is wrong with a text that is not JSON: the letter that does not fit, and what it stands behind.

Called by `scan` with the complaint of the standard library's reader, which knows the place but speaks of what it
hoped for. People who know this API know other words, and the letter at fault helps more than a count of
characters. The text itself is never repeated beyond one letter: it may be a secret. Rejected: a reader of our own
for the words alone.
"""

from __future__ import annotations

import json
import re
from typing import Final

from actors.kinds.values.spelling import quoted

END: Final = "unexpected end of JSON input"

_PLACES: Final = {
    "Expecting value": "looking for beginning of value",
    "Expecting property name enclosed in double quotes": "looking for beginning of object key string",
    "Expecting ':' delimiter": "after object key",
    "Extra data": "after top-level value",
}
_VALUE: Final = _PLACES["Expecting value"]
_BLANKS: Final = " \t\r\n"
_WORDS: Final = {"t": "true", "f": "false", "n": "null"}
_IN_OBJECT: Final = "after object key:value pair"
_IN_LIST: Final = "after array element"
_BRACKETS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]', re.DOTALL)


def fault(error: json.JSONDecodeError) -> str:
    text, at = error.doc, error.pos
    if error.msg.startswith("Invalid control character"):
        return _misfit(text[at], "in string literal")
    if error.msg.startswith("Unterminated string") or not text[at:].strip(_BLANKS):
        return END
    if error.msg.startswith("Invalid \\"):
        return _escape_fault(text, at if text[at] == "\\" else at - 1)
    if error.msg == "Expecting value" and text[at] in _WORDS:
        return _word_fault(text, at, _WORDS[text[at]])
    if error.msg == "Expecting value" and text[at] == "-":
        return _misfit(text[at + 1], "in numeric literal") if text[at + 1 :] else END
    if error.msg == "Expecting ',' delimiter":
        return _misfit(text[at], _container(text[:at]))
    return _misfit(text[at], _PLACES.get(error.msg, _VALUE))


def _misfit(letter: str, place: str) -> str:
    shown = r"\'" if letter == "'" else '"' if letter == '"' else quoted(letter)[1:-1]
    return f"invalid character '{shown}' {place}"


def _word_fault(text: str, at: int, word: str) -> str:
    for index, wanted in enumerate(word):
        if at + index == len(text):
            return END
        if text[at + index] != wanted:
            return _misfit(text[at + index], f"in literal {word} (expecting '{wanted}')")
    return END


def _escape_fault(text: str, begin: int) -> str:
    if text[begin + 1 : begin + 2] != "u":
        return _misfit(text[begin + 1], "in string escape code") if begin + 1 < len(text) else END
    wrong = re.compile("[^0-9a-fA-F]").search(text, begin + 2)
    return _misfit(wrong[0], r"in \u hexadecimal character escape") if wrong else END


def _container(before: str) -> str:
    """Whether what is open at the end of this text is an object or a list."""
    open_ones = [""]
    for found in _BRACKETS.finditer(before):
        if found[0] in ("{", "["):
            open_ones.append(found[0])
        elif found[0] in ("}", "]"):
            open_ones.pop()
    return _IN_OBJECT if open_ones[-1] == "{" else _IN_LIST
