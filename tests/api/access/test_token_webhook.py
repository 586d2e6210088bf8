"""A server with a token webhook: requests, TokenReviews, and what is delayed by a webhook that does not respond."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from rewound.gateway.settings.access import TokenWebhookSettings
from rewound.gateway.settings.checks import SettingsError
from rewound.server.flags.parser import parse_flags
from tests.gateway.api import ADMIN, Api, served
from tests.gateway.outgoing.https_peer import Peer, Received, https_peer

PODS = "/api/v1/namespaces/default/pods"
GROUPS = {"cluster": "authentication.cluster.io", "kubernetes": "authentication.k8s.io"}
USERS: dict[str, dict[str, Any]] = {
    "jane": {"authenticated": True, "user": {"username": "jane", "groups": ["system:masters"]}},
    "poor": {"authenticated": True, "user": {"username": "poor", "extra": {"scope": ["x"]}}},
    "vault": {"authenticated": True, "user": {"username": "v"}, "audiences": ["vault"]},
    "old": {"authenticated": False, "error": "token expired yesterday"},
    "nameless": {"authenticated": True, "user": {"groups": ["system:masters"]}},
}


def respond(received: Received) -> dict[str, Any]:
    document = received.document
    return {
        "apiVersion": document["apiVersion"],
        "kind": "TokenReview",
        "status": USERS.get(document["spec"]["token"], {"authenticated": False}),
    }


@asynccontextmanager
async def running(
    tmp_path: Path, responding: Callable[[Received], Any] = respond, dialect: str = "cluster", **more: Any
) -> AsyncIterator[tuple[Peer, Api]]:
    async with https_peer(responding) as peer:
        file = peer.kubeconfig(tmp_path)
        settings = TokenWebhookSettings(authentication_token_webhook_config_file=file, **more)
        changed = {"dialect": dialect} if dialect != "cluster" else {}
        async with served(token_webhook=settings, **changed) as api:
            yield peer, api


async def token_review(api: Api, token: str, *audiences: str) -> dict[str, Any]:
    spec = {"token": token, **({"audiences": list(audiences)} if audiences else {})}
    group = GROUPS[api.settings.dialect]
    made = await api.ask("POST", f"/apis/{group}/v1/tokenreviews", {"spec": spec})
    status: dict[str, Any] = made.expect(201)["status"]
    return status


async def test_webhook_authenticates_requests(tmp_path: Path) -> None:
    async with running(tmp_path) as (peer, api):
        assert (await api.ask("GET", PODS, token="jane")).status == 200
        refused = (await api.ask("GET", PODS, token="poor")).expect(403)
        assert 'User "poor" cannot list' in refused["message"]
        assert (await api.ask("GET", "/apis", token="poor")).status == 200, "in system:authenticated"
        assert len(peer.received) == 2, "cached"
        assert peer.received[0].client == "client"
        assert (await api.ask("GET", PODS, token=ADMIN)).status == 200
        assert len(peer.received) == 2, "the token file comes first"


@pytest.mark.parametrize("token", ["old", "unknown", "nameless", "vault"])
async def test_refused_token_gets_401_without_a_reason(tmp_path: Path, token: str) -> None:
    async with running(tmp_path) as (_, api):
        refused = (await api.ask("GET", PODS, token=token)).expect(401)
        assert (refused["message"], refused["reason"]) == ("Unauthorized", "Unauthorized")


async def test_token_review_gives_the_reason(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, api):
        reason = "[invalid bearer token, token expired yesterday]"
        assert await token_review(api, "old") == {"user": {}, "error": reason}
        assert await token_review(api, "unknown") == {"user": {}, "error": "invalid bearer token"}
        assert await token_review(api, "poor") == {
            "authenticated": True,
            "user": {"username": "poor", "groups": ["system:authenticated"], "extra": {"scope": ["x"]}},
            "audiences": list(api_audiences(await token_review(api, ADMIN))),
        }


def api_audiences(status: dict[str, Any]) -> tuple[str, ...]:
    """A token without audiences, like a static token, has those of the server."""
    assert status["audiences"]
    return tuple(status["audiences"])


async def test_token_review_with_audiences(tmp_path: Path) -> None:
    async with running(tmp_path) as (peer, api):
        [own] = api_audiences(await token_review(api, ADMIN))
        wrong = {"user": {}, "error": "invalid bearer token"}
        assert (await token_review(api, "vault", "vault", "x"))["audiences"] == ["vault"]
        assert peer.received[-1].document["spec"]["audiences"] == ["vault", "x"]
        assert await token_review(api, "vault", own) == wrong
        assert await token_review(api, "poor", "vault") == wrong
        assert (await token_review(api, "poor", "vault", own))["audiences"] == [own]
        assert (await token_review(api, ADMIN, "vault", own))["audiences"] == [own]
        assert await token_review(api, ADMIN, "vault") == wrong


@pytest.mark.parametrize("dialect", ["cluster", "kubernetes"])
@pytest.mark.parametrize("version", ["v1beta1", "v1"])
async def test_version_of_the_review(tmp_path: Path, dialect: str, version: str) -> None:
    more = {} if version == "v1beta1" else {"authentication_token_webhook_version": version}
    async with running(tmp_path, dialect=dialect, **more) as (peer, api):
        assert (await api.ask("GET", PODS, token="jane")).status == 200
        assert peer.received[0].document["apiVersion"] == f"{GROUPS[dialect]}/{version}"


async def test_silent_webhook_delays_only_requests_that_need_it(tmp_path: Path) -> None:
    called, release = trio.Event(), trio.Event()

    async def wait(received: Received) -> Any:
        called.set()
        await release.wait()
        return respond(received)

    async with running(tmp_path, wait) as (_, api), trio.open_nursery() as nursery:
        statuses: list[int] = []

        async def ask() -> None:
            statuses.append((await api.ask("GET", PODS, token="jane")).status)

        nursery.start_soon(ask)
        await called.wait()
        for token in (ADMIN, None):
            assert (await api.ask("GET", "/version", token=token)).status == 200
        assert statuses == []
        release.set()
    assert statuses == [200]


async def test_wrong_file_stops_the_start(tmp_path: Path) -> None:
    file = tmp_path / "hook.yaml"
    file.write_text("current-context: x")
    settings = TokenWebhookSettings(authentication_token_webhook_config_file=file)
    with pytest.raises((SettingsError, ExceptionGroup)) as raised:
        async with served(token_webhook=settings):
            pass
    assert "--authentication-token-webhook-config-file" in repr(raised.value)
    assert "there is no context" in repr(raised.value)


def test_flags_and_their_defaults(tmp_path: Path) -> None:
    file = tmp_path / "hook.yaml"
    file.write_text("")
    named = f"--authentication-token-webhook-config-file={file}"
    assert parse_flags([named])[0].token_webhook == TokenWebhookSettings(
        authentication_token_webhook_config_file=file,
        authentication_token_webhook_cache_ttl=120.0,
        authentication_token_webhook_version="v1beta1",
    )
    assert not parse_flags([named, "--insecure-port=8080"])[1], "tokens work on the plain port"
    flags = [
        named,
        "--authentication-token-webhook-cache-ttl=10s",
        "--authentication-token-webhook-version=v1",
    ]
    assert parse_flags(flags)[0].token_webhook == TokenWebhookSettings(
        authentication_token_webhook_config_file=file,
        authentication_token_webhook_cache_ttl=10.0,
        authentication_token_webhook_version="v1",
    )
