"""The hand-written reader of answers, at every way the network may cut them."""

from __future__ import annotations

import pytest

from benchmarks.loads.http1 import Answer, BadAnswer, request

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Type: x\r\ncontent-length: 11\r\n\r\nhello world"
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5\r\nhello\r\n1;note=x\r\n \r\n5\r\nworld\r\n0\r\n\r\n"
)


@pytest.mark.parametrize("whole", [PLAIN, CHUNKED])
def test_cut_in_two_anywhere(whole: bytes) -> None:
    for cut in range(1, len(whole)):
        answer = Answer(keep=True)
        assert not answer.feed(memoryview(whole[:cut]))
        assert answer.feed(memoryview(whole[cut:]))
        assert (answer.status, answer.body, answer.closing) == (200, b"hello world", False)


@pytest.mark.parametrize("whole", [PLAIN, CHUNKED])
def test_byte_by_byte_and_used_again(whole: bytes) -> None:
    answer = Answer(keep=True)
    for _ in range(2):
        answer.clear()
        done = [answer.feed(memoryview(whole[at : at + 1])) for at in range(len(whole))]
        assert done == [False] * (len(whole) - 1) + [True]
        assert answer.body == b"hello world"


def test_a_body_nobody_wants_is_only_counted() -> None:
    answer = Answer(keep=False)
    assert answer.feed(memoryview(PLAIN))
    assert (answer.body, answer.size) == (b"", 11)


def test_an_error_keeps_its_body() -> None:
    answer = Answer(keep=False)
    assert answer.feed(memoryview(PLAIN.replace(b"200 OK", b"409 Conflict")))
    assert (answer.status, answer.body) == (409, b"hello world")


def test_a_last_answer_says_so() -> None:
    answer = Answer(keep=False)
    assert answer.feed(memoryview(PLAIN.replace(b"Content-Type: x", b"Connection: close")))
    assert answer.closing


def test_an_answer_without_a_length_is_refused() -> None:
    with pytest.raises(BadAnswer):
        Answer(keep=False).feed(memoryview(b"HTTP/1.1 200 OK\r\n\r\n"))


def test_a_request_carries_token_and_length() -> None:
    sent = request("POST", "/x", token="t", body=b"{}")
    assert sent.startswith(b"POST /x HTTP/1.1\r\n")
    assert b"\r\nAuthorization: Bearer t\r\n" in sent
    assert sent.endswith(b"Content-Length: 2\r\n\r\n{}")
