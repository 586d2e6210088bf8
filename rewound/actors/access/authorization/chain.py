"""Several authorizers in the order of `--authorization-mode`: the first that allows or denies decides.

If none does, the result is no opinion, with the reasons and errors of all of them, joined as Kubernetes joins them. The
chain needs a coroutine only if an authorizer returns an awaitable.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from rewound.actors.access.authorize import (
    ALLOWED,
    EVERYTHING,
    NO_OPINION,
    NO_RULES,
    Attributes,
    Authorizer,
    Decision,
    Rules,
    Verdict,
    join_errors,
)
from rewound.actors.identity import MASTERS, User

_NO_OPINION = Verdict.NO_OPINION  # an attribute of an enum is slow to look up


class AuthorizerChain:
    def __init__(self, authorizers: Sequence[Authorizer]) -> None:
        self._authorizers = tuple(authorizers)
        # The method of each, and the index of the next one.
        self._calls = tuple((one.authorize, index + 1) for index, one in enumerate(authorizers))

    def authorize(self, attributes: Attributes) -> Decision | Awaitable[Decision]:
        unsure: list[Decision] = []
        for authorize, following in self._calls:
            decision = authorize(attributes)
            if decision is NO_OPINION:
                continue
            if not isinstance(decision, Decision):
                return self._await_rest(attributes, decision, following, unsure)
            if decision.verdict is not _NO_OPINION:
                return decision
            unsure.append(decision)
        return _no_opinion(unsure) if unsure else NO_OPINION

    async def _await_rest(
        self, attributes: Attributes, pending: Awaitable[Decision], following: int, unsure: list[Decision]
    ) -> Decision:
        decision = await pending
        for authorizer in self._authorizers[following:]:
            if decision.verdict is not Verdict.NO_OPINION:
                return decision
            unsure.append(decision)
            result = authorizer.authorize(attributes)
            decision = result if isinstance(result, Decision) else await result
        return decision if decision.verdict is not Verdict.NO_OPINION else _no_opinion([*unsure, decision])

    async def rules(self, user: User, namespace: str) -> Rules:
        found = [await authorizer.rules(user, namespace) for authorizer in self._authorizers]
        return Rules(
            tuple(rule for rules in found for rule in rules.resources),
            tuple(rule for rules in found for rule in rules.paths),
            tuple(error for rules in found for error in rules.errors),
            any(rules.incomplete for rules in found),
        )


def _no_opinion(decisions: Sequence[Decision]) -> Decision:
    reason = "\n".join(decision.reason for decision in decisions if decision.reason)
    error = join_errors([decision.error for decision in decisions if decision.error])
    return Decision(Verdict.NO_OPINION, reason, error) if reason or error else NO_OPINION


class SystemMasters:
    """Allows members of system:masters everything, in every mode: no role, file or webhook can lock operators out."""

    def authorize(self, attributes: Attributes) -> Decision:
        return ALLOWED if MASTERS in attributes.user.groups else NO_OPINION

    async def rules(self, user: User, namespace: str) -> Rules:
        """None: a SelfSubjectRulesReview lists what the modes allow, as in Kubernetes."""
        return NO_RULES


class AlwaysAllow:
    """`--authorization-mode=AlwaysAllow`: every authenticated request is allowed."""

    def authorize(self, attributes: Attributes) -> Decision:
        return ALLOWED

    async def rules(self, user: User, namespace: str) -> Rules:
        return EVERYTHING


# No opinion instead of a denial, as in Kubernetes: later modes may still allow the request.
_FORBIDDEN = Decision(Verdict.NO_OPINION, "Everything is forbidden.")


class AlwaysDeny:
    """`--authorization-mode=AlwaysDeny`: nothing is allowed, except to system:masters and by other modes."""

    def authorize(self, attributes: Attributes) -> Decision:
        return _FORBIDDEN

    async def rules(self, user: User, namespace: str) -> Rules:
        return NO_RULES
