"""Response heads: cached heads stay correct, and no value can inject a header."""

import uuid

import pytest

from rewound.gateway.connections.heads import HeadFormat, Heads, all_fields
from rewound.gateway.connections.http1.connection import HTTP1, closing_bytes
from rewound.gateway.connections.http2.response_heads import HTTP2
from rewound.gateway.exchange import Exchange, numbered_id
from rewound.gateway.message import Request, Response, SharedFields
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


def head(response: Response, heads: Heads | None = None) -> bytes:
    return (heads or Heads(HTTP1)).head(response, None, b"\r\n")


def test_cached_heads_differ_by_status_and_content_type() -> None:
    heads = Heads(HTTP1)
    plain = head(Response(200, b"abc", b"text/plain"), heads)
    assert plain.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"content-type: text/plain\r\n" in plain
    assert plain.endswith(b"\r\n\r\n")
    assert head(Response(404, b""), heads).startswith(b"HTTP/1.1 404 Not Found\r\n")
    closing = closing_bytes(heads, Response(404, b"abc"))
    assert closing.endswith(b"connection: close\r\ncontent-length: 3\r\n\r\nabc")


def test_unknown_status_has_a_status_line() -> None:
    assert head(Response(299, b"")).startswith(b"HTTP/1.1 299 Status\r\n")


@pytest.mark.parametrize("form", [HTTP1, HTTP2])
def test_encoded_heads_have_the_fields_of_every_response(form: HeadFormat) -> None:
    for response in (
        Response(200, b"{}"),
        Response(200, b"{}", headers=[(b"warning", b"x")], shared=SharedFields([(b"a", b"b")])),
        Response(200, b"{}", headers=[(b"audit-id", b"7"), (b"warning", b"a\r\nb")]),
    ):
        exchange = Exchange()
        exchange.begin()
        exchange.audit_number = 7
        encoded = Heads(form).head(response, exchange, b"")
        for field in all_fields(response, exchange):
            assert form.fields([field]) in encoded
        assert form.fields([(b"audit-id", numbered_id(7))]) in encoded


def test_every_response_is_private_and_has_its_own_audit_id() -> None:
    heads = Heads(HTTP1)
    plain, warned = Response(200, b"{}"), Response(200, b"{}", headers=[(b"warning", b"x")])
    ids = set()
    for made in [head(response, heads) for response in (plain, plain, warned, warned)]:
        assert made.count(b"cache-control: no-cache, private\r\n") == 1
        [line] = [line for line in made.split(b"\r\n") if line.startswith(b"audit-id: ")]
        ids.add(str(uuid.UUID(line.removeprefix(b"audit-id: ").decode())))
    assert len(ids) == 4


def test_handler_may_allow_caches() -> None:
    made = head(Response(200, b"", headers=[(b"cache-control", b"public, immutable")]))
    assert made.count(b"cache-control") == 1
    assert b"cache-control: public, immutable\r\n" in made
