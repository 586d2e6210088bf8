"""Members of system:masters may do everything, in every mode: no role, file or webhook can lock operators out."""

from __future__ import annotations

from actors.access.attributes import Attributes
from actors.access.authorize import ALLOWED, NO_OPINION, Decision, Rights
from actors.access.rules import NO_RULES, Rules
from actors.identity import MASTERS, User


class SystemMasters:
    rights = Rights()  # never change

    def authorize(self, attributes: Attributes) -> Decision:
        return ALLOWED if MASTERS in attributes[0].groups else NO_OPINION

    async def rules(self, user: User, namespace: str) -> Rules:
        """None: a SelfSubjectRulesReview lists what the modes allow, as in Kubernetes."""
        return NO_RULES
