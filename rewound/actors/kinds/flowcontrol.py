"""The flowcontrol group: FlowSchema classifies requests, PriorityLevelConfiguration limits their concurrency.

FlowSchema assigns requests to a priority level, by subject and by resource or URL. PriorityLevelConfiguration says how
many requests of a level run at once, and whether others queue or fail. Served in two versions with the same fields;
v1beta2 is stored.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from rewound.actors.golang.format import format_value
from rewound.actors.golang.quoting import quoted_list, quoted_start
from rewound.actors.kinds.declaration.columns import AGE, NAME, NONE, Column, at
from rewound.actors.kinds.declaration.definition import (
    Conversion,
    Definition,
    Storage,
    Strategy,
    Table,
    keep_status_and_bump_generation,
    reset_status_and_generation,
    status_subresource,
)
from rewound.actors.kinds.declaration.meta import METADATA, metadata_rules
from rewound.actors.kinds.schema.fields import BOOL, INT32, STRING, STRINGS, TIME, Field, ListOf, Struct, Type
from rewound.actors.kinds.validation import (
    FieldError,
    FieldErrors,
    dns_label,
    dns_subdomain,
    duplicate,
    forbidden,
    invalid,
    name_is_subdomain,
    not_supported,
    required,
)
from rewound.actors.messages import Object
from rewound.actors.names import Names


def status_of(kind: str) -> Struct:
    condition = Struct(
        f"flowcontrol.v1beta2.{kind}Condition",
        Field("type", STRING, 1),
        Field("status", STRING, 2),
        Field("lastTransitionTime", TIME, 3),
        Field("reason", STRING, 4),
        Field("message", STRING, 5),
    )
    return Struct(
        f"flowcontrol.v1beta2.{kind}Status",
        Field("conditions", ListOf(condition), 1, list_type="map", list_keys=("type",)),
    )


def status_rules(errors: FieldErrors, new: Object, _: Object | None = None) -> None:
    seen: set[str] = set()
    for index, condition in enumerate(new["status"].get("conditions", ())):
        kind, field = condition.get("type", ""), f"status.conditions[{index}].type"
        if kind in seen:
            errors.add(duplicate(field, kind))
        if not kind:
            errors.add(required(field, "must not be empty"))
        seen.add(kind)


def flow_control_kind(
    names: Names,
    kind: str,
    fields: Struct,
    status: Struct,
    columns: tuple[Column, ...],
    rules: Callable[[FieldErrors, Object], None],
) -> Definition:
    """Define a kind that `rules` validate at every write."""

    def update_rules(errors: FieldErrors, new: Object, _: Object) -> None:
        metadata_rules(errors, new["metadata"], namespaced=False, check_name=name_is_subdomain)
        rules(errors, new)

    return Definition(
        group=names.group("flowcontrol.apiserver"),
        version="v1beta2",
        kind=kind,
        plural=f"{kind.lower()}s",
        namespaced=False,
        check_name=name_is_subdomain,
        fields=fields,
        subresources=(status_subresource(status_rules),),
        storage=Storage(
            announced_since={"1.25": "v1beta1", "1.26": "v1beta2", "1.27": "v1beta3", "1.30": "v1"}
        ),
        table=Table(columns),
        strategy=Strategy(
            prepare_for_create=partial(reset_status_and_generation, status),
            prepare_for_update=keep_status_and_bump_generation,
            validate_create=rules,
            validate_update=update_rules,
        ),
    )


DEFAULT_PRECEDENCE: Final = 1000
MAX_PRECEDENCE: Final = 10000
FLOW_SCHEMA_METHODS: Final = ("ByNamespace", "ByUser")
FLOW_SCHEMA_VERBS: Final = (
    *("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"),
)
SUBJECT_KINDS: Final = ("Group", "ServiceAccount", "User")
SUBJECT_FIELDS: Final = {"ServiceAccount": "serviceAccount", "User": "user", "Group": "group"}

FLOW_SCHEMA_EVERYTHING: Final = {
    "resourceRules": [
        {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True, "namespaces": ["*"]}
    ],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
}
# The mandatory objects, whose specs no client may change.
MANDATORY_FLOW_SCHEMAS: Final = {
    "exempt": {
        "priorityLevelConfiguration": {"name": "exempt"},
        "matchingPrecedence": 1,
        "rules": [
            {"subjects": [{"kind": "Group", "group": {"name": "system:masters"}}], **FLOW_SCHEMA_EVERYTHING}
        ],
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
                **FLOW_SCHEMA_EVERYTHING,
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
FLOW_SCHEMA_RULES = Struct(
    "flowcontrol.v1beta2.PolicyRulesWithSubjects",
    Field("subjects", ListOf(SUBJECT), 1, required=True, always=True, list_type="atomic"),
    Field("resourceRules", ListOf(RESOURCE_RULE), 2, list_type="atomic"),
    Field("nonResourceRules", ListOf(URL_RULE), 3, list_type="atomic"),
)
FLOW_SCHEMA_METHOD = Struct(
    "flowcontrol.v1beta2.FlowDistinguisherMethod", Field("type", STRING, 1, required=True, always=True)
)
FLOW_SCHEMA_SPEC = Struct(
    "flowcontrol.v1beta2.FlowSchemaSpec",
    Field(
        "priorityLevelConfiguration", _name_struct("PriorityLevelConfigurationReference"), 1, required=True
    ),
    Field("matchingPrecedence", INT32, 2, always=True, default=DEFAULT_PRECEDENCE),
    Field("distinguisherMethod", FLOW_SCHEMA_METHOD, 3, pointer=True),
    Field("rules", ListOf(FLOW_SCHEMA_RULES), 4, list_type="atomic"),
)
FLOW_SCHEMA_STATUS = status_of("FlowSchema")
FLOW_SCHEMA = Struct(
    "flowcontrol.v1beta2.FlowSchema",
    METADATA,
    Field("spec", FLOW_SCHEMA_SPEC, 2),
    Field("status", FLOW_SCHEMA_STATUS, 3),
)


def _missing_level_cell(stored: Object, _: int) -> str:
    for condition in stored["status"].get("conditions", ()):
        if condition.get("type") == "Dangling":
            return str(condition.get("status", ""))
    return "?"


FLOW_SCHEMA_COLUMNS: Final = (
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


def define_flow_schema(names: Names) -> Definition:
    return flow_control_kind(
        names, "FlowSchema", FLOW_SCHEMA, FLOW_SCHEMA_STATUS, FLOW_SCHEMA_COLUMNS, flow_schema_rules
    )


def flow_schema_rules(errors: FieldErrors, new: Object) -> None:
    name, spec = new["metadata"].get("name", ""), new["spec"]
    _precedence(errors, spec["matchingPrecedence"], name)
    _method(errors, spec.get("distinguisherMethod"))
    _level(errors, spec["priorityLevelConfiguration"]["name"], "spec.priorityLevelConfiguration.name")
    for index, one in enumerate(spec.get("rules", ())):
        _rules(errors, one, f"spec.rules[{index}]")
    if name in MANDATORY_FLOW_SCHEMAS and spec != MANDATORY_FLOW_SCHEMAS[name]:
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
    if method is None or method["type"] in FLOW_SCHEMA_METHODS:
        return
    value = f"flowcontrol.FlowDistinguisherMethod{{Type:{quoted_start(method['type'])}}}"
    errors.add(_not_supported("spec.distinguisherMethod.type", value, FLOW_SCHEMA_METHODS))


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
    elif not set(verbs) <= set(FLOW_SCHEMA_VERBS):
        errors.add(_not_supported(field, format_value(verbs), FLOW_SCHEMA_VERBS))


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


PRIORITY_LEVEL_TYPES: Final = ("Exempt", "Limited")
PRIORITY_LEVEL_RESPONSES: Final = ("Queue", "Reject")
MAX_QUEUES: Final = 10_000_000
MAX_HASH_BITS: Final = 60  # of the hash from which shuffle sharding deals a hand of queues
POSITIVE: Final = "must be positive"
# The mandatory objects, whose specs no client may change.
MANDATORY_PRIORITY_LEVELS: Final = {
    "exempt": {"type": "Exempt"},
    "catch-all": {
        "type": "Limited",
        "limited": {"assuredConcurrencyShares": 5, "limitResponse": {"type": "Reject"}},
    },
}

QUEUING_CONFIGURATION = Struct(
    "flowcontrol.v1beta2.QueuingConfiguration",
    Field("queues", INT32, 1, always=True, default=64),
    Field("handSize", INT32, 2, always=True, default=8),
    Field("queueLengthLimit", INT32, 3, always=True, default=50),
)
LIMIT_RESPONSE = Struct(
    "flowcontrol.v1beta2.LimitResponse",
    Field("type", STRING, 1, required=True, always=True),
    Field("queuing", QUEUING_CONFIGURATION, 2, pointer=True),
    union="type",
)
LIMITED_CONFIGURATION = Struct(
    "flowcontrol.v1beta2.LimitedPriorityLevelConfiguration",
    Field("assuredConcurrencyShares", INT32, 1, always=True, default=30),
    Field("limitResponse", LIMIT_RESPONSE, 2),
    Field("borrowingLimitPercent", INT32, 4, pointer=True, since="1.26"),
    Field("lendablePercent", INT32, 3, pointer=True, since="1.26"),
)
EXEMPT_PRIORITY_LEVEL_CONFIGURATION = Struct(
    "flowcontrol.v1beta2.ExemptPriorityLevelConfiguration",
    Field("nominalConcurrencyShares", INT32, 1, pointer=True),
    Field("lendablePercent", INT32, 2, pointer=True),
)
PRIORITY_LEVEL_SPEC = Struct(
    "flowcontrol.v1beta2.PriorityLevelConfigurationSpec",
    Field("type", STRING, 1, required=True, always=True),
    Field("limited", LIMITED_CONFIGURATION, 2, pointer=True),
    Field("exempt", EXEMPT_PRIORITY_LEVEL_CONFIGURATION, 3, pointer=True, since="1.28"),
    union="type",
)
PRIORITY_LEVEL_STATUS = status_of("PriorityLevelConfiguration")
PRIORITY_LEVEL = Struct(
    "flowcontrol.v1beta2.PriorityLevelConfiguration",
    METADATA,
    Field("spec", PRIORITY_LEVEL_SPEC, 2),
    Field("status", PRIORITY_LEVEL_STATUS, 3),
)


def _queuing_column(name: str, part: str, description: str) -> Column:
    path = ("spec", "limited", "limitResponse", "queuing", part)
    return Column(name, "string", description, at(*path, missing=NONE))


PRIORITY_LEVEL_COLUMNS: Final = (
    NAME,
    Column("Type", "string", "Whether concurrency is limited: Exempt or Limited.", at("spec", "type")),
    Column(
        "AssuredConcurrencyShares",
        "string",
        "Its share of the server's concurrency limit.",
        at("spec", "limited", "assuredConcurrencyShares", missing=NONE),
    ),
    _queuing_column("Queues", "queues", "Number of queues."),
    _queuing_column("HandSize", "handSize", "Number of queues that a flow may use."),
    _queuing_column("QueueLengthLimit", "queueLengthLimit", "Maximum number of requests in a queue."),
    AGE,
)


def define_priority_level(names: Names) -> Definition:
    return flow_control_kind(
        names,
        "PriorityLevelConfiguration",
        PRIORITY_LEVEL,
        PRIORITY_LEVEL_STATUS,
        PRIORITY_LEVEL_COLUMNS,
        priority_level_rules,
    )


def priority_level_rules(errors: FieldErrors, new: Object) -> None:
    name, spec = new["metadata"].get("name", ""), new["spec"]
    if (name == "exempt") is not (spec["type"] == "Exempt"):
        text = "type must be 'Exempt' if and only if name is 'exempt'"
        errors.add(invalid("spec.type", spec["type"], text))
    _limits(errors, spec)
    if name in MANDATORY_PRIORITY_LEVELS and spec != MANDATORY_PRIORITY_LEVELS[name]:
        errors.add(invalid("spec", spec, f"spec of '{name}' must equal the fixed value"))
    status_rules(errors, new)


def _limits(errors: FieldErrors, spec: Object) -> None:
    kind, limited, field = spec["type"], spec.get("limited"), "spec.limited"
    if kind not in PRIORITY_LEVEL_TYPES:
        errors.add(not_supported("spec.type", kind, PRIORITY_LEVEL_TYPES))
        return
    if kind == "Exempt":
        text = "must be nil if the type is not Limited"
        if limited is not None:
            errors.add(forbidden(field, text))
        return
    if limited is None:
        errors.add(required(field, "must not be empty when type is Limited"))
        return
    shares = limited["assuredConcurrencyShares"]
    if shares <= 0:
        errors.add(invalid(f"{field}.assuredConcurrencyShares", shares, POSITIVE))
    _response(errors, limited["limitResponse"], f"{field}.limitResponse")


def _response(errors: FieldErrors, response: Object, field: str) -> None:
    kind, queuing = response["type"], response.get("queuing")
    if kind not in PRIORITY_LEVEL_RESPONSES:
        errors.add(not_supported(f"{field}.type", kind, PRIORITY_LEVEL_RESPONSES))
        return
    if kind == "Reject":
        text = "must be nil if limited.limitResponse.type is not Limited"
        if queuing is not None:
            errors.add(forbidden(f"{field}.queuing", text))
        return
    if queuing is None:
        text = "must not be empty if limited.limitResponse.type is Limited"
        errors.add(required(f"{field}.queuing", text))
        return
    _queuing(errors, queuing, f"{field}.queuing")


def _queuing(errors: FieldErrors, queuing: Object, field: str) -> None:
    length, queues = queuing["queueLengthLimit"], queuing["queues"]
    if length <= 0:
        errors.add(invalid(f"{field}.queueLengthLimit", length, POSITIVE))
    if queues <= 0:
        errors.add(invalid(f"{field}.queues", queues, POSITIVE))
    elif queues > MAX_QUEUES:
        errors.add(invalid(f"{field}.queues", queues, f"must not be greater than {MAX_QUEUES}"))
    hand = queuing["handSize"]
    wrong = _hand_size_error(hand, queues)
    if wrong:
        errors.add(invalid(f"{field}.handSize", hand, wrong))


def _hand_size_error(hand: int, queues: int) -> str:
    if hand <= 0:
        return POSITIVE
    if hand > queues:
        return f"should not be greater than queues ({queues})"
    if math.ceil(math.log2(queues) * hand) <= MAX_HASH_BITS:
        return ""
    return (
        f"required entropy bits of deckSize {queues} and handSize {hand} "
        f"should not be greater than {MAX_HASH_BITS}"
    )


_SAME_FIELDS = Conversion(to_storage=dict, from_storage=dict)


def declare(names: Names) -> tuple[Definition, ...]:
    stored = (define_flow_schema(names), define_priority_level(names))
    return (*stored, *(_v1beta1(definition) for definition in stored))


def _v1beta1(stored: Definition) -> Definition:
    stored_version, kind = f"{stored.group}/{stored.version}", stored.kind
    return replace(
        stored,
        version="v1beta1",
        fields=_v1beta1_struct(stored.fields),
        storage=Storage(stored_as=stored.type_name, conversion=_SAME_FIELDS),
        deprecation_warning=f"{stored.group}/v1beta1 {kind} is deprecated in v1.23+, unavailable in v1.26+; "
        f"use {stored_version} {kind}",
    )


def _v1beta1_struct(struct: Struct) -> Struct:
    """Return the same struct under its name in v1beta1."""
    fields = (replace(field, type=_v1beta1_type(field.type)) for field in struct.fields)
    return Struct(struct.of.replace("v1beta2", "v1beta1"), *fields, atomic=struct.atomic, union=struct.union)


def _v1beta1_type(type_: Type) -> Type:
    if isinstance(type_, ListOf):
        return ListOf(_v1beta1_type(type_.item))
    return _v1beta1_struct(type_) if isinstance(type_, Struct) and ".v1beta2." in type_.of else type_
