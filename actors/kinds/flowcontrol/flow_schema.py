"""FlowSchema: assigns requests to a priority level, by subject and by resource or URL."""

from __future__ import annotations

from typing import Final

from actors.kinds.declaration.columns import AGE, NAME, NONE, Column, at
from actors.kinds.declaration.definition import Definition
from actors.kinds.declaration.meta import METADATA
from actors.kinds.flowcontrol.kind import flow_control_kind
from actors.kinds.flowcontrol.status import status_of, status_rules
from actors.kinds.schema.fields import BOOL, INT32, STRING, STRINGS, Field, ListOf, Struct
from actors.kinds.validation import (
    FieldError,
    FieldErrors,
    dns_label,
    dns_subdomain,
    forbidden,
    invalid,
    not_supported,
    required,
)
from actors.kinds.values.go_format import format_value
from actors.messages import Object
from actors.names import Names
from actors.quoting import quoted_list, quoted_start

DEFAULT_PRECEDENCE: Final = 1000
MAX_PRECEDENCE: Final = 10000
METHODS: Final = ("ByNamespace", "ByUser")
VERBS: Final = (
    *("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"),
)
SUBJECT_KINDS: Final = ("Group", "ServiceAccount", "User")
SUBJECT_FIELDS: Final = {"ServiceAccount": "serviceAccount", "User": "user", "Group": "group"}

EVERYTHING: Final = {
    "resourceRules": [
        {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True, "namespaces": ["*"]}
    ],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
}
# The mandatory objects, whose specs no client may change.
MANDATORY: Final = {
    "exempt": {
        "priorityLevelConfiguration": {"name": "exempt"},
        "matchingPrecedence": 1,
        "rules": [{"subjects": [{"kind": "Group", "group": {"name": "system:masters"}}], **EVERYTHING}],
    },
    "catch-all": {
        "priorityLevelConfiguration": {"name": "catch-all"},
        "matchingPrecedence": MAX_PRECEDENCE,
        "distinguisherMethod": {"type": "ByUser"},
        "rules": [
            {
                "subjects": [
                    {"kind": "Group", "group": {"name": name}}
                    for name in ("system:unauthenticated", "system:authenticated")
                ],
                **EVERYTHING,
            }
        ],
    },
}


def _name_struct(kind: str) -> Struct:
    return Struct(f"flowcontrol.v1beta2.{kind}", Field("name", STRING, 1, required=True, always=True))


SERVICE_ACCOUNT = Struct(
    "flowcontrol.v1beta2.ServiceAccountSubject",
    Field("namespace", STRING, 1, required=True, always=True),
    Field("name", STRING, 2, required=True, always=True),
)
SUBJECT = Struct(
    "flowcontrol.v1beta2.Subject",
    Field("kind", STRING, 1, required=True, always=True),
    Field("user", _name_struct("UserSubject"), 2, pointer=True),
    Field("group", _name_struct("GroupSubject"), 3, pointer=True),
    Field("serviceAccount", SERVICE_ACCOUNT, 4, pointer=True),
    union="kind",
)
RESOURCE_RULE = Struct(
    "flowcontrol.v1beta2.ResourcePolicyRule",
    Field("verbs", STRINGS, 1, required=True, always=True, list_type="set"),
    Field("apiGroups", STRINGS, 2, required=True, always=True, list_type="set"),
    Field("resources", STRINGS, 3, required=True, always=True, list_type="set"),
    Field("clusterScope", BOOL, 4),
    Field("namespaces", STRINGS, 5, always=True, list_type="set"),
)
URL_RULE = Struct(
    "flowcontrol.v1beta2.NonResourcePolicyRule",
    Field("verbs", STRINGS, 1, required=True, always=True, list_type="set"),
    Field("nonResourceURLs", STRINGS, 6, required=True, always=True, list_type="set"),
)
RULES = Struct(
    "flowcontrol.v1beta2.PolicyRulesWithSubjects",
    Field("subjects", ListOf(SUBJECT), 1, required=True, always=True, list_type="atomic"),
    Field("resourceRules", ListOf(RESOURCE_RULE), 2, list_type="atomic"),
    Field("nonResourceRules", ListOf(URL_RULE), 3, list_type="atomic"),
)
METHOD = Struct(
    "flowcontrol.v1beta2.FlowDistinguisherMethod", Field("type", STRING, 1, required=True, always=True)
)
SPEC = Struct(
    "flowcontrol.v1beta2.FlowSchemaSpec",
    Field(
        "priorityLevelConfiguration", _name_struct("PriorityLevelConfigurationReference"), 1, required=True
    ),
    Field("matchingPrecedence", INT32, 2, always=True, default=DEFAULT_PRECEDENCE),
    Field("distinguisherMethod", METHOD, 3, pointer=True),
    Field("rules", ListOf(RULES), 4, list_type="atomic"),
)
STATUS = status_of("FlowSchema")
FLOW_SCHEMA = Struct(
    "flowcontrol.v1beta2.FlowSchema", METADATA, Field("spec", SPEC, 2), Field("status", STATUS, 3)
)


def _missing_level_cell(stored: Object, _: int) -> str:
    for condition in stored["status"].get("conditions", ()):
        if condition.get("type") == "Dangling":
            return str(condition.get("status", ""))
    return "?"


COLUMNS: Final = (
    NAME,
    Column(
        "PriorityLevel",
        "string",
        "Priority level of its requests.",
        at("spec", "priorityLevelConfiguration", "name"),
    ),
    Column(
        "MatchingPrecedence",
        "string",
        "Rank among flow schemas; the lowest matches first.",
        at("spec", "matchingPrecedence"),
    ),
    Column(
        "DistinguisherMethod",
        "string",
        "What separates its requests into flows.",
        at("spec", "distinguisherMethod", "type", missing=NONE),
    ),
    AGE,
    Column("MissingPL", "string", "Whether its priority level does not exist.", _missing_level_cell),
)


def define(names: Names) -> Definition:
    return flow_control_kind(names, "FlowSchema", FLOW_SCHEMA, STATUS, COLUMNS, rules)


def rules(errors: FieldErrors, new: Object) -> None:
    name, spec = new["metadata"].get("name", ""), new["spec"]
    _precedence(errors, spec["matchingPrecedence"], name)
    _method(errors, spec.get("distinguisherMethod"))
    _level(errors, spec["priorityLevelConfiguration"]["name"], "spec.priorityLevelConfiguration.name")
    for index, one in enumerate(spec.get("rules", ())):
        _rules(errors, one, f"spec.rules[{index}]")
    if name in MANDATORY and spec != MANDATORY[name]:
        errors.add(invalid("spec", spec, f"spec of '{name}' must equal the fixed value"))
    status_rules(errors, new)


def _precedence(errors: FieldErrors, number: int, name: str) -> None:
    if number <= 0:
        text = "must be a positive value"
    elif number > MAX_PRECEDENCE:
        text = f"must not be greater than {MAX_PRECEDENCE}"
    elif number == 1 and name != "exempt":
        text = "only the schema named 'exempt' may have matchingPrecedence 1"
    else:
        return
    errors.add(invalid("spec.matchingPrecedence", number, text))


def _method(errors: FieldErrors, method: Object | None) -> None:
    if method is None or method["type"] in METHODS:
        return
    value = f"flowcontrol.FlowDistinguisherMethod{{Type:{quoted_start(method['type'])}}}"
    errors.add(_not_supported("spec.distinguisherMethod.type", value, METHODS))


def _not_supported(field: str, value: str, supported: tuple[str, ...]) -> FieldError:
    listed = quoted_list(supported)
    text = f"Unsupported value: {value}: supported values: {listed}"
    return FieldError("FieldValueNotSupported", field, text)


def _level(errors: FieldErrors, name: str, field: str) -> None:
    if name:
        errors.add_each(field, name, dns_subdomain(name))
    else:
        errors.add(required(field, "must reference a priority level"))


def _rules(errors: FieldErrors, one: Object, field: str) -> None:
    if not one["subjects"]:
        errors.add(required(f"{field}.subjects", "subjects must contain at least one value"))
    for index, subject in enumerate(one["subjects"] or ()):
        _subject(errors, subject, f"{field}.subjects[{index}]")
    if "resourceRules" not in one and "nonResourceRules" not in one:
        text = "at least one of resourceRules and nonResourceRules has to be non-empty"
        errors.add(required(field, text))
    for index, rule in enumerate(one.get("resourceRules", ())):
        _resource_rule(errors, rule, f"{field}.resourceRules[{index}]")
    for index, rule in enumerate(one.get("nonResourceRules", ())):
        _url_rule(errors, rule, f"{field}.nonResourceRules[{index}]")


def _subject(errors: FieldErrors, subject: Object, field: str) -> None:
    kind = subject["kind"]
    if kind not in SUBJECT_FIELDS:
        errors.add(not_supported(f"{field}.kind", kind, SUBJECT_KINDS))
        return
    part = SUBJECT_FIELDS[kind]
    _named_subject(errors, subject.get(part), kind, f"{field}.{part}")
    for other_kind, other in SUBJECT_FIELDS.items():
        if other_kind != kind and other in subject:
            errors.add(
                forbidden(f"{field}.{other}", f"{other} is forbidden when subject kind is not '{other_kind}'")
            )


def _named_subject(errors: FieldErrors, named: Object | None, kind: str, field: str) -> None:
    if named is None:
        errors.add(required(field, f"{SUBJECT_FIELDS[kind]} is required when subject kind is '{kind}'"))
        return
    if not named["name"]:
        errors.add(required(f"{field}.name"))
    if kind != "ServiceAccount":
        return
    if named["name"] not in ("", "*"):
        errors.add_each(f"{field}.name", named["name"], dns_subdomain(named["name"]))
    here = f"{field}.namespace"
    if not named["namespace"]:
        errors.add(required(here, "must specify namespace for service account"))
    else:
        errors.add_each(here, named["namespace"], dns_label(named["namespace"]))


def _resource_rule(errors: FieldErrors, rule: Object, field: str) -> None:
    _verbs(errors, rule["verbs"] or [], f"{field}.verbs")
    _list_rules(errors, rule["apiGroups"] or [], f"{field}.apiGroups", "api group", "api groups")
    _list_rules(errors, rule["resources"] or [], f"{field}.resources", "resource", "resources")
    _namespaces(errors, rule["namespaces"] or [], bool(rule.get("clusterScope")), f"{field}.namespaces")


def _verbs(errors: FieldErrors, verbs: list[str], field: str) -> None:
    if not verbs:
        errors.add(required(field, "verbs must contain at least one value"))
        return
    if "*" in verbs:
        _wildcard(errors, verbs, field, "verbs")
    elif not set(verbs) <= set(VERBS):
        errors.add(_not_supported(field, format_value(verbs), VERBS))


def _wildcard(errors: FieldErrors, values: list[str], field: str, what: str) -> None:
    if len(values) >= 2 and "*" in values:
        errors.add(invalid(field, values, f"if '*' is present, must not specify other {what}"))


def _list_rules(errors: FieldErrors, values: list[str], field: str, one: str, many: str) -> None:
    if not values:
        errors.add(required(field, f"resource rules must supply at least one {one}"))
    else:
        _wildcard(errors, values, field, many)


def _namespaces(errors: FieldErrors, namespaces: list[str], clusterwide: bool, field: str) -> None:
    if not namespaces and not clusterwide:
        text = "resource rules that are not cluster scoped must supply at least one namespace"
        errors.add(required(field, text))
        return
    if "*" in namespaces:
        _wildcard(errors, namespaces, field, "namespaces")
    else:
        for index, name in enumerate(namespaces):
            for text in dns_label(name):
                errors.add(
                    invalid(
                        f"{field}[{index}]",
                        name,
                        f"each member of this list must be '*' or a DNS-1123 label; {text}",
                    )
                )


def _url_rule(errors: FieldErrors, rule: Object, field: str) -> None:
    _verbs(errors, rule["verbs"] or [], f"{field}.verbs")
    urls, here = rule["nonResourceURLs"] or [], f"{field}.nonResourceURLs"
    if not urls:
        errors.add(required(here, "nonResourceURLs must contain at least one value"))
        return
    if "*" in urls:
        _wildcard(errors, urls, here, "non-resource URLs")
    else:
        for index, url in enumerate(urls):
            for text in _url(url):
                errors.add(invalid(f"{here}[{index}]", url, text))


def _url(url: str) -> list[str]:
    if not url:
        return ["must not be empty"]
    if url == "/":
        return []
    if not url.startswith("/"):
        return ["must start with slash"]
    if " " in url:
        return ["must not contain white-space"]
    if "//" in url:
        return ["must not contain double slash"]
    stars = url.count("*")
    return ["wildcard can only do suffix matching"] if stars > 1 or (stars and not url.endswith("/*")) else []
