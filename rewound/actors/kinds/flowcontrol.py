"""The flowcontrol group: FlowSchema classifies requests, PriorityLevelConfiguration limits their concurrency.

FlowSchema assigns requests to a priority level, by subject and by resource or URL. PriorityLevelConfiguration says how
many requests of a level run at once, and whether others queue or fail. v1beta2 is stored, whatever versions are served:
v1beta3 and v1 have its fields, but call the shares of a level nominal.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache, partial
from typing import Final

import msgspec

from rewound.actors.golang.format import Formatted
from rewound.actors.golang.quoting import quoted_start
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
from rewound.actors.versions.features import (
    EXEMPT_SHARES,
    FLOW_CONTROL_TEXTS,
    LENDING,
    ZERO_ANNOTATION,
    ZERO_SHARES,
)


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


class _Rules:
    """The rules of both kinds in one version of the group, by the features of the server."""

    def __init__(self, names: Names, version: str, features: frozenset[str]) -> None:
        named_later = version in ("v1beta1", "v1beta2")
        self.shares = "assuredConcurrencyShares" if named_later else "nominalConcurrencyShares"
        self.zero_shares = ZERO_SHARES in features
        self.declarative = FLOW_CONTROL_TEXTS in features
        self.exempt_shares = EXEMPT_SHARES in features
        self.mandatory_levels = mandatory_levels(features)
        self._forbidden_annotation = _preserve_zero(names) if ZERO_ANNOTATION in features else ""

    def flow_schema(self, errors: FieldErrors, new: Object, _: Object | None = None) -> None:
        name, spec = new["metadata"].get("name", ""), new["spec"]
        _precedence(errors, spec["matchingPrecedence"], name)
        _method(errors, spec.get("distinguisherMethod"))
        _level(errors, spec["priorityLevelConfiguration"]["name"], "spec.priorityLevelConfiguration.name")
        for index, one in enumerate(spec.get("rules", ())):
            _rules(errors, one, f"spec.rules[{index}]")
        if name in MANDATORY_FLOW_SCHEMAS and spec != MANDATORY_FLOW_SCHEMAS[name]:
            errors.add(invalid("spec", spec, f"spec of '{name}' must equal the fixed value"))
        self.status(errors, new)

    def priority_level(self, errors: FieldErrors, new: Object, old: Object | None = None) -> None:
        name, spec = new["metadata"].get("name", ""), new["spec"]
        key = self._forbidden_annotation
        if key and key in (new["metadata"].get("annotations") or ()):
            text = f"annotation '{key}' is forbidden"
            errors.add(forbidden("metadata.annotations", text))
        if (name == "exempt") is not (spec["type"] == "Exempt"):
            text = "type must be 'Exempt' if and only if name is 'exempt'"
            if self.declarative:
                text = "must be 'Exempt' if and only if `name` is 'exempt'"
            errors.add(invalid("spec.type", spec["type"], text))
        self._limits(errors, spec, old)
        self._mandatory(errors, name, spec)
        self.status(errors, new)

    def _mandatory(self, errors: FieldErrors, name: str, spec: Object) -> None:
        fixed = self.mandatory_levels.get(name)
        if fixed is None or spec == fixed:
            return
        text = f"spec of '{name}' must equal the fixed value"
        if self.exempt_shares and name == "exempt":
            if {**spec, "exempt": fixed["exempt"]} == fixed:
                return
            text = f"spec of '{name}' except the 'spec.exempt' field must equal the fixed value"
        errors.add(invalid("spec", spec, text))

    def status(self, errors: FieldErrors, new: Object, _: Object | None = None) -> None:
        seen: set[str] = set()
        for index, condition in enumerate(new["status"].get("conditions", ())):
            kind, field = condition.get("type", ""), f"status.conditions[{index}].type"
            if kind in seen:
                errors.add(duplicate(field, kind))
            if not kind:
                errors.add(required(field, "" if self.declarative else "must not be empty"))
            seen.add(kind)

    def _limits(self, errors: FieldErrors, spec: Object, old: Object | None) -> None:
        kind, limited, field = spec["type"], spec.get("limited"), "spec.limited"
        if kind not in PRIORITY_LEVEL_TYPES:
            self._unsupported(errors, "spec.type", kind, PRIORITY_LEVEL_TYPES)
        elif kind == "Exempt":
            if limited is not None:
                errors.add(forbidden(field, "must be nil if the type is not Limited"))
            if "exempt" in spec:
                _exempt_rules(errors, spec["exempt"], "spec.exempt")
        else:
            if "exempt" in spec:
                errors.add(forbidden("spec.exempt", "must be nil if the type is Limited"))
            if limited is None:
                errors.add(required(field, "must not be empty when type is Limited"))
            else:
                self._limited(errors, limited, old, field)

    def _limited(self, errors: FieldErrors, limited: Object, old: Object | None, field: str) -> None:
        shares, was = limited["assuredConcurrencyShares"], (old or {}).get("spec", {}).get("limited") or {}
        zero_is_valid = self.zero_shares or was.get("assuredConcurrencyShares") == 0
        if shares < 0 and zero_is_valid:
            errors.add(invalid(f"{field}.{self.shares}", shares, NOT_NEGATIVE))
        elif shares <= 0 and not zero_is_valid:
            errors.add(invalid(f"{field}.{self.shares}", shares, POSITIVE))
        self._response(errors, limited["limitResponse"], f"{field}.limitResponse")
        _percent_rules(errors, limited.get("lendablePercent"), f"{field}.lendablePercent")
        borrowed = limited.get("borrowingLimitPercent")
        if borrowed is not None and borrowed < 0:
            text = f"if specified, {NOT_NEGATIVE}"
            errors.add(invalid(f"{field}.borrowingLimitPercent", borrowed, text))

    def _response(self, errors: FieldErrors, response: Object, field: str) -> None:
        kind, queuing = response["type"], response.get("queuing")
        if kind not in PRIORITY_LEVEL_RESPONSES:
            self._unsupported(errors, f"{field}.type", kind, PRIORITY_LEVEL_RESPONSES)
        elif kind == "Reject":
            if queuing is not None:
                text = "must be nil if limited.limitResponse.type is not Limited"
                errors.add(forbidden(f"{field}.queuing", text))
        elif queuing is None:
            text = "must not be empty if limited.limitResponse.type is Limited"
            errors.add(required(f"{field}.queuing", text))
        else:
            _queuing(errors, queuing, f"{field}.queuing")

    def _unsupported(self, errors: FieldErrors, field: str, value: str, supported: tuple[str, ...]) -> None:
        missing = self.declarative and not value
        errors.add(required(field) if missing else not_supported(field, value, supported))


def flow_control_kind(
    names: Names,
    kind: str,
    fields: Struct,
    status: Struct,
    columns: tuple[Column, ...],
) -> Definition:
    """Define the stored form of a kind, v1beta2."""
    return Definition(
        group=names.group("flowcontrol.apiserver"),
        version="v1beta2",
        kind=kind,
        plural=f"{kind.lower()}s",
        namespaced=False,
        check_name=name_is_subdomain,
        fields=fields,
        until="1.28",
        deprecated="1.26",
        deprecation_warning=_deprecation(names, kind, "v1beta2", "1.26", "1.29", "v1beta3"),
        storage=Storage(
            announced_since={"1.25": "v1beta1", "1.26": "v1beta2", "1.27": "v1beta3", "1.30": "v1"}
        ),
        table=Table(columns),
        strategy=Strategy(
            prepare_for_create=partial(reset_status_and_generation, status),
            prepare_for_update=keep_status_and_bump_generation,
        ),
    )


def _deprecation(names: Names, kind: str, version: str, since: str, removed: str, use: str) -> str:
    group = names.group("flowcontrol.apiserver")
    return (
        f"{group}/{version} {kind} is deprecated in v{since}+, unavailable in v{removed}+; "
        f"use {group}/{use} {kind}"
    )


def _with_rules(definition: Definition, rules: _Rules) -> Definition:
    """Return the definition with its validation at every write."""
    validate = rules.flow_schema if definition.kind == "FlowSchema" else rules.priority_level

    def update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
        metadata_rules(errors, new["metadata"], namespaced=False, check_name=name_is_subdomain)
        validate(errors, new, old)

    strategy = msgspec.structs.replace(
        definition.strategy, validate_create=validate, validate_update=update_rules
    )
    return replace(definition, subresources=(status_subresource(rules.status),), strategy=strategy)


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
    return flow_control_kind(names, "FlowSchema", FLOW_SCHEMA, FLOW_SCHEMA_STATUS, FLOW_SCHEMA_COLUMNS)


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
    text = f"flowcontrol.FlowDistinguisherMethod{{Type:{quoted_start(method['type'])}}}"
    value = Formatted(text, {"Type": method["type"]})
    errors.add(not_supported("spec.distinguisherMethod.type", value, FLOW_SCHEMA_METHODS))


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
        errors.add(not_supported(field, verbs, FLOW_SCHEMA_VERBS))


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
DEFAULT_SHARES: Final = 30
POSITIVE: Final = "must be positive"
NOT_NEGATIVE: Final = "must be a non-negative integer"


@cache
def mandatory_levels(features: frozenset[str]) -> dict[str, Object]:
    """The specs of the mandatory priority levels, which no client may change. Callers must not change them."""
    exempt: Object = {"type": "Exempt"}
    limited: Object = {"assuredConcurrencyShares": 5, "limitResponse": {"type": "Reject"}}
    if LENDING in features:
        limited["lendablePercent"] = 0
    if EXEMPT_SHARES in features:
        exempt["exempt"] = {"nominalConcurrencyShares": 0, "lendablePercent": 0}
    return {"exempt": exempt, "catch-all": {"type": "Limited", "limited": limited}}


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
    Field("assuredConcurrencyShares", INT32, 1, always=True, default=DEFAULT_SHARES),
    Field("limitResponse", LIMIT_RESPONSE, 2),
    Field("lendablePercent", INT32, 3, pointer=True, default=0, since="1.26"),
    Field("borrowingLimitPercent", INT32, 4, pointer=True, since="1.26"),
)
EXEMPT_PRIORITY_LEVEL_CONFIGURATION = Struct(
    "flowcontrol.v1beta2.ExemptPriorityLevelConfiguration",
    Field("nominalConcurrencyShares", INT32, 1, pointer=True, default=0),
    Field("lendablePercent", INT32, 2, pointer=True, default=0),
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


SHARES_TEXT: Final = "Its share of the server's concurrency limit."
SHARES_CELL: Final = at("spec", "limited", "assuredConcurrencyShares", missing=NONE)
PRIORITY_LEVEL_COLUMNS: Final = (
    NAME,
    Column("Type", "string", "Whether concurrency is limited: Exempt or Limited.", at("spec", "type")),
    Column("AssuredConcurrencyShares", "string", SHARES_TEXT, SHARES_CELL, until="1.25"),
    Column("NominalConcurrencyShares", "string", SHARES_TEXT, SHARES_CELL, since="1.26"),
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
    )


def _exempt_rules(errors: FieldErrors, exempt: Object, field: str) -> None:
    shares = exempt.get("nominalConcurrencyShares")
    if shares is not None and shares < 0:
        errors.add(invalid(f"{field}.nominalConcurrencyShares", shares, NOT_NEGATIVE))
    _percent_rules(errors, exempt.get("lendablePercent"), f"{field}.lendablePercent")


def _percent_rules(errors: FieldErrors, percent: int | None, field: str) -> None:
    if percent is not None and not 0 <= percent <= 100:
        errors.add(invalid(field, percent, "must be between 0 and 100, inclusive"))


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


def declare(names: Names, features: frozenset[str]) -> tuple[Definition, ...]:
    stored = (define_flow_schema(names), define_priority_level(names))
    found = [_with_rules(one, _Rules(names, "v1beta2", features)) for one in stored]
    for one in stored:
        old = _view(one, "v1beta1", until="1.25", warning=("1.23", "1.26", "v1beta2"), names=names)
        new = _view(one, "v1", since="1.29", names=names)
        last = _view(
            one,
            "v1beta3",
            since="1.26",
            until="1.31",
            deprecated="1.29",
            warning=("1.29", "1.32", "v1"),
            names=names,
        )
        found += [_with_rules(view, _Rules(names, view.version, features)) for view in (old, new, last)]
    return tuple(found)


def _view(
    stored: Definition,
    version: str,
    *,
    names: Names,
    since: str = "",
    until: str = "",
    deprecated: str = "",
    warning: tuple[str, str, str] | None = None,
) -> Definition:
    """Return a kind in another version; `warning` has when it was deprecated and removed, and what to use instead."""
    has_levels = stored.kind == "PriorityLevelConfiguration"
    conversion, set_defaults = _SAME_FIELDS, None
    if has_levels and version != "v1beta1":
        key = _preserve_zero(names) if version == "v1beta3" else ""
        conversion = Conversion(
            partial(_stored_level, annotation=key), partial(_level_of_storage, annotation=key)
        )
        set_defaults = partial(_default_shares, annotation=key) if key else None
    return replace(
        stored,
        version=version,
        fields=_struct_of(stored.fields, version),
        set_defaults=set_defaults,
        since=since,
        until=until,
        storage=Storage(stored_as=stored.type_name, conversion=conversion),
        deprecated=deprecated,
        deprecation_warning=_deprecation(names, stored.kind, version, *warning) if warning else "",
    )


def _preserve_zero(names: Names) -> str:
    """The annotation by which v1beta3 distinguishes no shares from shares that were not given."""
    return f"{names.group('flowcontrol')}/v1beta3-preserve-zero-concurrency-shares"


def _default_shares(level: Object, annotation: str) -> None:
    limited = level["spec"].get("limited")
    annotations = level["metadata"].get("annotations") or ()
    if limited is not None and limited["nominalConcurrencyShares"] == 0 and annotation not in annotations:
        limited["nominalConcurrencyShares"] = DEFAULT_SHARES


def _stored_level(level: Object, annotation: str) -> Object:
    annotations = level.get("metadata", {}).get("annotations") or {}
    if annotation in annotations:
        kept = {key: value for key, value in annotations.items() if key != annotation}
        level = {**level, "metadata": {**level["metadata"], "annotations": kept}}
        if not kept:
            del level["metadata"]["annotations"]
    return _renamed_shares(level, "nominalConcurrencyShares", "assuredConcurrencyShares")


def _level_of_storage(level: Object, annotation: str) -> Object:
    shares = ((level.get("spec") or {}).get("limited") or {}).get("assuredConcurrencyShares")
    if annotation and shares == 0:
        metadata = level["metadata"]
        annotations = {**(metadata.get("annotations") or {}), annotation: ""}
        level = {**level, "metadata": {**metadata, "annotations": annotations}}
    return _renamed_shares(level, "assuredConcurrencyShares", "nominalConcurrencyShares")


def _renamed_shares(level: Object, name: str, other: str) -> Object:
    spec = level.get("spec") or {}
    limited = spec.get("limited")
    if limited is None or name not in limited:
        return dict(level)
    renamed = {other if key == name else key: value for key, value in limited.items()}
    return {**level, "spec": {**spec, "limited": renamed}}


@cache
def _struct_of(struct: Struct, version: str) -> Struct:
    """Return the same struct as it is in another version."""
    fields = (_field_of(struct, field, version) for field in struct.fields)
    return Struct(struct.of.replace("v1beta2", version), *fields, atomic=struct.atomic, union=struct.union)


def _field_of(struct: Struct, field: Field, version: str) -> Field:
    if version != "v1beta1":
        if field.name == "assuredConcurrencyShares":
            # v1beta3 has no pointer: its default depends on an annotation.
            pointer = version == "v1"
            name, default = "nominalConcurrencyShares", DEFAULT_SHARES if pointer else None
            return msgspec.structs.replace(field, name=name, pointer=pointer, default=default)
        if field.name == "conditions":
            return msgspec.structs.replace(
                field, type=_type_of(field.type, version), patch="merge", merge_key="type"
            )
    return msgspec.structs.replace(field, type=_type_of(field.type, version))


def _type_of(type_: Type, version: str) -> Type:
    if isinstance(type_, ListOf):
        return ListOf(_type_of(type_.item, version))
    return _struct_of(type_, version) if isinstance(type_, Struct) and ".v1beta2." in type_.of else type_
