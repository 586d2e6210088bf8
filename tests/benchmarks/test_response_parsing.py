"""The harness parses responses however the network splits them."""

from __future__ import annotations

import pytest

from benchmarks.loads.http1 import RequestEncoder, Response
from benchmarks.loads.request import BadResponse, Request

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Type: x\r\ncontent-length: 11\r\n\r\nhello world"
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5\r\nhello\r\n1;note=x\r\n \r\n5\r\nworld\r\n0\r\n\r\n"
)


@pytest.mark.parametrize("whole", [PLAIN, CHUNKED])
def test_response_split_at_any_byte_is_parsed(whole: bytes) -> None:
    for cut in range(1, len(whole)):
        response = Response(keep=True)
        assert not response.feed(memoryview(whole[:cut]))
        assert response.feed(memoryview(whole[cut:]))
        assert (response.status, response.body, response.closes) == (200, b"hello world", False)


@pytest.mark.parametrize("whole", [PLAIN, CHUNKED])
def test_parser_takes_single_bytes_and_is_reusable(whole: bytes) -> None:
    response = Response(keep=True)
    for _ in range(2):
        response.clear()
        done = [response.feed(memoryview(whole[at : at + 1])) for at in range(len(whole))]
        assert done == [False] * (len(whole) - 1) + [True]
        assert response.body == b"hello world"


def test_unneeded_body_is_counted_but_not_returned() -> None:
    response = Response(keep=False)
    assert response.feed(memoryview(PLAIN))
    assert (response.body, response.size) == (b"", 11)


def test_body_of_error_is_returned() -> None:
    response = Response(keep=False)
    assert response.feed(memoryview(PLAIN.replace(b"200 OK", b"409 Conflict")))
    assert (response.status, response.body) == (409, b"hello world")


def test_connection_close_is_reported() -> None:
    response = Response(keep=False)
    assert response.feed(memoryview(PLAIN.replace(b"Content-Type: x", b"Connection: close")))
    assert response.closes


def test_response_without_length_is_refused() -> None:
    with pytest.raises(BadResponse):
        Response(keep=False).feed(memoryview(b"HTTP/1.1 200 OK\r\n\r\n"))


def test_request_has_token_and_content_length() -> None:
    encoder = RequestEncoder("t")
    assert encoder.encode(Request("GET", "/x")).endswith(b"\r\nAuthorization: Bearer t\r\n\r\n")
    sent = encoder.encode(Request("POST", "/x", b"{}"))
    assert sent.startswith(b"POST /x HTTP/1.1\r\n")
    assert b"\r\nAuthorization: Bearer t\r\n" in sent
    assert sent.endswith(b"Content-Length: 2\r\n\r\n{}")
