"""The flowcontrol group: which requests belong together, and how many of them may run at once.

Served in two versions that look alike; the newer one is stored.
"""

from __future__ import annotations

from dataclasses import replace

from actors.kinds.declaration.definition import Conversion, Definition, Storage
from actors.kinds.flowcontrol import flow_schema, priority_level
from actors.kinds.schema.fields import ListOf, Struct, Type
from actors.names import Names

_KINDS = (flow_schema, priority_level)
_UNCHANGED = Conversion(to_storage=dict, from_storage=dict)


def declare(names: Names) -> tuple[Definition, ...]:
    stored = tuple(kind.define(names) for kind in _KINDS)
    return (*stored, *(_older(definition) for definition in stored))


def _older(stored: Definition) -> Definition:
    newer, kind = f"{stored.group}/{stored.version}", stored.kind
    return replace(
        stored,
        version="v1beta1",
        fields=_struct(stored.fields),
        storage=Storage(stored_as=stored.type_name, conversion=_UNCHANGED),
        deprecation_warning=f"{stored.group}/v1beta1 {kind} is deprecated in v1.23+, unavailable in v1.26+; "
        f"use {newer} {kind}",
    )


def _struct(struct: Struct) -> Struct:
    """The same under the names of the older version."""
    fields = (replace(field, type=_type(field.type)) for field in struct.fields)
    return Struct(struct.of.replace("v1beta2", "v1beta1"), *fields, atomic=struct.atomic, union=struct.union)


def _type(type_: Type) -> Type:
    if isinstance(type_, ListOf):
        return ListOf(_type(type_.item))
    return _struct(type_) if isinstance(type_, Struct) and ".v1beta2." in type_.of else type_
