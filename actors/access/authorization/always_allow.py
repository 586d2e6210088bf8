"""`--authorization-mode=AlwaysAllow`: every request that passed authentication is allowed."""

from __future__ import annotations

from actors.access.attributes import Attributes
from actors.access.authorize import ALLOWED, Decision
from actors.access.rules import EVERYTHING, Rules
from actors.identity import User


class AlwaysAllow:
    def authorize(self, attributes: Attributes) -> Decision:
        return ALLOWED

    async def rules(self, user: User, namespace: str) -> Rules:
        return EVERYTHING
