"""log, exec, attach and portforward: the requests that the kubelet of the pod's node gets, and those that are
refused.
"""

from __future__ import annotations

from typing import Any

import pytest

from rewound.gateway.proxy.upstream import NOT_ALLOWED
from rewound.gateway.settings.checks import SettingsError
from rewound.gateway.settings.settings import ProxySettings
from tests.gateway.api import Api
from tests.gateway.outgoing.https_peer import pki
from tests.gateway.proxy.backends import (
    POD,
    Call,
    make_node,
    make_pod,
    proxying,
    raw_client,
    receive_all,
    receive_head,
    request_head,
    serving,
)

UPGRADE = ("Connection: Upgrade", "Upgrade: SPDY/3.1", "Content-Length: 0")
TWO = [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]


async def kubelet(call: Call) -> None:
    if call.header("upgrade"):
        await call.send(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n"
        )
        while data := await call.read():
            await call.send(data.upper())
            if data.endswith(b"."):
                return
    await call.reply(b"line 1\nline 2\n", "Content-Type: application/x", "X-Own: 1")


async def message(api: Api, path: str, code: int, method: str = "GET") -> str:
    return str((await api.ask(method, f"{POD}/{path}")).expect(code)["message"])


async def test_log_is_plain_text_of_the_kubelet() -> None:
    async with serving(kubelet, certificate="server") as backend, proxying() as api:
        await make_node(api, backend.port)
        await make_pod(api, node="n", containers=TWO)
        query = "container=b&follow=true&previous=0&tailLines=5&limitBytes=9&sinceTime=2024-01-02T03:04:05%2B01:00"
        response = await api.ask("GET", f"{POD}/log?{query}", headers={"accept": "application/json, */*"})
        assert (response.status, response.text) == (200, "line 1\nline 2\n")
        assert response.headers["content-type"] == "text/plain" and "x-own" not in response.headers
        expected = "follow=true&limitBytes=9&sinceTime=2024-01-02T02%3A04%3A05Z&tailLines=5"
        [call] = backend.calls
        assert call.line == f"GET /containerLogs/default/p/b?{expected} HTTP/1.1"
        assert call.header("authorization") is None and call.header("user-agent") is None


@pytest.mark.parametrize(
    ("method", "path", "line"),
    [
        ("POST", "exec?command=sh&command=-c&command=a%20b&stdin=true&stdout=1&tty=true&stderr=false", None),
        ("GET", "attach?stdout=true&stderr=true&container=c", "/attach/default/p/c?error=1&output=1"),
        ("POST", "portforward?ports=80,443", "/portForward/default/p?port=80%2C443"),
        ("POST", "portforward", "/portForward/default/p"),
    ],
)
async def test_streams_are_upgrades_of_the_kubelet(method: str, path: str, line: str | None) -> None:
    line = line or "/exec/default/p/c?command=sh&command=-c&command=a+b&input=1&output=1&tty=1"
    async with serving(kubelet, certificate="server") as backend, proxying() as api:
        await make_node(api, backend.port)
        await make_pod(api, node="n")
        async with raw_client(api) as client:
            await client.send_all(request_head(method, f"{POD}/{path}", *UPGRADE) + b"ab")
            head, rest = await receive_head(client)
            assert head.startswith("HTTP/1.1 101 ")
            await client.send_all(b"c.")
            assert rest + await receive_all(client) == b"ABC."
        assert backend.calls[0].line == f"{method} {line} HTTP/1.1"
        assert await message(api, path, 400, method) == "Upgrade request required"


async def test_kubelets_are_verified_and_know_the_server() -> None:
    names: list[Any] = []

    async def respond(call: Call) -> None:
        certificate = call.stream.getpeercert()  # type: ignore[attr-defined]
        names.append(certificate and dict(field[0] for field in certificate["subject"])["commonName"])
        await kubelet(call)

    known = ProxySettings(
        kubelet_certificate_authority=pki() / "ca.pem",
        kubelet_client_certificate=pki() / "client.pem",
        kubelet_client_key=pki() / "client.key",
        allow_local_proxy_targets=True,
    )
    async with serving(respond, certificate="server") as backend, proxying(proxy=known) as api:
        await make_node(api, backend.port)
        await make_pod(api, node="n")
        assert (await api.ask("GET", f"{POD}/log")).status == 200
        assert names and names[0]
    async with serving(respond, certificate="service") as backend, proxying(proxy=known) as api:
        await make_node(api, backend.port)
        await make_pod(api, node="n")
        assert "x509: " in await message(api, "log", 500)
        assert (await api.ask("GET", f"{POD}/log?insecureSkipTLSVerifyBackend=true")).status == 200


async def test_options_are_checked() -> None:
    async with proxying() as api:
        assert await message(api, "log", 404) == 'pods "p" not found'
        await make_pod(api, containers=TWO, initContainers=[{"name": "i", "image": "i"}])
        choose = "a container name must be specified for pod p, choose one of: [i a b]"
        assert await message(api, "log", 400) == await message(api, "exec", 400) == choose
        assert await message(api, "attach?container=x", 400) == "container x is not valid for pod p"
        for query, why in (
            ("tailLines=-1", "tailLines: Invalid value: -1: must be greater than or equal to 0"),
            ("limitBytes=0", "limitBytes: Invalid value: 0: must be greater than 0"),
            ("sinceSeconds=0", "sinceSeconds: Invalid value: 0: must be greater than 0"),
        ):
            text = await message(api, f"log?{query}", 422)
            assert text == f'PodLogOptions "p" is invalid: {why}'
        both = await message(api, "log?sinceSeconds=1&sinceTime=2024-01-02T03:04:05Z", 422)
        assert "at most one of `sinceTime` or `sinceSeconds` may be specified" in both
        assert await message(api, "log?tailLines=x", 400) == 'strconv.ParseInt: parsing "x": invalid syntax'
        assert "parsing time" in await message(api, "log?sinceTime=today", 400)
        assert "parsing" in await message(api, "portforward?ports=http", 400, "POST")
        (await api.ask("DELETE", f"{POD}/log")).expect(405)
        (await api.ask("GET", f"{POD}/log", token="alice-token")).expect(403)


async def test_what_is_missing_is_said() -> None:
    async with proxying() as api:
        await make_pod(api, ip="")
        assert (await api.ask("GET", f"{POD}/log")).status == 204
        assert await message(api, "exec", 400, "POST") == "pod p does not have a host assigned"
        assert await message(api, "portforward", 400) == "pod p does not have a host assigned"
        assert await message(api, "proxy/", 400) == "address not allowed: the pod has no address yet"
        await api.delete("pods", "p")
        await make_pod(api, node="n", ip="")
        missing = 'pod p is on node n, which does not exist: nodes "n" not found'
        for asked in ("log", "exec?command=x", "attach", "portforward?ports=80"):
            assert await message(api, asked, 404) == missing
        await make_node(api, address="")
        assert await message(api, "log", 503) == (
            "node n reports no address of its agent in status.addresses: "
            "no preferred addresses found; known addresses: []"
        )


async def test_kubelets_on_local_addresses_are_refused_by_default() -> None:
    async with serving(kubelet, certificate="server") as backend, proxying(proxy=ProxySettings()) as api:
        await make_node(api, backend.port)
        await make_pod(api, node="n")
        assert await message(api, "log", 400) == NOT_ALLOWED
        node = (await api.ask("GET", "/api/v1/nodes/n/proxy/healthz")).expect(400)
        assert node["message"] == NOT_ALLOWED
        assert backend.calls == []


async def test_errors_of_kubelets_become_statuses() -> None:
    codes = iter((400, 404, 500, 502, 302, 403))

    async def respond(call: Call) -> None:
        await call.reply(b"why", "Location: /x", status=f"{next(codes)} X")

    async with serving(respond, certificate="server") as backend, proxying() as api:
        await make_node(api, backend.port)
        await make_pod(api, node="n")
        assert await message(api, "log", 400) == "why"
        assert (
            await message(api, "log", 404) == "the server could not find the requested resource ( pods/log p)"
        )
        assert await message(api, "log", 500) == "Internal error occurred: why"
        assert await message(api, "log", 502) == (
            'an error on the server ("why") has prevented the request from succeeding ( pods/log p)'
        )
        assert await message(api, "log", 500) == "redirects forbidden"
        assert await message(api, "log", 403) == "why ( pods/log p)"


async def test_nodes_lead_to_the_kubelet_or_to_another_port() -> None:
    async def respond(call: Call) -> None:
        await call.reply(call.line.encode())

    async with (
        serving(respond, certificate="server") as secure,
        serving(respond) as plain,
        proxying() as api,
    ):
        (await api.ask("GET", "/api/v1/nodes/n/proxy/")).expect(404)
        await make_node(api, secure.port)
        for name in ("n", f"n:{secure.port}", f"n:{plain.port}", f"https:n:{secure.port}"):
            response = await api.ask("GET", f"/api/v1/nodes/{name}/proxy/metrics?x=y")
            assert response.text == "GET /metrics?x=y HTTP/1.1"
        assert (len(secure.calls), len(plain.calls)) == (3, 1)


def test_settings_are_checked() -> None:
    for wrong in (
        {"kubelet_client_certificate": pki() / "client.pem"},
        {"kubelet_client_key": pki() / "client.key"},
        {"kubelet_certificate_authority": pki() / "client.key"},
        {"kubelet_preferred_address_types": ("InternalIP,Nonsense",)},
        {"kubelet_timeout": 0.0},
    ):
        with pytest.raises(SettingsError):
            ProxySettings(**wrong)
    assert ProxySettings(kubelet_preferred_address_types=("InternalIP,Hostname",)).address_types == [
        "InternalIP",
        "Hostname",
    ]
