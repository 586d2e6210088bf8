"""Label selectors inside objects: by what labels a kind finds others, declared and judged in one place.

Not the selectors of lists, which are text in a query (actors/selectors): these are part of what is stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from actors.kinds.declaration.meta import label_rules
from actors.kinds.schema.fields import STRING, STRING_MAP, STRINGS, Field, ListOf, Struct
from actors.kinds.validation.checks import (
    FieldError,
    each,
    forbidden,
    invalid,
    label_value,
    qualified_name,
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


def label_selector_rules(selector: Object | None, field: str) -> list[FieldError]:
    if not selector:
        return []
    errors = label_rules(selector.get("matchLabels", {}), f"{field}.matchLabels")
    for index, requirement in enumerate(selector.get("matchExpressions", ())):
        errors += requirement_rules(requirement, f"{field}.matchExpressions[{index}]")
    return errors


def requirement_rules(requirement: Object, field: str) -> list[FieldError]:
    operator, key, values = requirement["operator"], requirement["key"], requirement.get("values")
    errors: list[FieldError] = []
    if operator in ("In", "NotIn"):
        if not values:
            errors.append(required(f"{field}.values", NEEDS_VALUES))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            errors.append(forbidden(f"{field}.values", TAKES_NO_VALUES))
    else:
        errors.append(invalid(f"{field}.operator", operator, NO_OPERATOR))
    return errors + each(f"{field}.key", key, qualified_name(key))


def compiles(selector: Object) -> bool:
    """Whether labels could be held against it: stricter than its rules, which leave values alone."""
    values = [value for one in selector.get("matchExpressions", ()) for value in one.get("values", ())]
    return not label_selector_rules(selector, "") and not any(label_value(value) for value in values)


def matches(selector: Object, labels: Mapping[str, str]) -> bool:
    """Whether labels are as the selector wants them; an empty one wants nothing and takes all."""
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
