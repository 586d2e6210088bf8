"""CSINode: the CSI drivers of the node of the same name. Entries can be added and removed, but not changed."""

from __future__ import annotations

from typing import Final

from actors.kinds.core.pods.volume_sources import driver_name_rules
from actors.kinds.declaration.columns import AGE, NAME, Column
from actors.kinds.declaration.definition import Definition, Deletion, Strategy, Table
from actors.kinds.declaration.meta import METADATA, metadata_rules
from actors.kinds.schema.fields import INT32, STRING, STRINGS, Field, ListOf, Struct
from actors.kinds.validation import (
    IMMUTABLE,
    NEGATIVE,
    FieldErrors,
    duplicate,
    invalid,
    name_is_subdomain,
    qualified_name,
    required,
    size,
)
from actors.messages import Object
from actors.names import Names

LONGEST_NODE_ID: Final = 256

VOLUME_RESOURCES = Struct("storage.v1.VolumeNodeResources", Field("count", INT32, 1, pointer=True))
DRIVER = Struct(
    "storage.v1.CSINodeDriver",
    Field("name", STRING, 1, required=True, always=True),
    Field("nodeID", STRING, 2, required=True, always=True),
    Field("topologyKeys", STRINGS, 3, always=True),
    Field("allocatable", VOLUME_RESOURCES, 4, pointer=True),
)
SPEC = Struct(
    "storage.v1.CSINodeSpec",
    Field("drivers", ListOf(DRIVER), 1, required=True, always=True, patch="merge", merge_key="name"),
)
CSI_NODE = Struct("storage.v1.CSINode", METADATA, Field("spec", SPEC, 2, required=True))


def define(names: Names) -> Definition:
    return Definition(
        group=names.group("storage"),
        version="v1",
        kind="CSINode",
        plural="csinodes",
        namespaced=False,
        check_name=name_is_subdomain,
        fields=CSI_NODE,
        deletion=Deletion(returns_object=True),
        table=Table(
            (
                NAME,
                Column(
                    "Drivers",
                    "integer",
                    "Number of drivers.",
                    lambda stored, _: len(stored["spec"]["drivers"] or ()),
                ),
                AGE,
            )
        ),
        strategy=Strategy(
            allow_unconditional_update=False,
            validate_create=rules,
            validate_update=update_rules,
        ),
    )


def rules(errors: FieldErrors, new: Object) -> None:
    seen: set[str] = set()
    for index, driver in enumerate(new["spec"]["drivers"] or ()):
        _driver(errors, driver, f"spec.drivers[{index}]", repeated=driver["name"] in seen)
        seen.add(driver["name"])


def update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    own = errors.added_by(metadata_rules, new["metadata"], namespaced=False, check_name=name_is_subdomain)
    own += errors.added_by(rules, new)
    errors.add_all(own)
    _immutable_drivers(errors, new, old)


def _immutable_drivers(errors: FieldErrors, new: Object, old: Object) -> None:
    by_name: dict[str, list[Object]] = {}
    for driver in new["spec"]["drivers"] or ():
        by_name.setdefault(driver["name"], []).append(driver)
    for before in old["spec"]["drivers"] or ():
        # Names are unique in what is stored: each driver is compared once.
        for after in by_name.pop(before["name"], ()):
            if after != before:
                errors.add(invalid("CSINodeDriver", after, IMMUTABLE))


def _driver(errors: FieldErrors, driver: Object, field: str, *, repeated: bool) -> None:
    driver_name_rules(errors, driver["name"], f"{field}.name")
    _node_id(errors, driver["nodeID"], f"{field}.nodeID")
    count = driver.get("allocatable", {}).get("count", 0)
    if count < 0:
        errors.add(invalid(f"{field}.allocatable.count", count, NEGATIVE))
    if repeated:
        errors.add(duplicate(f"{field}.name", driver["name"]))
    _topology(errors, driver["topologyKeys"] or [], field)


def _node_id(errors: FieldErrors, node_id: str, field: str) -> None:
    if not node_id:
        errors.add(required(field))
        return
    if size(node_id) > LONGEST_NODE_ID:
        errors.add(invalid(field, node_id, f"must be {LONGEST_NODE_ID} characters or less"))


def _topology(errors: FieldErrors, keys: list[str], field: str) -> None:
    """As in Kubernetes, errors name the path of the driver instead of the key."""
    seen: set[str] = set()
    for key in keys:
        if not key:
            errors.add(required(field))
        if key in seen:
            errors.add(duplicate(field, key))
        seen.add(key)
        errors.add_each(field, key, qualified_name(key))
