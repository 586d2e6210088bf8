"""Admission and conversion calls follow redirects and are retried after Retry-After, within their timeout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from rewound.actors.access.remote.calls import WebhookError
from rewound.gateway.outgoing.webhook import MAX_REQUESTS, MAX_RETRIES
from tests.gateway.outgoing.calling import calling
from tests.gateway.outgoing.https_peer import Peer, Received, Reply, https_peer

BODY = b'{"a":1}'


def redirect(status: int, location: str) -> Reply:
    return Reply(status, b"", (("location", location),))


def later(status: int, seconds: str) -> Reply:
    return Reply(status, b"", (("Retry-After", seconds),))


def url(peer: Peer, path: str = "/first?timeout=5s") -> str:
    return f"https://127.0.0.1:{peer.port}{path}"


@pytest.mark.parametrize("status", [307, 308])
async def test_redirect_repeats_the_request_elsewhere(tmp_path: Path, status: int) -> None:
    def respond(received: Received) -> Any:
        return redirect(status, "/second") if received.target.startswith("/first") else {"ok": True}

    async with https_peer(respond) as peer, calling(peer.kubeconfig(tmp_path, token="t")) as webhook:
        assert await webhook.ask(lambda: BODY, url(peer), 5) == b'{"ok":true}'
        assert [one.target for one in peer.received] == ["/first?timeout=5s", "/second"]
        assert [one.body for one in peer.received] == [BODY, BODY]
        assert [one.headers["authorization"] for one in peer.received] == ["Bearer t"] * 2


@pytest.mark.parametrize("status", [301, 302, 303])
async def test_other_redirects_become_a_get(tmp_path: Path, status: int) -> None:
    def respond(received: Received) -> Any:
        return redirect(status, "/second") if received.target.startswith("/first") else {"ok": True}

    async with https_peer(respond) as peer, calling(peer.kubeconfig(tmp_path)) as webhook:
        assert await webhook.send_once(BODY, url(peer), 5, 100) == b'{"ok":true}'
        assert [one.body for one in peer.received] == [BODY, b""]


async def test_other_host_gets_no_credentials(tmp_path: Path) -> None:
    async with (
        https_peer(lambda _: {"ok": True}) as other,
        https_peer(lambda _: redirect(307, url(other, "/second"))) as peer,
        calling(peer.kubeconfig(tmp_path, token="t")) as webhook,
    ):
        assert await webhook.ask(lambda: BODY, url(peer), 5) == b'{"ok":true}'
        [received] = other.received
        assert received.body == BODY and "authorization" not in received.headers
        assert received.headers["host"] == f"127.0.0.1:{other.port}"


@pytest.mark.parametrize(
    ("location", "calls", "why"),
    [
        ("/first", MAX_REQUESTS, "stopped after 10 redirects"),
        ("http://127.0.0.1/first", 1, "the URL cannot be used"),
        ("https://[/", 1, "redirects to a URL that cannot be used"),
        ("", 1, "responded with status 307"),
    ],
)
async def test_redirects_that_lead_nowhere(tmp_path: Path, location: str, calls: int, why: str) -> None:
    async with (
        https_peer(lambda _: redirect(307, location)) as peer,
        calling(peer.kubeconfig(tmp_path)) as webhook,
    ):
        with pytest.raises(WebhookError, match=why):
            await webhook.ask(lambda: BODY, url(peer), 5)
        assert len(peer.received) == calls


async def test_call_is_repeated_when_the_response_says_when(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    replies = [later(429, "2"), later(503, "0"), later(500, "1"), {"ok": True}]
    async with (
        https_peer(lambda _: replies.pop(0)) as peer,
        calling(peer.kubeconfig(tmp_path)) as webhook,
    ):
        began = trio.current_time()
        assert await webhook.ask(lambda: BODY, url(peer), 5) == b'{"ok":true}'
        assert [one.body for one in peer.received] == [BODY] * 4
        assert 3 <= trio.current_time() - began < 4


@pytest.mark.parametrize(
    ("reply", "calls", "why"),
    [
        (
            later(429, "30"),
            1,
            r'Post "https://127[.]0[.]0[.]1:\d+/first[?]timeout=5s": context deadline exceeded',
        ),
        (later(429, "0"), MAX_RETRIES + 1, "responded with status 429"),
        (later(404, "0"), 1, "responded with status 404"),
        (later(503, "soon"), 1, "responded with status 503"),
        (Reply(500), 1, "responded with status 500"),
    ],
)
async def test_call_is_not_repeated(
    tmp_path: Path, reply: Reply, calls: int, why: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with https_peer(lambda _: reply) as peer, calling(peer.kubeconfig(tmp_path)) as webhook:
        with pytest.raises(WebhookError, match=why):
            await webhook.ask(lambda: BODY, url(peer), 5)
        assert len(peer.received) == calls


async def test_response_may_repeat_a_large_request(tmp_path: Path) -> None:
    large = b'"' + b"x" * 3_000_000 + b'"'
    async with (
        https_peer(lambda received: Reply(body=received.body + received.body)) as peer,
        calling(peer.kubeconfig(tmp_path)) as webhook,
    ):
        assert await webhook.ask(lambda: large, url(peer), 60) == large + large
