"""Whether a request is allowed: the decision, the interface of authorizers, and the text of a 403.

An authorizer allows, denies or has no opinion. It returns its decision if it knows one, and otherwise an awaitable: a
decision from memory needs no coroutine, and a webhook delays only the requests that need it. Callers write

    decision = authorizer.authorize(attributes)
    if not isinstance(decision, Decision):
        decision = await decision

Only ALLOW lets a request pass: a denied request gets 403, and so does one on which no authorizer has an opinion.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from actors.access.attributes import Attributes
from actors.access.rules import Rules
from actors.errors import AuthorizationFailed, Forbidden, Resource
from actors.identity import User
from actors.quoting import quoted_start


class Verdict(Enum):
    ALLOW = "allow"
    DENY = "deny"  # later authorizers are not called
    NO_OPINION = "no opinion"


_ALLOW = Verdict.ALLOW  # an attribute lookup on the enum takes longer than the rest of `allowed`


@dataclass(frozen=True, slots=True)
class Decision:
    verdict: Verdict
    reason: str = ""  # the 403, access reviews and the audit log show it
    error: str = ""  # why an authorizer could not decide; access reviews show it as evaluationError

    @property
    def allowed(self) -> bool:
        return self.verdict is _ALLOW


ALLOWED = Decision(Verdict.ALLOW)
DENIED = Decision(Verdict.DENY)
NO_OPINION = Decision(Verdict.NO_OPINION)


class Rights:
    """What decisions of an authorizer depend on besides the attributes: they hold as long as `changes` is the same."""

    __slots__ = ("changes",)

    def __init__(self) -> None:
        self.changes = 0


class Authorizer(Protocol):
    def authorize(self, attributes: Attributes) -> Decision | Awaitable[Decision]: ...

    async def rules(self, user: User, namespace: str) -> Rules:
        """The rules that apply to the user in the namespace, for a SelfSubjectRulesReview."""


def rights_of(authorizer: Authorizer, user: User) -> Rights | None:
    """What all decisions about a user depend on; None if an authorizer of them does not say it."""
    find = getattr(authorizer, "rights_of", None)
    found: Rights | None = None if find is None else find(user)
    return found


def join_errors(errors: Sequence[str]) -> str:
    """Several errors as one text, in the form in which Kubernetes shows them."""
    distinct = list(dict.fromkeys(errors))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]" if distinct else ""


def refusal(attributes: Attributes, decision: Decision) -> Forbidden | AuthorizationFailed:
    """The error of a request that is not allowed: if an authorizer could not decide, that is the server's failure."""
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
