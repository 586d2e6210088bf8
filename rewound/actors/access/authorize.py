"""Authorization: request attributes, access rules, decisions, the interface of authorizers, and the text of a 403.

Authorizers decide on `Attributes`: user, verb, and resource or path. `Rules` are verbs on resources, and verbs on
non-resource paths.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Protocol, TypeVar

import msgspec

from rewound.actors.errors import AuthorizationFailed, BadRequest, Forbidden, Resource
from rewound.actors.golang.quoting import quoted_start
from rewound.actors.identity import User
from rewound.actors.selectors.fields import FieldRequirement, FieldSelector
from rewound.actors.selectors.labels import (
    ABSENT,
    EXISTS,
    IN,
    NOT_IN,
    LabelRequirement,
    LabelSelector,
)

T = TypeVar("T", covariant=True)
# Characters of a selector. Authorizers ignore longer ones: a selector only narrows a request.
MAX_SELECTOR: Final = 4096


class Attributes(msgspec.Struct, frozen=True):
    """A resource request, or a non-resource request (`is_resource` False), as authorizers see it.

    The gateway creates one per request from its route, access reviews create one from their spec. Authorizers and
    request observers read it; nobody changes it. Not frozen, because every request creates one, which would take four
    times as long. Not a tuple, whose attributes take twice as long to read.
    """

    user: User
    verb: str  # get, list, create, ...; for a path the HTTP method in lower case
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    is_resource: bool = True
    # Of a list, watch or deletecollection: the text, or what an access review has instead.
    field_selector: str | tuple[FieldRequirement, ...] = ""
    label_selector: str | tuple[LabelRequirement, ...] = ""


def field_requirements(attributes: Attributes) -> tuple[FieldRequirement, ...]:
    """The requirements of the field selector; none if it cannot be parsed: the handler refuses it later."""
    given = attributes.field_selector
    if not isinstance(given, str):
        return given
    try:
        return FieldSelector.parse(given).requirements if given and len(given) <= MAX_SELECTOR else ()
    except BadRequest:
        return ()


def label_requirements(attributes: Attributes) -> tuple[LabelRequirement, ...]:
    """The requirements of the label selector; none if it cannot be parsed."""
    given = attributes.label_selector
    if not isinstance(given, str):
        return given
    try:
        return LabelSelector.parse(given).requirements if given and len(given) <= MAX_SELECTOR else ()
    except BadRequest:
        return ()


_OPERATORS: Final = {IN: "In", NOT_IN: "NotIn", EXISTS: "Exists", ABSENT: "DoesNotExist"}


def field_selector_attributes(attributes: Attributes) -> list[dict[str, Any]]:
    """The requirements of the field selector as a SubjectAccessReview has them."""
    return [
        {"key": one.field, "operator": "In" if one.operator == "=" else "NotIn", "values": [one.value]}
        for one in field_requirements(attributes)
    ]


def label_selector_attributes(attributes: Attributes) -> list[dict[str, Any]]:
    """The requirements of the label selector, except those that compare numbers, which only those of nodes can."""
    return [
        {
            "key": one.key,
            "operator": _OPERATORS[one.operator],
            **({"values": list(one.values)} if one.values else {}),
        }
        for one in label_requirements(attributes)
        if one.operator in _OPERATORS
    ]


ANY: Final = "*"


class PathRule(msgspec.Struct, frozen=True):
    """Verbs on paths; a path that ends in `*` matches all paths with that prefix."""

    verbs: tuple[str, ...]
    paths: tuple[str, ...]


class ResourceRule(msgspec.Struct, frozen=True):
    """Verbs on resources of groups; with `names`, only on objects with these names."""

    verbs: tuple[str, ...]
    groups: tuple[str, ...]
    resources: tuple[str, ...]
    names: tuple[str, ...] = ()


class Rules(msgspec.Struct, frozen=True):
    """Everything that a user may do in a namespace, as far as the authorizers can list it.

    Authorizers list them for a SelfSubjectRulesReview; RBAC compiles its own from roles
    (`authorization/rbac/roles.py`).
    """

    resources: tuple[ResourceRule, ...] = ()
    paths: tuple[PathRule, ...] = ()
    errors: tuple[str, ...] = ()  # why rules are missing
    incomplete: bool = False  # an authorizer cannot list its rules


NO_RULES: Final = Rules()
EVERYTHING: Final = Rules((ResourceRule((ANY,), (ANY,), (ANY,)),), (PathRule((ANY,), (ANY,)),))


class Verdict(Enum):
    ALLOW = "allow"
    DENY = "deny"  # later authorizers are not called
    NO_OPINION = "no opinion"


@dataclass(frozen=True, slots=True)
class Decision:
    verdict: Verdict
    reason: str = ""  # shown in the 403, access reviews and the audit log
    error: str = ""  # why an authorizer could not decide; access reviews show it as evaluationError
    allowed: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "allowed", self.verdict is Verdict.ALLOW)


ALLOWED = Decision(Verdict.ALLOW)
DENIED = Decision(Verdict.DENY)
NO_OPINION = Decision(Verdict.NO_OPINION)


class Authorizer(Protocol):
    def authorize(self, attributes: Attributes) -> Decision | Awaitable[Decision]: ...

    async def rules(self, user: User, namespace: str) -> Rules:
        """The rules that apply to the user in the namespace, for a SelfSubjectRulesReview."""


class Later(Awaitable[T]):
    """Something that is called when it is awaited, and never if nobody waits for it."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[[], Awaitable[T]]) -> None:
        self._call = call

    def __await__(self) -> Generator[Any, Any, T]:
        return self._call().__await__()


def join_errors(errors: Sequence[str]) -> str:
    """Several errors as one text, formatted as Kubernetes does."""
    distinct = list(dict.fromkeys(errors))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]" if distinct else ""


def refusal(attributes: Attributes, decision: Decision) -> Forbidden | AuthorizationFailed:
    """The error of a request that is not allowed. If an authorizer could not decide, it is the server's failure."""
    if decision.error:
        return AuthorizationFailed(decision.error)
    return forbidden(attributes, decision.reason)


def forbidden(attributes: Attributes, reason: str = "") -> Forbidden:
    who = f"User {quoted_start(attributes.user.name)} cannot {attributes.verb}"
    why = f": {reason}" if reason else ""
    if not attributes.is_resource:
        return Forbidden(None, "", f"{who} path {quoted_start(attributes.path)}{why}")
    resource = attributes.resource
    if attributes.subresource:
        resource += f"/{attributes.subresource}"
    namespace = attributes.namespace
    where = f"in the namespace {quoted_start(namespace)}" if namespace else "at the cluster scope"
    return Forbidden(
        Resource(attributes.group, attributes.resource),
        attributes.name,
        f"{who} resource {quoted_start(resource)} in API group {quoted_start(attributes.group)} {where}{why}",
    )
