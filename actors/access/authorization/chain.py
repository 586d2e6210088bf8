"""Several authorizers in the order of `--authorization-mode`: the first that allows or denies decides.

If none does, the result is no opinion, with the reasons of all of them, a line each, as Kubernetes joins them. The
chain awaits only from the first authorizer on that returns an awaitable; without one, it needs no coroutine.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from actors.access.attributes import Attributes
from actors.access.authorize import NO_OPINION, Authorizer, Decision, Verdict
from actors.access.rules import Rules
from actors.identity import User


class AuthorizerChain:
    def __init__(self, authorizers: Sequence[Authorizer]) -> None:
        self._authorizers = tuple(authorizers)

    def authorize(self, attributes: Attributes) -> Decision | Awaitable[Decision]:
        reasons: list[str] = []
        for index, authorizer in enumerate(self._authorizers):
            decision = authorizer.authorize(attributes)
            if not isinstance(decision, Decision):
                return self._await_rest(attributes, decision, index + 1, reasons)
            if decision.verdict is not Verdict.NO_OPINION:
                return decision
            if decision.reason:
                reasons.append(decision.reason)
        return _no_opinion(reasons)

    async def _await_rest(
        self, attributes: Attributes, pending: Awaitable[Decision], following: int, reasons: list[str]
    ) -> Decision:
        decision = await pending
        for authorizer in self._authorizers[following:]:
            if decision.verdict is not Verdict.NO_OPINION:
                return decision
            if decision.reason:
                reasons.append(decision.reason)
            result = authorizer.authorize(attributes)
            decision = result if isinstance(result, Decision) else await result
        if decision.verdict is not Verdict.NO_OPINION:
            return decision
        return _no_opinion([*reasons, decision.reason] if decision.reason else reasons)

    def rules(self, user: User, namespace: str) -> Rules:
        found = [authorizer.rules(user, namespace) for authorizer in self._authorizers]
        return Rules(
            tuple(rule for rules in found for rule in rules.resources),
            tuple(rule for rules in found for rule in rules.paths),
        )


def _no_opinion(reasons: list[str]) -> Decision:
    return Decision(Verdict.NO_OPINION, "\n".join(reasons)) if reasons else NO_OPINION
