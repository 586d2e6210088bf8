"""Classifies an object's owner references: solid, dangling, or waiting for dependents to be deleted.

Reads one journal view and changes nothing. A reference is solid when an object of that kind and name exists in the
dependent's namespace (or without namespace, for cluster-scoped kinds) and has the uid of the reference; an object with
another uid is another object of the same name. An owner is waiting when it is in foreground deletion.

A reference cannot be resolved if its kind is not served, or if a cluster-scoped object names a namespaced owner. The
garbage collector then leaves the object alone, because it must not delete on doubt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from actors.controllers.deletion import is_in_foreground_deletion
from actors.controllers.stored_types import StoredTypes
from actors.kinds.declaration.definition import Definition
from actors.messages import Object
from actors.selectors.facts import unpack_uids
from journal.view import View


@dataclass(slots=True)
class ClassifiedReferences:
    """Owner uids by the state of the owner."""

    solid: set[str] = field(default_factory=set)
    dangling: set[str] = field(default_factory=set)
    waiting: set[str] = field(default_factory=set)

    @property
    def all_solid(self) -> bool:
        return not self.dangling and not self.waiting


def classify_references(
    view: View, types: StoredTypes, dependent: Definition, namespace: str, references: Sequence[Object]
) -> ClassifiedReferences | None:
    """None if a reference cannot be resolved."""
    owners = ClassifiedReferences()
    for reference in references:
        definition = types.of_kind(reference["apiVersion"], reference["kind"])
        if definition is None or (definition.namespaced and not dependent.namespaced):
            return None
        where = namespace if definition.namespaced else ""
        _sort(view, types.type_id(definition), where, reference, owners)
    return owners


def _sort(
    view: View, type_id: int | None, namespace: str, reference: Object, owners: ClassifiedReferences
) -> None:
    uid = reference["uid"]
    row = view.get(type_id, namespace, reference["name"]) if type_id is not None else None
    if row is None or unpack_uids(row.facts)[0] != uid:
        owners.dangling.add(uid)
    elif is_in_foreground_deletion(row.body):
        owners.waiting.add(uid)
    else:
        owners.solid.add(uid)
