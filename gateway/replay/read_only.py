"""Refuses writes to a replay, and what needs pods that are not there any more."""

from __future__ import annotations

from actors.access.attributes import Attributes
from actors.access.authorize import NO_OPINION, Decision, Verdict
from actors.access.rules import Rules
from actors.identity import User

_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
# Created to get a response, and never stored.
_REVIEWS = frozenset(
    {
        "tokenreviews",
        "subjectaccessreviews",
        "localsubjectaccessreviews",
        "selfsubjectaccessreviews",
        "selfsubjectrulesreviews",
    }
)
_FORWARDED = frozenset({"proxy", "exec", "attach", "portforward", "log"})

READ_ONLY = Decision(
    Verdict.DENY,
    "this server replays a journal and only reads it; `rewound replay --writable` writes to a copy",
)
NOT_RUNNING = Decision(Verdict.DENY, "this server replays a journal: its pods, services and nodes do not run")


class ReadOnlyAuthorizer:
    """Decides before all other authorizers, for administrators too."""

    def authorize(self, attributes: Attributes) -> Decision:
        if not attributes.is_resource:
            return NO_OPINION
        if attributes.subresource in _FORWARDED:
            return NOT_RUNNING
        if attributes.verb in _WRITES and attributes.resource not in _REVIEWS:
            return READ_ONLY
        return NO_OPINION

    async def rules(self, user: User, namespace: str) -> Rules:
        return Rules()
