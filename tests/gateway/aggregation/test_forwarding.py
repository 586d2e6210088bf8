"""Requests for aggregated group versions reach the server behind the APIService, with the user in headers."""

from __future__ import annotations

import ssl
from functools import partial

import orjson
import pytest
import trio

from rewound.actors.access.authentication.authenticate import Authenticated
from rewound.actors.identity import User
from rewound.gateway.proxy.upstream import NOT_ALLOWED
from rewound.gateway.settings.settings import ProxySettings
from rewound.server.extensions import Extensions
from tests.api.access.test_proxy_authentication import proxy_settings
from tests.gateway.account_tokens import eventually
from tests.gateway.aggregation.aggregated import (
    API_SERVICES,
    GROUP_VERSION,
    NAME,
    RESOURCES,
    aggregating,
    api_service,
    condition,
    discovering,
    forwarded,
    make_service,
    register,
)
from tests.gateway.api import ALICE
from tests.gateway.granting import Grants
from tests.gateway.https import served_securely
from tests.gateway.outgoing.https_peer import Received, https_peer, pki
from tests.gateway.proxy.backends import (
    LOOPBACK,
    Call,
    raw_client,
    receive_all,
    receive_head,
    request_head,
    serving,
)
from tests.issuers import issuer

THINGS = f"{GROUP_VERSION}/namespaces/default/things"


async def respond(call: Call) -> None:
    body = await call.body()
    await call.reply(b'{"kind":"Thing","sent":%d}' % len(body), "Content-Type: application/json")


async def test_the_server_gets_the_user_and_none_of_the_clients_credentials() -> None:
    smuggled = {
        "x-remote-user": "root",
        "X-Remote-Group": "system:masters",
        "x-remote-extra-scopes": "all",
        "x_remote_user": "root",
        "x-remote-uid": "1",
        "connection": "x-remote-group",
        "x-own": "kept",
        "x-forwarded-host": "elsewhere",
    }
    async with serving(discovering(respond), certificate="service") as backend, aggregating() as api:
        await register(api, backend.port)
        path = f"{THINGS}/a%2Db?fieldManager=me&x=%20"
        created = await api.ask("POST", path, b"x" * 70_000, headers=smuggled)
        assert created.expect(200)["sent"] == 70_000
        call = forwarded(backend)[-1]
        assert call.line == f"POST {THINGS}/a-b?fieldManager=me&x=%20 HTTP/1.1"
        about_user = sorted(one for one in call.headers if "remote" in one[0])
        assert about_user == [
            ("x-remote-group", "system:authenticated"),
            ("x-remote-group", "system:masters"),
            ("x-remote-user", "admin"),
        ]
        assert call.header("authorization") is None
        assert call.header("x-own") == "kept"
        assert call.header("x-forwarded-for") == "127.0.0.1"
        assert call.header("x-forwarded-host") == f"localhost:{backend.port}"
        assert call.header("x-forwarded-proto") == "https"
        assert call.header("x-forwarded-uri") == f"{THINGS}/a-b"


async def test_an_impersonated_user_is_the_user() -> None:
    async with serving(discovering(respond), certificate="service") as backend, aggregating() as api:
        await register(api, backend.port)
        headers = {
            "impersonate-user": "jane",
            "impersonate-group": "system:masters",
            "impersonate-extra-a%2fb": "c",
        }
        (await api.ask("GET", THINGS, headers=headers)).expect(200)
        call = forwarded(backend)[-1]
        assert call.header("x-remote-user") == "jane"
        assert call.header("x-remote-extra-a%2Fb".lower()) == "c"
        assert not [name for name, _ in call.headers if name.startswith("impersonate")]


async def test_authorization_happens_here_too() -> None:
    async with serving(discovering(respond), certificate="service") as backend, aggregating() as api:
        await register(api, backend.port)
        before = len(forwarded(backend))
        refused = (await api.ask("GET", THINGS, token=None)).expect(403)
        assert refused["details"]["group"] == "things.example.com"
        assert (await api.ask("GET", THINGS, token="nobody")).status == 401
        assert len(forwarded(backend)) == before


async def test_a_request_is_authorized_as_what_the_server_will_take_it_for() -> None:
    """The other server drops malformed parameters one by one, and does not support watches of a single object."""
    rights = Grants(("alice", "list", "things", "any"), ("alice", "watch", "things", "a"))
    served = serving(discovering(respond), certificate="service")
    async with served as backend, aggregating(extensions=Extensions(authorizers=(rights,))) as api:
        await register(api, backend.port)
        before = len(forwarded(backend))
        for query in ("watch=1", "watch=1&x=%", "x=%zz&watch=true", "watch=1&a;b", "a;b&watch"):
            refused = (await api.ask("GET", f"{THINGS}?{query}", token=ALICE)).expect(403)
            assert 'cannot watch resource "things"' in refused["message"]
        refused = (await api.ask("GET", f"{THINGS}/a?watch=1", token=ALICE)).expect(403)
        assert 'cannot get resource "things"' in refused["message"]
        assert len(forwarded(backend)) == before
        (await api.ask("GET", f"{THINGS}?x=%&a;watch=1", token=ALICE)).expect(200)
        assert forwarded(backend)[-1].line == f"GET {THINGS}?x=%&a;watch=1 HTTP/1.1"


@pytest.mark.parametrize(
    "user",
    [
        User("jane\r\nX-Remote-Group: system:masters"),
        User("jane\nX-Remote-Group: system:masters"),
        User("jane\x00"),
        User("jane", groups=("dev\r\nX-Remote-User: root",)),
        User("jane", extra=(("scopes", ("a\r\nX-Remote-User: root",)),)),
        User("jane "),
        User("\tjane"),
        User("jane", groups=(" system:masters",)),
    ],
    ids=["name", "line feed", "NUL", "group", "extra", "space after", "tab before", "space before a group"],
)
async def test_user_that_would_break_a_header_is_not_forwarded(user: User) -> None:
    """Webhooks, identity providers and token files may name such users. Leading and trailing white space is not part
    of a value.
    """

    class Named:
        def authenticate(self, token: bytes, audiences: tuple[str, ...]) -> Authenticated | None:
            return Authenticated(user) if token == b"jane-token" else None

    rights = Grants((user.name, "list", "things", "any"))
    extensions = Extensions(token_methods=(Named(),), authorizers=(rights,))
    served = serving(discovering(respond), certificate="service")
    async with served as backend, aggregating(extensions=extensions) as api:
        await register(api, backend.port)
        before = len(forwarded(backend))
        refused = await api.ask("GET", THINGS, token="jane-token")
        assert (refused.status, len(forwarded(backend))) == (503, before)
        assert "no name that a header can carry" in refused.text


async def test_the_server_sees_our_certificate_and_we_verify_its_name() -> None:
    def answer(received: Received) -> object:
        return {**RESOURCES, "client": received.client}

    async with https_peer(answer, certificate="service") as peer, aggregating() as api:
        await register(api, peer.port)
        assert (await api.ask("GET", GROUP_VERSION)).document["client"] == "client"


async def test_pooled_connections_carry_further_requests() -> None:
    async with https_peer(lambda _: RESOURCES, certificate="service") as peer, aggregating() as api:
        await register(api, peer.port)
        await eventually(api, "/version", lambda _: peer.received[-1].target == "/openapi/v2")
        before = peer.connections
        for _ in range(5):
            (await api.ask("GET", THINGS)).expect(200)
        assert peer.connections <= before + 1


async def test_a_pooled_connection_that_the_server_has_closed_is_not_used() -> None:
    async with serving(discovering(respond), certificate="service") as backend, aggregating() as api:
        await register(api, backend.port)  # this server closes every connection after one response
        for _ in range(3):
            (await api.ask("GET", THINGS)).expect(200)


async def test_a_request_without_a_body_is_sent_again_when_a_pooled_connection_ends() -> None:
    async def close_at_the_next_request(call: Call) -> None:
        await call.body()
        await call.reply(b"{}")
        await call.read()

    served = serving(discovering(close_at_the_next_request), certificate="service")
    async with served as backend, aggregating() as api:
        await register(api, backend.port)
        for _ in range(2):
            (await api.ask("GET", THINGS)).expect(200)
        assert len(forwarded(backend)) == 2
        failed = await api.ask("POST", THINGS, b"{}")  # the server may have acted on it
        assert (failed.status, failed.text) == (503, "error trying to reach service: EOF\n")
        assert len(forwarded(backend)) == 2


async def test_requests_of_one_user_that_wait_for_the_server_are_limited() -> None:
    """They have no seat, but one of two places: a user may have as many as are free."""
    release = trio.Event()

    async def wait(call: Call) -> None:
        await release.wait()
        await call.reply(b"{}")

    extensions = Extensions(authorizers=(Grants(("alice", "list", "things", "any")),))
    limited = aggregating(enable_priority_and_fairness=False, max_requests_inflight=1, extensions=extensions)
    served = serving(discovering(wait), certificate="service")
    async with served as backend, limited as api, trio.open_nursery() as nursery:
        await register(api, backend.port)
        nursery.start_soon(partial(api.ask, "GET", THINGS, token=ALICE))
        await eventually(api, "/version", lambda _: bool(forwarded(backend)))
        refused = await api.ask("GET", THINGS, token=ALICE)
        assert (refused.status, refused.headers["retry-after"]) == (429, "1")
        release.set()


async def test_a_watch_streams() -> None:
    more = trio.Event()

    async def watch(call: Call) -> None:
        await call.send(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        await call.send(b"6\r\nfirst\n\r\n")
        await more.wait()
        await call.send(b"7\r\nsecond\n\r\n0\r\n\r\n")

    async with serving(discovering(watch), certificate="service") as backend, aggregating() as api:
        await register(api, backend.port)
        headers = {"authorization": "Bearer admin-token"}
        async with api.client.stream("GET", f"{THINGS}?watch=true", headers=headers) as response:
            parts = response.aiter_bytes()
            assert await anext(parts) == b"first\n"
            more.set()
            assert [part async for part in parts] == [b"second\n"]


async def test_upgrades_pass_with_the_user_and_no_other_connection_option() -> None:
    async def echo(call: Call) -> None:
        await call.send(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
        while data := await call.read():
            await call.send(data)
            if data.endswith(b"bye"):
                return

    async with serving(discovering(echo), certificate="service") as backend, aggregating() as api:
        await register(api, backend.port)
        async with raw_client(api) as client:
            fields = ("Connection: Upgrade, X-Remote-User", "Upgrade: x", "X-Remote-User: root")
            await client.send_all(request_head("GET", f"{THINGS}/a/exec", *fields))
            head, rest = await receive_head(client)
            assert head.startswith("HTTP/1.1 101 ")
            await client.send_all(b"hello bye")
            assert rest + await receive_all(client) == b"hello bye"
        call = forwarded(backend)[-1]
        assert [value for name, value in call.headers if name == "x-remote-user"] == ["admin"]
        assert (call.header("connection"), call.header("upgrade")) == ("Upgrade", "x")


async def test_redirects_are_not_forwarded() -> None:
    async def redirect(call: Call) -> None:
        await call.reply(b"", "Location: https://elsewhere.example/", status="302 Found")

    async with serving(discovering(redirect), certificate="service") as backend, aggregating() as api:
        await register(api, backend.port)
        refused = await api.ask("GET", THINGS)
        assert refused.status == 502
        assert refused.text == "the backend attempted to redirect this request, which is not permitted\n"


async def test_a_server_that_closes_the_connection_is_503_in_plain_text() -> None:
    async def close(_: Call) -> None:
        pass

    async with serving(discovering(close), certificate="service") as backend, aggregating() as api:
        await register(api, backend.port)
        failed = await api.ask("GET", THINGS)
        assert (failed.status, failed.text) == (503, "error trying to reach service: EOF\n")
        assert failed.headers["content-type"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize("path", [f"{GROUP_VERSION}/..%2f..%2fapps/v1/x", f"{GROUP_VERSION}/%2e%2e/v2/x"])
async def test_paths_that_leave_the_group_version_are_not_forwarded(path: str) -> None:
    async with serving(discovering(respond), certificate="service") as backend, aggregating() as api:
        await register(api, backend.port)
        before = len(forwarded(backend))
        async with raw_client(api) as client:
            await client.send_all(request_head("GET", path))
            head, _ = await receive_head(client)
        assert head.startswith("HTTP/1.1 404 ")
        assert len(forwarded(backend)) == before


async def test_an_api_service_that_is_deleted_leads_nowhere() -> None:
    async with serving(discovering(respond), certificate="service") as backend, aggregating() as api:
        await register(api, backend.port)
        (await api.ask("DELETE", f"{API_SERVICES}/{NAME}")).expect(200)
        assert (await api.ask("GET", THINGS)).text == "404 page not found\n"


async def test_loopback_is_refused_without_the_flag() -> None:
    served = serving(discovering(respond), certificate="service")
    async with served as backend, aggregating(proxy=ProxySettings()) as api:
        await make_service(api)
        await api.create("apiservices", api_service(backend.port))
        found = await condition(api, lambda one: one["reason"] == "FailedDiscoveryCheck")
        assert found["message"].endswith(NOT_ALLOWED)
        unavailable = await api.ask("GET", THINGS)
        assert (unavailable.status, unavailable.text) == (503, "service unavailable\n")
        assert not backend.calls


async def test_our_own_certificate_is_of_the_ca_that_the_config_map_names() -> None:
    local = ProxySettings(allow_local_proxy_targets=True)
    system = "/api/v1/namespaces/cluster-system/configmaps/extension-apiserver-authentication"
    async with aggregating(proxy=local) as api, trio.open_nursery() as nursery:
        assert (await api.ask("GET", system)).status == 404  # nothing needs certificates yet
        [listener] = await trio.open_tcp_listeners(0, host=LOOPBACK)
        port = listener.socket.getsockname()[1]
        await make_service(api)
        await api.create("apiservices", api_service(port))
        data = (await eventually(api, system, lambda found: found.status == 200)).document["data"]
        assert orjson.loads(data["requestheader-allowed-names"]) == ["front-proxy-client"]
        assert orjson.loads(data["requestheader-username-headers"]) == ["X-Remote-User"]
        assert data["client-ca-file"] == (api.settings.pki / "ca.crt").read_text()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pki() / "service.pem", pki() / "service.key")
        context.load_verify_locations(cadata=data["requestheader-client-ca-file"])
        context.verify_mode = ssl.CERT_REQUIRED
        listeners = [trio.SSLListener(listener, context, https_compatible=True)]
        nursery.start_soon(trio.serve_listeners, serve_discovery, listeners)
        await condition(api, lambda one: one["status"] == "True")
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("given", [False, True], ids=["our certificate", "a given one"])
async def test_a_proxy_in_front_of_this_server_is_not_the_one_that_aggregated_servers_trust(
    given: bool,
) -> None:
    """Unless an operator gives this server a certificate of the same CA."""
    file = pki() / "client.pem", pki() / "client.key"
    proxy = ProxySettings(proxy_client_cert_file=file[0], proxy_client_key_file=file[1]) if given else None
    headers = proxy_settings(issuer("proxies"), requestheader_allowed_names=("front",))
    async with served_securely(request_headers=headers, proxy=proxy or ProxySettings()) as api:
        system = "/api/v1/namespaces/cluster-system/configmaps/extension-apiserver-authentication"
        data = (await eventually(api, system, lambda found: found.status == 200)).document["data"]
        expected = issuer("proxies").file if given else api.settings.pki / "proxy-ca.crt"
        assert data["requestheader-client-ca-file"] == expected.read_text()
        names = ["front"] if given else ["front-proxy-client"]
        assert orjson.loads(data["requestheader-allowed-names"]) == names


async def serve_discovery(stream: trio.SSLStream[trio.SocketStream]) -> None:
    """Show that the client has the common name that the ConfigMap allows."""
    async with stream:
        await stream.receive_some(65536)
        subject = dict(part for [part] in (stream.getpeercert() or {})["subject"])
        assert subject == {"commonName": "front-proxy-client"}
        await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")


async def test_the_config_map_is_restored() -> None:
    system = "/api/v1/namespaces/cluster-system/configmaps/extension-apiserver-authentication"
    async with serving(discovering(respond), certificate="service") as backend, aggregating() as api:
        await register(api, backend.port)
        await eventually(api, system, lambda found: found.status == 200)
        (await api.ask("DELETE", system)).expect(200)
        await eventually(api, system, lambda found: found.status == 200)
        merge = {"content-type": "application/merge-patch+json"}
        changed = {"data": {"client-ca-file": "other", "mine": "kept"}}
        (await api.ask("PATCH", system, changed, headers=merge)).expect(200)
        restored = await eventually(
            api, system, lambda found: found.document["data"]["client-ca-file"] != "other"
        )
        assert restored.document["data"]["mine"] == "kept"
