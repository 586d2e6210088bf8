"""A chain of authorizers: the first one that allows or denies decides, and only awaitables are awaited."""

from __future__ import annotations

from collections.abc import Awaitable

import pytest
import trio

from rewound.actors.access.authorization.chain import AuthorizerChain
from rewound.actors.access.authorize import (
    ALLOWED,
    DENIED,
    NO_OPINION,
    Attributes,
    Authorizer,
    Decision,
    PathRule,
    ResourceRule,
    Rules,
    Verdict,
)
from rewound.actors.identity import User

ALICE = User("alice")
ASKED = Attributes(ALICE, "get", "", "v1", "pods", "", "default", "a")
PODS = Rules((ResourceRule(("get",), ("",), ("pods",)),))
PATHS = Rules(paths=(PathRule(("get",), ("/x",)),))


class Fixed:
    """Returns its decision."""

    def __init__(self, decision: Decision, rules: Rules = PODS) -> None:
        self.decision = decision
        self.calls = 0
        self._rules = rules

    def authorize(self, attributes: Attributes) -> Decision | Awaitable[Decision]:
        self.calls += 1
        return self.decision

    async def rules(self, user: User, namespace: str) -> Rules:
        return self._rules


class Slow(Fixed):
    """Returns an awaitable of its decision."""

    def authorize(self, attributes: Attributes) -> Awaitable[Decision]:
        self.calls += 1
        return self._wait()

    async def _wait(self) -> Decision:
        await trio.sleep(10)
        return self.decision


def unsure(reason: str) -> Decision:
    return Decision(Verdict.NO_OPINION, reason)


async def decide(*authorizers: Authorizer) -> Decision:
    decision = AuthorizerChain(authorizers).authorize(ASKED)
    return decision if isinstance(decision, Decision) else await decision


@pytest.mark.parametrize("decision", [ALLOWED, DENIED, Decision(Verdict.DENY, "because")])
@pytest.mark.parametrize("kind", [Fixed, Slow])
async def test_first_opinion_ends_the_chain(
    kind: type[Fixed], decision: Decision, autojump_clock: trio.testing.MockClock
) -> None:
    before, after = kind(unsure("not mine")), Fixed(ALLOWED)
    assert await decide(before, kind(decision), after) == decision
    assert (before.calls, after.calls) == (1, 0)


@pytest.mark.parametrize(
    "authorizers",
    [
        (Fixed(unsure("a")), Fixed(NO_OPINION), Fixed(unsure("b"))),
        (Fixed(unsure("a")), Slow(NO_OPINION), Fixed(unsure("b"))),
        (Slow(unsure("a")), Slow(unsure("b"))),
    ],
    ids=["known", "mixed", "slow"],
)
async def test_reasons_are_joined_if_no_authorizer_has_an_opinion(
    authorizers: tuple[Fixed, ...], autojump_clock: trio.testing.MockClock
) -> None:
    assert await decide(*authorizers) == unsure("a\nb")


@pytest.mark.parametrize("kind", [Fixed, Slow])
async def test_errors_are_joined_if_no_authorizer_has_an_opinion(
    kind: type[Fixed], autojump_clock: trio.testing.MockClock
) -> None:
    failed = kind(Decision(Verdict.NO_OPINION, "", "no connection"))
    other = kind(Decision(Verdict.NO_OPINION, "why", "no graph"))
    assert await decide(failed, kind(NO_OPINION)) == Decision(Verdict.NO_OPINION, "", "no connection")
    assert await decide(failed, other) == Decision(Verdict.NO_OPINION, "why", "[no connection, no graph]")
    assert await decide(failed, kind(ALLOWED)) == ALLOWED


def test_known_decisions_need_no_coroutine() -> None:
    assert AuthorizerChain([Fixed(unsure("a")), Fixed(ALLOWED)]).authorize(ASKED) is ALLOWED
    assert AuthorizerChain([Fixed(NO_OPINION), Fixed(NO_OPINION)]).authorize(ASKED) is NO_OPINION
    assert AuthorizerChain([Fixed(ALLOWED), Slow(DENIED)]).authorize(ASKED) is ALLOWED


async def test_rules_of_all_authorizers_are_joined() -> None:
    chain = AuthorizerChain([Fixed(NO_OPINION), Fixed(NO_OPINION, PATHS)])
    assert await chain.rules(ALICE, "default") == Rules(PODS.resources, PATHS.paths)
