"""The configuration of flow control, read from the stored FlowSchemas and PriorityLevelConfigurations. Pure.

It also decides which requests a FlowSchema matches. A FlowSchema whose level does not exist is ignored. The mandatory
objects always apply, stored or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from rewound.actors.access.authorize import Attributes
from rewound.actors.flowcontrol.borrowing import NO_LIMITS, Limits, limits
from rewound.actors.flowcontrol.initial_objects import CATCH_ALL, MANDATORY
from rewound.actors.identity import User
from rewound.actors.kinds import flowcontrol
from rewound.actors.messages import Object
from rewound.actors.versions.features import V1_25


class LevelSettings(msgspec.Struct, frozen=True):
    name: str
    uid: str
    exempt: bool
    seats: int = 0  # requests of one seat that may run concurrently
    rejects: bool = False  # rejects instead of queuing
    queues: int = 1
    hand_size: int = 1
    queue_length: int = 0
    limits: Limits = NO_LIMITS  # between which its seats may change

    @property
    def places_outside(self) -> int:
        """How many requests of the level may wait outside this server.

        One user may have half of them if nobody else has any. That is as many requests as one flow can have in
        Kubernetes, where they keep their seats: executing, and in the queues of its hand.
        """
        waiting = 0 if self.rejects else self.hand_size * self.queue_length
        return 2 * (self.seats + waiting)


class SchemaSettings(msgspec.Struct, frozen=True):
    name: str
    uid: str
    level: str
    precedence: int
    by_user: bool
    by_namespace: bool
    spec: Object

    def distinguisher(self, request: Attributes) -> str:
        """The value that separates the flows of this schema."""
        if self.by_user:
            return request.user.name
        return request.namespace if self.by_namespace else ""


class Configuration(msgspec.Struct, frozen=True):
    levels: Mapping[str, LevelSettings]
    schemas: tuple[SchemaSettings, ...]  # in matching order

    def classify(self, request: Attributes) -> SchemaSettings:
        for schema in self.schemas:
            if matches(schema.spec, request):
                return schema
        return next(schema for schema in self.schemas if schema.name == CATCH_ALL)


def configure(schemas: Iterable[Object], levels: Iterable[Object], seats: int) -> Configuration:
    """All limited levels share `seats`."""
    level_specs = _with_mandatory(levels, flowcontrol.mandatory_levels(V1_25.features))
    shares = sum(_shares(spec) for _, spec in level_specs.values())
    settings = {name: _level(name, *one, seats, shares) for name, one in level_specs.items()}
    found = [
        _schema(name, *one)
        for name, one in _with_mandatory(schemas, flowcontrol.MANDATORY_FLOW_SCHEMAS).items()
    ]
    usable = [schema for schema in found if schema.level in settings]
    return Configuration(settings, tuple(sorted(usable, key=lambda one: (one.precedence, one.name))))


def _with_mandatory(stored: Iterable[Object], mandatory: Mapping[str, Any]) -> dict[str, tuple[str, Object]]:
    """Uid and spec by name; mandatory objects have no uid until they are stored."""
    specs: dict[str, tuple[str, Object]] = {name: ("", mandatory[name]) for name in MANDATORY}
    for one in stored:
        specs[one["metadata"]["name"]] = (one["metadata"]["uid"], one["spec"])
    return specs


def _shares(spec: Object) -> int:
    if spec["type"] == "Limited":
        return int(spec["limited"]["assuredConcurrencyShares"])
    return int((spec.get("exempt") or {}).get("nominalConcurrencyShares", 0))


def _level(name: str, uid: str, spec: Object, seats: int, shares: int) -> LevelSettings:
    own = -(-seats * _shares(spec) // shares)
    shared = spec["limited" if spec["type"] == "Limited" else "exempt"] if own else {}
    between = limits(own, shared.get("lendablePercent") or 0, shared.get("borrowingLimitPercent"), seats)
    if spec["type"] != "Limited":
        return LevelSettings(name, uid, exempt=True, limits=between)
    queuing = spec["limited"]["limitResponse"].get("queuing")
    if queuing is None:
        return LevelSettings(name, uid, exempt=False, seats=own, rejects=True, limits=between)
    return LevelSettings(
        name,
        uid,
        exempt=False,
        seats=own,
        queues=queuing["queues"],
        hand_size=queuing["handSize"],
        queue_length=queuing["queueLengthLimit"],
        limits=between,
    )


def _schema(name: str, uid: str, spec: Object) -> SchemaSettings:
    method = (spec.get("distinguisherMethod") or {}).get("type")
    return SchemaSettings(
        name,
        uid,
        spec["priorityLevelConfiguration"]["name"],
        spec["matchingPrecedence"],
        method == "ByUser",
        method == "ByNamespace",
        spec,
    )


ALL: Final = "*"
ACCOUNT_PREFIX: Final = "system:serviceaccount:"


def matches(spec: Object, request: Attributes) -> bool:
    """Whether one of the rules of a FlowSchema has a subject and a resource or path rule that match the request."""
    return any(
        _matches_subject(rules["subjects"] or (), request.user) and _matches_rule(rules, request)
        for rules in spec.get("rules", ())
    )


def _matches_subject(subjects: Any, user: User) -> bool:
    return any(_is_subject(subject, user) for subject in subjects)


def _is_subject(subject: Object, user: User) -> bool:
    kind = subject["kind"]
    if kind == "User":
        return subject["user"]["name"] in (ALL, user.name)
    if kind == "Group":
        name = subject["group"]["name"]
        return name == ALL or name in user.groups
    if kind == "ServiceAccount":
        account = subject["serviceAccount"]
        prefix = f"{ACCOUNT_PREFIX}{account['namespace']}:"
        if account["name"] == ALL:
            return user.name.startswith(prefix)
        return user.name == prefix + str(account["name"])
    return False


def _matches_rule(rules: Object, request: Attributes) -> bool:
    if request.is_resource:
        return any(_matches_resource(rule, request) for rule in rules.get("resourceRules", ()))
    return any(_matches_path(rule, request) for rule in rules.get("nonResourceRules", ()))


def _matches_resource(rule: Object, request: Attributes) -> bool:
    resource = f"{request.resource}/{request.subresource}" if request.subresource else request.resource
    return (
        _contains(rule["verbs"], request.verb)
        and _contains(rule["apiGroups"], request.group)
        and _contains(rule["resources"], resource)
        and (_contains(rule["namespaces"], request.namespace) if request.namespace else _clusterwide(rule))
    )


def _clusterwide(rule: Object) -> bool:
    return bool(rule.get("clusterScope"))


def _contains(values: list[str] | None, value: str) -> bool:
    return values is not None and (ALL in values or value in values)


def _matches_path(rule: Object, request: Attributes) -> bool:
    return _contains(rule["verbs"], request.verb) and any(
        url == request.path or (url.endswith(ALL) and request.path.startswith(url[:-1]))
        for url in rule["nonResourceURLs"] or ()
    )
