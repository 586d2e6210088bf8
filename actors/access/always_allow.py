"""`--authorization-mode=AlwaysAllow`: whoever has signed in may do everything."""

from __future__ import annotations

from actors.access.authorize import ALLOWED, Attributes, Decision
from actors.access.rules import EVERYTHING, Rules
from actors.identity import User


class AlwaysAllow:
    def authorize(self, user: User, attributes: Attributes) -> Decision:
        return ALLOWED

    def rules(self, user: User, namespace: str) -> Rules:
        return EVERYTHING
