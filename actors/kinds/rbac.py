"""The RBAC group: roles that list rights, and bindings that give a role to subjects.

Rules of an object run twice on an update, once by itself and once as part of judging the change, and clients
see every cause as often. Whether the caller may grant what a role holds is for access control, not for here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from actors.kinds.declaration.columns import AGE, NAME, USUAL, Column
from actors.kinds.declaration.definition import Definition, Table
from actors.kinds.declaration.label_selector import LABEL_SELECTOR, compiles, label_selector_rules
from actors.kinds.declaration.meta import METADATA, metadata_change_rules, metadata_rules
from actors.kinds.declaration.strategy import Strategy
from actors.kinds.schema.fields import STRING, STRINGS, Field, ListOf, Struct
from actors.kinds.validation.checks import (
    CheckName,
    FieldError,
    each,
    invalid,
    name_is_path_segment,
    name_is_subdomain,
    not_supported,
    required,
)
from actors.messages import Object
from actors.names import Names

SUBJECT_KINDS: Final = ("ServiceAccount", "User", "Group")

POLICY_RULE = Struct(
    "rbac.v1.PolicyRule",
    Field("verbs", STRINGS, 1, required=True, always=True),
    Field("apiGroups", STRINGS, 2),
    Field("resources", STRINGS, 3),
    Field("resourceNames", STRINGS, 4),
    Field("nonResourceURLs", STRINGS, 5),
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
    Field("apiGroup", STRING, 1, required=True, always=True),
    Field("kind", STRING, 2, required=True, always=True),
    Field("name", STRING, 3, required=True, always=True),
    atomic=True,
)
AGGREGATION_RULE = Struct("rbac.v1.AggregationRule", Field("clusterRoleSelectors", ListOf(LABEL_SELECTOR), 1))
ROLE = Struct("rbac.v1.Role", METADATA, Field("rules", ListOf(POLICY_RULE), 2, always=True))
CLUSTER_ROLE = Struct(
    "rbac.v1.ClusterRole",
    METADATA,
    Field("rules", ListOf(POLICY_RULE), 2, always=True),
    Field("aggregationRule", AGGREGATION_RULE, 3, pointer=True),
)
ROLE_BINDING = Struct(
    "rbac.v1.RoleBinding",
    METADATA,
    Field("subjects", ListOf(SUBJECT), 2),
    Field("roleRef", ROLE_REF, 3, required=True, always=True),
)
CLUSTER_ROLE_BINDING = Struct("rbac.v1.ClusterRoleBinding", *ROLE_BINDING.fields)

Rules = Callable[[Object], list[FieldError]]


def declare(names: Names) -> tuple[Definition, ...]:
    group = names.group("rbac.authorization")
    binding = partial(_define, group, fill=partial(fill_binding, group), keeps_role=True)
    return (
        _define(
            group, "ClusterRole", "clusterroles", CLUSTER_ROLE, namespaced=False, rules=cluster_role_rules
        ),
        binding(
            "ClusterRoleBinding",
            "clusterrolebindings",
            CLUSTER_ROLE_BINDING,
            namespaced=False,
            rules=partial(binding_rules, group, ("ClusterRole",), False),
        ),
        _define(group, "Role", "roles", ROLE, namespaced=True, rules=role_rules),
        binding(
            "RoleBinding",
            "rolebindings",
            ROLE_BINDING,
            namespaced=True,
            rules=partial(binding_rules, group, ("Role", "ClusterRole"), True),
        ),
    )


def _define(
    group: str,
    kind: str,
    plural: str,
    fields: Struct,
    *,
    namespaced: bool,
    rules: Rules,
    fill: Callable[[Object], None] | None = None,
    keeps_role: bool = False,
) -> Definition:
    return Definition(
        group=group,
        version="v1",
        kind=kind,
        plural=plural,
        namespaced=namespaced,
        check_name=check_name,
        fields=fields,
        set_defaults=fill,
        table=Table(BINDING_COLUMNS if keeps_role else USUAL),
        strategy=Strategy(
            allow_create_on_update=True,
            validate_create=rules,
            validate_update=partial(change_rules, rules, namespaced, keeps_role),
        ),
    )


def _subjects(name: str, kind: str, description: str) -> Column:
    """Accounts are known by their namespace too."""

    def cell(made: Object, _: int) -> str:
        chosen = [one for one in made.get("subjects", ()) if one["kind"] == kind]
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
        "Kind and name of the role it gives.",
        lambda made, _: f"{made['roleRef']['kind']}/{made['roleRef']['name']}",
    ),
    AGE,
    _subjects("Users", "User", "Users it is given to."),
    _subjects("Groups", "Group", "Groups it is given to."),
    _subjects("ServiceAccounts", "ServiceAccount", "Accounts it is given to."),
)


def _any_path_segment(name: str, _: bool) -> list[str]:
    return name_is_path_segment(name, False)


check_name: CheckName = _any_path_segment


def fill_binding(group: str, new: Object) -> None:
    """Roles, users and groups are of this API group; service accounts are of the core group."""
    if not new["roleRef"]["apiGroup"]:
        new["roleRef"]["apiGroup"] = group
    if "subjects" in new:
        new["subjects"] = [_filled_subject(group, subject) for subject in new["subjects"]]


def _filled_subject(group: str, subject: Object) -> Object:
    if "apiGroup" in subject or subject["kind"] not in ("User", "Group"):
        return subject
    return SUBJECT.arranged({**subject, "apiGroup": group})


def role_rules(new: Object) -> list[FieldError]:
    return _policy_rules(new, namespaced=True)


def cluster_role_rules(new: Object) -> list[FieldError]:
    errors = _policy_rules(new, namespaced=False)
    if "aggregationRule" in new:
        errors += _aggregation_rules(new["aggregationRule"].get("clusterRoleSelectors", []))
    return errors


def binding_rules(group: str, kinds: tuple[str, ...], namespaced: bool, new: Object) -> list[FieldError]:
    role = new["roleRef"]
    errors: list[FieldError] = []
    if role["apiGroup"] != group:
        errors.append(not_supported("roleRef.apiGroup", role["apiGroup"], (group,)))
    if role["kind"] not in kinds:
        errors.append(not_supported("roleRef.kind", role["kind"], kinds))
    if not role["name"]:
        errors.append(required("roleRef.name"))
    errors += each("roleRef.name", role["name"], name_is_path_segment(role["name"], False))
    for index, subject in enumerate(new.get("subjects", ())):
        errors += _subject_rules(group, subject, f"subjects[{index}]", namespaced=namespaced)
    return errors


def change_rules(
    rules: Rules, namespaced: bool, keeps_role: bool, new: Object, old: Object
) -> list[FieldError]:
    metadata = new["metadata"]
    itself = [*metadata_rules(metadata, namespaced=namespaced, check_name=check_name), *rules(new)]
    errors = [*itself, *itself, *metadata_change_rules(metadata, old["metadata"])]
    if keeps_role and new["roleRef"] != old["roleRef"]:
        errors.append(invalid("roleRef", new["roleRef"], "cannot change roleRef"))
    return errors


def _policy_rules(new: Object, *, namespaced: bool) -> list[FieldError]:
    return [
        error
        for index, rule in enumerate(new["rules"] or ())
        for error in _policy_rule(rule, f"rules[{index}]", namespaced=namespaced)
    ]


def _policy_rule(rule: Object, field: str, *, namespaced: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    if not rule["verbs"]:
        errors.append(required(f"{field}.verbs", "verbs must contain at least one value"))
    if "nonResourceURLs" in rule:
        return errors + _url_rules(rule, f"{field}.nonResourceURLs", namespaced=namespaced)
    if "apiGroups" not in rule:
        errors.append(required(f"{field}.apiGroups", "resource rules must supply at least one api group"))
    if "resources" not in rule:
        errors.append(required(f"{field}.resources", "resource rules must supply at least one resource"))
    return errors


def _url_rules(rule: Object, field: str, *, namespaced: bool) -> list[FieldError]:
    urls = rule["nonResourceURLs"]
    errors: list[FieldError] = []
    if namespaced:
        errors.append(invalid(field, urls, "namespaced rules cannot apply to non-resource URLs"))
    if any(part in rule for part in ("apiGroups", "resources", "resourceNames")):
        text = "rules cannot apply to both regular resources and non-resource URLs"
        errors.append(invalid(field, urls, text))
    return errors


def _aggregation_rules(selectors: list[Object]) -> list[FieldError]:
    field = "aggregationRule.clusterRoleSelectors"
    if not selectors:
        text = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        return [required(field, text)]
    errors: list[FieldError] = []
    for index, selector in enumerate(selectors):
        here = f"{field}[{index}]"
        errors += label_selector_rules(selector, here)
        if not compiles(selector):
            errors.append(invalid(here, None, "invalid label selector."))
    return errors


def _subject_rules(group: str, subject: Object, field: str, *, namespaced: bool) -> list[FieldError]:
    kind, name = subject["kind"], subject["name"]
    errors = [] if name else [required(f"{field}.name")]
    if kind not in SUBJECT_KINDS:
        return [*errors, not_supported(f"{field}.kind", kind, SUBJECT_KINDS)]
    if kind == "ServiceAccount" and name:
        errors += each(f"{field}.name", name, name_is_subdomain(name, False))
    wanted = "" if kind == "ServiceAccount" else group
    if subject.get("apiGroup", "") != wanted:
        errors.append(not_supported(f"{field}.apiGroup", subject.get("apiGroup", ""), (wanted,)))
    if kind == "ServiceAccount" and not namespaced and not subject.get("namespace"):
        errors.append(required(f"{field}.namespace"))
    return errors
