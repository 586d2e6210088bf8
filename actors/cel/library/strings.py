"""The string functions of cel-go's ext package. Positions are of code points."""

from __future__ import annotations

from typing import Any, Final

from actors.cel.runtime.containers import is_list, list_items
from actors.cel.values import EvaluationError, EvaluationStopped, type_name

_UPPER: Final = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_LOWER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
# What Go's unicode.IsSpace knows.
_SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)


def _out_of_range(index: int) -> EvaluationError:
    return EvaluationError(f"index out of range: {index}")


def char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise _out_of_range(index)
    return text[index : index + 1]


def index_of(text: str, searched: str, start: int = 0) -> int:
    if not searched:
        return start
    if not 0 <= start < len(text):
        raise _out_of_range(start)
    return text.find(searched, start)


def last_index_of(text: str, searched: str) -> int:
    return last_index_of_offset(text, searched, len(text) - 1) if searched else len(text)


def last_index_of_offset(text: str, searched: str, last: int) -> int:
    if not searched:
        return last
    if not 0 <= last < len(text):
        raise _out_of_range(last)
    return text.rfind(searched, 0, last + len(searched))


def lower_ascii(text: str) -> str:
    return text.lower() if text.isascii() else text.translate(_LOWER)


def upper_ascii(text: str) -> str:
    return text.upper() if text.isascii() else text.translate(_UPPER)


def trim(text: str) -> str:
    return text.strip(_SPACE)


def replace(text: str, old: str, new: str, count: int = -1) -> str:
    return text.replace(old, new, max(count, -1))


def split(text: str, separator: str, limit: int = -1) -> list[Any]:
    if limit == 0:
        return []
    count = limit - 1 if limit > 0 else -1
    if separator:
        return list(text.split(separator, count))
    characters = list(text)
    if limit <= 0 or len(characters) <= limit:
        return characters
    return [*characters[: limit - 1], "".join(characters[limit - 1 :])]


def substring(text: str, start: int) -> str:
    if not 0 <= start <= len(text):
        raise _out_of_range(start)
    return text[start:]


def substring_range(text: str, start: int, end: int) -> str:
    if start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, end):
        if not 0 <= index <= len(text):
            raise _out_of_range(index)
    return text[start:end]


def join(values: Any, separator: str = "") -> str:
    """Works on lists that the expression made; on a list of the object v1.25 fails, and not as an error of CEL."""
    if hasattr(values, "raw"):
        raise EvaluationStopped(
            "internal error: interface conversion: interface {} is []interface {}, not []string"
        )
    if not is_list(values):
        raise EvaluationError("no such overload")
    items = list(list_items(values))
    for item in items:
        if item.__class__ is not str:
            raise EvaluationError(_not_text(item))
    return separator.join(items)


def _not_text(item: Any) -> str:
    if isinstance(item, EvaluationError):
        return item.message
    names = {
        "int": "unsupported type conversion from 'int' to string",
        "bool": "type conversion error from bool to 'string'",
    }
    return names.get(type_name(item), f"type conversion error from '{type_name(item)}' to 'string'")
