"""The HPACK decoder: RFC 7541's examples, hpack's Encoder and Decoder as the other side, and hostile blocks."""

import pytest

from gateway.connections.http2.hpack import Decoder

KIB = 1024
LIMIT = 128 * KIB
Pairs = list[tuple[bytes, bytes]]


def pairs(decoder: Decoder, block: bytes) -> Pairs:
    fields = decoder.decode(block)
    assert fields is not None
    return [(name, value) for name, value, _, _ in fields]


def literal(name: bytes, value: bytes, kind: int = 0x40) -> bytes:
    """A literal without Huffman coding; 0x40: with indexing, 0x00: without, 0x10: never indexed."""
    return bytes([kind]) + string(name) + string(value)


def string(text: bytes) -> bytes:
    return integer(len(text), 7, 0) + text


def integer(number: int, bits: int, first: int) -> bytes:
    most = (1 << bits) - 1
    if number < most:
        return bytes([first | number])
    number, encoded = number - most, bytearray([first | most])
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


GET = [(b":method", b"GET"), (b":scheme", b"http"), (b":path", b"/"), (b":authority", b"www.example.com")]
THIRD = [
    (b":method", b"GET"),
    (b":scheme", b"https"),
    (b":path", b"/index.html"),
    (b":authority", b"www.example.com"),
    (b"custom-key", b"custom-value"),
]
REQUESTS = [GET, [*GET, (b"cache-control", b"no-cache")], THIRD]


@pytest.mark.parametrize(
    ("block", "expected", "indexed"),
    [
        (
            "400a637573746f6d2d6b65790d637573746f6d2d686561646572",
            (b"custom-key", b"custom-header"),
            True,
        ),
        ("040c2f73616d706c652f70617468", (b":path", b"/sample/path"), False),
        ("100870617373776f726406736563726574", (b"password", b"secret"), False),
        ("82", (b":method", b"GET"), False),
    ],
    ids=["C.2.1", "C.2.2", "C.2.3", "C.2.4"],
)
def test_single_fields_of_appendix_c(block: str, expected: tuple[bytes, bytes], indexed: bool) -> None:
    decoder = Decoder(LIMIT)
    assert pairs(decoder, bytes.fromhex(block)) == [expected]
    assert decoder.generation == indexed


@pytest.mark.parametrize(
    "blocks",
    [
        (
            "828684410f7777772e6578616d706c652e636f6d",
            "828684be58086e6f2d6361636865",
            "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
        ),
        (
            "828684418cf1e3c2e5f23a6ba0ab90f4ff",
            "828684be5886a8eb10649cbf",
            "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
        ),
    ],
    ids=["C.3", "C.4"],
)
def test_requests_of_appendix_c(blocks: tuple[str, ...]) -> None:
    decoder = Decoder(LIMIT)
    assert [pairs(decoder, bytes.fromhex(block)) for block in blocks] == REQUESTS
    assert pairs(decoder, b"\xbe\xbf\xc0") == [
        (b"custom-key", b"custom-value"),
        (b"cache-control", b"no-cache"),
        (b":authority", b"www.example.com"),
    ]
