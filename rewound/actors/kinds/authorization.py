"""The authorization group: access reviews. A create returns the review with its status; nothing is stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rewound.actors.kinds.declaration.definition import Definition, Storage, Strategy, no_validation
from rewound.actors.kinds.declaration.meta import (
    LABEL_SELECTOR_REQUIREMENT,
    METADATA,
    NEEDS_VALUES,
    TAKES_NO_VALUES,
)
from rewound.actors.kinds.schema.fields import (
    BOOL,
    STRING,
    STRINGS,
    UNTYPED_BEFORE_1_30,
    Field,
    ListOf,
    MapOf,
    Struct,
)
from rewound.actors.kinds.schema.internal import shown
from rewound.actors.kinds.validation import (
    FieldErrors,
    forbidden,
    invalid,
    label_value,
    name_is_subdomain,
    qualified_name,
    required,
)
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.versions.features import SELECTORS

LABEL_SELECTOR_ATTRIBUTES = Struct(
    "authorization.v1.LabelSelectorAttributes",
    Field("rawSelector", STRING, 1),
    Field("requirements", ListOf(LABEL_SELECTOR_REQUIREMENT), 2, list_type="atomic"),
)
FIELD_SELECTOR_REQUIREMENT = Struct(
    "meta.v1.FieldSelectorRequirement",
    Field("key", STRING, 1, required=True, always=True),
    Field("operator", STRING, 2, required=True, always=True),
    Field("values", STRINGS, 3, list_type="atomic"),
)
FIELD_SELECTOR_ATTRIBUTES = Struct(
    "authorization.v1.FieldSelectorAttributes",
    Field("rawSelector", STRING, 1),
    Field("requirements", ListOf(FIELD_SELECTOR_REQUIREMENT), 2, list_type="atomic"),
)
RESOURCE_ATTRIBUTES = Struct(
    "authorization.v1.ResourceAttributes",
    Field("namespace", STRING, 1),
    Field("verb", STRING, 2),
    Field("group", STRING, 3),
    Field("version", STRING, 4),
    Field("resource", STRING, 5),
    Field("subresource", STRING, 6),
    Field("name", STRING, 7),
    Field("fieldSelector", FIELD_SELECTOR_ATTRIBUTES, 8, pointer=True, since="1.31", gate=SELECTORS),
    Field("labelSelector", LABEL_SELECTOR_ATTRIBUTES, 9, pointer=True, since="1.31", gate=SELECTORS),
)
NON_RESOURCE_ATTRIBUTES = Struct(
    "authorization.v1.NonResourceAttributes", Field("path", STRING, 1), Field("verb", STRING, 2)
)
ATTRIBUTES = (
    Field("resourceAttributes", RESOURCE_ATTRIBUTES, 1, pointer=True),
    Field("nonResourceAttributes", NON_RESOURCE_ATTRIBUTES, 2, pointer=True),
)
SUBJECT_SPEC = Struct(
    "authorization.v1.SubjectAccessReviewSpec",
    *ATTRIBUTES,
    Field("user", STRING, 3),
    Field("groups", STRINGS, 4, list_type="atomic", before=UNTYPED_BEFORE_1_30),
    Field("extra", MapOf(STRINGS), 5),
    Field("uid", STRING, 6),
)
SELF_SPEC = Struct("authorization.v1.SelfSubjectAccessReviewSpec", *ATTRIBUTES)
STATUS = Struct(
    "authorization.v1.SubjectAccessReviewStatus",
    Field("allowed", BOOL, 1, required=True, always=True),
    Field("denied", BOOL, 4),
    Field("reason", STRING, 2),
    Field("evaluationError", STRING, 3),
)
RESOURCE_RULE = Struct(
    "authorization.v1.ResourceRule",
    Field(
        "verbs",
        STRINGS,
        1,
        required=True,
        always=True,
        list_type="atomic",
        before=UNTYPED_BEFORE_1_30,
    ),
    Field("apiGroups", STRINGS, 2, list_type="atomic", before=UNTYPED_BEFORE_1_30),
    Field("resources", STRINGS, 3, list_type="atomic", before=UNTYPED_BEFORE_1_30),
    Field("resourceNames", STRINGS, 4, list_type="atomic", before=UNTYPED_BEFORE_1_30),
)
NON_RESOURCE_RULE = Struct(
    "authorization.v1.NonResourceRule",
    Field(
        "verbs",
        STRINGS,
        1,
        required=True,
        always=True,
        list_type="atomic",
        before=UNTYPED_BEFORE_1_30,
    ),
    Field("nonResourceURLs", STRINGS, 2, list_type="atomic", before=UNTYPED_BEFORE_1_30),
)
RULES_STATUS = Struct(
    "authorization.v1.SubjectRulesReviewStatus",
    Field(
        "resourceRules",
        ListOf(RESOURCE_RULE),
        1,
        required=True,
        always=True,
        list_type="atomic",
        before=UNTYPED_BEFORE_1_30,
    ),
    Field(
        "nonResourceRules",
        ListOf(NON_RESOURCE_RULE),
        2,
        required=True,
        always=True,
        list_type="atomic",
        before=UNTYPED_BEFORE_1_30,
    ),
    Field("incomplete", BOOL, 3, required=True, always=True),
    Field("evaluationError", STRING, 4),
)
RULES_SPEC = Struct("authorization.v1.SelfSubjectRulesReviewSpec", Field("namespace", STRING, 1))


def declare(names: Names) -> tuple[Definition, ...]:
    group = names.group("authorization")
    return (
        _review(group, "LocalSubjectAccessReview", SUBJECT_SPEC, STATUS, local_rules, namespaced=True),
        _review(group, "SelfSubjectAccessReview", SELF_SPEC, STATUS, self_rules),
        _review(group, "SelfSubjectRulesReview", RULES_SPEC, RULES_STATUS, no_validation),
        _review(group, "SubjectAccessReview", SUBJECT_SPEC, STATUS, subject_rules),
    )


def _review(
    group: str,
    kind: str,
    spec: Struct,
    status: Struct,
    rules: Callable[[FieldErrors, Object], None],
    *,
    namespaced: bool = False,
) -> Definition:
    return Definition(
        group=group,
        version="v1",
        kind=kind,
        plural=f"{kind.lower()}s",
        namespaced=namespaced,
        check_name=name_is_subdomain,
        fields=Struct(
            f"authorization.v1.{kind}",
            METADATA,
            Field("spec", spec, 2, required=True),
            Field("status", status, 3),
        ),
        verbs=("create",),
        storage=Storage(ephemeral=True),
        strategy=Strategy(validate_create=rules),
    )


def self_rules(errors: FieldErrors, review: Object) -> None:
    """The subject is the caller, so the spec has only the attributes of one request."""
    _attributes_rules(errors, review["spec"])
    _resource_rules(errors, review["spec"])
    _metadata_rules(errors, review["metadata"])


def subject_rules(errors: FieldErrors, review: Object) -> None:
    _subject_spec_rules(errors, review["spec"])
    _metadata_rules(errors, review["metadata"])


def local_rules(errors: FieldErrors, review: Object) -> None:
    metadata, spec = review["metadata"], review["spec"]
    _subject_spec_rules(errors, spec)
    _metadata_rules(errors, metadata, "namespace")
    within = spec.get("resourceAttributes", {}).get("namespace", "")
    if "resourceAttributes" in spec and within != metadata.get("namespace", ""):
        errors.add(invalid("spec.resourceAttributes.namespace", within, "must match metadata.namespace"))
    if "nonResourceAttributes" in spec:
        field = "spec.nonResourceAttributes"
        sent = shown(NON_RESOURCE_ATTRIBUTES, spec["nonResourceAttributes"])
        errors.add(invalid(field, sent, "disallowed on this kind of request"))


def _subject_spec_rules(errors: FieldErrors, spec: dict[str, Any]) -> None:
    _attributes_rules(errors, spec)
    if not spec.get("user") and not spec.get("groups"):
        errors.add(invalid("spec.user", "", "at least one of user or group must be specified"))
    _resource_rules(errors, spec)


def _attributes_rules(errors: FieldErrors, spec: dict[str, Any]) -> None:
    resource, path = "resourceAttributes", "nonResourceAttributes"
    if resource in spec and path in spec:
        detail = f"cannot be specified in combination with {resource}"
        errors.add(invalid(f"spec.{path}", shown(NON_RESOURCE_ATTRIBUTES, spec[path]), detail))
        return
    if resource not in spec and path not in spec:
        detail = f"exactly one of {path} or {resource} must be specified"
        errors.add(invalid(f"spec.{resource}", None, detail))


def _resource_rules(errors: FieldErrors, spec: dict[str, Any]) -> None:
    attributes = spec.get("resourceAttributes") or {}
    for name, rules in (
        ("fieldSelector", _field_requirement_rules),
        ("labelSelector", _label_requirement_rules),
    ):
        selector = attributes.get(name)
        if selector is not None:
            _selector_rules(errors, selector, f"spec.resourceAttributes.{name}", rules)


def _selector_rules(
    errors: FieldErrors, selector: Object, field: str, rules: Callable[[FieldErrors, Object, str], None]
) -> None:
    raw, requirements = selector.get("rawSelector", ""), selector.get("requirements", ())
    if raw and requirements:
        text = "may not specified at the same time as requirements"
        errors.add(invalid(f"{field}.rawSelector", raw, text))
    if not raw and not requirements:
        text = f"when {field} is specified, requirements or rawSelector is required"
        errors.add(required(f"{field}.requirements", text))
    for index, one in enumerate(requirements):
        rules(errors, one, f"{field}.requirements[{index}]")


def _field_requirement_rules(errors: FieldErrors, requirement: Object, field: str) -> None:
    if not requirement["key"]:
        errors.add(required(f"{field}.key", "must be specified"))
    _operator_rules(errors, requirement, field)


def _label_requirement_rules(errors: FieldErrors, requirement: Object, field: str) -> None:
    _operator_rules(errors, requirement, field)
    key = requirement["key"]
    errors.add_each(f"{field}.key", key, qualified_name(key))
    for index, value in enumerate(requirement.get("values", ())):
        errors.add_each(f"{field}.values[{index}]", value, label_value(value))


def _operator_rules(errors: FieldErrors, requirement: Object, field: str) -> None:
    """Operators that this server does not know pass: newer clients have some, and authorizers ignore these."""
    operator, values = requirement["operator"], requirement.get("values")
    if operator in ("In", "NotIn") and not values:
        errors.add(required(f"{field}.values", NEEDS_VALUES))
    if operator in ("Exists", "DoesNotExist") and values:
        errors.add(forbidden(f"{field}.values", TAKES_NO_VALUES))


def _metadata_rules(errors: FieldErrors, metadata: Object, *allowed: str) -> None:
    """Reviews are never stored, so their metadata must be empty except for the `allowed` fields."""
    set_fields = {name for name, value in metadata.items() if value} - {*allowed, "managedFields"}
    text = f"must be empty except for {', '.join(allowed)}" if allowed else "must be empty"
    if set_fields:
        errors.add(invalid("metadata", metadata, text))
