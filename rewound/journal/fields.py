"""Checks of values that other programs wrote: fields of streams, backups, exports and records.

A checksum proves that bytes are those that were sent, not that they make sense. Stored values are read for years by
code that trusts them, so each is checked before it is stored. Each function returns the value, or raises ValueError
with the name of the field, what was expected and what was found.
"""

from __future__ import annotations

from typing import Any

SHOWN = 40  # how many characters of a wrong value an error quotes


def number(field: str, value: Any, low: int, high: int) -> int:
    if type(value) is not int:
        raise ValueError(f"{field}: expected a number, found {described(value)}")
    if not low <= value <= high:
        raise ValueError(f"{field}: {value} is not between {low} and {high}")
    return value


def text(field: str, value: Any, most: int | None = None) -> str:
    """With `most`, 1 to `most` characters; without it, any number."""
    if type(value) is not str:
        raise ValueError(f"{field}: expected text, found {described(value)}")
    if most is not None and not 0 < len(value) <= most:
        raise ValueError(f"{field}: expected 1 to {most} characters, found {described(value)}")
    return value


def octets(field: str, value: Any, size: int | None = None) -> bytes:
    if type(value) is not bytes:
        raise ValueError(f"{field}: expected bytes, found {described(value)}")
    if size is not None and len(value) != size:
        raise ValueError(f"{field}: expected {size} bytes, found {len(value)}")
    return value


def boolean(field: str, value: Any) -> bool:
    if type(value) is not bool:
        raise ValueError(f"{field}: expected true or false, found {described(value)}")
    return value


def mapping(field: str, value: Any) -> dict[Any, Any]:
    if type(value) is not dict:
        raise ValueError(f"{field}: expected names with values, found {described(value)}")
    return value


def sequence(field: str, value: Any) -> list[Any]:
    if type(value) is not list:
        raise ValueError(f"{field}: expected a list, found {described(value)}")
    return value


def described(value: Any) -> str:
    """A short description of a value, for errors."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return f"the number {value}"
        case str():
            shown = repr(value[:SHOWN]) + ("..." if len(value) > SHOWN else "")
            return f"the text {shown}"
        case bytes():
            return f"{len(value)} bytes"
        case list() | tuple():
            return f"a list of {len(value)}"
        case dict():
            return f"a map of {len(value)}"
    return f"a {type(value).__name__}"
