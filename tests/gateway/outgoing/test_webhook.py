"""Outgoing calls to real HTTPS peers: TLS in both directions, credentials, retries, and bounds of size and time."""

from __future__ import annotations

import base64
import logging
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from rewound.actors.access.remote.calls import WebhookError, review
from rewound.actors.access.remote.kubeconfig_file import KubeconfigError
from rewound.actors.access.remote.target import follow_target, read_target
from rewound.gateway.outgoing.webhook import MAX_CALLS, MAX_RESPONSE, TRIES
from tests.gateway.outgoing.calling import calling, post
from tests.gateway.outgoing.https_peer import Received, Reply, https_peer, pki, write_kubeconfig
from tests.server.test_secure_port import until
from tests.settling import settled


def echo(received: Received) -> Any:
    return {"got": received.document}


async def test_posts_json_with_the_client_certificate(tmp_path: Path) -> None:
    async with https_peer(echo) as peer, calling(peer.kubeconfig(tmp_path, "/deep/path")) as webhook:
        assert await post(webhook, {"a": 1}) == {"got": {"a": 1}}
        [received] = peer.received
        assert (received.target, received.client) == ("/deep/path", "client")
        assert received.headers["content-type"] == "application/json"
        assert "authorization" not in received.headers


@pytest.mark.parametrize(
    ("path", "called"),
    [("", "/"), ("//a/./b/../c/", "/a/c"), ("/a%20b?k=v#f", "/a%20b"), ("/..", "/"), ("/a(1)", "/a%281%29")],
)
async def test_path_is_cleaned_and_the_query_dropped(tmp_path: Path, path: str, called: str) -> None:
    async with https_peer(echo) as peer, calling(peer.kubeconfig(tmp_path, path)) as webhook:
        await post(webhook, {})
        assert [received.target for received in peer.received] == [called]


async def test_url_is_not_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with https_peer(echo) as peer, calling(peer.kubeconfig(tmp_path, "/x?key=hidden")) as webhook:
        await post(webhook, {})
    assert "hidden" not in caplog.text


async def test_connections_are_reused(tmp_path: Path) -> None:
    async with https_peer(echo) as peer, calling(peer.kubeconfig(tmp_path)) as webhook:
        for number in range(3):
            await post(webhook, {"n": number})
        assert (peer.connections, len(peer.received)) == (1, 3)


async def test_certificates_may_be_in_the_file_itself(tmp_path: Path) -> None:
    def encoded(name: str) -> str:
        return base64.b64encode((pki() / name).read_bytes()).decode()

    async with https_peer(echo) as peer:
        file = write_kubeconfig(
            tmp_path,
            {
                "server": f"https://127.0.0.1:{peer.port}",
                "certificate-authority-data": encoded("ca.pem"),
            },
            {
                "client-certificate-data": encoded("client.pem"),
                "client-key-data": encoded("client.key"),
            },
        )
        async with calling(file) as webhook:
            assert await post(webhook, {}) == {"got": {}}


@pytest.mark.parametrize(
    ("user", "header"),
    [
        ({"token": "t0k"}, "Bearer t0k"),
        ({"tokenFile": "token.txt"}, "Bearer from-file"),
        ({"username": "u", "password": "p"}, "Basic dTpw"),
    ],
)
async def test_credentials_are_sent(tmp_path: Path, user: dict[str, str], header: str) -> None:
    (tmp_path / "token.txt").write_text("from-file\n")
    async with https_peer(echo) as peer, calling(peer.kubeconfig(tmp_path, **user)) as webhook:
        await post(webhook, {})
        assert peer.received[0].headers["authorization"] == header


async def test_token_file_is_read_again_after_a_minute(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    token = tmp_path / "token.txt"
    token.write_text("first")
    async with (
        https_peer(echo) as peer,
        calling(peer.kubeconfig(tmp_path, tokenFile="token.txt")) as webhook,
    ):
        await post(webhook, {})
        token.write_text("second")
        await post(webhook, {})
        autojump_clock.jump(61)
        await post(webhook, {})
        sent = [received.headers["authorization"] for received in peer.received]
        assert sent == ["Bearer first", "Bearer first", "Bearer second"]


async def test_a_kubeconfig_and_its_files_are_followed(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    authority = tmp_path / "ca.pem"
    authority.write_bytes((pki() / "ca.pem").read_bytes())
    trusted = {"certificate-authority": "ca.pem"}
    async with (
        https_peer(echo) as first,
        https_peer(echo) as second,
        calling(first.kubeconfig(tmp_path, cluster=trusted)) as webhook,
        trio.open_nursery() as nursery,
    ):
        file = tmp_path / "hook.yaml"
        files = follow_target("--flag", file, read_target(file), webhook.replace)
        nursery.start_soon(files.run)
        await post(webhook, {})
        second.kubeconfig(tmp_path, cluster=trusted)
        await until(lambda: files.counts["success"] == 1)
        await post(webhook, {})
        assert (len(first.received), len(second.received)) == (1, 1)
        authority.write_text("nothing")
        await until(lambda: files.is_outdated)
        await post(webhook, {})  # as before
        assert len(second.received) == 2
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("cluster", "certificate"),
    [
        ({"certificate-authority": str(pki() / "untrusted-ca.pem")}, "server"),
        ({}, "other"),  # a certificate for another name
        ({"tls-server-name": "hook.example"}, "server"),
    ],
)
async def test_peer_with_a_wrong_certificate_is_refused_at_once(
    tmp_path: Path, cluster: dict[str, str], certificate: str
) -> None:
    async with (
        https_peer(echo, certificate=certificate) as peer,
        calling(peer.kubeconfig(tmp_path, cluster=cluster)) as webhook,
    ):
        with pytest.raises(WebhookError, match="certificate verify failed"):
            await post(webhook, {})
        assert peer.received == [] and peer.connections == 1


@pytest.mark.parametrize(
    "cluster",
    [{"tls-server-name": "hook.example"}, {"insecure-skip-tls-verify": True, "certificate-authority": None}],
)
async def test_peer_under_another_name(tmp_path: Path, cluster: dict[str, Any]) -> None:
    async with (
        https_peer(echo, certificate="other") as peer,
        calling(peer.kubeconfig(tmp_path, cluster=cluster)) as webhook,
    ):
        assert await post(webhook, {}) == {"got": {}}


@pytest.mark.parametrize("status", [429, 500, 504])
async def test_call_is_repeated_until_it_succeeds(
    tmp_path: Path, status: int, autojump_clock: trio.testing.MockClock
) -> None:
    replies = [Reply(status), Reply(503, headers=(("Retry-After", "7"),)), None, {"ok": True}]
    async with (
        https_peer(lambda received: replies.pop(0)) as peer,
        calling(peer.kubeconfig(tmp_path)) as webhook,
    ):
        began = trio.current_time()
        assert await post(webhook, {}) == {"ok": True}
        # 0.5 s, Retry-After, 1.125 s, each of the two delays up to a fifth longer.
        assert 8.6 <= trio.current_time() - began <= 9.0
        assert len(peer.received) == 4


async def test_time_to_wait_that_is_no_number_is_ignored(tmp_path: Path) -> None:
    async with (
        https_peer(lambda received: Reply(503, headers=(("Retry-After", "\u00b2"),))) as peer,
        calling(peer.kubeconfig(tmp_path)) as webhook,
    ):
        with pytest.raises(WebhookError, match="responded with status 503"):
            await post(webhook, {})


async def test_tries_end_after_five(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    async with (
        https_peer(lambda received: Reply(500, b"secret")) as peer,
        calling(peer.kubeconfig(tmp_path, "/x?key=hidden")) as webhook,
    ):
        with pytest.raises(WebhookError) as raised:
            await post(webhook, {})
        assert str(raised.value) == f"https://127.0.0.1:{peer.port}/x: responded with status 500"
        assert len(peer.received) == TRIES


async def test_closed_port_is_a_failure_after_five_tries(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with https_peer(echo) as peer:
        file = peer.kubeconfig(tmp_path)
    async with calling(file) as webhook:
        began = trio.current_time()
        with pytest.raises(WebhookError, match=r"https://127\.0\.0\.1"):
            await post(webhook, {})
        assert 4.0 <= trio.current_time() - began <= 5.0


@pytest.mark.parametrize("status", [302, 400, 401, 403, 404, 503])
async def test_other_statuses_fail_at_once(tmp_path: Path, status: int) -> None:
    async with (
        https_peer(lambda received: Reply(status)) as peer,
        calling(peer.kubeconfig(tmp_path)) as webhook,
    ):
        with pytest.raises(WebhookError, match=f"status {status}"):
            await post(webhook, {})
        assert len(peer.received) == 1


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"no", "not JSON"),
        (b"[]", "not a JSON object"),
        (b'"' + b"x" * MAX_RESPONSE + b'"', f"more than {MAX_RESPONSE} bytes"),
    ],
)
async def test_unusable_response_is_a_failure(tmp_path: Path, body: bytes, error: str) -> None:
    async with (
        https_peer(lambda received: Reply(200, body)) as peer,
        calling(peer.kubeconfig(tmp_path)) as webhook,
    ):
        with pytest.raises(WebhookError, match=error):
            await review(webhook, "g/v1", "R", {})
        assert len(peer.received) == 1


async def test_silent_peer_fails_after_thirty_seconds(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with (
        https_peer(lambda received: trio.sleep_forever()) as peer,
        calling(peer.kubeconfig(tmp_path)) as webhook,
    ):
        began = trio.current_time()
        with pytest.raises(WebhookError, match="within 30 s"):
            await post(webhook, {})
        assert trio.current_time() - began == pytest.approx(30)
        assert len(peer.received) == 1


async def test_review_needs_the_version_of_the_request(tmp_path: Path) -> None:
    replies: list[Any] = [
        {"apiVersion": "g/v1", "kind": "R", "status": {"x": 1}},
        {"apiVersion": "g/v1beta1", "kind": "R", "status": {}},
        {"kind": "R", "status": {}},
        {"apiVersion": "g/v1", "kind": "S", "status": {}},
        {"apiVersion": "g/v1", "status": []},
    ]
    async with (
        https_peer(lambda received: replies.pop(0)) as peer,
        calling(peer.kubeconfig(tmp_path)) as webhook,
    ):
        assert await review(webhook, "g/v1", "R", {"s": 1}) == {"x": 1}
        assert peer.received[0].document == {"apiVersion": "g/v1", "kind": "R", "spec": {"s": 1}}
        for error in ("'g/v1beta1', not 'g/v1'", "None, not 'g/v1'", "kind 'S'", "not an object"):
            with pytest.raises(WebhookError, match=error):
                await review(webhook, "g/v1", "R", {})


@pytest.mark.parametrize(
    ("cluster", "user", "error"),
    [
        ({"server": "http://x"}, {}, "clusters[hook].cluster.server: must be a URL that begins with https"),
        ({"server": None}, {}, "clusters[hook].cluster.server: must be a URL"),
        ({"certificate-authority": "none.pem"}, {}, "clusters[hook].cluster.certificate-authority: cannot"),
        ({"certificate-authority": "hook.yaml"}, {}, "certificate-authority: has no certificates"),
        ({"insecure-skip-tls-verify": True}, {}, "insecure-skip-tls-verify: cannot be used with"),
        ({"proxy-url": "ftp://x"}, {}, "proxy-url: must begin with http"),
        ({}, {"client-key": None}, "users[server].user.client-key: is missing"),
        ({}, {"client-certificate": None}, "users[server].user.client-certificate: is missing"),
        ({}, {"client-key": str(pki() / "server.key")}, "do not fit each other"),
        ({}, {"client-key": "none.key"}, "users[server].user.client-key: cannot read"),
        ({}, {"exec": {"command": "x"}}, "users[server].user: exec and auth-provider are not for webhooks"),
    ],
)
async def test_wrong_file_is_refused_when_it_is_read(
    tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any], error: str
) -> None:
    async with https_peer(echo) as peer:
        file = peer.kubeconfig(tmp_path, cluster=cluster, **user)
    with pytest.raises(KubeconfigError) as raised:
        read_target(file)
    assert error in str(raised.value) and str(file) in str(raised.value)


async def test_cancelled_calls_leave_no_connection_behind(tmp_path: Path) -> None:
    async def respond(received: Received) -> Any:
        if received.document.get("wait"):
            await trio.sleep_forever()
        return {}

    async with https_peer(respond) as peer, calling(peer.kubeconfig(tmp_path)) as webhook:
        await post(webhook, {})
        for _ in range(MAX_CALLS // 10):
            async with trio.open_nursery() as nursery:
                count = len(peer.received) + 11
                for _ in range(11):
                    nursery.start_soon(post, webhook, {"wait": True})
                await settled()
                assert len(peer.received) == count
                nursery.cancel_scope.cancel()
        assert await post(webhook, {}) == {}, "more calls than connections were cancelled"
