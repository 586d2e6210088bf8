"""The status of FlowSchema and PriorityLevelConfiguration: conditions alone."""

from __future__ import annotations

from actors.kinds.schema.fields import STRING, TIME, Field, ListOf, Struct
from actors.kinds.validation import FieldErrors, duplicate, required
from actors.messages import Object


def status_of(kind: str) -> Struct:
    condition = Struct(
        f"flowcontrol.v1beta2.{kind}Condition",
        Field("type", STRING, 1),
        Field("status", STRING, 2),
        Field("lastTransitionTime", TIME, 3),
        Field("reason", STRING, 4),
        Field("message", STRING, 5),
    )
    return Struct(
        f"flowcontrol.v1beta2.{kind}Status",
        Field("conditions", ListOf(condition), 1, list_type="map", list_keys=("type",)),
    )


def status_rules(errors: FieldErrors, new: Object, _: Object | None = None) -> None:
    seen: set[str] = set()
    for index, condition in enumerate(new["status"].get("conditions", ())):
        kind, field = condition.get("type", ""), f"status.conditions[{index}].type"
        if kind in seen:
            errors.add(duplicate(field, kind))
        if not kind:
            errors.add(required(field, "must not be empty"))
        seen.add(kind)
