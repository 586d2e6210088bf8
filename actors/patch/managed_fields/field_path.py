"""Path elements of field sets (FieldsV1), and the form in which messages print paths.

    entry(("containerPort", "protocol"), (53, "TCP"))  ->  k:{"containerPort":53,"protocol":"TCP"}
    path_text(("f:spec", 'k:{"name":"c"}', "f:image"))    ->  .spec[name="c"].image

Keys of an entry are in alphabetical order, so that one entry has one spelling.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from json.encoder import encode_basestring
from typing import Any, Final

import orjson

from actors.patch.managed_fields.field_set import HERE, Fields, Path, arranged

FIELD: Final = "f:"
ENTRY: Final = "k:"
VALUE: Final = "v:"
INDEX: Final = "i:"

quoted: Final = encode_basestring  # as orjson does, but of a text alone it is quicker


class NotFields(ValueError):
    """A value that should be a FieldsV1 set is not one."""


def entry(names: Sequence[str], values: Iterable[Any]) -> str:
    """`names` in alphabetical order."""
    return ENTRY + orjson.dumps(dict(zip(names, values, strict=True))).decode()


def value(of: Any) -> str:
    return VALUE + (quoted(of) if type(of) is str else orjson.dumps(of).decode())


def path_text(path: Path) -> str:
    return "".join(map(_element_text, path))


def _element_text(element: str) -> str:
    kind, rest = element[:2], element[2:]
    if kind == FIELD:
        return f".{rest}"
    if kind == INDEX:
        return f"[{rest}]"
    if kind == VALUE:
        return f"[={rest}]"
    keys = orjson.loads(rest)
    return "[" + ",".join(f"{name}={orjson.dumps(of).decode()}" for name, of in keys.items()) + "]"


def in_order(path: Path) -> tuple[Any, ...]:
    """A sort key: numbers in numeric order, a field before the fields below it."""
    *around, last = path
    return (*((1, *_place(element)) for element in around), (0, *_place(last)))


def _place(element: str) -> tuple[Any, ...]:
    kind, rest = element[:2], element[2:]
    if kind == FIELD:
        return (0, rest)
    if kind == INDEX:
        return (3, int(rest))
    found = orjson.loads(rest)
    if kind == VALUE:
        return (2, *_comparable(found))
    return (1, *((name, *_comparable(of)) for name, of in found.items()))


def _comparable(of: Any) -> tuple[Any, ...]:
    number = isinstance(of, int | float)
    return (0, of, "") if number else (1, 0, orjson.dumps(of).decode())


def read_fields(sent: Any) -> Fields:
    """Read a set that a client sent into canonical spelling, without path elements of unknown kinds."""
    fields = arranged(_read_node(sent))
    fields.pop(HERE, None)
    return fields


def _read_node(sent: Any) -> Fields:
    if not isinstance(sent, dict):
        raise NotFields("a set of fields is an object of objects")
    node: Fields = {}
    for element, below in sent.items():
        if element == HERE:
            node[HERE] = {}
        elif element[:2] in _READERS:
            node[element[:2] + _READERS[element[:2]](element[2:])] = _read_node(below)
    return node if node.keys() != {HERE} else {}


def _read_field(text: str) -> str:
    return text


def _read_entry(text: str) -> str:
    keys = _read_json(text)
    if not isinstance(keys, dict) or not keys or any(isinstance(of, dict | list) for of in keys.values()):
        raise NotFields("the keys of a list entry are an object of plain values")
    return orjson.dumps(keys, option=orjson.OPT_SORT_KEYS).decode()


def _read_value(text: str) -> str:
    return orjson.dumps(_read_json(text), option=orjson.OPT_SORT_KEYS).decode()


def _read_index(text: str) -> str:
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise NotFields("the place of a list element is a small number")
    return str(int(text))


def _read_json(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise NotFields(f"not JSON: {error}") from None


_READERS: Final = {FIELD: _read_field, ENTRY: _read_entry, VALUE: _read_value, INDEX: _read_index}
