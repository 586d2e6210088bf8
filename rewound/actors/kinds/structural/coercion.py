"""Pruning and defaulting: turns a document into the object, compiled to one function per schema node.

Unknown fields are dropped, null counts as absent where the schema does not allow it, and defaults are filled in, also
inside defaults. The functions build a new tree and leave the document as it is. They track no paths: when something
was dropped (`Dropped`), `unknown_fields` walks through the document again and names it, which few documents need.

    node = {"type": "object", "properties": {"a": {"type": "string", "default": "x"}}}
    coerce({"b": 1})  ->  {"a": "x"}, one field dropped

Where unknown fields are preserved, only the declared ones are visited. Scalars are left to validation.

The function of a property is compiled when the first document has a value there: most documents use a small part of a
large schema, whose functions would be half a million objects for the garbage collector to visit.

A list of a million empty items, each with a default, would become gigabytes. So the bytes that defaults add to one
document are counted, and too many raise `DefaultsTooLarge`; `DefaultSizes` finds how large a default will be without
creating it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final, TypeVar

import orjson

from rewound.actors.errors import DefaultsTooLarge
from rewound.actors.golang.json import unescaped
from rewound.actors.kinds.structural.schema_node import NO_NODES, Node
from rewound.actors.runtime.time_limit import check_time

Dropped = list[str]  # names of dropped fields
Coerce = Callable[[Any, Dropped], Any]
Create = Callable[[], Any]
T = TypeVar("T")

TYPE_META: Final = frozenset(("apiVersion", "kind", "metadata"))
_SCALARS: Final = frozenset((str, int, float, bool))
_MANY: Final = 256  # members between two checks of the time
# Bytes of JSON that defaults may add to one object: more than the largest object that etcd accepts.
MOST_CREATED: Final = 2 << 20
_MEMBER: Final = 16  # per default, for its name, and because small values take more memory than text


class _Allowance(threading.local):
    """The bytes that defaults may still add to the document that this thread works on."""

    left = MOST_CREATED


_allowance: Final = _Allowance()


def compile_coercion(root: Node, *, defaults: bool, keep_nulls: bool = False) -> Coerce:
    """Compile `root`, without apiVersion, kind and metadata, which are no longer in the document.

    With `defaults`, the function may raise DefaultsTooLarge. `keep_nulls`: a null that is not allowed and has no
    default stays, for validation to refuse it.
    """
    coerce = _Compiler(defaults, keep_nulls).object(root, bool(root.preserve), is_root=True)
    if not defaults:
        return coerce

    def counted(value: Any, dropped: Dropped) -> Any:
        _allowance.left = MOST_CREATED
        return coerce(value, dropped)

    return counted


def default_of(node: Node, coerce: Coerce) -> Create | None:
    """Return a function that creates the default of a node, including the defaults inside it.

    It raises DefaultsTooLarge if the document then exceeds its limit.
    """
    if node.default is None:
        return None
    default = node.default if type(node.default) in _SCALARS else _filled(node.default, coerce)
    written = unescaped(default)
    size = len(written) + _MEMBER
    if type(default) in _SCALARS:
        return partial(_constant, size, default)
    return partial(_parsed, size, written)


def create_default(node: Node) -> Create | None:
    """Return a function that creates the default of one node outside a document, with a limit of its own.

    It raises DefaultsTooLarge beyond that limit.
    """
    create = default_of(node, _Compiler(defaults=True).of(node))
    if create is None:
        return None

    def counted() -> Any:
        _allowance.left = MOST_CREATED
        return create()

    return counted


def _filled(default: Any, coerce: Coerce) -> Any:
    """Return a default with those inside it. If it is too large, return a text that exceeds the limit of any
    document.
    """
    before, _allowance.left = _allowance.left, MOST_CREATED
    try:
        return coerce(default, [])
    except DefaultsTooLarge:
        return _TOO_LARGE
    finally:
        _allowance.left = before


_TOO_LARGE: Final = " " * MOST_CREATED


def _constant(size: int, default: Any) -> Any:
    _allowance.left -= size
    if _allowance.left < 0:
        raise DefaultsTooLarge(MOST_CREATED)
    return default


def _parsed(size: int, written: bytes) -> Any:
    _allowance.left -= size
    if _allowance.left < 0:
        raise DefaultsTooLarge(MOST_CREATED)
    return orjson.loads(written)


class DefaultSizes:
    """The size of defaults in bytes of JSON, including the defaults inside them; the time is linear in the schema."""

    def __init__(self) -> None:
        self._defaults: dict[Node, int] = {}
        self._missing: dict[Node, int] = {}

    def default(self, node: Node) -> int:
        """Return the size of the default of a node; 0 without one."""
        size = self._defaults.get(node)
        if size is None:
            size = self._defaults[node] = 0 if node.default is None else self._value(node, node.default)
        return size

    def missing(self, node: Node) -> int:
        """Return the size of what an empty object gets."""
        size = self._missing.get(node)
        if size is None:
            size = self._missing[node] = sum(
                self._member(name, inner)
                for name, inner in node.properties.items()
                if inner.default is not None
            )
        return size

    def _member(self, name: str, node: Node) -> int:
        return len(name) + _PUNCTUATION + self.default(node)

    def _value(self, node: Node | None, value: Any) -> int:
        check_time()
        if type(value) is dict:
            properties = NO_NODES if node is None else node.properties
            size = _PUNCTUATION + (0 if node is None else self.missing(node))
            for name, member in value.items():
                inner = properties.get(name)
                if inner is not None and inner.default is not None and member is not None:
                    size -= self._member(name, inner)
                declared = inner if inner is not None else None if node is None else node.values
                size += len(name) + _PUNCTUATION + self._value(declared, member)
            return size
        if type(value) is list:
            items = None if node is None else node.items
            return _PUNCTUATION + sum(1 + self._value(items, item) for item in value)
        return len(unescaped(value))


def has_default_of(root: Node, size: int) -> bool:
    """Whether any default, or those of any empty object together, exceed this number of bytes."""
    sizes, waiting = DefaultSizes(), [root]
    while waiting:
        node = waiting.pop()
        if sizes.default(node) > size or sizes.missing(node) > size:
            return True
        waiting += (*node.properties.values(), *(one for one in (node.items, node.values) if one is not None))
    return False


_PUNCTUATION: Final = 4  # of a member, or around an object or a list


class CompiledOnUse(dict[str, T]):
    """The functions of the properties of a node. Indexing compiles one; `get` and `in` do not."""

    def __init__(self, nodes: Mapping[str, Node], compile_node: Callable[[Node], T]) -> None:
        self.nodes = nodes
        self._compile = compile_node

    def __missing__(self, name: str) -> T:
        made = self[name] = self._compile(self.nodes[name])
        return made


def _call(steps: CompiledOnUse[Coerce], name: str, value: Any, dropped: Dropped) -> Any:
    return steps[name](value, dropped)


class _Compiler:
    def __init__(self, defaults: bool, keep_nulls: bool = False) -> None:
        self._defaults, self._keep_nulls = defaults, keep_nulls

    def of(self, node: Node | None, *, preserve: bool = False) -> Coerce:
        """Compile a node. `preserve`: the enclosing list preserves unknown fields."""
        if node is None:
            return drop_all
        preserve = preserve or bool(node.preserve)
        if not node.properties and node.additional is None and node.items is None and not node.embedded:
            return _unchanged if preserve else drop_all
        return _either(self.object(node, preserve), self._list(node, preserve))

    def object(self, node: Node, preserve: bool, *, is_root: bool = False) -> Coerce:
        properties = {
            name: inner for name, inner in node.properties.items() if not (is_root and name in TYPE_META)
        }
        steps = CompiledOnUse(properties, self.of)
        if node.embedded:
            steps.update(dict.fromkeys(TYPE_META, _unchanged))
        creates = {
            name: create
            for name, inner in properties.items()
            if self._defaults and (create := default_of(inner, partial(_call, steps, name))) is not None
        }
        nulls = {name: self._null(inner, creates.get(name)) for name, inner in properties.items()}
        rest = self._rest(node, preserve)
        if rest is None:
            return _record(steps, nulls, tuple(creates.items()))
        return _map(steps, nulls, tuple(creates.items()), rest, self._null_rest(node.values, rest))

    def _rest(self, node: Node, preserve: bool) -> Coerce | None:
        """Return what handles members without a property; None: they are dropped."""
        if node.values is not None:
            return self.of(node.values)
        if preserve:
            return _unchanged if node.additional is None else drop_all
        return drop_all if node.additional is not None else None

    def _null_rest(self, values: Node | None, coerce: Coerce) -> Create:
        if values is None:
            return _null
        return self._null(values, default_of(values, coerce) if self._defaults else None)

    def _null(self, node: Node, create: Create | None) -> Create:
        """Return what replaces a null: null itself, the default, or nothing, which makes the field absent."""
        if node.nullable:
            return _null
        if create is not None:
            return create
        return _null if self._keep_nulls or node.default is not None else _absent

    def _list(self, node: Node, preserve: bool) -> Coerce:
        items = node.items
        if items is None:
            return _unchanged if preserve else drop_in_list
        coerce = self.of(items, preserve=preserve)
        create = default_of(items, coerce) if self._defaults and not items.nullable else None

        def walk(value: list[Any], dropped: Dropped) -> list[Any]:
            check_time()
            found = [item if type(item) in _SCALARS else coerce(item, dropped) for item in value]
            if create is not None and None in found:
                found = [create() if item is None else item for item in found]
            return found

        return walk


def _null() -> Any:
    return None


def _absent() -> Any:
    return _ABSENT


_ABSENT: Final = object()


def _unchanged(value: Any, _: Dropped) -> Any:
    return value


def drop_all(value: Any, dropped: Dropped) -> Any:
    """Without a schema, objects lose all members; lists keep their length."""
    if type(value) is dict:
        dropped.extend(value)
        return {}
    return drop_in_list(value, dropped) if type(value) is list else value


def drop_in_list(value: list[Any], dropped: Dropped) -> list[Any]:
    check_time()
    return [item if type(item) in _SCALARS else drop_all(item, dropped) for item in value]


def _either(walk_object: Coerce, walk_list: Coerce) -> Coerce:
    def coerce(value: Any, dropped: Dropped) -> Any:
        if type(value) is dict:
            return walk_object(value, dropped)
        return walk_list(value, dropped) if type(value) is list else value

    return coerce


def _record(
    steps: CompiledOnUse[Coerce], nulls: Mapping[str, Create], creates: tuple[tuple[str, Create], ...]
) -> Coerce:
    """Walk an object with properties only."""
    known = frozenset((*steps.nodes, *steps))

    def walk(value: dict[str, Any], dropped: Dropped) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, member in value.items():
            if name not in known:
                dropped.append(name)
            elif type(member) in _SCALARS:
                found[name] = member
            elif member is None:
                replaced = nulls[name]() if name in nulls else None
                if replaced is not _ABSENT:
                    found[name] = replaced
            else:
                found[name] = steps[name](member, dropped)
        for name, create in creates:
            if name not in found:
                found[name] = create()
        return found

    return walk


def _map(
    steps: CompiledOnUse[Coerce],
    nulls: Mapping[str, Create],
    creates: tuple[tuple[str, Create], ...],
    rest: Coerce,
    null_rest: Create,
) -> Coerce:
    """Walk an object with members that no property names."""
    known, null_of = frozenset((*steps.nodes, *steps)), nulls.get

    def walk(value: dict[str, Any], dropped: Dropped) -> dict[str, Any]:
        if len(value) > _MANY:
            check_time()
        found: dict[str, Any] = {}
        for name, member in value.items():
            if type(member) in _SCALARS:
                found[name] = member
            elif member is None:
                replaced = null_of(name, _null if name in known else null_rest)()
                if replaced is not _ABSENT:
                    found[name] = replaced
            else:
                found[name] = (steps[name] if name in known else rest)(member, dropped)
        for name, create in creates:
            if name not in found:
                found[name] = create()
        return found

    return walk


def unknown_fields(root: Node, value: Any, *, is_root: bool = True) -> list[str]:
    """Return the paths of the fields that coercion drops, sorted."""
    return sorted(_unknown(root, value, "", False, is_root))


def _unknown(
    node: Node | None, value: Any, path: str, preserve: bool, is_root: bool = False
) -> Iterator[str]:
    check_time()
    if type(value) is list:
        items = None if node is None else node.items
        inner = preserve or bool(node and node.preserve)
        if items is None and inner:
            return
        for index, item in enumerate(value):
            yield from _unknown(items, item, f"{path}[{index}]", inner)
    elif type(value) is dict:
        for name, member in value.items():
            yield from _unknown_member(
                node, name, member, f"{path}.{name}" if path else name, preserve, is_root
            )


def _unknown_member(
    node: Node | None, name: str, member: Any, path: str, preserve: bool, is_root: bool
) -> Iterator[str]:
    if node is None:
        yield path
        return
    if (is_root or node.embedded) and name in TYPE_META:
        return
    properties: Mapping[str, Node] = node.properties or NO_NODES
    if name in properties:
        yield from _unknown(properties[name], member, path, False)
    elif node.additional is not None:
        yield from _unknown(node.values, member, path, False)
    elif not (preserve or node.preserve):
        yield path
