"""The parser reuses the headers of an equal header block; the result always equals that of parsing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.connections.limits import Limits
from gateway.connections.parser import Parser
from gateway.requests.request import Peer

PEER = Peer()
BLOCKS = [
    b"Host: t\r\n\r\n",
    b"Host: t\r\nAccept: */*\r\nX-A: 1\r\nX-A: 2\r\nConnection: keep-alive\r\n\r\n",
    b"Host: t\r\nConnection: close\r\n\r\n",
    b"Host: t\r\nContent-Length: 0\r\n\r\n",
    b"Host: t\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
    b"Host: t\r\n\r\nGET /second HTTP/1.1\r\nHost: t\r\n\r\n",
    b"Host: t\r\n\r\n\r\n",
    b"Host: t\r\n\r\nGET /unfinished HT",
    b"Accept: */*\r\n\r\n",
]
LINES = [
    b"GET / HTTP/1.1",
    b"GET /a?b=c?d&e HTTP/1.1",
    b"GET /a? HTTP/1.1",
    b"HEAD /%41~!$&'()*+,;=:@ HTTP/1.1",
    b"DELETE /x HTTP/1.1",
    b"POST /x HTTP/1.1",
    b"GET /a#b HTTP/1.1",
    b"GET /a?b#c HTTP/1.1",
    b"GET  / HTTP/1.1",
    b"GET / HTTP/1.1 ",
    b"GET / HTTP/1.0",
    b"GET / HTTP/2.0",
    b"GET / HTTP/1.11",
    b"GET http://t/a HTTP/1.1",
    b"GET * HTTP/1.1",
    b"GET /\x7f HTTP/1.1",
    b"GET /\xe9 HTTP/1.1",
    b"GET /\n HTTP/1.1",
    b"get / HTTP/1.1",
    b"",
    b"Host: t",
    b"GET /" + b"a" * 20_000 + b" HTTP/1.1",
]


def outcome(parser: Parser) -> object:
    requests = [(r.method, r.path, r.query, r.headers, r.body, r.repeated) for r in parser.ready]
    return requests, parser.fault, parser.closing, parser.http10, parser.mid_message, parser.expects_continue


def prime(block: bytes) -> Parser:
    parser = Parser(PEER, Limits())
    parser.feed(b"GET /first HTTP/1.1\r\n" + block)
    parser.ready = []
    return parser


def same_as_parsed(line: bytes, block: bytes) -> None:
    primed = prime(block)
    if primed.fault is not None or primed.closing or primed.mid_message:
        return
    fresh = Parser(PEER, Limits())
    primed.feed(line + b"\r\n" + block)
    fresh.feed(line + b"\r\n" + block)
    assert outcome(primed) == outcome(fresh)


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("line", LINES)
def test_cached_headers_equal_parsed_ones(line: bytes, block: bytes) -> None:
    same_as_parsed(line, block)


@given(
    method=st.sampled_from([b"GET", b"HEAD", b"DELETE", b"PUT", b"GE"]),
    target=st.binary(max_size=12),
    end=st.sampled_from([b" HTTP/1.1", b" HTTP/1.0", b""]),
    block=st.sampled_from(BLOCKS),
)
def test_cached_headers_equal_parsed_ones_for_any_target(
    method: bytes, target: bytes, end: bytes, block: bytes
) -> None:
    same_as_parsed(method + b" /" + target + end, block)


def test_request_with_cached_headers_gets_its_own_copy() -> None:
    parser = prime(BLOCKS[0])
    parser.feed(b"GET /a HTTP/1.1\r\n" + BLOCKS[0])
    parser.feed(b"GET /b HTTP/1.1\r\n" + BLOCKS[0])
    first, second = parser.ready
    first.headers[b"host"] = b"changed"
    assert second.headers == {b"host": b"t"}


def test_new_header_block_replaces_the_cached_one() -> None:
    parser = prime(BLOCKS[0])
    for block, expected in ((BLOCKS[1], b"1, 2"), (BLOCKS[0], None), (BLOCKS[1], b"1, 2")):
        parser.ready = []
        parser.feed(b"GET / HTTP/1.1\r\n" + block)
        assert parser.ready[0].headers.get(b"x-a") == expected
