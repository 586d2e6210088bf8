"""One server with all authenticators enabled: each authenticates its users."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from trio.testing import MockClock

from rewound.actors.identity import User
from rewound.gateway.settings.access import OidcSettings
from tests.actors.object_store import ManualClock
from tests.api.access.seen_users import PATH, served_to_all
from tests.api.access.test_api_bootstrap_tokens import ENABLED, TOKEN, create_token
from tests.api.access.test_proxy_authentication import client, proxy_settings
from tests.gateway.account_tokens import issued, make_account
from tests.gateway.api import ALICE
from tests.gateway.watch.test_websocket_tokens import bearer, offering
from tests.gateway.watch.websocket_client import websocket_client
from tests.identity_provider import CLIENT_ID, IdentityProvider, identity_provider
from tests.issuers import issuer

AUTHENTICATED = "system:authenticated"


@pytest.fixture(autouse=True)
def _still(mock_clock: MockClock) -> None:
    """Time passes only when a test advances it: a busy machine makes no provider slow."""


def oidc(provider: IdentityProvider) -> OidcSettings:
    return OidcSettings(
        oidc_issuer_url=provider.issuer,
        oidc_client_id=CLIENT_ID,
        oidc_ca_file=issuer("provider").file,
        oidc_username_prefix="oidc:",
    )


async def test_every_way_to_sign_in_works_next_to_the_others() -> None:
    async with (
        identity_provider(ManualClock().now() / 1_000_000) as provider,
        served_to_all(
            client_ca_file=issuer("clients").file,
            request_headers=proxy_settings(issuer("proxies")),
            oidc=oidc(provider),
            controllers=ENABLED,
        ) as (api, seen),
    ):
        await make_account(api)
        await create_token(api, "cluster.io", "cluster-system")
        ways: list[tuple[Path | None, dict[str, str], str]] = [
            (issuer("clients").leaf("carol"), {}, "carol"),
            (issuer("proxies").leaf("front"), {"X-Remote-User": "dave", "X-Remote-Extra-A": "b"}, "dave"),
            (None, {"authorization": f"Bearer {ALICE}"}, "alice"),
            (None, {"authorization": f"Bearer {await issued(api)}"}, "system:serviceaccount:default:robot"),
            (None, {"authorization": f"Bearer {TOKEN}"}, "system:bootstrap:abc123"),
            (None, {"authorization": f"Bearer {provider.token(sub='erin')}"}, "oidc:erin"),
        ]
        seen.users.clear()
        for certificate, headers, name in ways:
            async with client(api, certificate) as caller:
                assert (await caller.get(PATH, headers=headers)).status_code == 200, name
            user = seen.last()
            assert (user.name, user.groups.count(AUTHENTICATED)) == (name, 1)
            assert user.extra == ((("a", ("b",)),) if name == "dave" else ())
        async with client(api, None) as caller:
            await caller.get(PATH)
            assert seen.last() == User("system:anonymous", groups=("system:unauthenticated",))
            wrong = {"authorization": "Bearer unknown"}
            assert (await caller.get(PATH, headers=wrong)).status_code == 401


async def test_first_success_ends_authentication() -> None:
    """A valid certificate suffices whatever the token; a known token suffices whatever the provider does."""
    async with (
        identity_provider(ManualClock().now() / 1_000_000) as provider,
        served_to_all(client_ca_file=issuer("clients").file, oidc=oidc(provider)) as (api, seen),
    ):
        provider.answers = False
        async with client(api, issuer("clients").leaf("carol")) as caller:
            for token in (ALICE, "unknown", provider.token()):
                await caller.get(PATH, headers={"authorization": f"Bearer {token}"})
                assert seen.last().name == "carol"


async def test_id_token_as_subprotocol_of_a_websocket() -> None:
    async with (
        identity_provider(ManualClock().now() / 1_000_000) as provider,
        served_to_all(oidc=oidc(provider)) as (api, seen),
    ):
        watch = f"{PATH}?watch=1"
        for token, status in ((provider.token(), 101), (provider.token(aud="other"), 401)):
            async with websocket_client(api, watch, token=None, headers=offering(bearer(token), "v1")) as raw:
                assert raw.status == status
        assert seen.last().name == "oidc:alice"


async def test_token_counts_in_the_authorization_header_alone() -> None:
    """Query strings end up in logs and histories, and browsers send cookies by themselves."""
    async with (
        served_to_all(client_ca_file=issuer("clients").file) as (api, seen),
        client(api, None) as caller,
    ):
        for parameter in ("access_token", "token", "bearer_token", "authorization"):
            await caller.get(f"{PATH}?{parameter}={ALICE}")
            assert seen.last().name == "system:anonymous"
        basic = base64.b64encode(f"alice:{ALICE}".encode()).decode()
        for name, value in (
            ("cookie", f"token={ALICE}; authorization=Bearer {ALICE}"),
            ("proxy-authorization", f"Bearer {ALICE}"),
            ("x-authorization", f"Bearer {ALICE}"),
            ("authorization", f"Basic {basic}"),
            ("authorization", ALICE),
            ("authorization", f"Token {ALICE}"),
        ):
            await caller.get(PATH, headers={name: value})
            assert seen.last().name == "system:anonymous"


async def test_users_are_taken_over_unchanged() -> None:
    """Names, groups and extra are opaque: no trimming inside, no case folding, no splitting."""
    name = 'Ünï, "q"  \\x%41'
    headers = [
        (b"x-remote-user", name.encode()),
        (b"x-remote-group", "Grüppe, B".encode()),
        (b"x-remote-group", b"system:masters"),
        (b"x-remote-extra-k", b"V, W"),
    ]
    async with (
        served_to_all(request_headers=proxy_settings(issuer("proxies"))) as (api, seen),
        client(api, issuer("proxies").leaf("front")) as proxy,
    ):
        assert (await proxy.get(PATH, headers=headers)).status_code == 200
        user = seen.last()
        assert user.name == name
        assert user.groups == ("Grüppe, B", "system:masters", AUTHENTICATED)
        assert user.extra == (("k", ("V, W",)),)
