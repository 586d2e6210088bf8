"""pods/proxy: what a backend gets, what the client gets, and which targets are refused."""

from __future__ import annotations

import gzip
import zlib
from typing import Any

import httpx
import pytest
import trio

from rewound.gateway.proxy.upstream import NOT_ALLOWED
from rewound.gateway.settings.settings import ProxySettings
from tests.gateway.api import Api
from tests.gateway.proxy.backends import (
    POD,
    Call,
    make_pod,
    proxying,
    raw_client,
    receive_all,
    receive_head,
    request_head,
    serving,
)
from tests.settling import settled


async def hello(call: Call) -> None:
    await call.reply(b"hello", "Content-Type: text/x-test", "X-Own: 1", "Set-Cookie: a", "Set-Cookie: b")


def replying(body: bytes = b"", *fields: str, status: str = "200 OK") -> Any:
    async def respond(call: Call) -> None:
        await call.reply(body, *fields, status=status)

    return respond


def prior_knowledge(api: Api) -> httpx.AsyncClient:
    """A client that speaks HTTP/2 without TLS."""
    return httpx.AsyncClient(http1=False, http2=True, verify=False, base_url=api.client.base_url, timeout=30)


async def test_request_and_response_pass() -> None:
    async with serving(hello) as backend, proxying() as api:
        await make_pod(api)
        headers = {"x-sent": "yes", "x-forwarded-for": "10.9.8.7", "connection": "x-drop", "x-drop": "1"}
        path = f"{POD}:{backend.port}/proxy/a%20b/c%2Fd/%2E%2E//e/"
        response = await api.ask("GET", f"{path}?q=1&at=1&timeout=nonsense&watch=true;x", headers=headers)
        assert (response.status, response.body) == (200, b"hello")
        assert response.headers["content-type"] == "text/x-test" and response.headers["x-own"] == "1"
        assert response.headers.get_list("set-cookie") == ["a", "b"]
        [call] = backend.calls
        assert call.line == "GET /a%20b/c/e/?q=1&at=1&timeout=nonsense&watch=true;x HTTP/1.1"
        assert call.header("x-sent") == "yes"
        assert call.header("x-forwarded-for") == "10.9.8.7, 127.0.0.1"
        prefix = f"{POD}:{backend.port}/proxy"
        assert call.header("x-forwarded-uri") == f"{prefix}/a%20b/c/e/"
        assert call.header("host") == str(api.client.base_url.netloc.decode())
        assert call.header("authorization") is None and call.header("x-drop") is None


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_methods_and_bodies_pass(method: str) -> None:
    async def echo(call: Call) -> None:
        await call.reply(f"{call.line}|".encode() + await call.body(), status="418 Teapot")

    async with serving(echo) as backend, proxying() as api:
        await make_pod(api)
        response = await api.ask(method, f"{POD}:{backend.port}/proxy/x", b"body")
        assert response.status == 418
        assert response.body == f"{method} /x HTTP/1.1|body".encode()


async def test_head_has_the_length_and_no_body() -> None:
    async def head(call: Call) -> None:
        await call.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n")

    async with serving(head) as backend, proxying() as api:
        await make_pod(api)
        path = f"{POD}:{backend.port}/proxy/x"
        response = await api.ask("HEAD", path)
        assert (response.status, response.headers["content-length"]) == (200, "1234")
        async with prior_knowledge(api) as client:
            second = await client.head(path, headers={"authorization": "Bearer admin-token"})
            assert (second.status_code, second.headers["content-length"]) == (200, "1234")


async def test_chunks_and_trailers_pass() -> None:
    async def respond(call: Call) -> None:
        assert dechunked(await call.body()) == b"abcdef"
        await call.send(
            b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n"
            b"4\r\nwxyz\r\n0\r\nX-Sum: 9\r\n\r\n"
        )

    async with serving(respond) as backend, proxying() as api:
        await make_pod(api)
        async with raw_client(api) as client:
            fields = ("Transfer-Encoding: chunked", "Expect: 100-continue")
            await client.send_all(request_head("POST", f"{POD}:{backend.port}/proxy/x", *fields))
            assert await receive_head(client) == ("HTTP/1.1 100 Continue", b"")
            await client.send_all(b"3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n")
            head, rest = await receive_head(client)
            assert head.startswith("HTTP/1.1 200 ") and "trailer: X-Sum" in head
            while not rest.endswith(b"\r\n\r\n"):
                rest += await client.receive_some(1000)
            assert rest == b"4\r\nwxyz\r\n0\r\nx-sum: 9\r\n\r\n"


async def test_http2_clients_are_served() -> None:
    async def echo(call: Call) -> None:
        await call.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        body = await call.body()
        await call.send(b"%x\r\n%b\r\n0\r\nX-Sum: 9\r\n\r\n" % (len(body), body))

    async with serving(echo) as backend, proxying() as api:
        await make_pod(api)
        async with prior_knowledge(api) as client:
            path = f"{POD}:{backend.port}/proxy/x"
            authorization = {"authorization": "Bearer admin-token"}
            large = b"0123456789abcdef" * 20_000
            response = await client.post(path, content=large, headers=authorization)
            assert (response.http_version, response.status_code, response.content) == ("HTTP/2", 200, large)
            assert "transfer-encoding" not in response.headers

            async def parts() -> Any:
                for _ in range(5):
                    yield large

            response = await client.post(path, content=parts(), headers=authorization)
            assert len(response.content) > 5 * len(large)


async def test_bodies_have_no_limit() -> None:
    """Objects may have 3 MiB; what is only forwarded may have any size."""

    async def count(call: Call) -> None:
        await call.reply(b"%d" % len(await call.body()))

    size = 5 << 20
    async with serving(count) as backend, proxying() as api:
        await make_pod(api)
        path = f"{POD}:{backend.port}/proxy/x"
        assert (await api.ask("PUT", path, bytes(size))).body == b"%d" % size
        async with prior_knowledge(api) as client:
            sent = await client.put(
                path, content=bytes(size), headers={"authorization": "Bearer admin-token"}
            )
            assert sent.content == b"%d" % size


async def test_root_without_slash_is_redirected() -> None:
    async with serving(hello) as backend, proxying() as api:
        await make_pod(api)
        path = f"{POD}:{backend.port}/proxy"
        response = await api.ask("GET", f"{path}?a=b")
        assert (response.status, response.headers["location"]) == (301, f"{path}/?a=b")
        assert (await api.ask("POST", path)).status == 200
        assert (await api.ask("GET", f"{path}/")).status == 200
        assert [call.line for call in backend.calls] == ["POST / HTTP/1.1", "GET / HTTP/1.1"]


@pytest.mark.parametrize(
    ("sent", "got"),
    [
        ("/login", "{proxy}/login"),
        ("/a/b/?c=d#e", "{proxy}/a/b/?c=d#e"),
        ("http://{backend}/x", "{proxy}/x"),
        ("relative/x", "relative/x"),
        ("https://elsewhere.test/x", "https://elsewhere.test/x"),
        ("{proxy}/seen", "{proxy}/seen"),
    ],
)
async def test_redirects_lead_through_the_proxy(sent: str, got: str) -> None:
    port = 0

    async def respond(call: Call) -> None:
        location = sent.format(backend=f"127.0.0.1:{port}", proxy=f"{POD}:{port}/proxy")
        await call.reply(b"", f"Location: {location}", status="302 Found")

    async with serving(respond) as backend, proxying() as api:
        port = backend.port
        await make_pod(api)
        response = await api.ask("GET", f"{POD}:{port}/proxy/start")
        assert response.status == 302
        assert response.headers["location"] == got.format(proxy=f"{POD}:{port}/proxy")


PAGE = (
    b'<!DOCTYPE html><HTML><a HREF="/x?a=1&amp;b=2">x</a><img src=/i.png alt="/no"><a href=\'rel\'>'
    b'<script src="/s.js">if (a < b) x = \'<a href="/not">\'</script><!-- <a href="/not"> --><p title="/no">'
)
REWRITTEN = (
    b'<!DOCTYPE html><HTML><a HREF="%b/x?a=1&amp;b=2">x</a><img src="%b/i.png" alt="/no"><a href=\'rel\'>'
    b'<script src="%b/s.js">if (a < b) x = \'<a href="/not">\'</script><!-- <a href="/not"> --><p title="/no">'
)


@pytest.mark.parametrize("coding", ["", "gzip", "deflate"])
async def test_links_in_pages_lead_through_the_proxy(coding: str) -> None:
    async def respond(call: Call) -> None:
        body, fields = PAGE, ["Content-Type: text/html; charset=utf-8"]
        if coding:
            pack = zlib.compressobj(wbits=31 if coding == "gzip" else -15)
            body = pack.compress(PAGE) + pack.flush()
            fields.append(f"Content-Encoding: {coding}")
        lines = "".join(f"{one}\r\n" for one in fields)
        await call.send(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n{lines}\r\n".encode())
        for at in range(0, len(body), 7):
            await call.send(body[at : at + 7])

    async with serving(respond) as backend, proxying() as api:
        await make_pod(api)
        proxy = f"{POD}:{backend.port}/proxy".encode()
        async with raw_client(api) as client:
            fields = ("Connection: close",)
            await client.send_all(request_head("GET", f"{POD}:{backend.port}/proxy/", *fields))
            head, rest = await receive_head(client)
            rest += await receive_all(client)
        assert "content-length" not in head
        body = dechunked(rest)
        if coding:
            body = gzip.decompress(body) if coding == "gzip" else zlib.decompress(body, -15)
        assert body == REWRITTEN % (proxy, proxy, proxy)


def dechunked(data: bytes) -> bytes:
    body = b""
    while data:
        size, _, data = data.partition(b"\r\n")
        body, data = body + data[: int(size, 16)], data[int(size, 16) + 2 :]
    return body


async def test_backends_grant_no_rights_to_other_origins() -> None:
    fields = (
        "Access-Control-Allow-Origin: *",
        "Cache-Control: public, max-age=9",
        "Audit-Id: x",
        "Upgrade: h2c",
    )
    async with serving(replying(b"", *fields)) as backend, proxying() as api:
        await make_pod(api)
        response = await api.ask("GET", f"{POD}:{backend.port}/proxy/x")
        assert "access-control-allow-origin" not in response.headers and "upgrade" not in response.headers
        assert response.headers.get_list("cache-control") == ["no-cache, private", "public, max-age=9"]
        assert response.headers["audit-id"] != "x"


async def test_forwarded_request_is_a_long_running_one() -> None:
    arrived, go_on = trio.Event(), trio.Event()

    async def late(call: Call) -> None:
        arrived.set()
        await go_on.wait()
        await call.reply(b"late")

    running = (
        'apiserver_longrunning_requests{component="apiserver",group="",resource="pods",scope="resource",'
        'subresource="proxy",verb="GET",version="v1"}'
    )
    async with serving(late) as backend, proxying() as api, trio.open_nursery() as nursery:
        await make_pod(api)
        nursery.start_soon(api.ask, "GET", f"{POD}:{backend.port}/proxy/x")
        await arrived.wait()
        assert f"{running} 1\n" in (await api.ask("GET", "/metrics")).text
        go_on.set()
        await settled()
        assert f"{running} 0\n" in (await api.ask("GET", "/metrics")).text


async def test_https_pods_need_no_known_certificate() -> None:
    async with serving(hello, certificate="server") as backend, proxying() as api:
        await make_pod(api)
        assert (
            await api.ask("GET", f"{POD.removesuffix('p')}https:p:{backend.port}/proxy/x")
        ).body == b"hello"
        plain = (await api.ask("GET", f"{POD}:{backend.port}/proxy/x")).expect(503)
        assert plain["message"].startswith("error trying to reach service: ")


async def test_first_container_port_is_the_default() -> None:
    async with serving(hello) as backend, proxying() as api:
        ports = [{"containerPort": backend.port}]
        containers = [{"name": "a", "image": "i"}, {"name": "b", "image": "i", "ports": ports}]
        await make_pod(api, containers=containers)
        assert (await api.ask("GET", f"{POD}/proxy/x")).body == b"hello"


async def test_local_addresses_are_refused_by_default() -> None:
    async with serving(hello) as backend, proxying(proxy=ProxySettings()) as api:
        await make_pod(api)
        path = f"{POD}:{backend.port}/proxy/x"
        for ip in ("127.0.0.1", "169.254.169.254", "::1", "fe80::1", "::ffff:127.0.0.1", "224.0.0.1"):
            status = {"status": {"podIP": ip, "podIPs": [{"ip": ip}]}}
            merge = {"content-type": "application/merge-patch+json"}
            await api.ask("PATCH", f"{POD}/status", status, headers=merge)
            refused = (await api.ask("GET", path)).expect(400)
            assert (refused["reason"], refused["message"]) == ("BadRequest", NOT_ALLOWED)
            assert NOT_ALLOWED.startswith("address not allowed: ")
            assert "--allow-local-proxy-targets" in NOT_ALLOWED
        assert backend.calls == []


async def test_what_cannot_be_reached_is_unavailable() -> None:
    async with serving(hello) as backend, proxying() as api:
        (await api.ask("GET", f"{POD}/proxy/x")).expect(404)
        await make_pod(api)
        free = backend.port
    async with proxying() as api:
        await make_pod(api)
        status = (await api.ask("GET", f"{POD}:{free}/proxy/x")).expect(503)
        expected = f"error trying to reach service: dial tcp 127.0.0.1:{free}: connect: connection refused"
        assert (status["reason"], status["message"]) == ("ServiceUnavailable", expected)
        for name in ("ftp:p:1", "a:b:c:d", ":1"):
            status = (await api.ask("GET", f"{POD.removesuffix('p')}{name}/proxy/x")).expect(400)
            assert status["message"] == f'invalid pod request "{name}"'
        (await api.ask("GET", f"{POD}:nonsense/proxy/x")).expect(503)
        status = (await api.ask("GET", f"{POD}:1/proxy/x", dryRun="All")).expect(400)
        assert status["message"] == "dryRun is not supported"


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X-Large: " + b"x" * 300_000 + b"\r\n\r\n",
    ],
)
async def test_what_is_no_response_is_unavailable(sent: bytes) -> None:
    async def respond(call: Call) -> None:
        await call.send(sent)

    async with serving(respond) as backend, proxying() as api:
        await make_pod(api)
        status = (await api.ask("GET", f"{POD}:{backend.port}/proxy/x")).expect(503)
        assert status["message"].startswith("error trying to reach service: ")


async def test_large_heads_pass() -> None:
    large = "x" * 60_000
    async with serving(replying(b"ok", f"X-Large: {large}")) as backend, proxying() as api:
        await make_pod(api)
        response = await api.ask("GET", f"{POD}:{backend.port}/proxy/x")
        assert response.headers["x-large"] == large and response.body == b"ok"


async def test_rights_are_those_of_the_method_on_the_subresource() -> None:
    async with serving(hello) as backend, proxying() as api:
        await make_pod(api)
        path = f"{POD}:{backend.port}/proxy/x"
        for method, verb in (("GET", "get"), ("HEAD", "get"), ("POST", "create"), ("DELETE", "delete")):
            response = await api.ask(method, path, token="alice-token")
            assert response.status == 403
            if method != "HEAD":
                assert f'cannot {verb} resource "pods/proxy"' in response.document["message"]
        assert backend.calls == []
