"""What a rollback or an undelete writes: the content of an old version with the identity of the current object.

Pure: the write itself is an ordinary update or create, with admission and validation. A rollback may restore single
fields of the old version, named by their paths:

    spec.replicas                          in the notation of a difference or blame
    metadata.labels["app.example/name"]
    spec.containers[name=web].image        an item of a list by its merge key
    spec.rules[2]                          by position
    /metadata/labels/app.example~1name     or a JSON pointer
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import orjson

from rewound.actors.errors import BadRequest
from rewound.actors.golang.json import unescaped
from rewound.actors.golang.quoting import quoted, quoted_start

Object = dict[str, Any]

# The server maintains these fields: they stay as they are, and a new object gets its own.
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
    """Return the current object with the content of an old version, or only with some of its fields.

    It keeps the resourceVersion of the current object, so that the update fails after a write in between. Raises
    BadRequest for an invalid field.
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
    """Warn about each field that neither version has: its name may be wrong. Raises BadRequest for an invalid field."""
    return [
        f"fields: {text}: neither the object nor its old version has this field"
        for text in fields
        if not any(has_field(parse_field(text), one) for one in (present, past))
    ]


def undeleted(last: Object) -> Object:
    """Return the object to create again, from its last content."""
    metadata = {name: value for name, value in last["metadata"].items() if name not in _NOT_CREATED}
    return {**last, "metadata": metadata}


_STEP = re.compile(
    r"""\.?(?P<key>[A-Za-z_$][A-Za-z0-9_$-]*)
    |\[(?P<quoted>"(?:[^"\\]|\\.)*")\]
    |\[(?P<position>[0-9]{1,9})\]
    |\[(?P<field>[A-Za-z]+)=(?P<value>[^\]]*)\]""",
    re.VERBOSE,
)
MAX_FIELDS, MAX_LENGTH = 100, 1024
_MISSING: Any = object()

Step = str | int | tuple[str, str]  # a key, a position, or the merge key of an item and its value


def parse_field(text: str) -> list[Step]:
    """Return the steps of a path. Raises BadRequest if it is no path."""
    steps = _pointer_steps(text) if text.startswith("/") else _path_steps(text)
    if not steps or len(text) > MAX_LENGTH:
        raise BadRequest(
            f"fields: Invalid value: {quoted(text[:64])}: must be a path such as spec.replicas or /spec/replicas"
        )
    return steps


def _pointer_steps(text: str) -> list[Step]:
    keys = [part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/")]
    return [int(key) if key.isascii() and key.isdigit() and len(key) < 10 else key for key in keys]


def _path_steps(text: str) -> list[Step]:
    steps: list[Step] = []
    position = 0
    while position < len(text):
        found = _STEP.match(text, position)
        if found is None:
            return []
        position = found.end()
        if found["key"] is not None:
            steps.append(found["key"])
        elif found["quoted"] is not None:
            steps.append(orjson.loads(found["quoted"]))
        elif found["position"] is not None:
            steps.append(int(found["position"]))
        else:
            steps.append((found["field"], found["value"]))
    return steps


def take_field(steps: list[Step], past: Any, present: Any) -> None:
    """Set a field of `present` to its old value, or remove it if the old version did not have it."""
    value = past
    for step in steps:
        value = _get(value, step)
    target = present
    for at, step in enumerate(steps[:-1]):
        following = _get(target, step)
        if not isinstance(following, (dict, list)):
            if value is _MISSING:
                return
            following = {} if isinstance(steps[at + 1], str) else []
            _set(target, step, following)
        target = following
    if value is _MISSING:
        _remove(target, steps[-1])
    else:
        _set(target, steps[-1], orjson.loads(unescaped(value)))


def has_field(steps: list[Step], document: Any) -> bool:
    return field_of(steps, document) is not _MISSING


def field_of(steps: list[Step], document: Any, absent: Any = _MISSING) -> Any:
    """Return the value of a field, or `absent`."""
    for step in steps:
        document = _get(document, step)
    return absent if document is _MISSING else document


def _get(value: Any, step: Step) -> Any:
    if isinstance(value, dict):
        return value.get(str(step), _MISSING) if not isinstance(step, tuple) else _MISSING
    if isinstance(value, list):
        place = _place(value, step)
        return _MISSING if place is None else value[place]
    return _MISSING


def _place(items: list[Any], step: Step) -> int | None:
    if isinstance(step, int):
        return step if step < len(items) else None
    if isinstance(step, tuple):
        field, wanted = step
        matching = (
            at for at, item in enumerate(items) if isinstance(item, dict) and str(item.get(field)) == wanted
        )
        return next(matching, None)
    return None


def _set(target: Any, step: Step, value: Any) -> None:
    if isinstance(target, dict) and not isinstance(step, tuple):
        target[str(step)] = value
    elif isinstance(target, list) and not isinstance(step, str):
        place = _place(target, step)
        if place is None:
            target.append(value)
        else:
            target[place] = value


def _remove(target: Any, step: Step) -> None:
    if isinstance(target, dict) and not isinstance(step, tuple):
        target.pop(str(step), None)
    elif isinstance(target, list):
        place = _place(target, step)
        if place is not None:
            del target[place]
