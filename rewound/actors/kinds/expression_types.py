"""The CEL types of kinds: what type checks of expressions know about an object.

They follow from the OpenAPI schema of a kind, in which some types have no JSON type: quantities, and those of any JSON.
Fields of such types, and lists and maps of them, do not exist for a type check. A struct inside itself is an object
without fields.
"""

from __future__ import annotations

from typing import Final

from rewound.actors.cel.data import escape
from rewound.actors.cel.types import BOOL, BYTES, DOUBLE, DYN, INT, STRING, TIMESTAMP, list_of, map_of
from rewound.actors.cel.types import Type as ExpressionType
from rewound.actors.kinds.catalog import Catalog
from rewound.actors.kinds.custom import CustomDefinition
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.declaration.meta import OBJECT_META
from rewound.actors.kinds.schema import fields
from rewound.actors.kinds.schema.fields import ListOf, MapOf, Struct
from rewound.actors.kinds.structural.rules import Declared, declare

_SCALARS: Final = {
    fields.STRING: STRING,
    fields.BOOL: BOOL,
    fields.INT32: INT,
    fields.INT64: INT,
    fields.DOUBLE: DOUBLE,
    fields.BYTES: BYTES,
    fields.TIME: TIMESTAMP,
    fields.MICRO_TIME: TIMESTAMP,
    fields.DURATION: STRING,
    fields.INT_OR_STRING: DYN,
}
_OBJECTS: Final = (fields.FIELDS_V1, fields.ANY_JSON)
_SIZE: Final = 0  # estimates of costs need sizes; checks of types do not
_TEXT: Final = Declared(STRING, _SIZE)
_NO_FIELDS: Final = Declared(ExpressionType("object"), _SIZE, fields={})
_TYPE_FIELDS: Final = {"apiVersion": _TEXT, "kind": _TEXT}


def declare_kind(definition: Definition, catalog: Catalog) -> Declared:
    """Return the type of the objects of a kind."""
    if isinstance(definition, CustomDefinition):
        root = declare(definition.lazy.compiled.root, is_object=True)
        own = root.fields if root is not None and root.fields is not None else {}
        metadata = _declare_struct(catalog.struct(OBJECT_META), ())
        return Declared(_NO_FIELDS.type, _SIZE, fields={**own, **_TYPE_FIELDS, "metadata": metadata})
    declared = _declare_struct(definition.fields, ())
    return Declared(declared.type, _SIZE, fields={**_TYPE_FIELDS, **(declared.fields or {})})


def _declare_struct(struct: Struct, outer: tuple[str, ...]) -> Declared:
    if struct.of in outer:
        return _NO_FIELDS
    found: dict[str, Declared] = {}
    for field in struct.fields:
        declared, identifier = _declare(field.type, (*outer, struct.of)), escape(field.name)
        if declared is not None and identifier is not None:
            found[identifier] = declared
    return Declared(_NO_FIELDS.type, _SIZE, fields=found)


def _declare(type_: fields.Type, outer: tuple[str, ...]) -> Declared | None:
    if isinstance(type_, Struct):
        return _declare_struct(type_, outer)
    if isinstance(type_, ListOf):
        item = _declare(type_.item, outer)
        return None if item is None else Declared(list_of(item.type), _SIZE, element=item)
    if isinstance(type_, MapOf):
        value = _declare(type_.value, outer)
        return None if value is None else Declared(map_of(STRING, value.type), _SIZE, element=value)
    if type_ in _OBJECTS:
        return _NO_FIELDS
    simple = _SCALARS.get(type_)
    return None if simple is None else Declared(simple, _SIZE)
