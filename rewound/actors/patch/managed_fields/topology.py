"""Shapes: which parts of an object managers own separately, derived from its declaration or schema.

A shape says what is atomic and what is granular. Comparing, merging and pruning walk shapes and never see a
declaration:

    Leaf        a scalar, or anything atomic: one value with one owner, however much is inside
    Record      a struct: its parts are fields
    Dictionary  a map: its parts are keys
    Entries     a list of type map: its items are identified by keys
    Elements    a list of type set
    Open        no schema: a map is granular, everything else atomic (custom resources only)

Lists without a list type follow their patch strategy: merged by a key they are Entries, merged without one they are
Elements, otherwise atomic. Shapes are created when first walked into, because types may contain themselves. Items
with equal keys count as one value; exact shapes raise DuplicateKeys for them.

The shapes of a custom resource are derived from its OpenAPI v3 structural schema:

    {"type": "array", "items": {...},                       {"f:list": {'k:{"host":"a","port":80}': ...}}
     "x-kubernetes-list-type": "map",
     "x-kubernetes-list-map-keys": ["host", "port"]}

Objects with properties are structs, with additionalProperties maps, and both are granular unless they are marked
atomic, which covers everything inside. Lists are one value unless they are marked as sets or maps; the keys of
list-maps have the defaults that the schema gives them. Unknown fields that the schema preserves are Open: maps there
are granular, lists atomic. An embedded resource also has apiVersion, kind and the metadata of every object, which its
own schema cannot change. Nothing else of a schema matters here, and the caller has validated it. The dialect
determines the prefix of the markers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, final

from rewound.actors.kinds.schema.fields import (
    STRING,
    Field,
    ListOf,
    MapOf,
    Scalar,
    Struct,
    Type,
    new_default,
    zero,
)
from rewound.actors.patch.managed_fields import field_set
from rewound.actors.patch.managed_fields.field_set import FIELD, HERE, WHOLE, Fields

# Fields that no manager owns: None for a whole field, or what is excluded inside it.
Excluded = Mapping[str, Any]


class DuplicateKeys(Exception):
    """A list has items with equal or missing keys."""


class Repeated(list[Any]):
    """Items of a list with equal keys: they count as one value."""


@final
class Leaf:
    """An atomic value. It is compared as spelled."""

    __slots__ = ()


LEAF: Final = Leaf()


def default_of_key(key: Field) -> Any:
    """Return the value of a missing key: its default, its zero value if it is always present, or None."""
    if key.default is None and key.always:
        return zero(key.type, defaults=False)
    return new_default(key.default)


class _Parts(dict[str, "Shape"]):
    """Shapes of fields by element, each created on first use."""

    def __init__(self, shapes: Shapes, fields: Mapping[str, tuple[Field, Excluded]]) -> None:
        self._shapes, self._fields = shapes, fields

    def __missing__(self, element: str) -> Shape:
        field, excluded = self._fields[element]
        made = self[element] = self._shapes.of_field(field, excluded)
        return made


@final
class Record:
    """`parts` are shapes by element. `rest`, if set, is the shape of all other members, which behave like map keys.

    Members in `hidden` are left out.
    """

    __slots__ = ("_elements", "_hidden", "_parts", "_plans", "_rest", "element", "part")

    def __init__(
        self,
        parts: Mapping[str, Shape],
        elements: Iterable[str],
        rest: Shape | None = None,
        hidden: frozenset[str] = frozenset(),
    ) -> None:
        self._elements = {element[2:]: element for element in elements}
        self._parts, self._rest, self._hidden = parts, rest, hidden
        # Walking an object mostly calls these two: methods of dict take a third of the time of Python functions.
        self.element: Callable[[str], str | None] = self._elements.get if rest is None else self._any_element
        self.part: Callable[[str], Shape] = parts.__getitem__ if rest is None else self._part_or_rest
        self._plans: dict[tuple[str, ...], Plan] = {}

    def declares(self, element: str) -> bool:
        """Whether this is a field; undeclared members are owned like the keys of a map."""
        return self._rest is None or element[2:] in self._elements

    @property
    def is_open(self) -> bool:
        return self._rest is not None

    def _part_or_rest(self, element: str) -> Shape:
        if element[2:] in self._elements:
            return self._parts[element]
        assert self._rest is not None
        return self._rest

    def parts(self, value: Mapping[str, Any]) -> dict[str, Any]:
        if self._rest is not None:
            return {FIELD + name: part for name, part in value.items() if name not in self._hidden}
        elements = self._elements
        return {elements[name]: part for name, part in value.items() if name in elements}

    def _any_element(self, name: str) -> str | None:
        return None if name in self._hidden else FIELD + name

    def plan(self, value: Mapping[str, Any]) -> Plan:
        """Return name, element and shape of each member of a value, in the order of elements.

        Most values have one of a few combinations of members, so this is computed once for each.
        """
        names = tuple(value)
        plan = self._plans.get(names)
        return plan if plan is not None else self._planned(names)

    def _planned(self, names: tuple[str, ...]) -> Plan:
        if len(self._plans) >= MAX_PLANS:
            self._plans.clear()
        elements = sorted(element for name in names if (element := self.element(name)) is not None)
        plan = self._plans[names] = tuple((element[2:], element, self.part(element)) for element in elements)
        return plan


@final
class Dictionary:
    __slots__ = ("_values", "_wholes", "is_flat")

    def __init__(self, values: Shape) -> None:
        self._values = values
        self.is_flat = type(values) is Leaf
        self._wholes: dict[tuple[str, ...], Fields] = {}

    def whole(self, value: Mapping[str, Any] | None) -> Fields:
        """Return every key of a flat map and the map itself; cached, because many maps have the same keys."""
        if not value:
            return {}
        names = tuple(value)
        node = self._wholes.get(names)
        if node is None:
            node = dict.fromkeys((HERE, *sorted(FIELD + name for name in names)), WHOLE)
            if len(names) <= MAX_KEYS_CACHED and sum(map(len, names)) <= MAX_CHARACTERS_CACHED:
                if len(self._wholes) >= MAX_PLANS:
                    self._wholes.clear()
                self._wholes[names] = node
        return node

    def parts(self, value: Mapping[str, Any]) -> dict[str, Any]:
        return {FIELD + key: part for key, part in value.items()}

    def element(self, name: str) -> str:
        return FIELD + name

    def part(self, element: str) -> Shape:
        return self._values


@final
class Elements:
    __slots__ = ("_exact", "_items")

    def __init__(self, items: Leaf, *, exact: bool = False) -> None:
        """`exact`: equal items raise DuplicateKeys."""
        self._items, self._exact = items, exact

    def parts(self, value: Sequence[Any]) -> dict[str, Any]:
        return _gathered([field_set.value(item) for item in value], value, self._exact)

    def element(self, name: str) -> str:
        return name

    def part(self, element: str) -> Shape:
        return self._items


@final
class Entries:
    __slots__ = ("_defaults", "_exact", "_items", "_names", "_omittable", "_repeats", "_text")

    def __init__(
        self,
        items: Shape,
        keys: Mapping[str, Any],
        *,
        texts: bool = False,
        exact: bool = False,
        repeats: bool = False,
        omittable: frozenset[str] = frozenset(),
    ) -> None:
        """`keys` maps key names to defaults or None; `texts`: all keys are strings; `repeats`: they may be equal;
        `omittable`: keys that the name of an entry lacks if the entry does.
        """
        self._items, self._exact, self._repeats, self._omittable = items, exact, repeats, omittable
        self._names = tuple(sorted(keys))
        self._defaults = keys
        self._text = self._names[0] if len(keys) == 1 and texts else ""

    def parts(self, value: Sequence[Any]) -> dict[str, Any]:
        elements = self._by_text(value) or [self._element(item or {}) for item in value]
        return _gathered(elements, value, self._exact and not self._repeats)

    def _by_text(self, value: Sequence[Any]) -> list[str]:
        """Most entries have one string as their key, often a name; encoding it is most of the cost of walking lists."""
        name = self._text
        if not name:
            return []
        try:
            begin, quoted = field_set.ENTRY + f'{{"{name}":', field_set.quoted
            return [begin + quoted(item[name]) + "}" for item in value]
        except (KeyError, TypeError):
            return []

    def _element(self, item: Mapping[str, Any]) -> str:
        defaults = self._defaults
        if self._exact and self.missing_key(item):
            raise DuplicateKeys
        names = self._names
        if self._omittable:
            names = tuple(name for name in names if name in item or name not in self._omittable)
        return field_set.entry(names, [item.get(name, defaults[name]) for name in names])

    def missing_key(self, item: Mapping[str, Any]) -> str:
        """Return a key that the item lacks and that has no default, or "". A null key counts as present."""
        for name in self._names:
            if name not in item and self._defaults[name] is None and name not in self._omittable:
                return name
        return ""

    def element(self, name: str) -> str:
        return name

    def part(self, element: str) -> Shape:
        return self._items


@final
class Open:
    """No schema: the values decide. Maps have parts, everything else is one value."""

    __slots__ = ("_members", "_whole")

    def __init__(self) -> None:
        self._whole, self._members = LEAF, Dictionary(self)

    def of(self, value: Any) -> Leaf | Dictionary:
        return self._members if isinstance(value, dict) else self._whole


Members = Record | Dictionary
Items = Elements | Entries
Divided = Members | Items
Shape = Leaf | Divided | Open

Plan = tuple[tuple[str, str, Shape], ...]  # name, element, shape

NOTHING: Final[Excluded] = {}
MAX_KEYS_CACHED: Final = 32  # keys of a cached map: larger maps rarely repeat
MAX_CHARACTERS_CACHED: Final = 2048  # in all keys of a cached map, because clients choose them
MAX_PLANS: Final = 64  # per struct: far more than programs use, and a bound for clients that invent them


def _gathered(elements: Sequence[str], items: Sequence[Any], exact: bool) -> dict[str, Any]:
    found = dict(zip(elements, items, strict=True))
    if len(found) == len(items):
        return found
    if exact:
        raise DuplicateKeys
    found = {}
    for element, item in zip(elements, items, strict=True):
        found.setdefault(element, Repeated()).append(item)
    return {element: same if len(same) > 1 else same[0] for element, same in found.items()}


class Shapes:
    """All shapes of one kind, each created once."""

    def __init__(self, *, exact: bool = False, repeats: bool = False) -> None:
        """`exact`: items without keys, and unless `repeats` also those with equal keys, raise DuplicateKeys."""
        self.exact, self.repeats = exact, repeats
        self._records: dict[Struct, Record] = {}

    def root(self, struct: Struct, excluded: Excluded) -> Record:
        fields = {
            FIELD + field.name: (field, excluded.get(field.name, NOTHING))
            for field in struct.fields
            if excluded.get(field.name, NOTHING) is not None
        }
        return Record(_Parts(self, fields), fields)

    def of_field(self, field: Field, excluded: Excluded) -> Shape:
        type_ = field.type
        if isinstance(type_, Struct):
            atomic = type_.atomic if not field.map_type else field.map_type == "atomic"
            return LEAF if atomic else self._record(type_, excluded)
        if isinstance(type_, MapOf):
            return LEAF if field.map_type == "atomic" else Dictionary(self._of(type_.value))
        if isinstance(type_, ListOf):
            return self._list(field, type_)
        return LEAF

    def _of(self, type_: Type) -> Shape:
        """Return the shape of list items or map values, which have no field of their own to mark them."""
        if isinstance(type_, Struct) and not type_.atomic:
            return self._record(type_, NOTHING)
        if isinstance(type_, MapOf):
            return Dictionary(self._of(type_.value))
        return LEAF

    def _record(self, struct: Struct, excluded: Excluded) -> Record:
        if excluded is not NOTHING:
            return self.root(struct, excluded)
        made = self._records.get(struct)
        if made is None:
            made = self._records[struct] = self.root(struct, NOTHING)
        return made

    def _list(self, field: Field, type_: ListOf) -> Shape:
        item = type_.item
        if isinstance(item, Struct):
            keys = [item.by_name[name] for name in list_keys(field)]
            if not keys:
                return LEAF
            texts = all(key.type is STRING for key in keys)
            defaults = {key.name: default_of_key(key) for key in keys}
            omittable = frozenset(key.name for key in keys if key.pointer and len(keys) > 1)
            return Entries(
                self._of(item),
                defaults,
                texts=texts,
                exact=self.exact,
                repeats=self.repeats,
                omittable=omittable,
            )
        divided = is_set_of_scalars(field)
        return Elements(LEAF, exact=self.exact and not self.repeats) if divided else LEAF


def is_set_of_scalars(field: Field) -> bool:
    """Whether the entries of a list are identified by their values."""
    merged = field.list_type == "set" or (not field.list_type and "merge" in field.patch.split(","))
    return merged and isinstance(field.type, ListOf) and isinstance(field.type.item, Scalar)


def list_keys(field: Field) -> Sequence[str]:
    if field.list_type:
        return field.list_keys if field.list_type == "map" else ()
    return (field.merge_key,) if field.merge_key and "merge" in field.patch.split(",") else ()


Schema = Mapping[str, Any]

_VALUE: Final = LEAF
_OPEN: Final = Open()
_TYPE: Final = ("apiVersion", "kind")


class _SchemaParts(dict[str, Shape]):
    """The shapes of properties by element, created on first use: objects use few of a large schema."""

    def __init__(self, properties: Mapping[str, Schema], make: Callable[[Schema], Shape]) -> None:
        self._properties, self._make = properties, make

    def __missing__(self, element: str) -> Shape:
        made = self[element] = self._make(self._properties[element[len(FIELD) :]])
        return made


class SchemaShapes:
    """Creates the shapes of one dialect.

    `metadata` is the shape that the metadata of every object has, `embedded_metadata` that of embedded resources.
    """

    def __init__(
        self,
        extension_prefix: str,
        metadata: Shape,
        embedded_metadata: Shape,
        *,
        exact: bool = False,
        repeats: bool = False,
    ) -> None:
        self._prefix, self._metadata = extension_prefix, metadata
        self._exact, self._repeats = exact, repeats
        # What every embedded resource has, whatever its schema says about it.
        self._embedded = {
            FIELD + "apiVersion": _VALUE,
            FIELD + "kind": _VALUE,
            FIELD + "metadata": embedded_metadata,
        }

    def root(self, schema: Schema, excluded: Excluded = NOTHING) -> Record:
        """Return the shape of whole objects; `excluded` are the fields that no manager owns in this view."""
        properties = schema.get("properties", {})
        parts = _SchemaParts(properties, self._of)
        parts[FIELD + "metadata"] = self._metadata
        hidden = {*_TYPE, *(name for name, inside in excluded.items() if inside is None)}
        elements = [FIELD + name for name in {**properties, "metadata": {}} if name not in hidden]
        return Record(parts, elements, _OPEN if self._is_open(schema) else None, frozenset(hidden))

    def _of(self, schema: Schema) -> Shape:
        if schema.get("type") == "array":
            return self._list(schema)
        if schema.get("type") == "object":
            return self._object(schema)
        return _OPEN if self._is_open(schema) else _VALUE

    def _object(self, schema: Schema) -> Shape:
        if self._marker(schema, "map-type") == "atomic":
            return _VALUE
        values = schema.get("additionalProperties")
        if isinstance(values, Mapping):
            return Dictionary(self._of(values))
        rest = _OPEN if values or self._is_open(schema) else None
        properties = schema.get("properties", {})
        parts, elements = _SchemaParts(properties, self._of), [FIELD + name for name in properties]
        if self._marker(schema, "embedded-resource"):
            parts.update(self._embedded)
            elements = list({*elements, *self._embedded})
        if not elements:
            return rest or _VALUE
        return Record(parts, elements, rest)

    def _list(self, schema: Schema) -> Shape:
        items = schema.get("items", {})
        match self._marker(schema, "list-type"):
            case "set":
                return Elements(_VALUE, exact=self._exact and not self._repeats)
            case "map":
                return self._entries(items, self._marker(schema, "list-map-keys") or ())
        return _VALUE

    def _entries(self, items: Schema, keys: Sequence[str]) -> Shape:
        properties = items.get("properties", {})
        known = [properties.get(key, {}) for key in keys]
        defaults = {key: one.get("default") for key, one in zip(keys, known, strict=True)}
        texts = all(one.get("type") == "string" for one in known)
        return Entries(self._of(items), defaults, texts=texts, exact=self._exact, repeats=self._repeats)

    def _is_open(self, schema: Schema) -> bool:
        return bool(self._marker(schema, "preserve-unknown-fields"))

    def _marker(self, schema: Schema, name: str) -> Any:
        return schema.get(self._prefix + name)
