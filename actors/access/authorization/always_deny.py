"""`--authorization-mode=AlwaysDeny`: nothing is allowed, except to system:masters and by other modes of the list."""

from __future__ import annotations

from actors.access.attributes import Attributes
from actors.access.authorize import Decision, Verdict
from actors.access.rules import NO_RULES, Rules
from actors.identity import User

# No opinion instead of a denial, as in Kubernetes: modes that follow in the list may still allow the request.
_FORBIDDEN = Decision(Verdict.NO_OPINION, "Everything is forbidden.")


class AlwaysDeny:
    def authorize(self, attributes: Attributes) -> Decision:
        return _FORBIDDEN

    async def rules(self, user: User, namespace: str) -> Rules:
        return NO_RULES
