"""Several authorizers in their order: the first that allows or denies decides.

If none does, the result is no opinion, with the reasons and errors of all of them, joined as Kubernetes joins them. The
chain needs a coroutine only if an authorizer returns an awaitable.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from rewound.actors.access.authorize import (
    ALLOWED,
    EVERYTHING,
    NO_OPINION,
    NO_RULES,
    Attributes,
    Authorizer,
    Decision,
    Later,
    Rules,
    Verdict,
    join_errors,
)
from rewound.actors.identity import MASTERS, User

_NO_OPINION = Verdict.NO_OPINION  # an attribute of an enum is slow to look up


class AuthorizerChain:
    """Counts decisions in `counts`: for each authorizer, a list of denials and allowances."""

    def __init__(self, authorizers: Sequence[Authorizer], counts: Sequence[list[int]] = ()) -> None:
        self.replace(authorizers, counts)

    def replace(self, authorizers: Sequence[Authorizer], counts: Sequence[list[int]] = ()) -> None:
        """Decide by other authorizers from now on. Requests that wait for one of the old ones go on with the old."""
        self._authorizers = tuple(authorizers)
        counted = counts or [[0, 0] for _ in authorizers]
        # The method of each, the index of the next one, and its counts.
        self._calls = tuple(
            (one.authorize, index + 1, count)
            for index, (one, count) in enumerate(zip(authorizers, counted, strict=True))
        )

    def authorize(self, attributes: Attributes) -> Decision | Awaitable[Decision]:
        unsure: tuple[Decision, ...] = ()
        for authorize, following, counts in self._calls:
            decision = authorize(attributes)
            if decision is NO_OPINION:
                continue
            if not isinstance(decision, Decision):
                rest = (authorize, following, counts), *self._calls[following:]
                return Later(partial(_await_rest, attributes, decision, rest, list(unsure)))
            if decision.allowed:
                counts[1] += 1
                return decision
            if decision.verdict is not _NO_OPINION:
                counts[0] += 1
                return decision
            unsure = *unsure, decision
        return _no_opinion(unsure) if unsure else NO_OPINION

    async def rules(self, user: User, namespace: str) -> Rules:
        found = [await authorizer.rules(user, namespace) for authorizer in self._authorizers]
        return Rules(
            tuple(rule for rules in found for rule in rules.resources),
            tuple(rule for rules in found for rule in rules.paths),
            tuple(error for rules in found for error in rules.errors),
            any(rules.incomplete for rules in found),
        )


_Call = tuple[Callable[[Attributes], Decision | Awaitable[Decision]], int, list[int]]


async def _await_rest(
    attributes: Attributes, pending: Awaitable[Decision], rest: Sequence[_Call], unsure: list[Decision]
) -> Decision:
    """Await the decision of the first of `rest`, and ask the others."""
    for index, (authorize, _, counts) in enumerate(rest):
        result = authorize(attributes) if index else pending
        decision = result if isinstance(result, Decision) else await result
        if decision.verdict is not Verdict.NO_OPINION:
            counts[decision.allowed] += 1
            return decision
        unsure.append(decision)
    return _no_opinion(unsure)


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
