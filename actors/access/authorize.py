"""May this user do that: the question, the answer, and the words of a refusal.

The gateway describes each request as `Attributes` and asks the one `Authorizer` that `--authorization-mode`
chose. Authorizers only ever allow or have no opinion; a request that nobody allows is refused. They decide
from memory, without waiting, so that asking costs the hot path next to nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from actors.errors import Forbidden, Resource
from actors.identity import User

if TYPE_CHECKING:
    from actors.access.rules import Rules


class Attributes(NamedTuple):
    """What is asked for: a resource, or a path that is none (`is_resource` False).

    A tuple, not a dataclass: one is made per request, and a frozen dataclass takes four times as long.
    """

    verb: str  # get, list, create, ...; for a path the HTTP method in lower case
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    is_resource: bool = True


@dataclass(frozen=True, slots=True)
class Decision:
    allowed: bool
    reason: str = ""  # why not, where an authorizer has more to say than no


ALLOWED = Decision(True)
NO_OPINION = Decision(False)


class Authorizer(Protocol):
    def authorize(self, user: User, attributes: Attributes) -> Decision: ...

    def rules(self, user: User, namespace: str) -> Rules:
        """All that the user may do there, for those who ask about themselves."""


def require(authorizer: Authorizer, user: User, attributes: Attributes) -> None:
    """Forbidden unless allowed."""
    decision = authorizer.authorize(user, attributes)
    if not decision.allowed:
        raise forbidden(user, attributes, decision.reason)


def forbidden(user: User, attributes: Attributes, reason: str = "") -> Forbidden:
    who = f"User {json.dumps(user.name, ensure_ascii=False)} cannot {attributes.verb}"
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
