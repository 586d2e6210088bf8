"""Parses JSON text into a tree that keeps everything a decoder may have to report.

Objects become `Members`, pairs in document order including duplicates; numbers stay text (`Number`), so that a
million digits cost nothing and 1.0 differs from 1. Only the exact decoder uses the tree: the pydantic decoder has its
own parser. Patches, which no declaration describes, are parsed with `parse_values`. Rejected: a parser written here,
because that of the standard library is in C and gives the same tree.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterable
from typing import Any, Final, NoReturn

import orjson

from rewound.actors.golang.json import DEEPEST, is_too_deep
from rewound.actors.golang.quoting import quoted

TOO_DEEP: Final = f"exceeded max depth: documents may have {DEEPEST} levels, please nest less"


class NotJson(ValueError):
    """The text is not JSON, or nests too deep. `reason` does not say where."""

    def __init__(self, reason: str, offset: int | None = None) -> None:
        self.reason = reason
        super().__init__(reason if offset is None or reason == _END else f"{reason} at offset {offset}")


class Members(list[tuple[str, Any]]):
    """An object as sent: (name, value) pairs in order."""

    __slots__ = ()


class Number(str):
    """A number as sent."""

    __slots__ = ()

    def whole(self) -> int | None:
        """Its value, if it is an integer of at most 20 characters."""
        if len(self) > 20 or not self.removeprefix("-").isdecimal():
            return None
        return int(self)

    def nearest(self) -> int | float:
        """The closest number that fits in 64 bits."""
        whole = self.whole()
        if whole is not None and -(2**63) <= whole < 2**64:
            return whole
        close = float(self) if len(self) < 1000 else float("inf")
        if close in (float("inf"), float("-inf")):
            raise NotJson(f"number {self:.20}... is out of range")
        return close


def parse_tree(raw: bytes) -> Any:
    return _parsed(_decode, raw)


def parse_values(raw: bytes) -> tuple[Any, bool]:
    """Return `plain(parse_tree(raw))` in a fraction of the time, and whether an object has a duplicate member."""
    try:
        value = orjson.loads(raw)
        if orjson.dumps(value) == raw:
            return value, False
    except (orjson.JSONDecodeError, TypeError):
        pass  # the parser below reports what is wrong
    doubled: list[bool] = []

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            doubled.append(True)
        return found

    reader = json.JSONDecoder(
        object_pairs_hook=members, parse_int=_number, parse_float=_number, parse_constant=_refuse_constant
    )
    value = _parsed(reader.decode, raw)
    _refuse_depth(value, raw)
    return value, bool(doubled)


def _number(text: str) -> int | float:
    return Number(text).nearest()


def _refuse_depth(value: Any, raw: bytes) -> None:
    if is_too_deep(value, raw):
        raise NotJson(TOO_DEEP)


def _parsed(decode: Callable[[str], Any], raw: bytes) -> Any:
    text = raw.decode("utf-8", _REPLACE_EACH_BYTE)
    if "\\ud" in text or "\\uD" in text:
        text = _SURROGATES.sub(lambda found: found[1] or "\\ufffd", text)
    try:
        return decode(text)
    except json.JSONDecodeError as error:
        raise NotJson(_describe(error), error.pos) from None
    except RecursionError:
        raise NotJson(TOO_DEEP) from None


def plain(value: Any, depth: int = DEEPEST) -> Any:
    """Return the tree as ordinary dicts, lists and numbers; of duplicates the last one counts."""
    if not depth:
        raise NotJson(TOO_DEEP)
    if isinstance(value, Members):
        return {name: plain(member, depth - 1) for name, member in value}
    if isinstance(value, dict):
        return {name: plain(member, depth - 1) for name, member in value.items()}
    if isinstance(value, list):
        return [plain(item, depth - 1) for item in value]
    return value.nearest() if isinstance(value, Number) else value


def tree_is_too_deep(value: Any) -> bool:
    """Whether a tree, from any of the parsers, has more than `DEEPEST` levels."""
    level = [value]
    for _ in range(DEEPEST):
        level = [inner for one in level for inner in _members(one) if isinstance(inner, dict | list)]
        if not level:
            return False
    return True


def _members(value: Any) -> Iterable[Any]:
    if isinstance(value, Members):
        return [member for _, member in value]
    return value.values() if isinstance(value, dict) else value


def as_go_reads(value: Any) -> Any:
    """Return a plain tree with the numbers that Go reads: 64-bit integers and floats.

    9223372036854775808 is a float, which is not a valid integer. 1.0 is written as 1, and is one. Floats beyond what
    a double counts exactly, such as 1e18, are no integers even though they are written without a fraction.
    """
    if isinstance(value, dict):
        return {name: as_go_reads(member) for name, member in value.items()}
    if isinstance(value, list):
        return [as_go_reads(item) for item in value]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    return value if -(2**63) <= value < 2**63 else float(value)


def stored_numbers(value: Any) -> Any:
    """Return a plain tree as Go writes it: a float without a fraction becomes an integer, if it fits in 64 bits."""
    if type(value) is float:
        return int(value) if value.is_integer() and -(2.0**63) <= value < 2.0**63 else value
    if type(value) is dict:
        return {name: stored_numbers(member) for name, member in value.items()}
    return [stored_numbers(item) for item in value] if type(value) is list else value


def _replace_each_byte(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "\ufffd" * (error.end - error.start), error.end


_REPLACE_EACH_BYTE: Final = "rewound.replace-each-byte"
codecs.register_error(_REPLACE_EACH_BYTE, _replace_each_byte)

# Escapes of lone surrogates; group 1 is everything else that starts with a backslash.
_SURROGATES: Final = re.compile(
    r"(\\[^u]|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)


def _refuse_constant(word: str) -> NoReturn:
    raise NotJson(f"invalid literal {word}")


_decode = json.JSONDecoder(
    object_pairs_hook=Members, parse_int=Number, parse_float=Number, parse_constant=_refuse_constant
).decode


# Errors in Go's words.

_END: Final = "unexpected end of JSON input"

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
# A string that does not end is skipped up to the end, and not searched again from each of its quotes.
_BRACKETS: Final = re.compile(r'"(?:[^"\\]|\\.|\\\Z)*+(?:"|\Z)|[{}\[\]]', re.DOTALL)


def _describe(error: json.JSONDecodeError) -> str:
    """Describe a syntax error as Go does: the invalid character and what it follows.

    Clients of this API know Go's words; the error of the standard library's parser has the position but other words.
    Only one character of the text itself is repeated, because it may be a secret.
    """
    text, at = error.doc, error.pos
    if error.msg.startswith("Invalid control character"):
        return _invalid_character(text[at], "in string literal")
    if error.msg.startswith("Unterminated string") or not text[at:].strip(_BLANKS):
        return _END
    if error.msg.startswith("Invalid \\"):
        return _escape_error(text, at if text[at] == "\\" else at - 1)
    if error.msg == "Expecting value" and text[at] in _LITERALS:
        return _literal_error(text, at, _LITERALS[text[at]])
    if error.msg == "Expecting value" and text[at] == "-":
        return _invalid_character(text[at + 1], "in numeric literal") if text[at + 1 :] else _END
    if error.msg == "Expecting ',' delimiter":
        return _invalid_character(text[at], _container(text[:at]))
    return _invalid_character(text[at], _CONTEXTS.get(error.msg, _VALUE))


def _invalid_character(letter: str, context: str) -> str:
    shown = r"\'" if letter == "'" else '"' if letter == '"' else quoted(letter)[1:-1]
    return f"invalid character '{shown}' {context}"


def _literal_error(text: str, at: int, word: str) -> str:
    for index, wanted in enumerate(word):
        if at + index == len(text):
            return _END
        if text[at + index] != wanted:
            return _invalid_character(text[at + index], f"in literal {word} (expecting '{wanted}')")
    return _END


def _escape_error(text: str, begin: int) -> str:
    if text[begin + 1 : begin + 2] != "u":
        return _invalid_character(text[begin + 1], "in string escape code") if begin + 1 < len(text) else _END
    wrong = re.compile("[^0-9a-fA-F]").search(text, begin + 2)
    return _invalid_character(wrong[0], r"in \u hexadecimal character escape") if wrong else _END


def _container(before: str) -> str:
    """Return whether the innermost open bracket at the end of this text is an object or a list."""
    open_ones = [""]
    for found in _BRACKETS.finditer(before):
        if found[0] in ("{", "["):
            open_ones.append(found[0])
        elif found[0] in ("}", "]"):
            open_ones.pop()
    return _IN_OBJECT if open_ones[-1] == "{" else _IN_LIST
