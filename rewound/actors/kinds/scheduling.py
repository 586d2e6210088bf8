"""The scheduling group: PriorityClass, which maps a name to the priority of pods."""

from __future__ import annotations

from typing import Final

from rewound.actors.kinds.declaration.columns import AGE, NAME, Column, at
from rewound.actors.kinds.declaration.definition import Definition, Deletion, DiscoveryNames, Strategy, Table
from rewound.actors.kinds.declaration.meta import METADATA, metadata_update_rules
from rewound.actors.kinds.schema.fields import BOOL, INT32, STRING, Before, Field, Struct
from rewound.actors.kinds.validation import (
    FieldErrors,
    forbidden,
    name_is_subdomain,
    not_supported,
    required,
    unchanged,
)
from rewound.actors.messages import Object
from rewound.actors.names import Names

MAX_USER_PRIORITY: Final = 1_000_000_000
SYSTEM: Final = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
POLICIES: Final = ("PreemptLowerPriority", "Never")

PRIORITY_CLASS = Struct(
    "scheduling.v1.PriorityClass",
    METADATA,
    Field("value", INT32, 2, always=True, before=(Before("1.36", required=True),)),
    Field("globalDefault", BOOL, 3),
    Field("description", STRING, 4),
    Field("preemptionPolicy", STRING, 5, pointer=True, default="PreemptLowerPriority"),
)


def declare(names: Names) -> tuple[Definition, ...]:
    priority_class = Definition(
        group=names.group("scheduling"),
        version="v1",
        kind="PriorityClass",
        plural="priorityclasses",
        names=DiscoveryNames(short_names=("pc",)),
        namespaced=False,
        check_name=name_is_subdomain,
        fields=PRIORITY_CLASS,
        deletion=Deletion(
            undeletable=dict.fromkeys(SYSTEM, "this is a system priority class and cannot be deleted")
        ),
        table=Table(
            (
                NAME,
                Column("Value", "integer", "Priority of pods of this class.", at("value", missing=0)),
                Column(
                    "Global-Default",
                    "boolean",
                    "Whether pods without a class get this one.",
                    at("globalDefault", missing=False),
                ),
                AGE,
                Column(
                    "PreemptionPolicy",
                    "string",
                    "Whether its pods may preempt others.",
                    at("preemptionPolicy"),
                    since="1.32",
                ),
            )
        ),
        strategy=Strategy(
            prepare_for_create=prepare_create,
            validate_create=rules,
            validate_update=update_rules,
        ),
    )
    return (priority_class,)


def prepare_create(new: Object) -> None:
    new["metadata"]["generation"] = 1  # never increases, because value and preemptionPolicy are immutable


def rules(errors: FieldErrors, new: Object) -> None:
    if new["metadata"].get("name", "").startswith("system-"):
        why = _system_class_error(new)
        if why:
            text = (
                f"priority class names with 'system-' prefix are reserved for system use only. error: {why}"
            )
            errors.add(forbidden("metadata.name", text))
    elif new["value"] > MAX_USER_PRIORITY:
        text = f"maximum allowed value of a user defined priority is {MAX_USER_PRIORITY}"
        errors.add(forbidden("value", text))
    _preemption_policy(errors, new.get("preemptionPolicy"))


def update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    if new["value"] != old["value"]:
        errors.add(forbidden("value", "may not be changed in an update."))
    unchanged(errors, "preemptionPolicy", new.get("preemptionPolicy"), old.get("preemptionPolicy"))


def _system_class_error(new: Object) -> str:
    name = new["metadata"]["name"]
    if name not in SYSTEM:
        return f"{name} is not a known system priority class"
    if new["value"] != SYSTEM[name]:
        return f"value of {name} PriorityClass must be {SYSTEM[name]}"
    return f"globalDefault of {name} PriorityClass must be false" if new.get("globalDefault") else ""


def _preemption_policy(errors: FieldErrors, policy: str | None) -> None:
    if policy is not None and policy not in POLICIES:
        errors.add(
            not_supported("preemptionPolicy", policy, POLICIES) if policy else required("preemptionPolicy")
        )
