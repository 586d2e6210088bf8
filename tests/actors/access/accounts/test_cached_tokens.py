"""Verified tokens are cached: a repeated token needs neither a signature check nor a read of the journal."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from rewound.actors.access.accounts import tokens as authenticate
from rewound.actors.access.accounts.claims import AccountOptions, Reference, default_issuer
from rewound.actors.access.accounts.keys import AccountKeys, KeyFiles
from rewound.actors.access.accounts.tokens import AccountTokens, References, TokenIssuer
from rewound.actors.access.authentication import authenticate as authentication
from rewound.actors.access.authentication.authenticate import Authenticated, Authenticator, Refused
from rewound.actors.errors import Unauthorized
from rewound.actors.names import CLUSTER
from tests.actors.controllers.control_plane import ControlPlane, open_control_plane


class Issuing:
    """A control plane with accounts, and tokens for them."""

    def __init__(self, cluster: ControlPlane, folder: Path, max_cached: int) -> None:
        self.cluster = cluster
        self.keys = AccountKeys(KeyFiles(folder / "sa.key"))
        self.keys.load()
        issuer = default_issuer(CLUSTER)
        options = AccountOptions((issuer,), (issuer,))
        self.tokens = AccountTokens(
            CLUSTER, cluster.journal, cluster.feed, cluster.clock, self.keys, options, max_cached
        )
        self._issuer = TokenIssuer(CLUSTER, self.keys, options)
        self._authenticator = Authenticator({}, anonymous=False, caching=self.tokens)

    async def token(self, name: str, audience: str = "another") -> bytes:
        stored = self.cluster.get("serviceaccounts", name) or await self.cluster.create(
            "serviceaccounts", name
        )
        account = Reference("serviceaccounts", "default", name, stored["metadata"]["uid"])
        now = self.cluster.clock.now() // 1_000_000
        audiences = (*self._issuer.options.audiences, audience)
        return (await self._issuer.bound_token(account, None, audiences, now, 600)).encode()

    def accepts(self, token: bytes) -> bool:
        """Authenticate without waiting: the keys are loaded."""
        found = self.tokens.authenticate(token, ())
        assert isinstance(found, Authenticated | Refused)
        return isinstance(found, Authenticated)

    def accepts_header(self, token: bytes, header: bytes | None = None) -> bool:
        """`header` is an object that a connection reuses; otherwise each request has a new one."""
        try:
            found = self._authenticator.authenticate(header or b"Bearer " + token, None)
        except Unauthorized:
            return False
        assert isinstance(found, Authenticated)
        return found.user.name.startswith("system:serviceaccount:default:")


@asynccontextmanager
async def issuing(folder: Path, max_cached: int = 100) -> AsyncIterator[Issuing]:
    async with open_control_plane(folder / "journal", controllers=False) as cluster:
        yield Issuing(cluster, folder, max_cached)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Counts signature checks and reads of the journal."""
    calls = {"verified": 0, "read": 0}
    verify, read = authenticate.verified_claims, References.valid_until

    def count_verify(*args: object) -> object:
        calls["verified"] += 1
        return verify(*args)  # type: ignore[arg-type]

    def count_read(*args: object) -> object:
        calls["read"] += 1
        return read(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(authenticate, "verified_claims", count_verify)
    monkeypatch.setattr(References, "valid_until", count_read)
    return calls


async def test_repeated_token_is_answered_from_the_cache(
    tmp_path: Path, autojump_clock: MockClock, counted: dict[str, int]
) -> None:
    async with issuing(tmp_path) as accounts:
        token = await accounts.token("robot")
        assert [accounts.accepts(token) for _ in range(5)] == [True] * 5
        assert counted == {"verified": 1, "read": 1}
        await accounts.token("another")  # a change of another account has no effect
        assert accounts.accepts(token)
        assert counted == {"verified": 1, "read": 1}


async def test_change_of_the_account_makes_the_next_request_read_it(
    tmp_path: Path, autojump_clock: MockClock, counted: dict[str, int]
) -> None:
    async with issuing(tmp_path) as accounts:
        token = await accounts.token("robot")
        assert accounts.accepts(token)
        await accounts.cluster.delete("serviceaccounts", "robot")
        assert not accounts.accepts(token)
        assert counted == {"verified": 1, "read": 2}


async def test_cache_is_bounded(tmp_path: Path, autojump_clock: MockClock, counted: dict[str, int]) -> None:
    async with issuing(tmp_path, max_cached=2) as accounts:
        first, second, third = [await accounts.token(name) for name in ("a", "b", "c")]
        assert accounts.accepts(first) and accounts.accepts(second)
        assert accounts.accepts(third)  # evicts the first one
        assert counted["verified"] == 3
        assert accounts.accepts(second) and accounts.accepts(third)
        assert counted["verified"] == 3
        assert accounts.accepts(first)
        assert counted["verified"] == 4
        await accounts.cluster.delete("serviceaccounts", "b")
        await accounts.cluster.delete("serviceaccounts", "c")
        assert not accounts.accepts(second) and not accounts.accepts(third)


async def test_long_tokens_are_verified_with_every_request(
    tmp_path: Path, autojump_clock: MockClock, counted: dict[str, int]
) -> None:
    async with issuing(tmp_path) as accounts:
        token = await accounts.token("robot", audience="x" * 4000)
        assert [accounts.accepts(token) for _ in range(3)] == [True] * 3
        assert counted["verified"] == 3
        await accounts.cluster.delete("serviceaccounts", "robot")
        assert not accounts.accepts(token)


async def test_refused_tokens_are_not_cached(
    tmp_path: Path, autojump_clock: MockClock, counted: dict[str, int]
) -> None:
    async with issuing(tmp_path, max_cached=1) as accounts:
        good = await accounts.token("robot")
        assert accounts.accepts(good)
        head, payload, signature = good.split(b".")
        half = len(signature) // 2
        for letter in b"AB":
            changed = signature[:half] + bytes([letter]) + signature[half + 1 :]
            if changed != signature:
                assert not accounts.accepts(b".".join((head, payload, changed)))
        verified = counted["verified"]
        assert accounts.accepts(good)
        assert counted["verified"] == verified


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The tokens that were looked up in the token cache instead of by their header object."""
    tokens: list[bytes] = []
    original = AccountTokens.authenticate

    def count(method: AccountTokens, token: bytes, audiences: tuple[str, ...]) -> object:
        tokens.append(token)
        return original(method, token, audiences)

    monkeypatch.setattr(AccountTokens, "authenticate", count)
    return tokens


async def test_repeated_header_is_found_without_its_token(
    tmp_path: Path, autojump_clock: MockClock, asked: list[bytes]
) -> None:
    async with issuing(tmp_path) as accounts:
        token = await accounts.token("robot")
        assert [accounts.accepts_header(token) for _ in range(3)] == [True] * 3
        assert asked == [token]
        await accounts.cluster.delete("serviceaccounts", "robot")
        assert [accounts.accepts_header(token) for _ in range(2)] == [False] * 2


async def test_cached_header_ends_with_its_account(
    tmp_path: Path, autojump_clock: MockClock, asked: list[bytes]
) -> None:
    async with issuing(tmp_path) as accounts:
        token = await accounts.token("robot")
        kept = [b"Bearer " + token for _ in range(2)]
        assert [accounts.accepts_header(token, header) for header in kept * 3] == [True] * 6
        assert asked == [token]
        await accounts.cluster.delete("serviceaccounts", "robot")
        assert [accounts.accepts_header(token, header) for header in kept * 2] == [False] * 4


async def test_cached_header_ends_when_its_token_expires(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with issuing(tmp_path) as accounts:
        token = await accounts.token("robot")
        header = b"Bearer " + token
        assert [accounts.accepts_header(token, header) for _ in range(2)] == [True] * 2
        await trio.sleep(658)  # a minute more than its 600 seconds
        assert accounts.accepts_header(token, header)
        await trio.sleep(3)
        assert not accounts.accepts_header(token, header)


async def test_header_of_a_token_that_the_cache_forgot_ends_with_its_account(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with issuing(tmp_path, max_cached=1) as accounts:
        first, second = [await accounts.token(name) for name in ("a", "b")]
        assert accounts.accepts_header(first)
        assert accounts.accepts_header(second)  # evicts the first one
        await accounts.cluster.delete("serviceaccounts", "a")
        assert not accounts.accepts_header(first)
        assert accounts.accepts_header(second)


async def test_headers_of_expired_and_early_tokens_are_refused(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with issuing(tmp_path) as accounts:
        token = await accounts.token("robot")
        assert accounts.accepts_header(token)
        verified = accounts.tokens.cached(token)
        assert verified is not None
        verified.not_before = verified.known_until - 1
        assert not accounts.accepts_header(token)
        verified.not_before, verified.expires = 0, accounts.tokens.now()
        verified.known_until = verified.expires
        assert not accounts.accepts_header(token)
        assert accounts.tokens.cached(token) is None


async def test_headers_are_cached_up_to_a_limit(
    tmp_path: Path, autojump_clock: MockClock, asked: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authentication, "MAX_CACHED_HEADERS", 2)
    async with issuing(tmp_path) as accounts:
        first, second, third = [await accounts.token(name) for name in ("a", "b", "c")]
        headers = {token: b"Bearer " + token for token in (first, second, third)}
        for token in (first, second, third, second, third):
            assert accounts.accepts_header(token, headers[token])
        assert asked == [first, second, third]
        assert accounts.accepts_header(first)
        assert asked[3:] == [first]


async def test_token_for_another_audience_is_not_cached_by_its_header(
    tmp_path: Path, autojump_clock: MockClock, asked: list[bytes]
) -> None:
    async with issuing(tmp_path) as accounts:
        token = await accounts.token("robot")
        assert accounts.accepts_header(token)
        verified = accounts.tokens.cached(token)
        assert verified is not None
        verified.result = None
        assert not accounts.accepts_header(token)


async def test_token_that_waited_for_the_keys_twice_ends_with_its_account(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with issuing(tmp_path) as accounts:
        token = await accounts.token("robot")
        accounts.keys.current = None  # as after a start: the first tokens wait for the keys
        first, second = (accounts.tokens.authenticate(token, ()) for _ in range(2))
        assert not isinstance(first, Authenticated | Refused | None)
        assert not isinstance(second, Authenticated | Refused | None)
        assert isinstance(await first, Authenticated)
        header = b"Bearer " + token
        assert accounts.accepts_header(token, header)
        assert isinstance(await second, Authenticated)
        await accounts.cluster.delete("serviceaccounts", "robot")
        assert not accounts.accepts_header(token, header)
        assert not accounts.accepts_header(token)
