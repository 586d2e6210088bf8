"""The options of a forwarded request, from its query: decoded by the fields of their kind, and checked.

Parameters that are no fields of the options belong to whom the request is forwarded to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from actors.errors import BadRequest, Invalid
from actors.kinds.declaration.definition import Definition
from actors.kinds.schema.fields import BOOL, INT64, STRING, TIME, ListOf
from actors.kinds.validation import NEGATIVE, FieldErrors, collect, forbidden, invalid
from actors.kinds.values.times import canonical_seconds
from actors.messages import Object
from actors.quoting import quoted_start

_INT64: Final = (-(1 << 63), (1 << 63) - 1)
_PORTS: Final = (0, 65535)
_POSITIVE: Final = "must be greater than 0"


def decode_options(definition: Definition, query: Mapping[str, Sequence[str]]) -> Object:
    """The options that a query has. BadRequest."""
    found: Object = {}
    for field in definition.fields.fields:
        values = query.get(field.name)
        if values:
            value = _decoded(field.type, values)
            if value or field.pointer:
                found[field.name] = value
    return found


def _decoded(kind: Any, values: Sequence[str]) -> Any:
    first = values[0]
    if kind is STRING:
        return first
    if kind is BOOL:
        return first.lower() not in ("false", "0")
    if kind is INT64:
        return _integer(first)
    if kind is TIME:
        return _time(first)
    assert isinstance(kind, ListOf)
    if kind.item is STRING:
        return list(values)
    return [_port(one) for value in values for one in value.split(",")]


def _integer(text: str) -> int:
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()):
        raise BadRequest(f"strconv.ParseInt: parsing {quoted_start(text)}: invalid syntax")
    value = int(text) if len(text) < 32 else _INT64[1] + 1
    if not _INT64[0] <= value <= _INT64[1]:
        raise BadRequest(f"strconv.ParseInt: parsing {quoted_start(text)}: value out of range")
    return value


def _port(text: str) -> int:
    shown = f"cannot convert to []int32: strconv.ParseUint: parsing {quoted_start(text)}"
    if not (text.isascii() and text.isdigit()):
        raise BadRequest(f"{shown}: invalid syntax")
    if len(text) > 9 or int(text) > _PORTS[1]:
        raise BadRequest(f"{shown}: value out of range")
    return int(text)


def _time(text: str) -> str:
    try:
        return canonical_seconds(text) or text
    except ValueError as error:
        raise BadRequest(str(error)) from None


def check_log_options(name: str, options: Object) -> None:
    """Invalid."""
    if found := collect(_log_rules, options):
        raise Invalid("", "PodLogOptions", name, [one.cause() for one in found])


def _log_rules(errors: FieldErrors, options: Object) -> None:
    tail, limit, since = (options.get(one) for one in ("tailLines", "limitBytes", "sinceSeconds"))
    if tail is not None and tail < 0:
        errors.add(invalid("tailLines", tail, NEGATIVE))
    if limit is not None and limit < 1:
        errors.add(invalid("limitBytes", limit, _POSITIVE))
    if since is not None and "sinceTime" in options:
        errors.add(forbidden("", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    elif since is not None and since < 1:
        errors.add(invalid("sinceSeconds", since, _POSITIVE))
