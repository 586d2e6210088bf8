"""Several issuers, distributed claims, and the reload of the file of --authentication-config, in virtual time."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import jwt
import pytest
import trio
from trio.testing import MockClock

from rewound.actors.access.authentication.authenticate import Authenticated, Refused
from rewound.actors.access.authentication.issuers import (
    Anonymous,
    AuthenticationConfiguration,
    ConfiguredIssuers,
    FollowedConfiguration,
    InvalidConfiguration,
    IssuerConfiguration,
)
from rewound.actors.access.authentication.oidc import PAUSE, OidcTokens, Provider
from rewound.actors.access.authentication.oidc_claims import ALGORITHMS, ClaimRules
from rewound.actors.identity import User
from rewound.actors.runtime.background_import import imported
from rewound.gateway.outgoing.webhook import HttpsCalls
from tests.actors.object_store import ManualClock
from tests.identity_provider import CLIENT_ID, DISCOVERY, KEYS, IdentityProvider, identity_provider, rsa_key
from tests.issuers import issuer
from tests.settling import advance, eventually, settled

OTHER = "https://other.example.com"
Outcome = Authenticated | Refused | None


@pytest.fixture(autouse=True)
def _still(mock_clock: MockClock) -> None:
    """Time passes only when a test advances it: a busy machine makes no provider slow."""


async def outcome(issuers: ConfiguredIssuers, token: str) -> Outcome:
    found = issuers.authenticate(token.encode(), ())
    return await found if isinstance(found, Awaitable) else found


async def name(issuers: ConfiguredIssuers, token: str) -> str:
    found = await outcome(issuers, token)
    return found.user.name if isinstance(found, Authenticated) else str(found)


def trusted(url: str, **rules: str) -> IssuerConfiguration:
    return IssuerConfiguration(ClaimRules(url, (CLIENT_ID,), **rules), authorities=issuer("provider").file)


def configured(*issuers: IssuerConfiguration) -> ConfiguredIssuers:
    clock = ManualClock()

    def provider(one: IssuerConfiguration) -> Provider:
        return Provider(one.rules.issuer, one.authorities, HttpsCalls(), one.discovery_url)

    def tokens(one: IssuerConfiguration, provider: Provider) -> OidcTokens:
        return OidcTokens(one.rules, provider, ALGORITHMS, clock)

    return ConfiguredIssuers(AuthenticationConfiguration(issuers), provider, tokens)


@asynccontextmanager
async def provider() -> AsyncIterator[IdentityProvider]:
    await imported("jwt")
    async with identity_provider(ManualClock().now() / 1_000_000) as one:
        yield one


async def test_token_is_verified_by_the_issuer_that_it_names() -> None:
    async with provider() as first, provider() as second:
        second.rotate("second")
        issuers = configured(
            trusted(first.issuer, username_prefix="first:"), trusted(second.issuer, username_prefix="second:")
        )
        assert await name(issuers, first.token()) == "first:alice"
        assert second.asked == []
        assert await name(issuers, second.token(sub="bob")) == "second:bob"
        assert await outcome(issuers, first.token(iss=OTHER)) is None
        assert isinstance(await outcome(issuers, second.token(iss=first.issuer)), Refused)
        assert {key: sum(one.counts) for key, one in issuers.latencies().items()} == {
            ("success", first.issuer): 1,
            ("failure", first.issuer): 1,
            ("success", second.issuer): 1,
        }
        assert set(issuers.key_sets()) == {first.issuer, second.issuer}
        assert ("success", first.issuer) in issuers.key_fetches()


async def test_keys_are_fetched_at_the_start_from_each_issuer_until_it_responds(
    mock_clock: MockClock,
) -> None:
    async with provider() as first, provider() as second, trio.open_nursery() as nursery:
        keys = second.documents.pop(KEYS)
        issuers = configured(trusted(first.issuer), trusted(second.issuer))
        nursery.start_soon(issuers.fetch_keys)
        await eventually(lambda: ("failure", second.issuer) in issuers.key_fetches())
        await eventually(lambda: ("success", first.issuer) in issuers.key_fetches())
        second.documents[KEYS] = keys
        await advance(mock_clock, PAUSE)
        await eventually(lambda: ("success", second.issuer) in issuers.key_fetches())
        first.asked.clear()
        assert await name(issuers, first.token()) == "alice"
        assert first.asked == []


async def test_keys_of_issuers_that_are_gone_are_not_fetched(mock_clock: MockClock) -> None:
    async with provider() as one, trio.open_nursery() as nursery:
        one.documents.pop(KEYS)
        issuers = configured(trusted(one.issuer))
        nursery.start_soon(issuers.fetch_keys)
        await eventually(lambda: bool(issuers.key_fetches()))
        assert await issuers.replace(AuthenticationConfiguration()) == ""
        await advance(mock_clock, PAUSE)  # now the nursery ends


async def test_no_issuers_accept_nothing() -> None:
    async with provider() as one:
        assert await outcome(configured(), one.token()) is None


async def test_discovery_url_replaces_the_well_known_path() -> None:
    async with provider() as one:
        one.documents["/elsewhere"] = one.documents.pop(DISCOVERY)
        chosen = replace(trusted(one.issuer), discovery_url=f"https://127.0.0.1:{one.port}/elsewhere")
        assert await name(configured(chosen), one.token()) == "alice"
        assert one.asked == ["/elsewhere", KEYS]


def distributed(one: IdentityProvider, path: str = "/groups") -> dict[str, object]:
    endpoint = {"endpoint": f"https://127.0.0.1:{one.port}{path}", "access_token": "secret"}
    return {"_claim_names": {"groups": "source"}, "_claim_sources": {"source": endpoint}}


async def test_distributed_groups_are_fetched_and_verified() -> None:
    async with provider() as one:
        issuers = configured(trusted(one.issuer, groups_claim="groups", groups_prefix="g:"))
        one.documents["/groups"] = one.token(groups=["devs"]).encode()
        found = await outcome(issuers, one.token(**distributed(one)))
        assert isinstance(found, Authenticated)
        assert found.user == User("alice", groups=("g:devs", "system:authenticated"))
        forged = jwt.encode(one.claims(groups=["admins"]), rsa_key("attacker"), "RS256", {"kid": "first"})
        for number, document in enumerate((forged, one.token(), one.token(groups=["a"], aud="x"), "none")):
            one.documents["/groups"] = document.encode()
            found = await outcome(issuers, one.token(**distributed(one), jti=str(number)))
            assert isinstance(found, Refused), document
            assert found.reason.startswith("oidc: could not expand distributed claims: ")


@dataclass
class Followed:
    issuers: ConfiguredIssuers
    path: Path
    configuration: FollowedConfiguration
    advance: Callable[[float], Awaitable[None]]

    async def write(self, **contents: object) -> None:
        """Replace the file, and wait until it was read."""
        self.path.write_text(json.dumps(contents))
        await self.advance(1)
        await self.advance(1)


@asynccontextmanager
async def followed(tmp_path: Path, clock: MockClock, **contents: object) -> AsyncIterator[Followed]:
    """The file names issuers by their URL and the prefix of user names."""

    def read(raw: bytes) -> AuthenticationConfiguration:
        document = json.loads(raw)  # raises ValueError
        if "wrong" in document:
            raise InvalidConfiguration("wrong: it is")
        anonymous = Anonymous(True) if "anonymous" in document else None
        urls = document.get("issuers", {})
        return AuthenticationConfiguration(
            tuple(trusted(url, username_prefix=prefix) for url, prefix in urls.items()), anonymous
        )

    path = tmp_path / "config"
    path.write_text(json.dumps(contents))
    issuers = configured(*read(path.read_bytes()).issuers)
    configuration = FollowedConfiguration(path, path.read_bytes(), read, issuers, lambda: 7.0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(configuration.run)
        await settled()
        yield Followed(issuers, path, configuration, partial(advance, clock))
        nursery.cancel_scope.cancel()


async def test_new_file_is_in_force_when_its_issuers_respond(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with provider() as one, followed(tmp_path, mock_clock, issuers={one.issuer: "a:"}) as server:
        before = server.configuration.reloads.hash
        assert await name(server.issuers, one.token()) == "a:alice"
        await server.write(issuers={one.issuer: "b:"})
        await eventually(lambda: bool(server.configuration.reloads.counts))
        assert server.configuration.reloads.counts == {"success": 1}
        assert server.configuration.reloads.times == {"success": 7.0}
        assert server.configuration.reloads.hash != before
        assert await name(server.issuers, one.token()) == "b:alice", "no verified token stays verified"
        assert one.asked == [DISCOVERY, KEYS], "the issuer kept its keys"
        assert "reloaded authentication config" in caplog.text


@pytest.mark.parametrize(
    ("contents", "said"),
    [
        ({"wrong": True}, "failed to validate authentication config: wrong: it is"),
        (
            {"anonymous": True},
            "failed to validate authentication config: anonymous: Forbidden: changed from initial configuration file",
        ),
    ],
)
async def test_wrong_file_keeps_the_old_one(
    contents: dict[str, object],
    said: str,
    tmp_path: Path,
    mock_clock: MockClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with provider() as one, followed(tmp_path, mock_clock, issuers={one.issuer: "a:"}) as server:
        before = server.configuration.reloads.hash
        await server.write(**contents)
        await eventually(lambda: bool(server.configuration.reloads.counts))
        assert server.configuration.reloads.counts == {"failure": 1}
        assert server.configuration.reloads.hash == before
        assert said in caplog.text
        assert await name(server.issuers, one.token()) == "a:alice"
        server.path.write_text('{"half": ')
        await server.advance(1)
        await server.advance(1)
        await eventually(lambda: server.configuration.reloads.counts["failure"] == 2)
        assert "failed to load authentication config: " in caplog.text
        server.path.unlink()
        await server.advance(1)
        await server.advance(1)
        assert "failed to read authentication config file: " in caplog.text
        assert await name(server.issuers, one.token()) == "a:alice"


async def test_issuer_that_hangs_keeps_the_old_file_until_it_responds(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        provider() as one,
        provider() as other,
        followed(tmp_path, mock_clock, issuers={one.issuer: "a:"}) as server,
    ):
        other.answers = False
        await server.write(issuers={other.issuer: "b:"})
        await eventually(lambda: bool(other.asked))
        for _ in range(8):
            await server.advance(10)
        assert server.configuration.reloads.counts == {"failure": 1}
        assert "failed to update authentication config: oidc: authenticator for issuer" in caplog.text
        assert await name(server.issuers, one.token()) == "a:alice"
        other.answers = True
        for _ in range(12):
            await server.advance(10)
        assert server.configuration.reloads.counts["success"] == 1
        assert await name(server.issuers, other.token()) == "b:alice"
        assert await outcome(server.issuers, one.token()) is None
