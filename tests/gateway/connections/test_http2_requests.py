"""HTTP/2, via ALPN or its preface, reaches the same handler with the same requests."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import h2.events
import httpx
import trio

from rewound.gateway.connections.limits import Limits
from rewound.gateway.message import Request, Response
from tests.gateway.connections.http2_client import http2_client
from tests.gateway.connections.http_server import Host, authority, served


@asynccontextmanager
async def client_of(host: Host, *, certificate: bool = False) -> AsyncIterator[httpx.AsyncClient]:
    context = authority().client_context(certificate=certificate)
    base = f"https://localhost:{host.secure[1]}"
    async with httpx.AsyncClient(http2=True, verify=context, base_url=base, trust_env=False) as client:
        yield client


class Recorder:
    def __init__(self, response: Response) -> None:
        self.requests: list[Request] = []
        self._response = response

    async def __call__(self, request: Request) -> Response:
        self.requests.append(request)
        return self._response


async def test_handler_gets_the_same_request_as_over_http_1() -> None:
    handle = Recorder(Response(201, b"made", b"text/plain", [(b"audit-id", b"7")]))
    async with served(handle) as host, client_of(host, certificate=True) as client:
        response = await client.post(
            "/a%2Fb?x=1&y=%20", content=b"body", headers=[("X-A", "1"), ("X-A", "2"), ("X-B", "3")]
        )
    assert response.http_version == "HTTP/2"
    assert (response.status_code, response.content, response.headers["audit-id"]) == (201, b"made", "7")
    assert response.headers["content-type"] == "text/plain"
    assert response.headers["date"].endswith(" GMT")
    assert "server" not in response.headers
    [request] = handle.requests
    assert (request.method, request.path, request.query, request.body) == (
        "POST",
        "/a%2Fb",
        "x=1&y=%20",
        b"body",
    )
    assert request.headers[b"x-a"] == b"1, 2"
    assert request.repeated == {b"x-a": [b"1", b"2"]}
    assert request.headers[b"host"] == b"localhost:%d" % host.secure[1]
    assert request.peer.secure
    assert request.peer.address == "127.0.0.1"
    assert request.peer.certificate is not None
    assert request.peer.certificate["subject"] == ((("commonName", "client"),),)


async def test_all_requests_of_a_connection_share_its_peer() -> None:
    handle = Recorder(Response(200, b""))
    async with served(handle) as host, client_of(host) as client:
        await client.get("/1")
        await client.get("/2")
        assert host.statistics.accepted == 1
    first, second = handle.requests
    assert first.peer is second.peer
    assert first.peer.certificate is None


async def test_large_responses_arrive_whole() -> None:
    handle = Recorder(Response(200, b"0123456789" * 200_000))
    async with served(handle) as host, client_of(host) as client:
        assert (await client.get("/")).content == b"0123456789" * 200_000


async def test_large_bodies_arrive_whole() -> None:
    handle = Recorder(Response(200, b""))
    async with served(handle) as host, client_of(host) as client:
        await client.put("/", content=b"0123456789" * 200_000)
    assert handle.requests[0].body == b"0123456789" * 200_000


async def test_head_and_no_content_have_no_body() -> None:
    handle = Recorder(Response(200, b"four"))
    async with served(handle) as host, client_of(host) as client:
        response = await client.head("/")
        assert (response.headers["content-length"], response.content) == ("4", b"")
    async with served(Recorder(Response(204, b""))) as host, client_of(host) as client:
        response = await client.get("/")
        assert (response.status_code, response.content) == (204, b"")


async def test_requests_run_concurrently() -> None:
    entered, both = 0, trio.Event()

    async def handle(request: Request) -> Response:
        nonlocal entered
        entered += 1
        if entered == 2:
            both.set()
        await both.wait()
        return Response(200, request.path.encode())

    responses = []
    async with served(handle) as host, client_of(host) as client:

        async def get(path: str) -> None:
            responses.append((await client.get(path)).text)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(get, "/1")
            nursery.start_soon(get, "/2")
        assert host.statistics.requests == 2
    assert sorted(responses) == ["/1", "/2"]


async def test_more_than_a_thousand_requests_on_one_connection() -> None:
    # Some servers close connections after a thousand requests, unless configured otherwise.
    async with served() as host, http2_client(host) as client:
        for _ in range(11):
            for number in [await client.request() for _ in range(100)]:
                await client.until(h2.events.StreamEnded, number)
            client.events.clear()
        assert (host.statistics.accepted, host.statistics.requests) == (1, 1100)


async def test_prior_knowledge_works_without_tls() -> None:
    async with (
        served() as host,
        httpx.AsyncClient(http1=False, http2=True, verify=False, trust_env=False) as client,
    ):
        response = await client.get(f"http://127.0.0.1:{host.insecure[1]}/plain")
        assert (response.http_version, response.text) == ("HTTP/2", "GET /plain")


async def test_handler_that_raises_gives_500_and_the_connection_survives() -> None:
    async def handle(request: Request) -> Response:
        if request.path == "/broken":
            raise RuntimeError("a bug of ours")
        return Response(200, b"fine")

    async with served(handle) as host, client_of(host) as client:
        assert (await client.get("/broken")).status_code == 500
        assert (await client.get("/")).text == "fine"
        assert (host.statistics.accepted, host.statistics.failed) == (1, 1)


async def test_line_breaks_in_values_do_not_reach_the_wire() -> None:
    handle = Recorder(Response(200, b"", headers=[(b"warning", b"299 - a\r\nset-cookie: b")]))
    async with served(handle) as host, client_of(host) as client:
        response = await client.get("/")
        assert response.headers["warning"] == "299 - a set-cookie: b"
        assert "set-cookie" not in response.headers


async def test_target_above_the_limit_is_refused() -> None:
    handle = Recorder(Response(200, b"{}"))
    async with served(handle) as host, client_of(host) as client:
        assert (await client.get("/a", params={"q": "x" * 60_000})).status_code == 200
        assert len(handle.requests[0].query) == 60_002
    async with served(handle, Limits(target=1000)) as host, client_of(host) as client:
        refused = await client.get("/a", params={"q": "x" * 1000})
        assert refused.status_code == 414
        assert refused.headers["cache-control"] == "no-cache, private"
        assert len(handle.requests) == 1
