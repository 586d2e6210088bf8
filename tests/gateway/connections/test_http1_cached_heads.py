"""The parser reuses the headers of an equal header block; the result always equals that of parsing."""

from hypothesis import given
from hypothesis import strategies as st

from rewound.gateway.connections.http1.parser import Parser
from rewound.gateway.connections.limits import Limits
from rewound.gateway.message import Peer
from tests.cases import cases

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


@cases("block", BLOCKS)
@cases("line", LINES)
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


HEAD = b"Host: t\r\nX-A: 1\r\nX-A: 2\r\n%bX-B: 3\r\n\r\n"
LENGTHS = [
    b"%d",
    b"0%d",
    b"+%d",
    b" %d",
    b"%d ",
    b"\t%d",
    b"%d, %d",
    b"0x%d",
    b"-%d",
    b"%d\r\n",
    b"",
    b"%d" + b"0" * 9,
]


def posted(field: bytes, body: bytes, line: bytes = b"POST /first HTTP/1.1") -> bytes:
    return line + b"\r\n" + HEAD % field + body


def after_a_body(data: bytes) -> None:
    """Compare how these bytes are parsed after a request with a body, and as the first request."""
    primed, fresh = Parser(PEER, Limits(body=100)), Parser(PEER, Limits(body=100))
    primed.feed(posted(b"Content-Length: 5\r\n", b"first"))
    assert primed.ready.pop().body == b"first"
    primed.feed(data)
    fresh.feed(data)
    assert outcome(primed) == outcome(fresh)
    if fresh.incomplete is not None:
        assert (primed.length, primed.received) == (fresh.length, fresh.received)


@cases("sent", [0, 1, 5, 99, 100, 101])
@cases("name", [b"Content-Length:", b"content-length:", b"Content-Length: ", b"X-Length: "])
def test_requests_with_bodies_equal_parsed_ones_for_any_length(name: bytes, sent: int) -> None:
    for length in LENGTHS:
        for claimed in {sent, max(sent - 1, 0), sent + 1}:
            field = name + length.replace(b"%d", b"%d" % claimed) + b"\r\n"
            after_a_body(posted(field, b"x" * sent))


@cases("line", LINES)
def test_requests_with_bodies_equal_parsed_ones_for_any_line(line: bytes) -> None:
    after_a_body(posted(b"Content-Length: 4\r\n", b"body", line))


@cases(
    "field",
    [
        b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        b"Content-Length: 4\r\nContent-Length: 4\r\n",
        b"Content-Length: 4\r\nExpect: 100-continue\r\n",
        b"Content-Length: 4\r\nConnection: close\r\n",
        b"Content-Length: 4\r\n Content-Length: 9\r\n",
        b"Content-Length: 4\n",
        b"Transfer-Encoding: chunked\r\n",
        b"",
    ],
)
def test_other_framing_is_parsed(field: bytes) -> None:
    for body in (b"body", b"body" + posted(b"Content-Length: 4\r\n", b"next"), b"0\r\n\r\n"):
        after_a_body(posted(field, body))


@given(body=st.binary(max_size=12), length=st.integers(0, 12), rest=st.binary(max_size=4))
def test_requests_with_any_body_equal_parsed_ones(body: bytes, length: int, rest: bytes) -> None:
    after_a_body(posted(b"Content-Length: %d\r\n" % length, body) + rest)


def test_repeated_head_with_a_body_is_not_parsed_again() -> None:
    parser = Parser(PEER, Limits())
    parser.feed(posted(b"Content-Length: 5\r\n", b"first"))
    parser._http = None  # llhttp
    parser.feed(posted(b"Content-Length: 12\r\n", b"the next one", b"PUT /b?c HTTP/1.1"))
    second = parser.ready[1]
    assert (second.method, second.path, second.query, second.body) == ("PUT", "/b", "c", b"the next one")
    assert second.headers == {b"host": b"t", b"x-a": b"1, 2", b"content-length": b"12", b"x-b": b"3"}
    assert second.repeated == {b"x-a": [b"1", b"2"]}


def test_gets_and_writes_keep_a_head_each() -> None:
    parser = Parser(PEER, Limits())
    for _ in range(2):
        parser.feed(b"GET /a HTTP/1.1\r\n" + BLOCKS[0])
        parser.ready = []
        parser.feed(posted(b"Content-Length: 5\r\n", b"first"))
        parser.ready = []
        parser._http = None  # llhttp parses nothing after this


def test_heads_that_are_long_together_are_not_both_cached() -> None:
    parser, padding = Parser(PEER, Limits()), b"X-Long: " + b"x" * 5000 + b"\r\n"
    parser.feed(posted(padding + b"Content-Length: 5\r\n", b"first"))
    parser.ready = []
    parser.feed(b"GET /a HTTP/1.1\r\n" + padding + BLOCKS[0])
    heads = parser.heads
    assert heads._plain is not None and heads._with_body is None


def test_idle_connection_keeps_no_long_request_line() -> None:
    parser = prime(BLOCKS[0])
    long = b"GET /" + b"a" * 20_000 + b" HTTP/1.1"
    for block in (BLOCKS[0], BLOCKS[1]):
        parser.feed(long + b"\r\n" + block)
        assert len(parser.ready.pop().path) == 20_001
        kept = parser.heads._plain
        assert kept is not None and len(kept.line) + len(kept.path) < 100


def test_new_header_block_replaces_the_cached_one() -> None:
    parser = prime(BLOCKS[0])
    for block, expected in ((BLOCKS[1], b"1, 2"), (BLOCKS[0], None), (BLOCKS[1], b"1, 2")):
        parser.ready = []
        parser.feed(b"GET / HTTP/1.1\r\n" + block)
        assert parser.ready[0].headers.get(b"x-a") == expected
