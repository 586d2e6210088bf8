"""Parses request heads from HTTP/2 header blocks: the rules of RFC 9113, section 8, the limits, and the cache."""

import hpack
import pytest

from rewound.gateway.connections.arriving import Fault
from rewound.gateway.connections.http2.request_heads import Malformed, RequestHead, RequestHeads
from rewound.gateway.connections.limits import Limits
from rewound.http2.hpack import CompressionError
from tests.cases import cases

Pair = tuple[bytes, bytes]
METHOD, SCHEME, PATH, AUTHORITY = BASIC = (
    (b":method", b"GET"),
    (b":scheme", b"https"),
    (b":path", b"/api"),
    (b":authority", b"t:6443"),
)


def encode(*fields: Pair) -> bytes:
    block: bytes = hpack.Encoder().encode(fields)
    return block


def head(*fields: Pair, limits: Limits | None = None) -> RequestHead:
    return RequestHeads(limits or Limits()).request(encode(*fields))


def test_plain_request_is_decoded() -> None:
    result = head(METHOD, SCHEME, (b":path", b"/a%20b?x=1?2"), AUTHORITY, (b"accept", b"*/*"))
    assert result == RequestHead(
        "GET", "/a%20b", "x=1?2", {b"accept": b"*/*", b"host": b"t:6443"}, None, -1, False, None
    )


@cases("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE"])
def test_methods_are_passed_on(method: str) -> None:
    result = head((b":method", method.encode()), *BASIC[1:])
    assert (result.method, result.path, result.fault) == (method, "/api", None)


@cases("path, shown", [(b"/a%zz", '"%zz"'), (b"/%", '"%"'), (b"/a%2?b=%41", '"%2"'), (b"/%%41", '"%%4"')])
def test_bad_escape_in_the_path_is_a_fault(path: bytes, shown: str) -> None:
    result = head(METHOD, SCHEME, (b":path", path), AUTHORITY)
    assert result.fault == Fault(400, f"the path of the request has an invalid URL escape {shown}")


def test_options_may_have_an_asterisk() -> None:
    assert head((b":method", b"OPTIONS"), SCHEME, (b":path", b"*"), AUTHORITY).path == "*"


def test_repeated_headers_are_joined() -> None:
    result = head(*BASIC, (b"x", b"1"), (b"y", b"2"), (b"x", b"3"), (b"cookie", b"a=1"), (b"cookie", b"b=2"))
    assert result.headers == {b"x": b"1, 3", b"y": b"2", b"cookie": b"a=1; b=2", b"host": b"t:6443"}
    assert result.repeated == {b"x": [b"1", b"3"]}


def test_equal_headers_count_once() -> None:
    result = head(*BASIC, (b"x", b"1"), (b"x", b"1"), (b"y", b"1"), (b"y", b"2"), (b"y", b"1"))
    assert (result.headers[b"x"], result.headers[b"y"]) == (b"1", b"1, 2")
    assert result.repeated == {b"x": [b"1", b"1"], b"y": [b"1", b"2", b"1"]}


def test_only_cookies_may_be_repeated() -> None:
    result = head(*BASIC, (b"cookie", b"a=1"), (b"cookie", b"b=2"))
    assert result.repeated is None


@cases(
    ("fields", "host"),
    [
        ((AUTHORITY,), b"t:6443"),
        (((b"host", b"[::1]:80"),), b"[::1]:80"),
        ((AUTHORITY, (b"host", b"T:6443")), b"T:6443"),
    ],
    ids=["authority", "host", "both"],
)
def test_host_is_taken_from_authority_or_host(fields: tuple[Pair, ...], host: bytes) -> None:
    result = head(METHOD, SCHEME, PATH, *fields)
    assert result.headers[b"host"] == host
    assert result.fault is None


def test_content_length_and_expectation() -> None:
    result = head(*BASIC, (b"content-length", b"12"), (b"expect", b"100-Continue"))
    assert (result.content_length, result.expects_continue, result.fault) == (12, True, None)


def test_equal_content_lengths_are_one() -> None:
    result = head(*BASIC, (b"content-length", b"4"), (b"content-length", b"4"))
    assert (result.content_length, result.headers[b"content-length"], result.repeated) == (4, b"4", None)


def test_te_trailers_is_allowed() -> None:
    assert head(*BASIC, (b"te", b"trailers")).headers[b"te"] == b"trailers"


MALFORMED: dict[str, tuple[Pair, ...]] = {
    "no fields": (),
    "no method": BASIC[1:],
    "no scheme": (METHOD, PATH, AUTHORITY),
    "no path": (METHOD, SCHEME, AUTHORITY),
    "an empty method": ((b":method", b""), *BASIC[1:]),
    "an empty scheme": (METHOD, (b":scheme", b""), PATH, AUTHORITY),
    "an empty path": (METHOD, SCHEME, (b":path", b""), AUTHORITY),
    "a method that is no token": ((b":method", b"G(T"), *BASIC[1:]),
    "a repeated method": (METHOD, *BASIC),
    "a repeated path": (*BASIC, PATH),
    "a repeated authority": (*BASIC, AUTHORITY),
    "an unknown pseudo-header": (*BASIC, (b":version", b"2")),
    "a pseudo-header of responses": (*BASIC, (b":status", b"200")),
    "a pseudo-header after a header": (METHOD, SCHEME, AUTHORITY, (b"accept", b"*/*"), PATH),
    "an unknown pseudo-header after a header": (*BASIC, (b"accept", b"*/*"), (b":x", b"1")),
    "a relative path": (METHOD, SCHEME, (b":path", b"api"), AUTHORITY),
    "an absolute path": (METHOD, SCHEME, (b":path", b"https://t:6443/api"), AUTHORITY),
    "an asterisk without OPTIONS": (METHOD, SCHEME, (b":path", b"*"), AUTHORITY),
    "a space in the path": (METHOD, SCHEME, (b":path", b"/a b"), AUTHORITY),
    "a line in the path": (METHOD, SCHEME, (b":path", b"/a\r\nx: y"), AUTHORITY),
    "a path beyond ASCII": (METHOD, SCHEME, (b":path", b"/\xc3\xa9"), AUTHORITY),
    "a control character in the path": (METHOD, SCHEME, (b":path", b"/\x7f"), AUTHORITY),
    "user information": (METHOD, SCHEME, PATH, (b":authority", b"me@t")),
    "user information in host": (METHOD, SCHEME, PATH, (b"host", b"me@t")),
    "an authority with a path": (METHOD, SCHEME, PATH, (b":authority", b"t/x")),
    "authority and host differ": (*BASIC, (b"host", b"other")),
    "upper case": (*BASIC, (b"Accept", b"*/*")),
    "an empty name": (*BASIC, (b"", b"x")),
    "a space in a name": (*BASIC, (b"a b", b"x")),
    "a colon in a name": (*BASIC, (b"a:", b"x")),
    "a name beyond ASCII": (*BASIC, (b"\xe9", b"x")),
    "NUL in a value": (*BASIC, (b"a", b"x\x00y")),
    "CR in a value": (*BASIC, (b"a", b"x\ry")),
    "LF in a value": (*BASIC, (b"a", b"x\ny")),
    "LF at the end of a value": (*BASIC, (b"a", b"x\n")),
    "a control character in a value": (*BASIC, (b"a", b"x\x01y")),
    "connection": (*BASIC, (b"connection", b"close")),
    "proxy-connection": (*BASIC, (b"proxy-connection", b"close")),
    "keep-alive": (*BASIC, (b"keep-alive", b"timeout=1")),
    "transfer-encoding": (*BASIC, (b"transfer-encoding", b"chunked")),
    "upgrade": (*BASIC, (b"upgrade", b"websocket")),
    "te": (*BASIC, (b"te", b"gzip")),
    "te with trailers and others": (*BASIC, (b"te", b"trailers, gzip")),
    "contradictory lengths": (*BASIC, (b"content-length", b"4"), (b"content-length", b"5")),
    "lengths in one value": (*BASIC, (b"content-length", b"4, 4")),
    "a negative length": (*BASIC, (b"content-length", b"-1")),
    "an empty length": (*BASIC, (b"content-length", b"")),
    "a length with a sign": (*BASIC, (b"content-length", b"+1")),
    "an underscore in the length": (*BASIC, (b"content-length", b"1_0")),
    "an endless length": (*BASIC, (b"content-length", b"9" * 5000)),
    "CONNECT with a path": ((b":method", b"CONNECT"), PATH, AUTHORITY),
    "CONNECT with a scheme": ((b":method", b"CONNECT"), SCHEME, AUTHORITY),
    "CONNECT without an authority": ((b":method", b"CONNECT"),),
    "CONNECT with connection": ((b":method", b"CONNECT"), AUTHORITY, (b"connection", b"close")),
    "a protocol without CONNECT": (*BASIC, (b":protocol", b"websocket")),
    "a protocol without a path": ((b":method", b"CONNECT"), SCHEME, AUTHORITY, (b":protocol", b"websocket")),
}


@cases("fields", MALFORMED.values(), ids=MALFORMED)
def test_malformed_requests_are_stream_errors(fields: tuple[Pair, ...]) -> None:
    heads = RequestHeads(Limits())
    for _ in range(2):  # the second time in a table that contains them
        with pytest.raises(Malformed):
            heads.request(encode(*fields))
    assert heads.request(encode(*BASIC)).path == "/api"


@cases(("value", "read"), [(b" x", b"x"), (b"x\t", b"x"), (b" ", b""), (b"x y", b"x y")])
def test_spaces_around_a_value_are_removed(value: bytes, read: bytes) -> None:
    heads = RequestHeads(Limits())
    for _ in range(2):
        assert heads.request(encode(*BASIC, (b"a", value))).headers[b"a"] == read


LIMITS = Limits(body=10, target=20, http2_head=500, headers=8)
NOT_ALLOWED = "the server does not allow this method on the requested resource"
FAULTS: dict[str, tuple[tuple[Pair, ...], int, str]] = {
    "a long path": (
        (METHOD, SCHEME, (b":path", b"/" * 21), AUTHORITY),
        414,
        "Request URI too long: limit is 20 bytes",
    ),
    "a long path without host": (
        (METHOD, SCHEME, (b":path", b"/" * 21)),
        414,
        "Request URI too long: limit is 20 bytes",
    ),
    "a large head": (
        (*BASIC, (b"x", b"v" * 400)),
        431,
        "Request header fields too large: limit is 500 bytes",
    ),
    "many headers": (
        (*BASIC, *[(b"a", b"")] * 9),
        431,
        "Request header fields too large: limit is 8 fields",
    ),
    "a large body": (
        (*BASIC, (b"content-length", b"11")),
        413,
        "Request entity too large: limit is 10",
    ),
    "a large body with an expectation": (
        (*BASIC, (b"content-length", b"11"), (b"expect", b"100-continue")),
        413,
        "Request entity too large: limit is 10",
    ),
    "another expectation": (
        (*BASIC, (b"expect", b"coffee")),
        417,
        "Expectation failed: 100-continue is the only one",
    ),
    "a fragment": (
        (METHOD, SCHEME, (b":path", b"/a#b"), AUTHORITY),
        400,
        "the request target has a fragment",
    ),
    "no host": ((METHOD, SCHEME, PATH), 400, "the request has no Host header"),
    "an empty authority": (
        (METHOD, SCHEME, PATH, (b":authority", b"")),
        400,
        "the request has no Host header",
    ),
    "two hosts": (
        (METHOD, SCHEME, PATH, (b"host", b"t"), (b"host", b"t")),
        400,
        "the request has more than one Host header",
    ),
    "CONNECT": (((b":method", b"CONNECT"), AUTHORITY), 405, NOT_ALLOWED),
    "an unknown method": (((b":method", b"BREW"), *BASIC[1:]), 405, NOT_ALLOWED),
    "a method in lower case": (((b":method", b"get"), *BASIC[1:]), 405, NOT_ALLOWED),
    "extended CONNECT": (
        ((b":method", b"CONNECT"), *BASIC[1:], (b":protocol", b"websocket")),
        501,
        "the server does not support extended CONNECT: it serves WebSockets over HTTP/1.1",
    ),
}


@cases(("fields", "status", "message"), FAULTS.values(), ids=FAULTS)
def test_heads_beyond_a_limit_have_a_fault(fields: tuple[Pair, ...], status: int, message: str) -> None:
    result = head(*fields, limits=LIMITS)
    assert result.fault == Fault(status, message)
    assert not result.expects_continue


def test_limits_themselves_are_allowed() -> None:
    fields = [(b":path", b"/" * 20), (b"content-length", b"10"), *[(b"a", b"")] * 7]
    assert head(METHOD, SCHEME, *fields[:1], AUTHORITY, *fields[1:], limits=LIMITS).fault is None


def test_trailers_are_validated() -> None:
    heads = RequestHeads(Limits())
    heads.trailers(encode((b"x-checksum", b"1")))
    heads.trailers(b"")
    for fields in ([(b":path", b"/")], [(b":status", b"200")], [(b"X", b"1")], [(b"connection", b"close")]):
        with pytest.raises(Malformed):
            heads.trailers(encode(*fields))


def test_blocks_that_cannot_be_decoded() -> None:
    with pytest.raises(CompressionError):
        RequestHeads(Limits()).request(b"\xff\xff\xff\xff")
    with pytest.raises(CompressionError):
        RequestHeads(Limits()).trailers(b"\xff\xff\xff\xff")


# The cache of heads. These blocks are GET, https, a path and the authority "t", which never enters the table.
NEWEST = b"\x82\x87\xbe\x01\x01t"  # the path is the newest entry of the table


def insert(path: bytes) -> bytes:
    return b"\x82\x87\x44" + bytes([len(path)]) + path + b"\x01\x01t"


def direct(path: bytes) -> bytes:
    """A block that does not change the table."""
    return b"\x82\x87\x04" + bytes([len(path)]) + path + b"\x01\x01t"


def test_equal_blocks_share_a_head() -> None:
    heads = RequestHeads(Limits())
    inserted = heads.request(insert(b"/a"))
    first = heads.request(NEWEST)
    assert first == inserted
    assert heads.request(NEWEST) is first


def test_block_that_changes_the_table_is_decoded_every_time() -> None:
    heads = RequestHeads(Limits())
    assert heads.request(insert(b"/a")) is not heads.request(insert(b"/a"))
    heads.request(insert(b"/b"))
    heads.request(insert(b"/a"))
    assert heads.request(b"\x82\x87\xbf\x01\x01t").path == "/b"


def test_equal_block_after_a_change_of_the_table_is_decoded_again() -> None:
    heads = RequestHeads(Limits())
    heads.request(insert(b"/a"))
    assert [heads.request(NEWEST).path for _ in range(2)] == ["/a", "/a"]
    heads.request(insert(b"/b"))
    assert heads.request(NEWEST).path == "/b"
    with pytest.raises(Malformed):
        heads.trailers(b"\x44\x02/c")
    assert heads.request(NEWEST).path == "/c"
    heads.request(b"\x20" + direct(b"/"))  # an empty table
    with pytest.raises(CompressionError):
        heads.request(NEWEST)


def test_change_of_the_table_by_a_malformed_or_too_large_request_empties_the_cache() -> None:
    heads = RequestHeads(Limits(http2_head=300))
    heads.request(insert(b"/a"))
    heads.request(NEWEST)
    with pytest.raises(Malformed):
        heads.request(b"\x82\x44\x02/b")
    assert heads.request(NEWEST).path == "/b"
    too_large = heads.request(insert(b"/c") * 10)
    assert too_large.fault is not None
    assert heads.request(NEWEST).path == "/c"


def test_malformed_blocks_are_refused_every_time() -> None:
    heads = RequestHeads(Limits())
    for _ in range(3):
        with pytest.raises(Malformed):
            heads.request(b"\x82\x87")


def test_cache_is_bounded() -> None:
    heads = RequestHeads(Limits())
    for number in range(100):
        heads.request(direct(b"/%d" % number))
    assert len(heads._cache) == 16
    assert heads.request(direct(b"/99")) is heads.request(direct(b"/99"))
    long = direct(b"/a") + b"\x00\x01x\x7f\x81\x0f" + b"v" * 2048
    assert heads.request(long).headers[b"x"] == b"v" * 2048
    assert long not in heads._cache


def test_faults_are_cached_like_other_heads() -> None:
    heads = RequestHeads(Limits())
    block = direct(b"/a#b")
    refused = heads.request(block)
    assert refused.fault is not None
    assert heads.request(block) is refused
