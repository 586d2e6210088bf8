"""HTTP/2 of the load generator: header blocks that any decoder reads, frames however the network splits them."""

from __future__ import annotations

import hpack
import pytest

from benchmarks.baselines.http2_echo import Http2Echo
from benchmarks.loads import http2
from benchmarks.loads.header_blocks import RequestBlocks, integer, status_of
from benchmarks.loads.request import BadResponse, Request
from tests.cases import cases

GET = Request("GET", "/api/v1/namespaces/bench/configmaps/o-000001")
GOOD = http2.frame(http2.SETTINGS, 0, 0) + http2.frame(http2.HEADERS, http2.END_HEADERS, 1, b"\x88")


def _decoded(decoder: hpack.Decoder, block: bytes) -> dict[str, str]:
    return {str(name): str(value) for name, value in decoder.decode(block)}


def test_block_has_the_fields_of_the_request() -> None:
    request = Request("POST", "/things", b"{}", "application/yaml")
    block = RequestBlocks(tls=True, token="t").block(request)
    assert _decoded(hpack.Decoder(), block) == {
        ":authority": "bench",
        ":method": "POST",
        ":path": "/things",
        ":scheme": "https",
        "accept": "application/json",
        "authorization": "Bearer t",
        "content-type": "application/yaml",
        "content-length": "2",
    }


def test_block_of_a_repeated_request_settles() -> None:
    blocks = RequestBlocks(tls=True, token="t")
    first, second, third = (blocks.block(GET) for _ in range(3))
    assert len(first) > len(second)
    assert second is third


def test_blocks_stay_decodable_while_entries_are_evicted() -> None:
    blocks, decoder = RequestBlocks(tls=False, token="t"), hpack.Decoder()
    for number in range(200):
        path = f"/api/v1/namespaces/bench/configmaps/object-{number % 90}"
        assert _decoded(decoder, blocks.block(Request("DELETE", path)))[":path"] == path
        assert _decoded(decoder, blocks.block(GET))[":path"] == GET.path


def test_smaller_table_of_the_server_is_announced() -> None:
    blocks, decoder = RequestBlocks(tls=True, token="t", table_size=128), hpack.Decoder()
    decoder.max_allowed_table_size = 128
    for _ in range(3):
        assert _decoded(decoder, blocks.block(GET))[":path"] == GET.path


@cases("status", [200, 201, 204, 404, 409, 429, 503, 876, 543])
@cases("huffman", [False, True])
def test_status_is_read_from_the_first_field(status: int, huffman: bool) -> None:
    encoder = hpack.Encoder()
    encoder.header_table_size = 0
    fields = [(":status", str(status)), ("content-type", "application/json")]
    assert status_of(encoder.encode(fields, huffman=huffman)) == status


def test_block_without_status_is_refused() -> None:
    with pytest.raises(BadResponse):
        status_of(hpack.Encoder().encode([("content-type", "text/plain")]))


@cases(("value", "encoded"), [(10, b"\x0a"), (31, b"\x1f\x00"), (1337, b"\x1f\x9a\x0a")])
def test_integer_is_encoded_with_its_prefix(value: int, encoded: bytes) -> None:
    assert integer(value, 5, 0) == encoded


class Received:
    """Records what a reader reports."""

    def __init__(self) -> None:
        self.frames: list[tuple[int, int, bytes]] = []
        self.data = b""
        self.ended = 0
        self.reader = http2.FrameReader(self._on_data, self._on_frame)

    def _on_data(self, stream: int, data: bytes | bytearray, start: int, end: int, ends: bool) -> None:
        self.data += bytes(data[start:end])
        self.ended += ends

    def _on_frame(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        self.frames.append((kind, stream, payload))


def test_frames_split_at_any_byte_are_read() -> None:
    whole = GOOD + http2.frame(http2.DATA, 0, 1, b"hello ") + http2.frame(http2.DATA, 1, 1, b"world")
    for cut in range(len(whole) + 1):
        received = Received()
        for part in (whole[:cut], whole[cut:]):
            received.reader.feed(bytearray(part + b"rest of the buffer"), len(part))
        assert received.frames == [(http2.SETTINGS, 0, b""), (http2.HEADERS, 1, b"\x88")]
        assert (received.data, received.ended) == (b"hello world", 1)


def test_single_bytes_are_read() -> None:
    received = Received()
    for byte in GOOD + http2.frame(http2.DATA, 1, 1, b"data"):
        received.reader.feed(bytes((byte,)), 1)
    assert (received.data, received.ended, len(received.frames)) == (b"data", 1, 2)


def test_response_of_another_protocol_is_refused() -> None:
    with pytest.raises(BadResponse, match="does not speak HTTP/2"):
        Received().reader.feed(b"HTTP/1.1 505 Not supported\r\n\r\n", 30)


def test_window_is_enlarged_by_what_was_received() -> None:
    window = http2.ReceiveWindow(7)
    assert window.received(1 << 29) == b""
    assert window.received((1 << 29) + 5) == http2.window_update(7, (1 << 30) + 5)
    assert window.received(1) == b""


def test_echo_responds_to_each_request_in_one_write() -> None:
    blocks, echo = RequestBlocks(tls=True, token=""), Http2Echo(b"x" * 1024)
    ends = http2.END_HEADERS | http2.END_STREAM
    requests = b"".join(http2.frame(http2.HEADERS, ends, stream, blocks.block(GET)) for stream in (1, 3))
    sent = http2.greeting() + requests
    received = Received()
    for part in (sent[:30], sent[30:]):
        response = echo.feed(part)
        received.reader.feed(response, len(response))
    heads = [
        (stream, status_of(payload)) for kind, stream, payload in received.frames if kind == http2.HEADERS
    ]
    assert heads == [(1, 200), (3, 200)]
    assert (received.data, received.ended) == (b"x" * 2048, 2)
    (head, *_) = [payload for kind, _, payload in received.frames if kind == http2.HEADERS]
    assert _decoded(hpack.Decoder(), head)["content-length"] == "1024"
