"""Refuses writes to a replay, and what needs pods that are not there any more."""

from __future__ import annotations

from actors.access.authorize import NO_OPINION, Attributes, Decision, Rules, Verdict
from actors.identity import User
from actors.names import NAMES

_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
# Created to get a response, and never stored; custom kinds may have the same names in other groups.
_REVIEWS = {
    "tokenreviews": "authentication",
    "subjectaccessreviews": "authorization",
    "localsubjectaccessreviews": "authorization",
    "selfsubjectaccessreviews": "authorization",
    "selfsubjectrulesreviews": "authorization",
}
_REVIEW_RESOURCES = frozenset(
    (names.group(group), resource) for names in NAMES.values() for resource, group in _REVIEWS.items()
)
_FORWARDED = frozenset({"proxy", "exec", "attach", "portforward", "log"})

READ_ONLY = Decision(
    Verdict.DENY,
    "this server replays a journal and only reads it; `rewound replay --writable` writes to a copy",
)
NOT_RUNNING = Decision(Verdict.DENY, "this server replays a journal: its pods, services and nodes do not run")


class NotRunningAuthorizer:
    """Decides before all other authorizers, for administrators too."""

    def authorize(self, attributes: Attributes) -> Decision:
        if attributes.is_resource and attributes.subresource in _FORWARDED:
            return NOT_RUNNING
        return NO_OPINION

    async def rules(self, user: User, namespace: str) -> Rules:
        return Rules()


class ReadOnlyAuthorizer(NotRunningAuthorizer):
    """Refuses writes too."""

    def authorize(self, attributes: Attributes) -> Decision:
        if attributes.is_resource and attributes.verb in _WRITES and not _is_review(attributes):
            return NOT_RUNNING if attributes.subresource in _FORWARDED else READ_ONLY
        return super().authorize(attributes)


def _is_review(attributes: Attributes) -> bool:
    return (attributes.group, attributes.resource) in _REVIEW_RESOURCES
