"""ControllerRevision: a snapshot of a workload, which its controller stores for rollbacks.

The controller alone defines `data`, which is immutable. Only `revision` changes: a rollback to an old snapshot gives it
a new number.
"""

from __future__ import annotations

from typing import Final

from actors.kinds.declaration.columns import AGE, NAME, NONE, Column, at
from actors.kinds.declaration.definition import Definition, Strategy, Table
from actors.kinds.declaration.meta import METADATA, metadata_rules, metadata_update_rules
from actors.kinds.schema.fields import ANY_JSON, INT64, Field, Struct
from actors.kinds.validation import NEGATIVE, FieldErrors, invalid, name_is_subdomain, required, unchanged
from actors.messages import Object
from actors.names import Names

CONTROLLER_REVISION = Struct(
    "apps.v1.ControllerRevision",
    METADATA,
    Field("data", ANY_JSON, 2, pointer=True),
    Field("revision", INT64, 3, required=True, always=True),
)


def _controller_cell(stored: Object, _: int) -> str:
    for owner in stored["metadata"].get("ownerReferences", ()):
        if owner.get("controller"):
            group = owner["apiVersion"].rpartition("/")[0]
            kind = f"{owner['kind']}.{group}" if group else owner["kind"]
            return f"{kind.lower()}/{owner['name']}"
    return NONE


COLUMNS: Final = (
    NAME,
    Column("Controller", "string", "Controller that owns the revision.", _controller_cell),
    Column("Revision", "string", "Number of the revision.", at("revision")),
    AGE,
)


def define(_: Names) -> Definition:
    return Definition(
        group="apps",
        version="v1",
        kind="ControllerRevision",
        plural="controllerrevisions",
        namespaced=True,
        check_name=name_is_subdomain,
        fields=CONTROLLER_REVISION,
        table=Table(COLUMNS),
        strategy=Strategy(
            validate_create=rules,
            validate_update=update_rules,
        ),
    )


def rules(errors: FieldErrors, new: Object) -> None:
    if "data" not in new:
        errors.add(required("data", "data is mandatory"))
    if new["revision"] < 0:
        errors.add(invalid("revision", new["revision"], NEGATIVE))


def update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    metadata_rules(errors, new["metadata"], namespaced=True, check_name=name_is_subdomain)
    rules(errors, new)
    unchanged(errors, "data", new.get("data"), old.get("data"))
