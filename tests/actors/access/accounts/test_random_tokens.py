"""Random histories of accounts, Secrets and their tokens: with caches, exactly the same tokens are accepted."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from rewound.actors.access.accounts.claims import AccountOptions, Reference, default_issuer
from rewound.actors.access.accounts.tokens import AccountTokens, TokenIssuer
from rewound.actors.access.authentication import authenticate as authentication
from rewound.actors.access.authentication.authenticate import Authenticated
from rewound.actors.names import CLUSTER
from tests.actors.access.accounts.test_cached_tokens import Issuing, issuing

STEPS = 200
KINDS = {"serviceaccounts": "abc", "secrets": "xyz"}


class History:
    def __init__(self, accounts: Issuing, seed: int) -> None:
        self.accounts, self.cluster = accounts, accounts.cluster
        self.random = random.Random(seed)
        self.headers: list[bytes] = []  # as connections keep them
        issuer = default_issuer(CLUSTER)
        self.issuer = TokenIssuer(CLUSTER, accounts.keys, AccountOptions((issuer,), (issuer,)))
        self.outcomes: list[bool] = []

    async def step(self) -> None:
        chosen = self.random.random()
        if chosen < 0.25:
            await self.create_or_delete(*self.random.choice(list(KINDS.items())))
        elif chosen < 0.35:
            await self.issue()
        elif chosen < 0.4:
            await trio.sleep(self.random.choice((1, 30, 70, 300)))
        elif self.headers:
            self.compare(self.random.choice(self.headers[-8:]))

    async def create_or_delete(self, plural: str, names: str) -> None:
        name = self.random.choice(names)
        if self.cluster.get(plural, name) is None:
            await self.cluster.create(plural, name)
        elif self.random.random() < 0.5:
            await self.cluster.delete(plural, name)

    async def issue(self) -> None:
        account = self.reference("serviceaccounts")
        if account is not None:
            bound = self.reference("secrets") if self.random.random() < 0.6 else None
            now, seconds = self.cluster.clock.now() // 1_000_000, self.random.choice((10, 600, 5000))
            token = await self.issuer.bound_token(account, bound, self.issuer.options.audiences, now, seconds)
            self.headers.append(b"Bearer " + token.encode())

    def reference(self, plural: str) -> Reference | None:
        name = self.random.choice(KINDS[plural])
        found = self.cluster.get(plural, name)
        return None if found is None else Reference(plural, "default", name, found["metadata"]["uid"])

    def compare(self, header: bytes) -> None:
        token, cluster = header.removeprefix(b"Bearer "), self.cluster
        fresh = AccountTokens(
            CLUSTER, cluster.journal, cluster.feed, cluster.clock, self.accounts.keys, self.issuer.options
        )
        expected = isinstance(fresh.authenticate(token, ()), Authenticated)
        kept = header if self.random.random() < 0.6 else None
        assert self.accounts.accepts_header(token, kept) == expected
        self.outcomes.append(expected)


@pytest.mark.parametrize("seed", range(3))
async def test_caches_do_not_change_which_tokens_are_accepted(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(authentication, "MAX_CACHED_HEADERS", 3)
    async with issuing(tmp_path, max_cached=4) as accounts:
        history = History(accounts, seed)
        for _ in range(STEPS):
            await history.step()
        assert history.outcomes.count(True) > 10 and history.outcomes.count(False) > 10
