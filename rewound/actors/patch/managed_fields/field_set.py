"""Sets of fields, in the form in which objects carry them (FieldsV1): nested maps of path elements.

    {"f:data": {".": {}, "f:k": {}}}      data itself and data.k
    {"f:data": {"f:k": {}}}               data.k alone

An empty map is a member with nothing below it; "." marks a member that has members below it. The outermost map is no
field, so an empty one is the empty set. Since this is also the stored form, the ownership of an object is parsed and
written with the object, and a set that does not change costs nothing: union and difference return their first
argument itself if it equals the result. No function changes an argument.

    f:name   a field or key        k:{"port":80,"protocol":"TCP"}   an entry of a list, by its keys
    v:"x"    an element of a set   i:0                              an element by its index (read, never made)

Sets are ordered ("." first, then by element), and every operation on ordered sets returns an ordered set.

Messages print paths in another form; keys of an entry are in alphabetical order, so that one entry has one spelling:

    entry(("containerPort", "protocol"), (53, "TCP"))  ->  k:{"containerPort":53,"protocol":"TCP"}
    path_text(("f:spec", 'k:{"name":"c"}', "f:image"))    ->  .spec[name="c"].image
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from json.encoder import encode_basestring
from typing import Any, Final

import orjson

from rewound.actors.golang.json import unescaped
from rewound.actors.runtime.time_limit import check_time

Fields = dict[str, Any]  # values are Fields again: a recursive type would need a cast at every use
Path = tuple[str, ...]

HERE: Final = "."


class Whole(Fields):
    """A member that is known to be a single value. Older sets may have members below such a field."""

    __slots__ = ()


WHOLE: Final = Whole()


def is_member(node: Fields) -> bool:
    return not node or HERE in node


def union(one: Fields, other: Fields) -> Fields:
    both = one
    for element, theirs in other.items():
        ours = one.get(element)
        node = theirs if ours is None else _either(ours, theirs)
        if node is not ours:
            if both is one:
                both = dict(one)
            both[element] = node
    return both if len(both) == len(one) else dict(sorted(both.items()))


def union_of_all(sets: list[Fields]) -> Fields:
    """Unite at least one set. It unites them in pairs, so that each element is copied only a few times."""
    while len(sets) > 1:
        check_time()
        pairs = zip(sets[::2], sets[1::2], strict=False)
        sets = [*(union(one, other) for one, other in pairs), *sets[len(sets) & ~1 :]]
    return sets[0]


def _either(ours: Fields, theirs: Fields) -> Fields:
    if not theirs:
        return ours if is_member(ours) else {HERE: {}, **ours}
    if not ours:
        return theirs if HERE in theirs else {HERE: {}, **theirs}
    return union(ours, theirs)


def difference(one: Fields, other: Fields) -> Fields:
    """Return the members of one that are not members of the other. Members below a member are not affected by it."""
    left = one
    for element in other if len(other) < len(one) else one:
        ours, theirs = one.get(element), other.get(element)
        if ours is None or theirs is None:
            continue
        node = _without(ours, theirs)
        if node is ours:
            continue
        if left is one:
            left = dict(one)
        if node is None:
            del left[element]
        else:
            left[element] = node
    return left


def _without(ours: Fields, theirs: Fields) -> Fields | None:
    if theirs is WHOLE:
        return None
    if not ours:
        return None if is_member(theirs) else ours
    if not theirs:
        theirs = {HERE: {}}
    left = difference(ours, theirs)
    return left if left is ours else _node(left)


def has_exactly(one: Fields, other: Fields) -> bool:
    """Whether all members of the other set are members of one, without more below single values: then removing and
    adding them leaves one as it is.
    """
    for element, theirs in other.items():
        ours = one.get(element)
        if ours is None or not (has_exactly(ours, theirs) if theirs and ours else ours == theirs):
            return False
    return True


def intersection(one: Fields, other: Fields) -> Fields:
    both: Fields = {}
    for element in other if len(other) < len(one) else one:
        ours, theirs = one.get(element), other.get(element)
        node = None if ours is None or theirs is None else _shared(ours, theirs)
        if node is not None:
            both[element] = node
    return both


def _shared(ours: Fields, theirs: Fields) -> Fields | None:
    if theirs is WHOLE:
        return ours and {}
    if not ours:
        return ours if is_member(theirs) else None
    if not theirs:
        return {} if HERE in ours else None
    return _node(intersection(ours, theirs))


def _node(below: Fields) -> Fields | None:
    """Return the node for this content: None if there is nothing, a member alone, or the content itself."""
    if len(below) > 1:
        return below
    if HERE in below:
        return {}
    return below or None


def members(fields: Fields) -> Iterator[Path]:
    """Yield every member as its path, parents before children."""
    for element, node in fields.items():
        if element == HERE:
            continue
        if is_member(node):
            yield (element,)
        for path in members(node):
            yield (element, *path)


def arranged(fields: Fields) -> Fields:
    """Return the same set in order, whatever order it was sent in."""
    return {element: arranged(fields[element]) for element in sorted(fields)}


FIELD: Final = "f:"
ENTRY: Final = "k:"
VALUE: Final = "v:"
INDEX: Final = "i:"

quoted: Final = encode_basestring  # the same result as orjson, but faster for a single text


class NotFields(ValueError):
    """A value that should be a FieldsV1 set is not one."""


def entry(names: Sequence[str], values: Iterable[Any]) -> str:
    """Return the element of a list entry. `names` are in alphabetical order."""
    return ENTRY + unescaped(dict(zip(names, values, strict=True))).decode()


def value(of: Any) -> str:
    return VALUE + (quoted(of) if type(of) is str else unescaped(of).decode())


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
    return "[" + ",".join(f"{name}={unescaped(of).decode()}" for name, of in keys.items()) + "]"


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
    return (0, of, "") if number else (1, 0, unescaped(of).decode())


def read_fields(sent: Any) -> Fields:
    """Read a set that a client sent: canonical spelling, without path elements of unknown kinds."""
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
    return unescaped(keys, option=orjson.OPT_SORT_KEYS).decode()


def _read_value(text: str) -> str:
    return unescaped(_read_json(text), option=orjson.OPT_SORT_KEYS).decode()


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
