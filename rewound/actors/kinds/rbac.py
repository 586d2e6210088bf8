"""The RBAC group: roles, which list permissions, and bindings, which grant a role to subjects.

As in Kubernetes before 1.35, an update validates the new object twice, by itself and as part of the update, so clients
see every cause twice. Access control, not this module, decides whether the caller may grant the permissions of a role.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Final

from rewound.actors.kinds.declaration.columns import AGE, DEFAULT_COLUMNS, NAME, Column
from rewound.actors.kinds.declaration.definition import Definition, Strategy, Table
from rewound.actors.kinds.declaration.meta import (
    LABEL_SELECTOR,
    METADATA,
    label_selector_compiles,
    label_selector_rules,
    metadata_rules,
    metadata_update_rules,
)
from rewound.actors.kinds.schema.fields import (
    STRING,
    STRINGS,
    UNTYPED_BEFORE_1_30,
    Before,
    Field,
    ListOf,
    Struct,
)
from rewound.actors.kinds.schema.internal import shown
from rewound.actors.kinds.validation import (
    CheckName,
    FieldErrors,
    invalid,
    name_is_path_segment,
    name_is_subdomain,
    not_supported,
    required,
)
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.profile import DOCUMENTED, Rules
from rewound.actors.versions.features import ROLES_VALIDATED_ONCE

SUBJECT_KINDS: Final = ("ServiceAccount", "User", "Group")

POLICY_RULE = Struct(
    "rbac.v1.PolicyRule",
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
    Field("nonResourceURLs", STRINGS, 5, list_type="atomic", before=UNTYPED_BEFORE_1_30),
)
SUBJECT = Struct(
    "rbac.v1.Subject",
    Field("kind", STRING, 1, required=True, always=True),
    Field("apiGroup", STRING, 2),
    Field("name", STRING, 3, required=True, always=True),
    Field("namespace", STRING, 4),
    atomic=True,
)
ROLE_REF = Struct(
    "rbac.v1.RoleRef",
    Field("apiGroup", STRING, 1, always=True, before=(Before("1.36", required=True),)),
    Field("kind", STRING, 2, required=True, always=True),
    Field("name", STRING, 3, required=True, always=True),
    atomic=True,
)
AGGREGATION_RULE = Struct(
    "rbac.v1.AggregationRule",
    Field(
        "clusterRoleSelectors",
        ListOf(LABEL_SELECTOR),
        1,
        list_type="atomic",
        before=UNTYPED_BEFORE_1_30,
    ),
)
ROLE = Struct(
    "rbac.v1.Role",
    METADATA,
    Field(
        "rules",
        ListOf(POLICY_RULE),
        2,
        always=True,
        list_type="atomic",
        before=UNTYPED_BEFORE_1_30,
    ),
)
CLUSTER_ROLE = Struct(
    "rbac.v1.ClusterRole",
    METADATA,
    Field(
        "rules",
        ListOf(POLICY_RULE),
        2,
        always=True,
        list_type="atomic",
        before=UNTYPED_BEFORE_1_30,
    ),
    Field("aggregationRule", AGGREGATION_RULE, 3, pointer=True),
)
ROLE_BINDING = Struct(
    "rbac.v1.RoleBinding",
    METADATA,
    Field("subjects", ListOf(SUBJECT), 2, list_type="atomic", before=UNTYPED_BEFORE_1_30),
    Field("roleRef", ROLE_REF, 3, required=True, always=True),
)
CLUSTER_ROLE_BINDING = Struct("rbac.v1.ClusterRoleBinding", *ROLE_BINDING.fields)

Validate = Callable[[FieldErrors, Object], None]


def declare(names: Names, rules: Rules = DOCUMENTED) -> tuple[Definition, ...]:
    group = names.group("rbac.authorization")
    binding = partial(
        _define, group, set_defaults=partial(set_binding_defaults, group), immutable_role_ref=True
    )
    return (
        _define(
            group,
            "ClusterRole",
            "clusterroles",
            CLUSTER_ROLE,
            namespaced=False,
            rules=cluster_role_rules,
            final_star=rules.url_wildcards == "final-step",
        ),
        binding(
            "ClusterRoleBinding",
            "clusterrolebindings",
            CLUSTER_ROLE_BINDING,
            namespaced=False,
            rules=partial(binding_rules, group=group, kinds=("ClusterRole",), namespaced=False),
        ),
        _define(group, "Role", "roles", ROLE, namespaced=True, rules=role_rules),
        binding(
            "RoleBinding",
            "rolebindings",
            ROLE_BINDING,
            namespaced=True,
            rules=partial(binding_rules, group=group, kinds=("Role", "ClusterRole"), namespaced=True),
        ),
    )


_STAR: Final = re.compile(r"(?:[^*]*/)?\*")


def _define(
    group: str,
    kind: str,
    plural: str,
    fields: Struct,
    *,
    namespaced: bool,
    rules: Validate,
    set_defaults: Callable[[Object], None] | None = None,
    immutable_role_ref: bool = False,
    final_star: bool = False,
) -> Definition:
    return Definition(
        group=group,
        version="v1",
        kind=kind,
        plural=plural,
        namespaced=namespaced,
        check_name=check_name,
        fields=fields,
        set_defaults=set_defaults,
        table=Table(BINDING_COLUMNS if immutable_role_ref else DEFAULT_COLUMNS),
        strategy=Strategy(
            allow_create_on_update=True,
            validate_create=create_cluster_role_rules if final_star else rules,
            validate_update=partial(
                update_rules,
                rules=rules,
                namespaced=namespaced,
                immutable_role_ref=immutable_role_ref,
                final_star=final_star,
            ),
        ),
    )


def _subjects_column(name: str, kind: str, description: str) -> Column:
    """Return a column with the names of subjects of one kind; service accounts with their namespace."""

    def cell(stored: Object, _: int) -> str:
        chosen = [one for one in stored.get("subjects", ()) if one["kind"] == kind]
        account = kind == "ServiceAccount"
        return ", ".join(
            f"{one.get('namespace', '')}/{one['name']}" if account else one["name"] for one in chosen
        )

    return Column(name, "string", description, cell, priority=1)


BINDING_COLUMNS: Final = (
    NAME,
    Column(
        "Role",
        "string",
        "Kind and name of the role.",
        lambda stored, _: f"{stored['roleRef']['kind']}/{stored['roleRef']['name']}",
    ),
    AGE,
    _subjects_column("Users", "User", "Users that the role is granted to."),
    _subjects_column("Groups", "Group", "Groups that the role is granted to."),
    _subjects_column("ServiceAccounts", "ServiceAccount", "Service accounts that the role is granted to."),
)


def _any_path_segment(name: str, _: bool) -> list[str]:
    return name_is_path_segment(name, False)


check_name: CheckName = _any_path_segment


def set_binding_defaults(group: str, new: Object) -> None:
    """Default apiGroup: roles, users and groups belong to this group, service accounts to the core group."""
    if not new["roleRef"]["apiGroup"]:
        new["roleRef"]["apiGroup"] = group
    if "subjects" in new:
        new["subjects"] = [_subject_with_defaults(group, subject) for subject in new["subjects"]]


def _subject_with_defaults(group: str, subject: Object) -> Object:
    if "apiGroup" in subject or subject["kind"] not in ("User", "Group"):
        return subject
    return SUBJECT.arranged({**subject, "apiGroup": group})


def role_rules(errors: FieldErrors, new: Object) -> None:
    _policy_rules(errors, new, namespaced=True)


def cluster_role_rules(errors: FieldErrors, new: Object) -> None:
    _policy_rules(errors, new, namespaced=False)
    if "aggregationRule" in new:
        _aggregation_rules(errors, new["aggregationRule"].get("clusterRoleSelectors", []))


def binding_rules(
    errors: FieldErrors, new: Object, *, group: str, kinds: tuple[str, ...], namespaced: bool
) -> None:
    role = new["roleRef"]
    if role["apiGroup"] != group:
        errors.add(not_supported("roleRef.apiGroup", role["apiGroup"], (group,)))
    if role["kind"] not in kinds:
        errors.add(not_supported("roleRef.kind", role["kind"], kinds))
    if not role["name"]:
        errors.add(required("roleRef.name"))
    errors.add_each("roleRef.name", role["name"], name_is_path_segment(role["name"], False))
    for index, subject in enumerate(new.get("subjects", ())):
        _subject_rules(errors, group, subject, f"subjects[{index}]", namespaced=namespaced)


def update_rules(
    errors: FieldErrors,
    new: Object,
    old: Object,
    *,
    rules: Validate,
    namespaced: bool,
    immutable_role_ref: bool,
    final_star: bool,
) -> None:
    metadata = new["metadata"]
    own = errors.added_by(metadata_rules, metadata, namespaced=namespaced, check_name=check_name)
    own += errors.added_by(rules, new)
    if ROLES_VALIDATED_ONCE not in errors.features:
        errors.add_all(own)
    metadata_update_rules(errors, metadata, old["metadata"])
    if immutable_role_ref and new["roleRef"] != old["roleRef"]:
        errors.add(invalid("roleRef", shown(ROLE_REF, new["roleRef"]), "cannot change roleRef"))
    if final_star:
        _star_rules(errors, new, _urls(old))


def create_cluster_role_rules(errors: FieldErrors, new: Object) -> None:
    cluster_role_rules(errors, new)
    _star_rules(errors, new, frozenset())


def _star_rules(errors: FieldErrors, new: Object, stored: frozenset[str]) -> None:
    """`*` must be the full final step of a path. Stored paths may stay; aggregated rules come from stored roles."""
    if "aggregationRule" in new:
        return
    for index, rule in enumerate(new["rules"] or ()):
        for position, url in enumerate(rule.get("nonResourceURLs", ())):
            if "*" in url and not _STAR.fullmatch(url) and url not in stored:
                field = f"rules[{index}].nonResourceURLs[{position}]"
                errors.add(invalid(field, url, "'*' may only be the full final step of a path"))


def _urls(role: Object) -> frozenset[str]:
    return frozenset(url for rule in role["rules"] or () for url in rule.get("nonResourceURLs", ()))


def _policy_rules(errors: FieldErrors, new: Object, *, namespaced: bool) -> None:
    for index, rule in enumerate(new["rules"] or ()):
        _policy_rule(errors, rule, f"rules[{index}]", namespaced=namespaced)


def _policy_rule(errors: FieldErrors, rule: Object, field: str, *, namespaced: bool) -> None:
    if not rule["verbs"]:
        errors.add(required(f"{field}.verbs", "verbs must contain at least one value"))
    if "nonResourceURLs" in rule:
        _url_rules(errors, rule, f"{field}.nonResourceURLs", namespaced=namespaced)
        return
    if "apiGroups" not in rule:
        errors.add(required(f"{field}.apiGroups", "resource rules must supply at least one api group"))
    if "resources" not in rule:
        errors.add(required(f"{field}.resources", "resource rules must supply at least one resource"))


def _url_rules(errors: FieldErrors, rule: Object, field: str, *, namespaced: bool) -> None:
    urls = rule["nonResourceURLs"]
    if namespaced:
        errors.add(invalid(field, urls, "namespaced rules cannot apply to non-resource URLs"))
    if any(part in rule for part in ("apiGroups", "resources", "resourceNames")):
        text = "rules cannot apply to both regular resources and non-resource URLs"
        errors.add(invalid(field, urls, text))


def _aggregation_rules(errors: FieldErrors, selectors: list[Object]) -> None:
    field = "aggregationRule.clusterRoleSelectors"
    if not selectors:
        text = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        errors.add(required(field, text))
        return
    for index, selector in enumerate(selectors):
        here = f"{field}[{index}]"
        label_selector_rules(errors, selector, here)
        if not label_selector_compiles(selector):
            errors.add(invalid(here, None, "invalid label selector."))


def _subject_rules(errors: FieldErrors, group: str, subject: Object, field: str, *, namespaced: bool) -> None:
    kind, name = subject["kind"], subject["name"]
    if not name:
        errors.add(required(f"{field}.name"))
    if kind not in SUBJECT_KINDS:
        errors.add(not_supported(f"{field}.kind", kind, SUBJECT_KINDS))
        return
    if kind == "ServiceAccount" and name:
        errors.add_each(f"{field}.name", name, name_is_subdomain(name, False))
    expected = "" if kind == "ServiceAccount" else group
    if subject.get("apiGroup", "") != expected:
        errors.add(not_supported(f"{field}.apiGroup", subject.get("apiGroup", ""), (expected,)))
    if kind == "ServiceAccount" and not namespaced and not subject.get("namespace"):
        errors.add(required(f"{field}.namespace"))
