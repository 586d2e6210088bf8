"""The flowcontrol group: FlowSchema classifies requests, PriorityLevelConfiguration limits their concurrency.

Served in two versions with the same fields; v1beta2 is stored.
"""

from __future__ import annotations

from dataclasses import replace

from actors.kinds.declaration.definition import Conversion, Definition, Storage
from actors.kinds.flowcontrol import flow_schema, priority_level
from actors.kinds.schema.fields import ListOf, Struct, Type
from actors.names import Names

_KINDS = (flow_schema, priority_level)
_SAME_FIELDS = Conversion(to_storage=dict, from_storage=dict)


def declare(names: Names) -> tuple[Definition, ...]:
    stored = tuple(kind.define(names) for kind in _KINDS)
    return (*stored, *(_v1beta1(definition) for definition in stored))


def _v1beta1(stored: Definition) -> Definition:
    stored_version, kind = f"{stored.group}/{stored.version}", stored.kind
    return replace(
        stored,
        version="v1beta1",
        fields=_v1beta1_struct(stored.fields),
        storage=Storage(stored_as=stored.type_name, conversion=_SAME_FIELDS),
        deprecation_warning=f"{stored.group}/v1beta1 {kind} is deprecated in v1.23+, unavailable in v1.26+; "
        f"use {stored_version} {kind}",
    )


def _v1beta1_struct(struct: Struct) -> Struct:
    """The same struct under its name in v1beta1."""
    fields = (replace(field, type=_v1beta1_type(field.type)) for field in struct.fields)
    return Struct(struct.of.replace("v1beta2", "v1beta1"), *fields, atomic=struct.atomic, union=struct.union)


def _v1beta1_type(type_: Type) -> Type:
    if isinstance(type_, ListOf):
        return ListOf(_v1beta1_type(type_.item))
    return _v1beta1_struct(type_) if isinstance(type_, Struct) and ".v1beta2." in type_.of else type_
