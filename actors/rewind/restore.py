"""What a rollback or an undelete writes: the content of an old version with the identity of the present object.

Pure: the write itself is an ordinary update or create, with admission and validation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from actors.errors import BadRequest
from actors.quoting import quoted_start
from actors.rewind.fields import has_field, parse_field, take_field

Object = dict[str, Any]

# What the server maintains: it stays as it is, and a new object gets its own.
_SYSTEM = (
    "name",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
)
_NOT_CREATED = tuple(name for name in _SYSTEM if name not in ("name", "namespace"))


def rolled_back(present: Object, past: Object, fields: Sequence[str] = ()) -> Object:
    """The present object with the content, or only some fields, of an old version. BadRequest for a wrong field.

    It keeps the resourceVersion of the present object, so that the update fails if somebody else writes meanwhile.
    """
    if not fields:
        kept = {name: value for name, value in present["metadata"].items() if name in _SYSTEM}
        restored = {name: value for name, value in past["metadata"].items() if name not in _SYSTEM}
        return {**past, "metadata": {**kept, **restored}}
    result = {**present, "metadata": dict(present["metadata"])}
    for text in fields:
        steps = parse_field(text)
        if steps[0] == "metadata" and (len(steps) < 2 or steps[1] in _SYSTEM):
            raise BadRequest(f"fields: Invalid value: {quoted_start(text)}: the server maintains it")
        take_field(steps, past, result)
    return result


def absent_fields(present: Object, past: Object, fields: Sequence[str]) -> list[str]:
    """A warning for each field that neither version has: perhaps its name is wrong. BadRequest."""
    return [
        f"fields: {text}: neither the object nor its old version has this field"
        for text in fields
        if not any(has_field(parse_field(text), one) for one in (present, past))
    ]


def undeleted(last: Object) -> Object:
    """The object to create again, from its last content."""
    metadata = {name: value for name, value in last["metadata"].items() if name not in _NOT_CREATED}
    return {**last, "metadata": metadata}
