"""Fields of a pod that may change after creation: images, a shorter deadline, more tolerations, and little else."""

from __future__ import annotations

from typing import Final

from actors.kinds.core.pods.containers import image_whitespace_rules
from actors.kinds.core.pods.differences import differences
from actors.kinds.core.pods.placement import added_toleration_rules
from actors.kinds.core.pods.spec import LONGEST_DEADLINE
from actors.kinds.core.resources import nanos
from actors.kinds.validation import FieldErrors, between, forbidden, invalid, required
from actors.messages import Object
from actors.quoting import quoted_start

MUTABLE_FIELDS: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`, "
    "`spec.initContainers[*].image`, `spec.activeDeadlineSeconds`, "
    "`spec.tolerations` (only additions to existing tolerations) or "
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n"
)
_CONTAINERS: Final = ("containers", "initContainers")


def spec_update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    """Compare two specs of one pod."""
    for part in _CONTAINERS:
        now, before, field = new.get(part) or [], old.get(part) or [], f"spec.{part}"
        if len(now) != len(before):
            errors.add(forbidden(field, "pod updates may not add or remove containers"))
            return
        for index, container in enumerate(now):
            if not container.get("image"):
                errors.add(required(f"{field}[{index}].image"))
            image_whitespace_rules(errors, container, f"{field}[{index}]")
    deadline, old_deadline = new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds")
    if errors.added_by(_deadline_rules, deadline, old_deadline) and "activeDeadlineSeconds" in new:
        return
    added_toleration_rules(errors, new.get("tolerations", []), old.get("tolerations", []), "spec.tolerations")
    wanted = _with_mutable_fields_of(old, new)
    if wanted != old:
        errors.add(forbidden("spec", MUTABLE_FIELDS + differences(old, wanted, "spec")))


def _deadline_rules(errors: FieldErrors, new: int | None, old: int | None) -> None:
    field = "spec.activeDeadlineSeconds"
    if new is None:
        text = "must not update from a positive integer to nil value"
        if old is not None:
            errors.add(invalid(field, None, text))
        return
    if not 0 <= new <= LONGEST_DEADLINE:
        errors.add(invalid(field, new, between(0, LONGEST_DEADLINE)))
        return
    if old is not None and new > old:
        errors.add(invalid(field, new, "must be less than or equal to previous value"))


def _with_mutable_fields_of(old: Object, new: Object) -> Object:
    """The new spec with every field that may change set to its old value."""
    wanted = dict(new)
    for part in _CONTAINERS:
        if wanted.get(part):
            pairs = zip(wanted[part], old[part], strict=True)
            wanted[part] = [_with_image_of(before, container) for container, before in pairs]
    for part in ("activeDeadlineSeconds", "tolerations"):
        wanted.pop(part, None)
        if part in old:
            wanted[part] = old[part]
    grace = "terminationGracePeriodSeconds"
    if old.get(grace, 0) < 0 and wanted.get(grace) == 1:
        wanted[grace] = old[grace]
    return wanted


def _with_image_of(old: Object, new: Object) -> Object:
    wanted = {**new, "image": old["image"]} if "image" in old else dict(new)
    if wanted["resources"] != old["resources"]:
        wanted["resources"] = {
            part: _in_old_units(old["resources"].get(part, {}), amounts)
            for part, amounts in wanted["resources"].items()
        }
    return wanted


def _in_old_units(old: dict[str, str], new: dict[str, str]) -> dict[str, str]:
    """The new amounts in the old units where they are equal."""
    return {
        name: old[name] if name in old and nanos(old[name]) == nanos(amount) else amount
        for name, amount in new.items()
    }


def added_container_rules(errors: FieldErrors, new: list[Object], old: list[Object]) -> None:
    """Ephemeral containers cannot be changed or removed."""
    field, by_name = "spec.ephemeralContainers", {one["name"]: one for one in new}
    for before in old:
        name, after = quoted_start(before["name"]), by_name.get(before["name"])
        if after is None:
            errors.add(forbidden(field, f"existing ephemeral containers {name} may not be removed\n"))
        elif after != before:
            text = f"existing ephemeral containers {name} may not be changed\n"
            errors.add(forbidden(field, text + differences(before, after, field)))
