"""The storagemigration group: StorageVersionMigration, which asks for objects to be stored in the current version.

v1alpha1 and v1beta1 have no conversion in Kubernetes, and no version serves both: they are types of their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from rewound.actors.kinds.declaration.columns import Column, at
from rewound.actors.kinds.declaration.definition import (
    Definition,
    Storage,
    Strategy,
    Table,
    keep_status,
    status_subresource,
)
from rewound.actors.kinds.declaration.meta import (
    CONDITION,
    METADATA,
    condition_rules,
    metadata_rules,
    metadata_update_rules,
)
from rewound.actors.kinds.schema.fields import STRING, TIME, Field, ListOf, Struct
from rewound.actors.kinds.validation import (
    IMMUTABLE,
    NEGATIVE,
    FieldErrors,
    dns_1035_label,
    dns_subdomain,
    invalid,
    name_is_subdomain,
    required,
)
from rewound.actors.messages import Object
from rewound.actors.names import Names

SUCCEEDED, FAILED, RUNNING = "Succeeded", "Failed", "Running"

GROUP_RESOURCE = Struct(
    "meta.v1.GroupResource",
    Field("group", STRING, 1, required=True, always=True),
    Field("resource", STRING, 2, required=True, always=True),
)
OLD_RESOURCE = Struct(
    "storagemigration.v1alpha1.GroupVersionResource",
    Field("group", STRING, 1),
    Field("version", STRING, 2),
    Field("resource", STRING, 3),
)
OLD_CONDITION = Struct(
    "storagemigration.v1alpha1.MigrationCondition",
    Field("type", STRING, 1, required=True, always=True),
    Field("status", STRING, 2, required=True, always=True),
    Field("lastUpdateTime", TIME, 3),
    Field("reason", STRING, 4),
    Field("message", STRING, 5),
)


def _migration(version: str, condition: Struct, *spec: Field) -> Struct:
    of = f"storagemigration.{version}.StorageVersionMigration"
    conditions = Field(
        "conditions",
        ListOf(condition),
        1,
        patch="merge",
        merge_key="type",
        list_type="map",
        list_keys=("type",),
    )
    status = Struct(f"{of}Status", conditions, Field("resourceVersion", STRING, 2))
    return Struct(of, METADATA, Field("spec", Struct(f"{of}Spec", *spec), 2), Field("status", status, 3))


V1ALPHA1 = _migration(
    "v1alpha1",
    OLD_CONDITION,
    Field("resource", OLD_RESOURCE, 1, required=True),
    Field("continueToken", STRING, 2),
)
V1BETA1 = _migration("v1beta1", CONDITION, Field("resource", GROUP_RESOURCE, 1, required=True))


def declare(names: Names) -> tuple[Definition, ...]:
    group = names.group("storagemigration")
    make = partial(
        Definition,
        group=group,
        kind="StorageVersionMigration",
        plural="storageversionmigrations",
        namespaced=False,
        check_name=name_is_subdomain,
        table=Table(
            (
                Column(
                    "Name", "string", "Name of the object, unique among its kind.", at("metadata", "name")
                ),
                Column("Resource", "string", "GroupResource to migrate", _resource_cell),
                Column("Status", "string", "Status of the migration", _state_cell),
            )
        ),
        gate="StorageVersionMigrator",
        on_by_default=False,
    )
    return (
        make(
            version="v1beta1",
            fields=V1BETA1,
            subresources=(status_subresource(_status_rules),),
            strategy=_strategy(_rules, {"spec": ("spec",)}),
            since="1.35",
        ),
        make(
            version="v1alpha1",
            fields=V1ALPHA1,
            subresources=(status_subresource(_old_status_rules),),
            strategy=_strategy(
                _old_rules, {name: ("spec", "resource", name) for name in ("group", "version", "resource")}
            ),
            storage=Storage(type_name=f"storageversionmigrations.v1alpha1.{group}", error_group=group),
            since="1.30",
            until="1.34",
        ),
    )


def _strategy(
    rules: Callable[[FieldErrors, Object], None], immutable: Mapping[str, tuple[str, ...]]
) -> Strategy:
    """Return the strategy of a version; `immutable` has paths by the names that errors give them."""

    def update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
        metadata_rules(errors, new["metadata"], namespaced=False, check_name=name_is_subdomain)
        rules(errors, new)
        metadata_update_rules(errors, new["metadata"], old["metadata"])
        for field, path in immutable.items():
            value = _at(new, path)
            if value != _at(old, path):
                # Kubernetes prints its own type of the spec.
                errors.add(
                    invalid(
                        field, {"Resource": new["spec"]["resource"]} if field == "spec" else value, IMMUTABLE
                    )
                )

    return Strategy(
        allow_unconditional_update=False,
        prepare_for_create=_without_status,
        prepare_for_update=keep_status,
        validate_create=rules,
        validate_update=update_rules,
    )


def _without_status(new: Object) -> None:
    new["status"] = {}


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        value = value.get(name, "")
    return value


def _rules(errors: FieldErrors, new: Object) -> None:
    resource, field = new["spec"]["resource"], "spec.resource"
    if not resource["resource"]:
        errors.add(required(f"{field}.resource", "resource is required to be set"))
    elif wrong := dns_1035_label(resource["resource"]):
        errors.add(invalid(f"{field}.resource", resource["resource"], ",".join(wrong)))
    if resource["group"] and (wrong := dns_subdomain(resource["group"])):
        errors.add(invalid(f"{field}.group", resource["group"], ",".join(wrong)))


def _old_rules(errors: FieldErrors, new: Object) -> None:
    for name in ("resource", "version"):
        if not new["spec"]["resource"].get(name):
            errors.add(required(f"spec.resource.{name}", f"{name} is required"))


def _status_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    version = new["status"].get("resourceVersion", "")
    if version and not (version.isascii() and version.isdecimal() and version[0] != "0"):
        text = f"resource version is not well formed: {version}"
        errors.add(invalid("status.resourceVersion", version, text))
    condition_rules(errors, new["status"].get("conditions", ()), "status.conditions")
    _transition_rules(errors, new["status"], old["status"])


def _old_status_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    status, field = new["status"], "status.resourceVersion"
    version = status.get("resourceVersion", "")
    if version and not re.fullmatch("[-+]?[0-9]{1,18}", version):
        why = f'strconv.ParseInt: parsing "{version}": invalid syntax'
        errors.add(invalid(field, version, f'failed to parse resource version "{version}": {why}'))
    elif version.startswith("-") and int(version):
        errors.add(invalid(field, int(version), NEGATIVE))
    conditions = [
        {"reason": "", "message": "", **one, "lastTransitionTime": one.get("lastUpdateTime")}
        for one in status.get("conditions", ())
    ]
    condition_rules(errors, conditions, "status.conditions")
    _transition_rules(errors, status, old["status"], excludes_running=True)


def _transition_rules(
    errors: FieldErrors, status: Object, before: Object, *, excludes_running: bool = False
) -> None:
    conditions, field = status.get("conditions"), "status.conditions"
    version, old_version = status.get("resourceVersion", ""), before.get("resourceVersion", "")
    if old_version and old_version != version:
        errors.add(invalid("status.resourceVersion", version, IMMUTABLE))
    true, was_true = _true_conditions(status), _true_conditions(before)
    words = {SUCCEEDED: "success", FAILED: "failed"}
    if true >= {SUCCEEDED, FAILED}:
        text = "Both success and failed conditions cannot be true at the same time"
        errors.add(invalid(field, conditions, text))
    for kind, word in words.items():
        if excludes_running and kind in true and RUNNING in true:
            text = f"Running condition cannot be true when {word} condition is true"
            errors.add(invalid(field, conditions, text))
    for kind, word in words.items():
        if kind in was_true and kind not in true:
            text = f"{word.title()} condition cannot be set to false once it is true"
            errors.add(invalid(field, conditions, text))


def _true_conditions(status: Object) -> set[str]:
    return {one["type"] for one in status.get("conditions", ()) if one["status"] == "True"}


def _resource_cell(stored: Object, _: int) -> str:
    resource = stored["spec"]["resource"]
    name, group = resource.get("resource", ""), resource.get("group", "")
    return f"{name}.{group}" if group else str(name)


_STATES: Final = (RUNNING, FAILED, SUCCEEDED)


def _state_cell(stored: Object, _: int) -> str:
    found = [
        one["type"]
        for one in stored["status"].get("conditions", ())
        if one["status"] == "True" and one["type"] in _STATES
    ]
    return str(found[-1]) if found else "Unknown"
