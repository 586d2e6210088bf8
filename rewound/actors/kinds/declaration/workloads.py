"""What workloads have in common: a pod template, a selector of its pods, and a status that counts them.

For the kinds of the apps, batch and policy groups, and for table cells elsewhere; so nothing here imports a group.
Selectors are immutable, because existing pods were created with labels for the old one. IntOrString fields hold a
number of pods or a percentage of all of them: 3, or 25%.
"""

from __future__ import annotations

import re
from typing import Any, Final

from rewound.actors.golang import format as go_format
from rewound.actors.kinds.declaration.columns import NONE, Cell, Column
from rewound.actors.kinds.declaration.meta import (
    label_selector_compiles,
    label_selector_matches,
    label_selector_rules,
)
from rewound.actors.kinds.declaration.scale import labels_text, selector_text
from rewound.actors.kinds.schema.fields import STRING, TIME, Field, Struct
from rewound.actors.kinds.validation import (
    IMMUTABLE,
    NEGATIVE,
    FieldErrors,
    dns_label,
    explained,
    forbidden,
    invalid,
    not_supported,
    required,
    wording,
)
from rewound.actors.messages import Object
from rewound.actors.versions.features import NAMES_FOR_HOSTS

IntOrPercent = int | str

_PERCENT: Final = "[0-9]+%"
_PERCENT_TEXT: Final = explained(
    "a valid percent string must be a numeric string followed by an ending '%'", _PERCENT, "1%", "93%"
)
_is_percent = re.compile(_PERCENT).fullmatch
_is_integer = re.compile("[-+]?[0-9]+").fullmatch
_LARGEST: Final = 2**63 - 1


def int_or_percent_rules(errors: FieldErrors, value: IntOrPercent, field: str) -> None:
    """Must not be negative, and must be a percentage if it is a string."""
    if isinstance(value, str):
        if not _is_percent(value):
            errors.add(invalid(field, _shown(value), _PERCENT_TEXT))
    elif value < 0:
        errors.add(invalid(field, value, NEGATIVE))


def at_most_100_percent(errors: FieldErrors, value: IntOrPercent, field: str) -> None:
    if isinstance(value, str) and _is_percent(value) and number_in(value) > 100:
        errors.add(invalid(field, _shown(value), "must not be greater than 100%"))


def _shown(value: str) -> go_format.Formatted:
    text = f"intstr.IntOrString{{Type:1, IntVal:0, StrVal:{go_format.format_value(value)}}}"
    return go_format.Formatted(text, value)


def number_in(value: IntOrPercent) -> int:
    """Return the number, of pods or percent; 0 for a string without one, or with one that exceeds 64 bits."""
    return value if isinstance(value, int) else int64_of(value.removesuffix("%")) or 0


def int64_of(text: str) -> int | None:
    """Return the number in a text such as an annotation, or None if it is no 64-bit number. It may have leading
    zeros.

    Users write texts of any length, and `int` refuses those of more than 4,300 digits.
    """
    if not _is_integer(text):
        return None
    digits = text.lstrip("+-").lstrip("0")
    if len(digits) > len(str(_LARGEST)):
        return None
    number = int(digits or "0") * (-1 if text[0] == "-" else 1)
    return number if -_LARGEST - 1 <= number <= _LARGEST else None


DOES_NOT_MATCH = "`selector` does not match template `labels`"
ABOVE_REPLICAS = "cannot be greater than status.replicas"


def condition_struct(of: str) -> Struct:
    """Return the struct of a workload's condition; each kind has its own type, all alike."""
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


def same_selector(errors: FieldErrors, new: Object | None, old: Object | None) -> None:
    if new != old:
        shown = None if new is None else go_format.format_selector(new)
        errors.add(invalid("spec.selector", shown, IMMUTABLE))


def selector_rules(errors: FieldErrors, selector: Object | None, field: str, empty: str) -> None:
    """A selector is required and must not be empty: `empty` is the error text."""
    if selector is None:
        errors.add(required(field))
        return
    label_selector_rules(errors, selector, field)
    if not selector:
        errors.add(invalid(field, go_format.format_selector(selector), empty))


def selector_compiles(selector: Object | None) -> bool:
    """Whether labels can be matched against it; without a selector, none match."""
    return selector is None or label_selector_compiles(selector)


def selector_matches(selector: Object | None, template: Object) -> bool:
    """Whether it matches the pods of a template."""
    return selector is not None and label_selector_matches(selector, template["metadata"].get("labels", {}))


def selector_matches_rules(
    errors: FieldErrors, selector: Object | None, template: Object, field: str
) -> None:
    if selector_matches(selector, template):
        return
    labels = go_format.format_labels(template["metadata"].get("labels"))
    errors.add(invalid(f"{field}.metadata.labels", labels, DOES_NOT_MATCH))


def always_restart_rules(errors: FieldErrors, template: Object, field: str, kind: str) -> None:
    """Pods of long-running workloads restart always and have no deadline."""
    policy = template["spec"].get("restartPolicy", "")
    if policy != "Always":
        errors.add(not_supported(f"{field}.spec.restartPolicy", policy, ("Always",)))
    if "activeDeadlineSeconds" in template["spec"]:
        text = f"activeDeadlineSeconds in {kind} is not Supported"
        errors.add(forbidden(f"{field}.spec.activeDeadlineSeconds", text))


def replica_status_rules(
    errors: FieldErrors, status: Object, parts: tuple[str, ...], *, ready: str = "readyReplicas"
) -> None:
    """No count exceeds status.replicas, and availableReplicas does not exceed readyReplicas."""
    for part in parts:
        if status.get(part, 0) > status.get("replicas", 0):
            errors.add(invalid(f"status.{part}", status.get(part, 0), ABOVE_REPLICAS))
    if status.get("availableReplicas", 0) > status.get("readyReplicas", 0):
        text = f"cannot be greater than {ready}"
        errors.add(invalid("status.availableReplicas", status.get("availableReplicas", 0), text))


def collision_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    """status.collisionCount must not decrease."""
    now, before = (one["status"].get("collisionCount") for one in (new, old))
    if before is not None and (now is None or now < before):
        errors.add(invalid("status.collisionCount", now or 0, "cannot be decremented"))


def selector_of(stored: Object) -> str:
    """The label selector as text."""
    return selector_text(stored["spec"].get("selector") or {})


def count_cell(parent: str, part: str) -> Cell:
    return lambda stored, _: stored[parent].get(part, 0)


def ready_cell(stored: Object, _: int) -> str:
    return f"{stored['status'].get('readyReplicas', 0)}/{stored['spec'].get('replicas', 0)}"


def _containers_of(stored: Object) -> list[Object]:
    """Return the containers of the pod template, which is in the spec or, for some kinds, one level deeper."""
    holder: Any = stored.get("spec", stored)
    holder = holder["jobTemplate"]["spec"] if "jobTemplate" in holder else holder
    return holder.get("template", {}).get("spec", {}).get("containers") or []


def containers_cell(stored: Object, _: int) -> str:
    return ",".join(one["name"] for one in _containers_of(stored))


def images_cell(stored: Object, _: int) -> str:
    return ",".join(one.get("image", "") for one in _containers_of(stored))


def selector_or_none(selector: Object | None) -> str:
    if not selector_compiles(selector):
        return "<error>"
    return selector_text(selector or {}) or NONE


def labels_or_none(labels: dict[str, str]) -> str:
    return labels_text(labels) or NONE


CONTAINERS = Column(
    "Containers", "string", "Names of the containers in each pod.", containers_cell, priority=1
)
IMAGES = Column("Images", "string", "Images of the containers.", images_cell, priority=1)


def name_warnings(new: Object, features: frozenset[str]) -> list[str]:
    """Warn of the name of a new object whose pods have it in their names."""
    wrong = dns_label(new["metadata"].get("name", "")) if NAMES_FOR_HOSTS in features else []
    return [
        f"metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; "
        f"a DNS label is recommended: [{' '.join(wording(one, features) for one in wrong)}]"
        for _ in wrong[:1]
    ]


SELECTOR = Column(
    "Selector",
    "string",
    "Labels by which its pods are found.",
    lambda stored, _: selector_or_none(stored["spec"].get("selector")),
    priority=1,
)
