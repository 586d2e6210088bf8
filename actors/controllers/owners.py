"""What an object's owner references amount to: owners that live, that are gone, that wait for it to go.

A pure reading of one journal view. An owner lives when the object of that kind and name exists in the
dependent's namespace (or the cluster, for kinds without one) and has the uid of the reference; with another
uid it is somebody else's namesake. An owner waits when it is being deleted in the foreground.

A reference that cannot be judged, because its kind is not served or because an object of the cluster names
an owner that lives in namespaces, makes the whole object one to leave alone: deleting on doubt is no
option.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from actors.controllers.marks import awaits_dependents
from actors.controllers.stored_types import StoredTypes
from actors.kinds.declaration.definition import Definition
from actors.messages import Object
from actors.selectors.facts import unpack_uids
from journal.view import View


@dataclass(slots=True)
class Owners:
    """Owner uids by what became of them."""

    solid: set[str] = field(default_factory=set)
    dangling: set[str] = field(default_factory=set)
    waiting: set[str] = field(default_factory=set)

    @property
    def in_order(self) -> bool:
        return not self.dangling and not self.waiting


def judge(
    view: View, types: StoredTypes, dependent: Definition, namespace: str, references: Sequence[Object]
) -> Owners | None:
    """None: there is a reference that cannot be judged."""
    owners = Owners()
    for reference in references:
        definition = types.of_kind(reference["apiVersion"], reference["kind"])
        if definition is None or (definition.namespaced and not dependent.namespaced):
            return None
        where = namespace if definition.namespaced else ""
        _sort(view, types.type_id(definition), where, reference, owners)
    return owners


def _sort(view: View, type_id: int | None, namespace: str, reference: Object, owners: Owners) -> None:
    uid = reference["uid"]
    row = view.get(type_id, namespace, reference["name"]) if type_id is not None else None
    if row is None or unpack_uids(row.facts)[0] != uid:
        owners.dangling.add(uid)
    elif awaits_dependents(row.body):
        owners.waiting.add(uid)
    else:
        owners.solid.add(uid)
