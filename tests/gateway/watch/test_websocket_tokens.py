"""The bearer token as a subprotocol: it counts, and it never comes back."""

from __future__ import annotations

import base64

import pytest

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
async def test_it_counts_like_a_header(dialect: str) -> None:
    async with (
        served(dialect=dialect) as api,
        websocket_client(api, PATH, token=None, headers=offering(bearer(ADMIN, dialect))) as raw,
    ):
        assert raw.status == 101
        assert b"sec-websocket-protocol" not in raw.headers


@pytest.mark.parametrize(
    "offered",
    [
        ("v1.example", bearer(ADMIN)),
        (bearer(ADMIN), "v1.example"),
        (bearer(ADMIN), "v1.example", "v2.example"),
    ],
)
async def test_another_subprotocol_is_the_one_agreed_on(offered: tuple[str, ...]) -> None:
    async with served() as api, websocket_client(api, PATH, token=None, headers=offering(*offered)) as raw:
        assert raw.status == 101
        assert raw.headers[b"sec-websocket-protocol"] == b"v1.example"


@pytest.mark.parametrize(
    "offered",
    [
        (bearer("unknown"),),
        (bearer(ADMIN), bearer(ALICE)),
        (PREFIXES["cluster"] + "%%%",),
        (PREFIXES["cluster"] + "_-__",),
        (PREFIXES["cluster"] + "a",),
        (PREFIXES["cluster"],),
    ],
    ids=["unknown", "two", "no base64", "no text", "no length", "empty"],
)
async def test_a_wrong_one_is_refused_before_the_upgrade(offered: tuple[str, ...]) -> None:
    async with served() as api, websocket_client(api, PATH, token=None, headers=offering(*offered)) as raw:
        assert raw.status == 401
        assert b"upgrade" not in raw.headers


async def test_a_token_of_the_other_dialect_is_just_a_subprotocol() -> None:
    async with (
        served(anonymous_auth=False) as api,
        websocket_client(api, PATH, token=None, headers=offering(bearer(ADMIN, "kubernetes"))) as raw,
    ):
        assert raw.status == 401


async def test_the_header_stands_before_it_and_it_is_not_echoed_either() -> None:
    async with (
        served() as api,
        websocket_client(api, PATH, token=ADMIN, headers=offering(bearer("unknown"), "v1.example")) as raw,
    ):
        assert raw.status == 101
        assert raw.headers[b"sec-websocket-protocol"] == b"v1.example"


async def test_a_caller_without_rights_is_forbidden() -> None:
    async with (
        served() as api,
        websocket_client(api, PATH, token=None, headers=offering(bearer(ALICE))) as raw,
    ):
        assert raw.status == 403


async def test_without_an_upgrade_it_means_nothing() -> None:
    async with served() as api:
        answer = await api.ask(
            "GET", "/api/v1/namespaces/default/configmaps", token=None, headers=offering(bearer(ADMIN))
        )
        assert answer.status == 403
