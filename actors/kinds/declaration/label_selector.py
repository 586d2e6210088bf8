"""LabelSelector in objects: its declaration, its validation, and matching labels.

Not the label selectors of list requests, which are text in a query (actors/selectors): these are stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from actors.kinds.declaration.meta import label_rules
from actors.kinds.schema.fields import STRING, STRING_MAP, STRINGS, Field, ListOf, Struct
from actors.kinds.validation.checks import label_value, qualified_name
from actors.kinds.validation.field_errors import (
    FieldErrors,
    collect,
    forbidden,
    invalid,
    required,
)
from actors.messages import Object

REQUIREMENT = Struct(
    "meta.v1.LabelSelectorRequirement",
    Field("key", STRING, 1, required=True, always=True, patch="merge", merge_key="key"),
    Field("operator", STRING, 2, required=True, always=True),
    Field("values", STRINGS, 3),
)
LABEL_SELECTOR = Struct(
    "meta.v1.LabelSelector",
    Field("matchLabels", STRING_MAP, 1),
    Field("matchExpressions", ListOf(REQUIREMENT), 2),
    atomic=True,
)

NEEDS_VALUES: Final = "must be specified when `operator` is 'In' or 'NotIn'"
TAKES_NO_VALUES: Final = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
NO_OPERATOR: Final = "not a valid selector operator"


def label_selector_rules(errors: FieldErrors, selector: Object | None, field: str) -> None:
    if not selector:
        return
    label_rules(errors, selector.get("matchLabels", {}), f"{field}.matchLabels")
    for index, requirement in enumerate(selector.get("matchExpressions", ())):
        requirement_rules(errors, requirement, f"{field}.matchExpressions[{index}]")


def requirement_rules(errors: FieldErrors, requirement: Object, field: str) -> None:
    operator, key, values = requirement["operator"], requirement["key"], requirement.get("values")
    if operator in ("In", "NotIn"):
        if not values:
            errors.add(required(f"{field}.values", NEEDS_VALUES))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            errors.add(forbidden(f"{field}.values", TAKES_NO_VALUES))
    else:
        errors.add(invalid(f"{field}.operator", operator, NO_OPERATOR))
    errors.add_each(f"{field}.key", key, qualified_name(key))


def compiles(selector: Object) -> bool:
    """Whether labels can be matched against it: stricter than its rules, which do not check values."""
    values = [value for one in selector.get("matchExpressions", ()) for value in one.get("values", ())]
    return not collect(label_selector_rules, selector, "") and not any(label_value(value) for value in values)


def matches(selector: Object, labels: Mapping[str, str]) -> bool:
    """Whether the selector matches the labels; an empty one matches all."""
    if any(labels.get(key) != value for key, value in selector.get("matchLabels", {}).items()):
        return False
    return all(_is_met(one, labels) for one in selector.get("matchExpressions", ()))


def _is_met(requirement: Object, labels: Mapping[str, str]) -> bool:
    key, operator, values = requirement["key"], requirement["operator"], requirement.get("values", ())
    if operator == "In":
        return bool(labels.get(key) in values)
    if operator == "NotIn":
        return bool(labels.get(key) not in values)
    return (key in labels) is (operator == "Exists")
