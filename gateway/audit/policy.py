"""The audit policy: the first rule that matches a request decides how much of it is recorded.

`policy_file` reads a policy; the audit log calls `Policy.evaluate` once per request. Most requests resemble an earlier
one, so results are cached by what rules can look at. A policy whose first rule has no conditions looks at nothing.

Policies are those of Kubernetes, whose authors do not know of the past in this API. So a rule for `secrets` is also one
for what is read and written below the group of the past: their history, blame, rollback and undelete. A page of the
timeline has objects of any resource: it has no rule of its own, and is recorded at level Metadata at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from time import time_ns
from typing import Any, Final

from actors.access.authorize import Attributes
from actors.names import REWIND_GROUP
from actors.rewind.versions import looks_like_uid
from gateway.pipeline.route import TIMELINE_PATH


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
    """Resources of one API group; no `resources` means all of the group."""

    group: str = ""
    resources: tuple[str, ...] = ()
    names: frozenset[str] = frozenset()  # empty: objects of any name

    def match(self, attributes: Attributes) -> bool:
        if self.group != attributes.group:
            return False
        if not self.resources:
            return True
        if self.names and attributes.name not in self.names:
            return False
        return any(_matches_resource(pattern, attributes) for pattern in self.resources)


_PAST: Final = f"/apis/{REWIND_GROUP}/"


def _is_past(attributes: Attributes) -> bool:
    """Whether a request is about the past of an object, such as its history."""
    return attributes.is_resource and attributes.path.lstrip("/").startswith(_PAST[1:])


def _matches_resource(pattern: str, attributes: Attributes) -> bool:
    """`pods` is the resource with its past, without other subresources; `*`, `pods/*` and `*/status` match several."""
    resource, subresource = attributes.resource, attributes.subresource
    if pattern == resource and _is_past(attributes):
        return True
    if pattern == "*" or pattern == (f"{resource}/{subresource}" if subresource else resource):
        return True
    if pattern.startswith("*/"):
        return bool(subresource) and pattern[2:] == subresource
    return pattern.endswith("/*") and pattern[:-2] == resource


class PendingList(list[Any]):
    """Records and events of a backend that are not yet lines, in the order in which they happened.

    The first one, and those beyond the first `limit`, have to be put into the backend, which appends them.
    """

    __slots__ = ("limit", "now")

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit
        self.now = time_ns


class Treatment:
    """What the policy wants of one request, and how many requests got it."""

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
        # Where a record stands for its RequestReceived event, and where its ResponseComplete event goes.
        self.pending: PendingList | None = None
        self.ends: PendingList | None = None
        # The same at level Metadata at most.
        self.without_objects: Treatment = self
        if level > Level.METADATA:
            self.without_objects = Treatment(Level.METADATA, omit_stages, omit_managed_fields)

    def add_to(self, pending: PendingList | None) -> None:
        """Have requests add to this list themselves, as far as they have these events and none shows bodies.

        Without an event Panic nothing in the list would show that no other event follows.
        """
        short = self.level is Level.METADATA and PANIC not in self.omit_stages
        self.pending = pending if short and self.is_received else None
        self.ends = pending if short and RESPONSE_COMPLETE not in self.omit_stages else None


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule; every condition that is empty matches all requests."""

    treatment: Treatment
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    verbs: frozenset[str] = frozenset()
    resources: tuple[Resources, ...] = ()
    namespaces: frozenset[str] = frozenset()  # "" for objects without a namespace
    urls: tuple[str, ...] = ()  # of requests for no resource; a `*` at the end matches any rest

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


# Distinct kinds of requests whose treatment is kept; a client can make many by inventing names.
_CACHED = 4096
_Key = tuple[str, tuple[str, ...], str, str, str, str, str, str, bool]


class Policy:
    __slots__ = ("_by_name", "_cache", "default", "for_all", "rules")

    def __init__(self, rules: tuple[Rule, ...], default: Treatment) -> None:
        """`default` is for requests that no rule matches."""
        self.rules = rules
        self.default = default
        self._by_name = any(one.names for rule in rules for one in rule.resources)
        # The treatment of all requests, if they do not differ.
        self.for_all = rules[0].treatment if rules and rules[0] == Rule(rules[0].treatment) else None
        self._cache: dict[_Key, Treatment] = {}

    @property
    def treatments(self) -> set[Treatment]:
        found = {self.default, *[rule.treatment for rule in self.rules]}
        return found | {one.without_objects for one in found}

    @property
    def evaluated(self) -> dict[Level, int]:
        """How many requests were treated at each level."""
        counts = dict.fromkeys(Level, 0)
        for treatment in self.treatments:
            counts[treatment.level] += treatment.requests
        return counts

    def evaluate(self, attributes: Attributes) -> Treatment:
        """The treatment of a request; the caller counts it."""
        found = self.for_all or self._find_cached(attributes)
        if found.level > Level.METADATA and self._has_unknown_objects(attributes):
            return found.without_objects
        return found

    def _has_unknown_objects(self, attributes: Attributes) -> bool:
        """Whether the response may have objects that other rules are for.

        A name in the past may be a uid: then no rule that names objects knows it.
        """
        if attributes.is_resource:
            return self._by_name and looks_like_uid(attributes.name) and _is_past(attributes)
        return attributes.path.strip("/").startswith(TIMELINE_PATH[1:])

    def _find_cached(self, attributes: Attributes) -> Treatment:
        user, verb, group, _, resource, subresource, namespace, name, path, is_resource = attributes
        which = (name if self._by_name else "") if is_resource else path
        past = bool(subresource) and _is_past(attributes)
        key = (user.name, user.groups, verb, group, resource, subresource, namespace, which, past)
        found = self._cache.get(key)
        if found is None:
            found = self._find(attributes)
            if len(self._cache) >= _CACHED:
                self._cache.clear()
            if len(which) + len(namespace) + len(resource) <= 512:  # longer ones are rarely repeated
                self._cache[key] = found
        return found

    def _find(self, attributes: Attributes) -> Treatment:
        for rule in self.rules:
            if rule.match(attributes):
                return rule.treatment
        return self.default
