"""Whether a request is allowed: the decision, the interface of authorizers, and the text of a 403.

An authorizer allows, denies or has no opinion. It returns its decision at once where it knows one, and otherwise
an awaitable: deciding from memory costs no coroutine, and asking a webhook holds up nobody else. Callers write

    decision = authorizer.authorize(attributes)
    if not isinstance(decision, Decision):
        decision = await decision

Only an allow lets a request pass: one that is denied, and one about which nobody has an opinion, are both 403.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from actors.access.attributes import Attributes
from actors.access.rules import Rules
from actors.errors import Forbidden, Resource
from actors.identity import User


class Verdict(Enum):
    ALLOW = "allow"
    DENY = "deny"  # no later authorizer is asked
    NO_OPINION = "no opinion"


_ALLOW = Verdict.ALLOW  # finding a member in its class takes longer than all the rest of `allowed`


@dataclass(frozen=True, slots=True)
class Decision:
    verdict: Verdict
    reason: str = ""  # the 403, access reviews and the audit log show it

    @property
    def allowed(self) -> bool:
        return self.verdict is _ALLOW


ALLOWED = Decision(Verdict.ALLOW)
DENIED = Decision(Verdict.DENY)
NO_OPINION = Decision(Verdict.NO_OPINION)


class Authorizer(Protocol):
    def authorize(self, attributes: Attributes) -> Decision | Awaitable[Decision]: ...

    def rules(self, user: User, namespace: str) -> Rules:
        """The rules that apply to the user there, for a SelfSubjectRulesReview."""


def forbidden(attributes: Attributes, reason: str = "") -> Forbidden:
    who = f"User {json.dumps(attributes.user.name, ensure_ascii=False)} cannot {attributes.verb}"
    why = f": {reason}" if reason else ""
    if not attributes.is_resource:
        return Forbidden(None, "", f'{who} path "{attributes.path}"{why}')
    resource = attributes.resource
    if attributes.subresource:
        resource += f"/{attributes.subresource}"
    where = f'in the namespace "{attributes.namespace}"' if attributes.namespace else "at the cluster scope"
    return Forbidden(
        Resource(attributes.group, attributes.resource),
        attributes.name,
        f'{who} resource "{resource}" in API group "{attributes.group}" {where}{why}',
    )
