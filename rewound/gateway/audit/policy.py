"""The audit policy: the first rule that matches a request decides how much of it is recorded.

`read_policy` reads the file of --audit-policy-file; the audit log calls `Policy.evaluate` once per request. Most
requests resemble an earlier one, so results are cached by the attributes that rules use. If the first rule of a
policy has no conditions, no attribute is used.

The file is read strictly: an unknown field, a wrong type or a value that can never match is an error with the path of
the field, because a policy that silently records less is noticed only when the record is needed.

Policies are those of Kubernetes, whose authors do not know about history in this API. So a rule for `secrets` also
covers their history, blame, rollback and undelete in the group rewound.cluster.io. A page of the timeline has objects
of any resource: it has no rule of its own, and is recorded at level Metadata at most.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from time import time_ns
from typing import Any, Final, TypeVar

from rewound.actors.access.authorize import Attributes
from rewound.actors.kinds.validation import dns_subdomain
from rewound.actors.names import REWIND_GROUP, Names
from rewound.actors.rewind.versions import looks_like_uid
from rewound.gateway.pipeline.route import TIMELINE_PATH
from rewound.gateway.wire import yaml


class Level(IntEnum):
    NONE = 0
    METADATA = 1
    REQUEST = 2
    REQUEST_RESPONSE = 3


LEVELS: Final = {
    "None": Level.NONE,
    "Metadata": Level.METADATA,
    "Request": Level.REQUEST,
    "RequestResponse": Level.REQUEST_RESPONSE,
}
LEVEL_NAMES: Final = {level: name for name, level in LEVELS.items()}


REQUEST_RECEIVED: Final = "RequestReceived"
RESPONSE_STARTED: Final = "ResponseStarted"
RESPONSE_COMPLETE: Final = "ResponseComplete"
PANIC: Final = "Panic"
STAGES: Final = (REQUEST_RECEIVED, RESPONSE_STARTED, RESPONSE_COMPLETE, PANIC)


@dataclass(frozen=True, slots=True)
class Resources:
    """Resources of one API group; an empty `resources` means all of the group."""

    group: str = ""
    resources: tuple[str, ...] = ()
    names: frozenset[str] = frozenset()  # empty: objects with any name

    def match(self, attributes: Attributes) -> bool:
        if self.group != attributes.group:
            return False
        if not self.resources:
            return True
        if self.names and attributes.name not in self.names:
            return False
        return any(_matches_resource(pattern, attributes) for pattern in self.resources)


_PAST: Final = f"/apis/{REWIND_GROUP}/"


def _is_history(attributes: Attributes) -> bool:
    """Whether a request is about the history of an object."""
    return attributes.is_resource and attributes.path.lstrip("/").startswith(_PAST[1:])


def _matches_resource(pattern: str, attributes: Attributes) -> bool:
    """`pods` matches the resource and its history, no other subresources; `*`, `pods/*` and `*/status` match
    several.
    """
    resource, subresource = attributes.resource, attributes.subresource
    if pattern == resource and _is_history(attributes):
        return True
    if pattern == "*" or pattern == (f"{resource}/{subresource}" if subresource else resource):
        return True
    if pattern.startswith("*/"):
        return bool(subresource) and pattern[2:] == subresource
    return pattern.endswith("/*") and pattern[:-2] == resource


class PendingList(list[Any]):
    """Records and events of a backend that are not formatted yet, in order.

    The first one, and those beyond the first `limit`, must be passed to the backend's `put`, which appends them.
    """

    __slots__ = ("limit", "now")

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit
        self.now = time_ns


class RequestPolicy:
    """How the policy treats a request, and how many requests got this treatment."""

    __slots__ = (
        "ends",
        "is_received",
        "level",
        "omit_managed_fields",
        "omit_stages",
        "pending",
        "requests",
        "without_objects",
    )

    def __init__(
        self, level: Level, omit_stages: frozenset[str] = frozenset(), omit_managed_fields: bool = False
    ) -> None:
        self.level = level
        self.omit_stages = omit_stages
        self.omit_managed_fields = omit_managed_fields
        self.requests = 0
        self.is_received = REQUEST_RECEIVED not in omit_stages
        # The list in which a record represents its RequestReceived event, and the list for its ResponseComplete
        # event.
        self.pending: PendingList | None = None
        self.ends: PendingList | None = None
        # The same treatment at level Metadata at most.
        self.without_objects: RequestPolicy = self
        if level > Level.METADATA:
            self.without_objects = RequestPolicy(Level.METADATA, omit_stages, omit_managed_fields)

    def add_to(self, pending: PendingList | None) -> None:
        """Let requests append to this list themselves, if they have these events and none has bodies.

        Without the stage Panic, nothing in the list would show that no other event follows.
        """
        short = self.level is Level.METADATA and PANIC not in self.omit_stages
        self.pending = pending if short and self.is_received else None
        self.ends = pending if short and RESPONSE_COMPLETE not in self.omit_stages else None


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule; an empty condition matches all requests."""

    treatment: RequestPolicy
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    verbs: frozenset[str] = frozenset()
    resources: tuple[Resources, ...] = ()
    namespaces: frozenset[str] = frozenset()  # "" for objects without a namespace
    urls: tuple[str, ...] = ()  # for non-resource requests; a `*` at the end matches any rest

    def match(self, attributes: Attributes) -> bool:
        if self.users and attributes.user.name not in self.users:
            return False
        if self.groups and self.groups.isdisjoint(attributes.user.groups):
            return False
        if self.verbs and attributes.verb not in self.verbs:
            return False
        if self.namespaces or self.resources:
            return attributes.is_resource and self._matches_resources(attributes)
        if self.urls:
            return not attributes.is_resource and any(
                _matches_path(url, attributes.path) for url in self.urls
            )
        return True

    def _matches_resources(self, attributes: Attributes) -> bool:
        if self.namespaces and attributes.namespace not in self.namespaces:
            return False
        return not self.resources or any(one.match(attributes) for one in self.resources)


def _matches_path(pattern: str, path: str) -> bool:
    return path == pattern or (pattern.endswith("*") and path.startswith(pattern[:-1]))


# Distinct kinds of requests whose treatment is cached; a client can cause many by inventing names.
_CACHED = 4096
_Key = tuple[str, tuple[str, ...], str, str, str, str, str, str, bool]


class Policy:
    __slots__ = ("_by_name", "_cache", "default", "for_all", "rules")

    def __init__(self, rules: tuple[Rule, ...], default: RequestPolicy) -> None:
        """`default` is for requests that no rule matches."""
        self.rules = rules
        self.default = default
        self._by_name = any(one.names for rule in rules for one in rule.resources)
        # The treatment of all requests, if there is only one.
        self.for_all = rules[0].treatment if rules and rules[0] == Rule(rules[0].treatment) else None
        self._cache: dict[_Key, RequestPolicy] = {}

    @property
    def treatments(self) -> set[RequestPolicy]:
        found = {self.default, *[rule.treatment for rule in self.rules]}
        return found | {one.without_objects for one in found}

    @property
    def evaluated(self) -> dict[Level, int]:
        """How many requests were treated at each level."""
        counts = dict.fromkeys(Level, 0)
        for treatment in self.treatments:
            counts[treatment.level] += treatment.requests
        return counts

    def evaluate(self, attributes: Attributes) -> RequestPolicy:
        """The treatment of a request; the caller counts it."""
        found = self.for_all or self._find_cached(attributes)
        if found.level > Level.METADATA and self._has_unknown_objects(attributes):
            return found.without_objects
        return found

    def _has_unknown_objects(self, attributes: Attributes) -> bool:
        """Whether the response may contain objects to which other rules apply.

        A name in such a request may be a uid, which no rule with names of objects matches.
        """
        if attributes.is_resource:
            return self._by_name and looks_like_uid(attributes.name) and _is_history(attributes)
        return attributes.path.strip("/").startswith(TIMELINE_PATH[1:])

    def _find_cached(self, attributes: Attributes) -> RequestPolicy:
        user, namespace, resource = attributes.user, attributes.namespace, attributes.resource
        which = attributes.path
        if attributes.is_resource:
            which = attributes.name if self._by_name else ""
        past = bool(attributes.subresource) and _is_history(attributes)
        key = (
            user.name,
            user.groups,
            attributes.verb,
            attributes.group,
            resource,
            attributes.subresource,
            namespace,
            which,
            past,
        )
        found = self._cache.get(key)
        if found is None:
            found = self._find(attributes)
            if len(self._cache) >= _CACHED:
                self._cache.clear()
            if len(which) + len(namespace) + len(resource) <= 512:  # longer ones are rarely repeated
                self._cache[key] = found
        return found

    def _find(self, attributes: Attributes) -> RequestPolicy:
        for rule in self.rules:
            if rule.match(attributes):
                return rule.treatment
        return self.default


_POLICY = ("apiVersion", "kind", "metadata", "rules", "omitStages", "omitManagedFields")
_RULE = (
    "level",
    "users",
    "userGroups",
    "verbs",
    "resources",
    "namespaces",
    "nonResourceURLs",
    "omitStages",
    "omitManagedFields",
)
_RESOURCES = ("group", "resources", "resourceNames")
_STAGES = {stage: stage for stage in STAGES}
T = TypeVar("T")


class PolicyError(ValueError):
    """The policy cannot be used; the text names the field and what it must be."""


def read_policy(path: Path, names: Names) -> Policy:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise PolicyError(f"cannot read {path}: {error.strerror}") from error
    try:
        return parse_policy(raw, names)
    except PolicyError as error:
        raise PolicyError(f"{path}: {error}") from None


def parse_policy(raw: bytes, names: Names) -> Policy:
    try:
        loaded = yaml.load(raw)
    except yaml.YamlError as error:
        raise PolicyError(f"is not YAML: {error}") from None
    if loaded.problems:
        raise PolicyError("; ".join(loaded.problems))
    document = _mapping("the file", loaded.value, _POLICY)
    _check_type(document, names)
    if document.get("metadata") is not None and not isinstance(document["metadata"], dict):
        raise PolicyError("metadata: must be a mapping")
    rules = _list("rules", document.get("rules"))
    if not rules:
        raise PolicyError("rules: is empty, so that nothing would ever be recorded; give at least one rule")
    default = RequestPolicy(
        Level.NONE,
        _stages("omitStages", document.get("omitStages")),
        _boolean("omitManagedFields", document.get("omitManagedFields"), False),
    )
    return Policy(tuple(_rule(f"rules[{n}]", one, default) for n, one in enumerate(rules)), default)


def _check_type(document: Mapping[str, Any], names: Names) -> None:
    for field, expected in (("apiVersion", f"{names.group('audit')}/v1"), ("kind", "Policy")):
        if document.get(field) != expected:
            found = f"{document[field]!r}" if field in document else "missing"
            raise PolicyError(f"{field}: is {found}; write {field}: {expected}")


def _rule(path: str, value: Any, default: RequestPolicy) -> Rule:
    rule = _mapping(path, value, _RULE)
    level = _choice(f"{path}.level", rule.get("level"), LEVELS)
    resources = _list(f"{path}.resources", rule.get("resources"))
    namespaces = _exact(f"{path}.namespaces", rule.get("namespaces"))
    urls = _strings(f"{path}.nonResourceURLs", rule.get("nonResourceURLs"))
    if urls and (resources or namespaces):
        raise PolicyError(
            f"{path}.nonResourceURLs: a rule cannot have these and resources or namespaces; write two rules"
        )
    for number, url in enumerate(urls):
        _check_url(f"{path}.nonResourceURLs[{number}]", url)
    treatment = RequestPolicy(
        level,
        default.omit_stages | _stages(f"{path}.omitStages", rule.get("omitStages")),
        _boolean(f"{path}.omitManagedFields", rule.get("omitManagedFields"), default.omit_managed_fields),
    )
    return Rule(
        treatment,
        frozenset(_exact(f"{path}.users", rule.get("users"))),
        frozenset(_exact(f"{path}.userGroups", rule.get("userGroups"))),
        frozenset(_exact(f"{path}.verbs", rule.get("verbs"))),
        tuple(_resources(f"{path}.resources[{n}]", one) for n, one in enumerate(resources)),
        frozenset(namespaces),
        tuple(urls),
    )


def _resources(path: str, value: Any) -> Resources:
    given = _mapping(path, value, _RESOURCES)
    group = given.get("group")
    if group is None:
        group = ""
    if not isinstance(group, str):
        raise PolicyError(f'{path}.group: must be a string; "" is the core group')
    if "/" in group:
        raise PolicyError(f"{path}.group: {group!r} must be the name of a group without a version")
    if group and dns_subdomain(group):
        raise PolicyError(
            f'{path}.group: {group!r} is not the name of a group; "" is the core group, and there is no name for all: '
            "list the groups, or leave resources out"
        )
    resources = _strings(f"{path}.resources", given.get("resources"))
    for number, pattern in enumerate(resources):
        _check_resource(f"{path}.resources[{number}]", pattern)
    names = _strings(f"{path}.resourceNames", given.get("resourceNames"))
    if names and not resources:
        raise PolicyError(f"{path}.resourceNames: needs at least one resource in {path}.resources")
    return Resources(group, tuple(resources), frozenset(names))


def _check_resource(path: str, pattern: str) -> None:
    """Accept `pods`, `pods/log`, `pods/*`, `*/status` and `*`; others never match."""
    parts = pattern.split("/")
    if len(parts) > 2 or not all(parts):
        raise PolicyError(f"{path}: {pattern!r} must be a resource, or a resource/subresource")
    if pattern == "*/*" or any("*" in part and part != "*" for part in parts):
        raise PolicyError(f"{path}: {pattern!r} matches nothing; use *, <resource>/* or */<subresource>")


def _check_url(path: str, url: str) -> None:
    if url == "*":
        return
    if not url.startswith("/"):
        raise PolicyError(f"{path}: {url!r} must begin with a slash")
    if "*" in url[:-1]:
        raise PolicyError(f"{path}: {url!r} may have a * at its end only")


def _mapping(path: str, value: Any, known: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise PolicyError(f"{path}: must be a mapping")
    for field in value:
        if field not in known:
            place = field if path == "the file" else f"{path}.{field}"
            raise PolicyError(f"{place}: is not a field of a policy; known here are {', '.join(known)}")
    return value


def _list(path: str, value: Any) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise PolicyError(f"{path}: must be a list")
    return value


def _strings(path: str, value: Any) -> list[str]:
    found = _list(path, value)
    for number, one in enumerate(found):
        if not isinstance(one, str):
            raise PolicyError(f"{path}[{number}]: must be a string")
    return found


def _exact(path: str, value: Any) -> list[str]:
    """Strings that are compared exactly: a * would match nothing."""
    found = _strings(path, value)
    if "*" in found:
        raise PolicyError(
            f"{path}[{found.index('*')}]: '*' matches nothing; leave the field out to match all"
        )
    return found


def _stages(path: str, value: Any) -> frozenset[str]:
    found = _strings(path, value)
    return frozenset(_choice(f"{path}[{number}]", one, _STAGES) for number, one in enumerate(found))


def _boolean(path: str, value: Any, default: bool) -> bool:
    if value is None:
        return default
    if not isinstance(value, bool):
        raise PolicyError(f"{path}: must be true or false")
    return value


def _choice(path: str, value: Any, allowed: Mapping[str, T]) -> T:
    if not isinstance(value, str) or value not in allowed:
        found = "is missing" if value is None else f"is {value!r}"
        raise PolicyError(f"{path}: {found}; choose one of {', '.join(allowed)}")
    return allowed[value]
