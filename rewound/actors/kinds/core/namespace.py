"""Namespace: the scope of names of namespaced objects.

Its name is also one of its labels, whatever a client sends. `spec.finalizers` lists the controllers that
must still delete contents before the namespace is removed; only the finalize subresource changes them, and only the
status subresource changes the status.
"""

from __future__ import annotations

from functools import partial

from rewound.actors.kinds.declaration.columns import AGE, NAME, Column, at
from rewound.actors.kinds.declaration.definition import (
    ITEM_VERBS,
    Definition,
    Deletion,
    DiscoveryNames,
    Selection,
    Strategy,
    Subresource,
    Table,
)
from rewound.actors.kinds.declaration.meta import (
    METADATA,
    NAMESPACE_FINALIZER,
    OBJECT_META,
    finalizer_rules,
    metadata_rules,
    metadata_update_rules,
    value_at_path,
)
from rewound.actors.kinds.schema.fields import (
    STRING,
    STRINGS,
    TIME,
    UNTYPED_BEFORE_1_30,
    Field,
    ListOf,
    Struct,
)
from rewound.actors.kinds.validation import FieldErrors, invalid, name_is_label
from rewound.actors.messages import Object
from rewound.actors.names import Names

CONDITION = Struct(
    "core.v1.NamespaceCondition",
    Field("type", STRING, 1, required=True, always=True),
    Field("status", STRING, 2, required=True, always=True),
    Field("lastTransitionTime", TIME, 4),
    Field("reason", STRING, 5),
    Field("message", STRING, 6),
)
STATUS = Struct(
    "core.v1.NamespaceStatus",
    Field("phase", STRING, 1, default="Active", enum=("Active", "Terminating")),
    Field(
        "conditions",
        ListOf(CONDITION),
        2,
        patch="merge",
        merge_key="type",
        list_keys=("type",),
        list_type="map",
        before=UNTYPED_BEFORE_1_30,
    ),
)
SPEC = Struct(
    "core.v1.NamespaceSpec",
    Field("finalizers", STRINGS, 1, list_type="atomic", before=UNTYPED_BEFORE_1_30),
)
NAMESPACE = Struct("core.v1.Namespace", METADATA, Field("spec", SPEC, 2), Field("status", STATUS, 3))


def define(names: Names) -> Definition:
    label = names.key("metadata.name")
    return Definition(
        group="",
        version="v1",
        kind="Namespace",
        plural="namespaces",
        names=DiscoveryNames(short_names=("ns",)),
        namespaced=False,
        check_name=name_is_label,
        fields=NAMESPACE,
        set_defaults=partial(set_defaults, label),
        verbs=ITEM_VERBS,
        subresources=(
            Subresource(
                name="finalize",
                verbs=("update",),
                prepare=partial(prepare_finalize, label),
                validate=finalize_rules,
            ),
            Subresource(name="status", prepare=partial(prepare_status, label), validate=status_rules),
        ),
        deletion=Deletion(
            returns_object=True,
            promises_object=False,
            uid_is_precondition=True,
            mark_deleted=mark_deleted,
            only_marked_first=True,
            has_own_finalizers=lambda stored: bool(stored["spec"].get("finalizers")),
        ),
        selection=Selection(
            fields={"status.phase": lambda stored: str(value_at_path(stored, "status", "phase") or "")},
            own_label_conversion=True,
        ),
        table=Table(
            (
                NAME,
                Column(
                    "Status", "string", "Active, or Terminating while it is emptied.", at("status", "phase")
                ),
                AGE,
            )
        ),
        strategy=Strategy(
            prepare_for_create=partial(prepare_create, label),
            prepare_for_update=partial(prepare_update, label),
            validate_create=rules,
            validate_update=update_rules,
        ),
    )


def set_defaults(label: str, new: Object) -> None:
    label_with_name(label, new)
    new["metadata"] = OBJECT_META.arranged(new["metadata"])


def label_with_name(label: str, new: Object) -> None:
    metadata = new["metadata"]
    if metadata.get("name"):
        metadata["labels"] = dict(sorted({**metadata.get("labels", {}), label: metadata["name"]}.items()))


def prepare_create(label: str, new: Object) -> None:
    label_with_name(label, new)
    finalizers = new["spec"].get("finalizers", [])
    if NAMESPACE_FINALIZER not in finalizers:
        new["spec"]["finalizers"] = [*finalizers, NAMESPACE_FINALIZER]
    new["status"] = {"phase": "Active"}


def prepare_update(label: str, new: Object, old: Object) -> None:
    label_with_name(label, new)
    new["spec"], new["status"] = old["spec"], old["status"]


def prepare_status(label: str, new: Object, old: Object) -> None:
    label_with_name(label, new)
    new["spec"] = old["spec"]


def prepare_finalize(label: str, new: Object, old: Object) -> None:
    label_with_name(label, new)
    new["status"] = old["status"]


def mark_deleted(marked: Object) -> None:
    marked["status"] = {**marked["status"], "phase": "Terminating"}
    # A namespace has no grace period: it is removed once its contents are.
    del marked["metadata"]["deletionGracePeriodSeconds"]


def rules(errors: FieldErrors, new: Object) -> None:
    for finalizer in new["spec"].get("finalizers", ()):
        finalizer_rules(errors, finalizer, "spec.finalizers")


def update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_rules(errors, new["metadata"], namespaced=False, check_name=name_is_label)
    rules(errors, new)
    metadata_update_rules(errors, new["metadata"], old["metadata"])


def status_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    phase = new["status"].get("phase", "")
    if "deletionTimestamp" not in new["metadata"]:
        wanted, when = "Active", "empty"
    else:
        wanted, when = "Terminating", "not empty"
    if phase != wanted:
        text = f"may only be '{wanted}' if `deletionTimestamp` is {when}"
        errors.add(invalid("status.Phase", phase, text))


def finalize_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    for index, finalizer in enumerate(new["spec"].get("finalizers", ())):
        finalizer_rules(errors, finalizer, f"spec.finalizers[{index}]")
