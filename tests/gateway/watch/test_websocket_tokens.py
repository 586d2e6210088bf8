"""The bearer token as a subprotocol: it authenticates, and the server never selects it."""

from __future__ import annotations

import base64

import pytest
import trio

from tests.gateway.api import ADMIN, ALICE, served
from tests.gateway.watch.websocket_client import websocket_client

PATH = "/api/v1/namespaces/default/configmaps?watch=1"
PREFIXES = {
    "cluster": "base64url.bearer.authorization.cluster.io.",
    "kubernetes": "base64url.bearer.authorization.k8s.io.",
}


def bearer(token: str, dialect: str = "cluster") -> str:
    return PREFIXES[dialect] + base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")


def offering(*protocols: str) -> dict[str, str]:
    return {"Sec-WebSocket-Protocol": ", ".join(protocols)}


@pytest.mark.parametrize("dialect", ["cluster", "kubernetes"])
async def test_token_in_a_subprotocol_authenticates(dialect: str) -> None:
    async with (
        served(dialect=dialect) as api,
        websocket_client(api, PATH, token=None, headers=offering(bearer(ADMIN, dialect), "v1")) as raw,
    ):
        assert raw.status == 101
        assert raw.headers[b"sec-websocket-protocol"] == b"v1"


@pytest.mark.parametrize(
    "offered",
    [
        ("v1.example", bearer(ADMIN)),
        (bearer(ADMIN), "v1.example"),
        (bearer(ADMIN), "v1.example", "v2.example"),
    ],
)
async def test_server_selects_another_subprotocol(offered: tuple[str, ...]) -> None:
    async with served() as api, websocket_client(api, PATH, token=None, headers=offering(*offered)) as raw:
        assert raw.status == 101
        assert raw.headers[b"sec-websocket-protocol"] == b"v1.example"


@pytest.mark.parametrize(
    "offered",
    [
        (bearer("unknown"), "v1"),
        (bearer(ADMIN), bearer(ALICE), "v1"),
        (PREFIXES["cluster"] + "%%%", "v1"),
        (PREFIXES["cluster"] + "_-__", "v1"),
        (PREFIXES["cluster"] + "a", "v1"),
        (PREFIXES["cluster"], "v1"),
        (bearer(f" {ADMIN}"), "v1"),
        (bearer(f"{ADMIN} x"), "v1"),
        (bearer(ADMIN),),
        (bearer(ADMIN), ""),
    ],
    ids=[
        "unknown",
        "two",
        "no base64",
        "no text",
        "no length",
        "empty",
        "space",
        "two words",
        "alone",
        "with nothing",
    ],
)
async def test_invalid_token_gets_401(offered: tuple[str, ...]) -> None:
    async with served() as api, websocket_client(api, PATH, token=None, headers=offering(*offered)) as raw:
        assert raw.status == 401
        assert b"upgrade" not in raw.headers


async def test_token_of_the_other_dialect_is_an_ordinary_subprotocol() -> None:
    async with (
        served(anonymous_auth=False) as api,
        websocket_client(api, PATH, token=None, headers=offering(bearer(ADMIN, "kubernetes"))) as raw,
    ):
        assert raw.status == 401


async def test_header_takes_precedence_and_the_token_is_not_echoed() -> None:
    async with (
        served() as api,
        websocket_client(api, PATH, token=ADMIN, headers=offering(bearer("unknown"), "v1.example")) as raw,
    ):
        assert raw.status == 101
        assert raw.headers[b"sec-websocket-protocol"] == b"v1.example"


async def test_user_without_permission_is_forbidden() -> None:
    async with (
        served() as api,
        websocket_client(api, PATH, token=None, headers=offering(bearer(ALICE), "v1")) as raw,
    ):
        assert raw.status == 403


async def test_token_without_an_upgrade_is_ignored() -> None:
    async with served() as api:
        response = await api.ask(
            "GET", "/api/v1/namespaces/default/configmaps", token=None, headers=offering(bearer(ADMIN))
        )
        assert response.status == 403


async def test_watch_ends_when_its_token_is_revoked() -> None:
    async with (
        served() as api,
        websocket_client(api, PATH, token=None, headers=offering(bearer(ADMIN), "v1")) as raw,
    ):
        assert raw.status == 101
        access = api.store.access
        access.authenticator.replace_tokens({})
        access.rbac.policy.changed()  # a check in a second, instead of a minute
        with trio.fail_after(120):
            assert (await raw.frame()).code == 1000  # as after its timeout
