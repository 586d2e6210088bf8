"""What workloads have in common: a selector that finds the pods their template makes, and counts of those.

For the kinds of the apps and batch groups, and for cells of tables elsewhere; so nothing here imports a group.
Selectors are fixed once an object is there, because whatever it has made so far was found by the old one.
"""

from __future__ import annotations

import re
from typing import Any

from actors.kinds.declaration.columns import NONE, Cell, Column
from actors.kinds.declaration.label_selector import compiles, label_selector_rules, matches
from actors.kinds.declaration.scale import labels_text, selector_text
from actors.kinds.schema.fields import STRING, TIME, Field, Struct
from actors.kinds.validation.field_errors import (
    NEGATIVE,
    FieldErrors,
    forbidden,
    invalid,
    not_supported,
    required,
)
from actors.kinds.values import go_format
from actors.messages import Object

DOES_NOT_MATCH = "`selector` does not match template `labels`"
ABOVE_REPLICAS = "cannot be greater than status.replicas"

_is_number = re.compile("[-+]?[0-9]{1,18}").fullmatch


def annotated_number(text: str) -> int | None:
    """What an annotation counts; None where it is no number."""
    return int(text) if _is_number(text) else None


def condition(of: str) -> Struct:
    """What holds of a workload; each kind has a struct of its own for it, all alike."""
    return Struct(
        of,
        Field("type", STRING, 1, required=True, always=True),
        Field("status", STRING, 2, required=True, always=True),
        Field("lastTransitionTime", TIME, 3),
        Field("reason", STRING, 4),
        Field("message", STRING, 5),
    )


def not_negative(errors: FieldErrors, holder: Object, field: str, *parts: str) -> None:
    for part in parts:
        if (holder.get(part) or 0) < 0:
            errors.add(invalid(f"{field}.{part}", holder[part], NEGATIVE))


def selector_rules(errors: FieldErrors, selector: Object | None, field: str, empty: str) -> None:
    """There must be one and it must select: `empty` is said of one that takes everything."""
    if selector is None:
        errors.add(required(field))
        return
    label_selector_rules(errors, selector, field)
    if not selector:
        errors.add(invalid(field, go_format.format_selector(selector), empty))


def usable(selector: Object | None) -> bool:
    """Whether labels can be held against it at all; without one, none match."""
    return selector is None or compiles(selector)


def finds(selector: Object | None, template: Object) -> bool:
    """Whether it finds the pods that a template makes."""
    return selector is not None and matches(selector, template["metadata"].get("labels", {}))


def found_rules(errors: FieldErrors, selector: Object | None, template: Object, field: str) -> None:
    if finds(selector, template):
        return
    labels = go_format.format_labels(template["metadata"].get("labels"))
    errors.add(invalid(f"{field}.metadata.labels", labels, DOES_NOT_MATCH))


def lasting_rules(errors: FieldErrors, template: Object, field: str, kind: str) -> None:
    """Pods that are to run for ever are started again whenever they end, and have no deadline."""
    policy = template["spec"].get("restartPolicy", "")
    if policy != "Always":
        errors.add(not_supported(f"{field}.spec.restartPolicy", policy, ("Always",)))
    if "activeDeadlineSeconds" in template["spec"]:
        text = f"activeDeadlineSeconds in {kind} is not Supported"
        errors.add(forbidden(f"{field}.spec.activeDeadlineSeconds", text))


def replica_status_rules(
    errors: FieldErrors, status: Object, parts: tuple[str, ...], *, ready: str = "readyReplicas"
) -> None:
    """None of the parts is more than all there are, and none that is available is not ready."""
    for part in parts:
        if status.get(part, 0) > status.get("replicas", 0):
            errors.add(invalid(f"status.{part}", status.get(part, 0), ABOVE_REPLICAS))
    if status.get("availableReplicas", 0) > status.get("readyReplicas", 0):
        text = f"cannot be greater than {ready}"
        errors.add(invalid("status.availableReplicas", status.get("availableReplicas", 0), text))


def collision_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    """How often a name was taken already only grows."""
    now, before = (one["status"].get("collisionCount") for one in (new, old))
    if before is not None and (now is None or now < before):
        errors.add(invalid("status.collisionCount", now or 0, "cannot be decremented"))


def chosen(stored: Object) -> str:
    """By which labels it finds its pods, as text."""
    return selector_text(stored["spec"].get("selector") or {})


def counted(half: str, part: str) -> Cell:
    return lambda made, _: made[half].get(part, 0)


def ready_of_wanted(made: Object, _: int) -> str:
    return f"{made['status'].get('readyReplicas', 0)}/{made['spec'].get('replicas', 0)}"


def _containers_of(made: Object) -> list[Object]:
    """Of the template, which some kinds have in their spec and some a level deeper."""
    holder: Any = made.get("spec", made)
    holder = holder["jobTemplate"]["spec"] if "jobTemplate" in holder else holder
    return holder.get("template", {}).get("spec", {}).get("containers") or []


def containers_cell(made: Object, _: int) -> str:
    return ",".join(one["name"] for one in _containers_of(made))


def images_cell(made: Object, _: int) -> str:
    return ",".join(one.get("image", "") for one in _containers_of(made))


def selector_or_none(selector: Object | None) -> str:
    if not usable(selector):
        return "<error>"
    return selector_text(selector or {}) or NONE


def labels_or_none(labels: dict[str, str]) -> str:
    return labels_text(labels) or NONE


CONTAINERS = Column(
    "Containers", "string", "Names of the containers in each pod.", containers_cell, priority=1
)
IMAGES = Column("Images", "string", "Images that the containers run.", images_cell, priority=1)
SELECTOR = Column(
    "Selector",
    "string",
    "Labels by which its pods are found.",
    lambda made, _: selector_or_none(made["spec"].get("selector")),
    priority=1,
)
