"""Resolves scalars with a tag: !!str, !!int and so on. Any other tag is refused, never ignored."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Final

from gateway.wire.yaml.scalars import NULLS, Scalar, is_timestamp, resolve

_CORE: Final = "tag:yaml.org,2002:"
# The tag "!" means: do not guess the type.
_NON_SPECIFIC: Final = "!"
COLLECTIONS: Final = frozenset({_CORE + "map", _CORE + "seq", _NON_SPECIFIC})
MERGE: Final = _CORE + "merge"


def resolve_tagged(tag: str, text: str) -> Scalar:
    """The value; raises ValueError with a message for the client."""
    read = _READERS.get(tag)
    if read is None:
        raise ValueError(f"unknown tag {short_tag(tag)}")
    try:
        return read(text)
    except TypeError:
        raise ValueError(f"cannot decode `{text[:64]}` as a {short_tag(tag)}") from None


def short_tag(tag: str) -> str:
    abbreviated = "!!" + tag.removeprefix(_CORE) if tag.startswith(_CORE) else tag
    return abbreviated[:64]


def _null(text: str) -> None:
    if text not in NULLS:
        raise TypeError


def _bool(text: str) -> bool:
    value = resolve(text)
    if not isinstance(value, bool):
        raise TypeError
    return value


def _int(text: str) -> int:
    value = resolve(text)
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError
    return value


def _float(text: str) -> int | float:
    value = resolve(text)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError
    return value


def _timestamp(text: str) -> str:
    if not is_timestamp(text):
        raise TypeError
    return text


def _binary(text: str) -> str:
    try:
        return base64.b64decode("".join(text.split()), validate=True).decode()
    except UnicodeDecodeError:
        raise ValueError("!!binary value is not UTF-8 text: send it as base64 in a plain string") from None
    except binascii.Error:
        raise ValueError("!!binary value contains invalid base64 data") from None


_READERS: Final[dict[str, Callable[[str], Scalar]]] = {
    _NON_SPECIFIC: str,
    _CORE + "str": str,
    _CORE + "null": _null,
    _CORE + "bool": _bool,
    _CORE + "int": _int,
    _CORE + "float": _float,
    _CORE + "timestamp": _timestamp,
    _CORE + "binary": _binary,
}
