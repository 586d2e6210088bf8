"""How objects choose nodes: by their labels, or by their one field that can be chosen by."""

from __future__ import annotations

from actors.kinds.declaration.label_selector import NEEDS_VALUES, NO_OPERATOR, TAKES_NO_VALUES
from actors.kinds.schema.fields import STRING, STRINGS, Field, ListOf, Struct
from actors.kinds.validation.checks import (
    FieldError,
    dns_subdomain,
    each,
    forbidden,
    invalid,
    qualified_name,
    required,
)
from actors.messages import Object

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
    Field("values", STRINGS, 3),
)
NODE_SELECTOR_TERM = Struct(
    "core.v1.NodeSelectorTerm",
    Field("matchExpressions", ListOf(NODE_SELECTOR_REQUIREMENT), 1),
    Field("matchFields", ListOf(NODE_SELECTOR_REQUIREMENT), 2),
    atomic=True,
)
NODE_SELECTOR = Struct(
    "core.v1.NodeSelector",
    Field("nodeSelectorTerms", ListOf(NODE_SELECTOR_TERM), 1, required=True, always=True),
    atomic=True,
)


def node_selector_rules(selector: Object, field: str) -> list[FieldError]:
    terms = selector.get("nodeSelectorTerms")
    if not terms:
        return [required(f"{field}.nodeSelectorTerms", "must have at least one node selector term")]
    errors: list[FieldError] = []
    for index, term in enumerate(terms):
        errors += node_selector_term_rules(term, f"{field}.nodeSelectorTerms[{index}]")
    return errors


def node_selector_term_rules(term: Object, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, requirement in enumerate(term.get("matchExpressions", ())):
        errors += _by_label(requirement, f"{field}.matchExpressions[{index}]")
    for index, requirement in enumerate(term.get("matchFields", ())):
        errors += _by_field(requirement, f"{field}.matchFields[{index}]")
    return errors


def _by_label(requirement: Object, field: str) -> list[FieldError]:
    operator, key, values = requirement["operator"], requirement["key"], requirement.get("values", ())
    errors: list[FieldError] = []
    if operator in ("In", "NotIn"):
        if not values:
            errors.append(required(f"{field}.values", NEEDS_VALUES))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            errors.append(forbidden(f"{field}.values", TAKES_NO_VALUES))
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            errors.append(required(f"{field}.values", text))
    else:
        errors.append(invalid(f"{field}.operator", operator, NO_OPERATOR))
    return errors + each(f"{field}.key", key, qualified_name(key))


def _by_field(requirement: Object, field: str) -> list[FieldError]:
    operator, key, values = requirement["operator"], requirement["key"], requirement.get("values", ())
    errors: list[FieldError] = []
    if operator not in ("In", "NotIn"):
        errors.append(invalid(f"{field}.operator", operator, NO_OPERATOR))
    elif len(values) != 1:
        text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        errors.append(required(f"{field}.values", text))
    if key != "metadata.name":
        return [*errors, invalid(f"{field}.key", key, "not a valid field selector key")]
    for index, value in enumerate(values):
        errors += each(f"{field}.values[{index}]", value, dns_subdomain(value))
    return errors
