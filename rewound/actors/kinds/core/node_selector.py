"""Node selectors: terms that select nodes by labels, or by metadata.name, the only selectable field.

Some labels of nodes have been renamed: the old names still work, with a warning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from rewound.actors.kinds.declaration.meta import NEEDS_VALUES, NO_OPERATOR, TAKES_NO_VALUES
from rewound.actors.kinds.schema.fields import STRING, STRINGS, UNTYPED_BEFORE_1_30, Field, ListOf, Struct
from rewound.actors.kinds.validation import (
    FieldErrors,
    dns_subdomain,
    forbidden,
    invalid,
    label_value,
    qualified_name,
    required,
)
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.versions.features import NODE_SELECTOR_VALUES

NODE_SELECTOR_REQUIREMENT = Struct(
    "core.v1.NodeSelectorRequirement",
    Field("key", STRING, 1, required=True, always=True),
    Field(
        "operator",
        STRING,
        2,
        required=True,
        always=True,
        enum=("DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn"),
    ),
    Field("values", STRINGS, 3, list_type="atomic", before=UNTYPED_BEFORE_1_30),
)
NODE_SELECTOR_TERM = Struct(
    "core.v1.NodeSelectorTerm",
    Field(
        "matchExpressions",
        ListOf(NODE_SELECTOR_REQUIREMENT),
        1,
        list_type="atomic",
        before=UNTYPED_BEFORE_1_30,
    ),
    Field(
        "matchFields",
        ListOf(NODE_SELECTOR_REQUIREMENT),
        2,
        list_type="atomic",
        before=UNTYPED_BEFORE_1_30,
    ),
    atomic=True,
)
NODE_SELECTOR = Struct(
    "core.v1.NodeSelector",
    Field(
        "nodeSelectorTerms",
        ListOf(NODE_SELECTOR_TERM),
        1,
        required=True,
        always=True,
        list_type="atomic",
        before=UNTYPED_BEFORE_1_30,
    ),
    atomic=True,
)


def node_selector_rules(
    errors: FieldErrors, selector: Object, field: str, *, checks_values: bool | None = None
) -> None:
    """Validate a selector that decides; later versions also check the values of its labels."""
    if checks_values is None:
        checks_values = NODE_SELECTOR_VALUES in errors.features
    terms = selector.get("nodeSelectorTerms")
    if not terms:
        errors.add(required(f"{field}.nodeSelectorTerms", "must have at least one node selector term"))
        return
    for index, term in enumerate(terms):
        here = f"{field}.nodeSelectorTerms[{index}]"
        node_selector_term_rules(errors, term, here, checks_values=checks_values)


def has_invalid_values(selector: Object | None) -> bool:
    """Whether a selector has values that no label can have."""
    return any(
        label_value(value)
        for term in (selector or {}).get("nodeSelectorTerms") or ()
        for requirement in term.get("matchExpressions", ())
        for value in requirement.get("values", ())
    )


def node_selector_term_rules(
    errors: FieldErrors, term: Object, field: str, *, checks_values: bool = False
) -> None:
    for index, requirement in enumerate(term.get("matchExpressions", ())):
        here = f"{field}.matchExpressions[{index}]"
        _label_requirement_rules(errors, requirement, here)
        for place, value in enumerate(requirement.get("values", ()) if checks_values else ()):
            errors.add_each(f"{here}.values[{place}]", value, label_value(value))
    for index, requirement in enumerate(term.get("matchFields", ())):
        _field_requirement_rules(errors, requirement, f"{field}.matchFields[{index}]")


def _label_requirement_rules(errors: FieldErrors, requirement: Object, field: str) -> None:
    operator, key, values = requirement["operator"], requirement["key"], requirement.get("values", ())
    if operator in ("In", "NotIn"):
        if not values:
            errors.add(required(f"{field}.values", NEEDS_VALUES))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            errors.add(forbidden(f"{field}.values", TAKES_NO_VALUES))
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            errors.add(required(f"{field}.values", text))
    else:
        errors.add(invalid(f"{field}.operator", operator, NO_OPERATOR))
    errors.add_each(f"{field}.key", key, qualified_name(key))


def _field_requirement_rules(errors: FieldErrors, requirement: Object, field: str) -> None:
    operator, key, values = requirement["operator"], requirement["key"], requirement.get("values", ())
    if operator not in ("In", "NotIn"):
        errors.add(invalid(f"{field}.operator", operator, NO_OPERATOR))
    elif len(values) != 1:
        text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        errors.add(required(f"{field}.values", text))
    if key != "metadata.name":
        errors.add(invalid(f"{field}.key", key, "not a valid field selector key"))
        return
    for index, value in enumerate(values):
        errors.add_each(f"{field}.values[{index}]", value, dns_subdomain(value))


DeprecatedLabels = Mapping[str, str]  # old key -> text of the warning
# Name and prefix of an old label, since when it is deprecated, name and prefix of its successor.
_OLD_LABELS: Final = (
    ("arch", "beta", "v1.14", "arch", ""),
    ("os", "beta", "v1.14", "os", ""),
    ("region", "failure-domain.beta", "v1.17", "region", "topology"),
    ("zone", "failure-domain.beta", "v1.17", "zone", "topology"),
    ("instance-type", "beta", "v1.17", "instance-type", "node"),
)


def deprecated_labels(names: Names) -> DeprecatedLabels:
    return {
        names.key(old, prefix): f'deprecated since {since}; use "{names.key(new, new_prefix)}" instead'
        for old, prefix, since, new, new_prefix in _OLD_LABELS
    }


def newer_labels(names: Names) -> Mapping[str, str]:
    """Return the successors of deprecated labels."""
    return {
        names.key(old, prefix): names.key(new, new_prefix) for old, prefix, _, new, new_prefix in _OLD_LABELS
    }


def requirement_warnings(known: DeprecatedLabels, requirements: Iterable[Object], field: str) -> list[str]:
    """Return warnings about the expressions of the selector at `field`."""
    return [
        f"{field}[{index}].key: {one['key']} is {known[one['key']]}"
        for index, one in enumerate(requirements)
        if one["key"] in known
    ]


def label_warnings(known: DeprecatedLabels, labels: Iterable[str], field: str) -> list[str]:
    return [f"{field}: {known[key]}" for key in labels if key in known]
