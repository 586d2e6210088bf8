"""What may change of a pod once it is there: images, a nearer deadline, more tolerations, and little else."""

from __future__ import annotations

from typing import Final

from actors.kinds.core.pods.containers import image_space_rules
from actors.kinds.core.pods.differences import differences
from actors.kinds.core.pods.placement import added_toleration_rules
from actors.kinds.core.pods.spec import LONGEST_DEADLINE
from actors.kinds.core.resources import nanos
from actors.kinds.validation.checks import FieldError, between, forbidden, invalid, required
from actors.kinds.values.spelling import quoted
from actors.messages import Object

CHANGEABLE: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`, "
    "`spec.initContainers[*].image`, `spec.activeDeadlineSeconds`, "
    "`spec.tolerations` (only additions to existing tolerations) or "
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n"
)
_CONTAINERS: Final = ("containers", "initContainers")


def spec_change_rules(new: Object, old: Object) -> list[FieldError]:
    """Both are specs of one pod."""
    errors: list[FieldError] = []
    for part in _CONTAINERS:
        now, before, field = new.get(part) or [], old.get(part) or [], f"spec.{part}"
        if len(now) != len(before):
            return [*errors, forbidden(field, "pod updates may not add or remove containers")]
        for index, container in enumerate(now):
            if not container.get("image"):
                errors.append(required(f"{field}[{index}].image"))
            errors += image_space_rules(container, f"{field}[{index}]")
    late = _deadline_rules(new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds"))
    errors += late
    if late and "activeDeadlineSeconds" in new:
        return errors
    errors += added_toleration_rules(
        new.get("tolerations", []), old.get("tolerations", []), "spec.tolerations"
    )
    wanted = _with_the_changeable_of(old, new)
    if wanted != old:
        errors.append(forbidden("spec", CHANGEABLE + differences(old, wanted, "spec")))
    return errors


def _deadline_rules(new: int | None, old: int | None) -> list[FieldError]:
    field = "spec.activeDeadlineSeconds"
    if new is None:
        text = "must not update from a positive integer to nil value"
        return [] if old is None else [invalid(field, None, text)]
    if not 0 <= new <= LONGEST_DEADLINE:
        return [invalid(field, new, between(0, LONGEST_DEADLINE))]
    if old is not None and new > old:
        return [invalid(field, new, "must be less than or equal to previous value")]
    return []


def _with_the_changeable_of(old: Object, new: Object) -> Object:
    """The new spec as if nothing had changed that may."""
    wanted = dict(new)
    for part in _CONTAINERS:
        if wanted.get(part):
            pairs = zip(wanted[part], old[part], strict=True)
            wanted[part] = [_with_the_image_of(before, container) for container, before in pairs]
    for part in ("activeDeadlineSeconds", "tolerations"):
        wanted.pop(part, None)
        if part in old:
            wanted[part] = old[part]
    grace = "terminationGracePeriodSeconds"
    if old.get(grace, 0) < 0 and wanted.get(grace) == 1:
        wanted[grace] = old[grace]
    return wanted


def _with_the_image_of(old: Object, new: Object) -> Object:
    wanted = {**new, "image": old["image"]} if "image" in old else dict(new)
    if wanted["resources"] != old["resources"]:
        wanted["resources"] = {
            part: _spelled_as(old["resources"].get(part, {}), amounts)
            for part, amounts in wanted["resources"].items()
        }
    return wanted


def _spelled_as(old: dict[str, str], new: dict[str, str]) -> dict[str, str]:
    """An amount is the same in whatever units it is said."""
    return {
        name: old[name] if name in old and nanos(old[name]) == nanos(amount) else amount
        for name, amount in new.items()
    }


def added_container_rules(new: list[Object], old: list[Object]) -> list[FieldError]:
    """Containers that were added to look into a pod are there until it goes."""
    field, kept = "spec.ephemeralContainers", {one["name"]: one for one in new}
    errors: list[FieldError] = []
    for before in old:
        name, after = quoted(before["name"]), kept.get(before["name"])
        if after is None:
            errors.append(forbidden(field, f"existing ephemeral containers {name} may not be removed\n"))
        elif after != before:
            text = f"existing ephemeral containers {name} may not be changed\n"
            errors.append(forbidden(field, text + differences(before, after, field)))
    return errors
