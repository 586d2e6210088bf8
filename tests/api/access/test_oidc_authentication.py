"""A server accepts OIDC ID tokens, next to all other ways to authenticate."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rewound.gateway.settings.access import OidcSettings
from rewound.server.extensions import Extensions
from tests.actors.access.authentication.test_token_methods import Known
from tests.actors.object_store import ManualClock
from tests.api.access.seen_users import PATH, SeenUsers
from tests.gateway.api import ADMIN, Api, served
from tests.identity_provider import CLIENT_ID, IdentityProvider, identity_provider
from tests.issuers import issuer

AUTHENTICATED = "system:authenticated"


@pytest.fixture(autouse=True)
def _still(mock_clock: MockClock) -> None:
    """Time passes only when a test advances it: a busy machine makes no provider slow."""


@asynccontextmanager
async def served_with_provider(
    gate: trio.Event | None = None, **oidc: Any
) -> AsyncIterator[tuple[Api, IdentityProvider, SeenUsers]]:
    """The provider responds once the gate is set."""
    seen = SeenUsers()
    extensions = Extensions(authorizers=[seen], token_methods=[Known(b"by-another-method")])
    async with identity_provider(ManualClock().now() / 1_000_000) as provider:
        provider.gate = gate
        settings = OidcSettings(
            oidc_issuer_url=provider.issuer,
            oidc_client_id=CLIENT_ID,
            oidc_ca_file=issuer("provider").file,
            oidc_groups_claim="groups",
            **oidc,
        )
        async with served(extensions=extensions, oidc=settings) as api:
            yield api, provider, seen


async def test_id_token_signs_in() -> None:
    gate = trio.Event()
    async with served_with_provider(gate) as (api, provider, seen):
        gate.set()  # the start has waited for no provider
        for _ in range(2):
            assert (await api.ask("GET", PATH, token=provider.token(groups=["devs"]))).status == 200
            user = seen.last()
            assert (user.name, user.groups) == (f"{provider.issuer}#alice", ("devs", AUTHENTICATED))
        assert len(provider.asked) == 2


async def test_other_ways_to_sign_in_go_on() -> None:
    async with served_with_provider() as (api, provider, seen):
        provider.answers = False  # a dead provider delays no other authentication
        for token, name in ((ADMIN, "admin"), ("by-another-method", "bob"), (None, "system:anonymous")):
            assert (await api.ask("GET", PATH, token=token)).status == 200
            assert seen.last().name == name
        other = provider.token(iss="https://other.example.com")
        assert (await api.ask("GET", PATH, token=other)).status == 401


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"exp": 1}, "exp is missing or past"),
        ({"aud": "other"}, "aud does not contain the client id"),
        ({"groups": "devs"}, "the groups claim groups is no array of strings"),
        ({"email_verified": False}, "email_verified is not true"),
        ({"tier": "silver"}, "the required claim tier is missing or has another value"),
    ],
)
async def test_token_that_is_refused_is_401_and_not_anonymous(changed: dict[str, Any], why: str) -> None:
    rules = {"oidc_username_claim": "email", "oidc_required_claim": ("tier=gold",)}
    async with served_with_provider(**rules) as (api, provider, seen):
        claims = {"email": "jane@example.com", "tier": "gold"}
        refused = await api.ask("GET", PATH, token=provider.token(**{**claims, **changed}))
        assert refused.expect(401)["message"] == "Unauthorized"
        assert (await api.ask("GET", PATH, token=provider.token(**claims))).status == 200
        assert seen.last().name == "jane@example.com"
        review = {"spec": {"token": provider.token(**{**claims, **changed})}}
        path = "/apis/authentication.cluster.io/v1/tokenreviews"
        status = (await api.ask("POST", path, review)).expect(201)["status"]
        assert status == {"user": {}, "error": f"[invalid bearer token, oidc: {why}]"}
        review = {"spec": {"token": provider.token(**claims)}}
        status = (await api.ask("POST", path, review)).expect(201)["status"]
        assert status["user"] == {"username": "jane@example.com", "groups": [AUTHENTICATED]}
