"""Heads of responses: cached heads stay correct, and no value can inject a header."""

import uuid

from gateway.connections.heads import CLOSE, Heads
from gateway.message import Request, Response
from tests.gateway.connections.http_server import served


async def test_headers_of_the_handler_are_sent() -> None:
    async def handle(request: Request) -> Response:
        return Response(201, b"{}", headers=[(b"audit-id", b"7"), (b"cache-control", b"no-cache, private")])

    async with served(handle) as host, host.connect() as client:
        reply = await client.get()
        assert (reply.status, reply.headers[b"audit-id"]) == (201, b"7")
        assert reply.headers[b"cache-control"] == b"no-cache, private"
        assert reply.headers[b"content-type"] == b"application/json"


async def test_line_breaks_in_values_do_not_reach_the_wire() -> None:
    async def handle(request: Request) -> Response:
        return Response(200, b"", headers=[(b"warning", b"299 - a\r\nset-cookie: b\nc\rd")])

    async with served(handle) as host, host.connect() as client:
        reply = await client.get()
        assert reply.headers[b"warning"] == b"299 - a set-cookie: b c d"
        assert b"set-cookie" not in reply.headers


def test_cached_heads_differ_by_status_and_content_type() -> None:
    plain = b"".join(Heads().render("GET", Response(200, b"abc", b"text/plain"), b""))
    assert plain.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"content-type: text/plain\r\n" in plain
    assert plain.endswith(b"content-length: 3\r\n\r\nabc")
    refused, _ = Heads().render("GET", Response(404, b""), CLOSE)
    assert refused.startswith(b"HTTP/1.1 404 Not Found\r\n")
    assert b"connection: close\r\ncontent-length: 0\r\n" in refused


def test_unknown_status_has_a_status_line() -> None:
    assert Heads().render("GET", Response(299, b""), b"")[0].startswith(b"HTTP/1.1 299 Status\r\n")


def test_every_response_is_private_and_has_its_own_audit_id() -> None:
    heads = Heads()
    plain, warned = Response(200, b"{}"), Response(200, b"{}", headers=[(b"warning", b"x")])
    made = [heads.render("GET", response, b"")[0] for response in (plain, plain, warned)]
    made.append(heads.streaming(plain, b"", chunked=True))
    ids = set()
    for head in made:
        assert head.count(b"cache-control: no-cache, private\r\n") == 1
        [line] = [line for line in head.split(b"\r\n") if line.startswith(b"audit-id: ")]
        ids.add(str(uuid.UUID(line.removeprefix(b"audit-id: ").decode())))
    assert len(ids) == 4


def test_handler_may_allow_caches() -> None:
    public = Response(200, b"", headers=[(b"cache-control", b"public, immutable")])
    head, _ = Heads().render("GET", public, b"")
    assert head.count(b"cache-control") == 1
    assert b"cache-control: public, immutable\r\n" in head
