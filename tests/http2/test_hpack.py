"""The HPACK decoder: RFC 7541's examples, the hpack package as its peer, and hostile blocks."""

import sys
import tracemalloc

import hpack
import pytest
from hpack import huffman_table
from hpack.exceptions import HPACKError
from hypothesis import example, given
from hypothesis import strategies as st

from rewound.http2.hpack import (
    TABLE_SIZE,
    CompressionError,
    Decoder,
    HuffmanError,
    decode_huffman,
)
from tests.cases import cases
from tests.examples import examples

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


@cases(
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


# Few names and values, so that the dynamic table is used, and some that are too long to stay in it.
NAMES = st.sampled_from([b":path", b"accept", b"user-agent", b"x-a", b"x-" + b"b" * 700])
VALUES = st.one_of(
    st.sampled_from([b"", b"/", b"*/*", b"/api/v1/pods", b"\xff\x00", b"v" * 900, b"w" * 5000]),
    st.binary(max_size=12),
)
FIELDS = st.lists(st.tuples(NAMES, VALUES, st.booleans()), max_size=6)
BLOCKS = st.lists(st.tuples(FIELDS, st.booleans(), st.sampled_from([None, 0, 60, 1000, 4096])), max_size=6)
TypedFields = list[tuple[bytes, bytes, bool]]


def encode(encoder: hpack.Encoder, fields: TypedFields, huffman: bool) -> bytes:
    pair = hpack.HeaderTuple, hpack.NeverIndexedHeaderTuple
    return encoder.encode([pair[secret](name, value) for name, value, secret in fields], huffman=huffman)


@examples(40)
@given(BLOCKS)
def test_decodes_what_the_hpack_package_encodes(blocks: list[tuple[TypedFields, bool, int | None]]) -> None:
    encoder, decoder = hpack.Encoder(), Decoder(LIMIT)
    for fields, huffman_coded, size in blocks:
        if size is not None:
            encoder.header_table_size = size
        before, generation = list(decoder._table), decoder.generation
        assert pairs(decoder, encode(encoder, fields, huffman_coded)) == [field[:2] for field in fields]
        table = [(bytes(name), bytes(value)) for name, value in encoder.header_table.dynamic_entries]
        assert [field[:2] for field in reversed(decoder._table)] == table
        assert decoder._size == sum(len(name) + len(value) + 32 for name, value in table) <= TABLE_SIZE
        assert decoder.generation > generation or decoder._table == before


def outcomes(block: bytes) -> tuple[object, object]:
    """The results of the hpack package and of our decoder for a block: fields, or None for an error."""
    try:
        theirs = [tuple(pair) for pair in hpack.Decoder(LIMIT).decode(block, raw=True)]
    except HPACKError:
        theirs = None
    try:
        return theirs, pairs(Decoder(LIMIT), block)
    except CompressionError:
        return theirs, None


@examples(80)
@given(
    st.lists(st.one_of(st.binary(max_size=6), st.sampled_from([b"\x40\x01a\x01b", b"\x3f", b"\xbe"]))).map(
        b"".join
    )
)
@example(b"\x3f\xe1\x1f\x82")
@example(b"\xff\x80\x80\x80\x80\x00")
@example(b"\xff\x80\x80\x80\x80\x80\x00")
@example(b"\x00\x81\xff\x00")
def test_arbitrary_bytes_decode_as_with_the_hpack_package(block: bytes) -> None:
    theirs, ours = outcomes(block)
    assert ours == theirs


@pytest.mark.parametrize("huffman_coded", [False, True])
def test_truncated_blocks_decode_as_with_the_hpack_package(huffman_coded: bool) -> None:
    encoder = hpack.Encoder()
    encoder.header_table_size = 200
    fields = [*THIRD, (b"x-secret", b"s" * 200), (b"cookie", b"a=b"), *THIRD]
    block = encoder.encode([*fields, hpack.NeverIndexedHeaderTuple(b"x", b"y")], huffman=huffman_coded)
    for end in range(len(block) + 1):
        theirs, ours = outcomes(block[:end])
        assert ours == theirs
        assert end < len(block) or ours is not None


@examples(80)
@given(st.one_of(st.binary(max_size=12), st.binary(max_size=8).map(lambda text: text + b"\xff")))
@example(b"\xff\xff\xff\xff")
@example(b"\x1f\xff")
def test_huffman_strings_decode_as_with_the_hpack_package(text: bytes) -> None:
    try:
        expected = huffman_table.decode_huffman(text)
    except HPACKError:
        with pytest.raises(HuffmanError):
            decode_huffman(text)
    else:
        assert decode_huffman(text) == expected


@cases(
    "block",
    [
        b"\x80",
        b"\xbe",
        b"\xff\x00",
        b"\x7e\x01a",
        b"\x0f\x2f\x01a",
        b"\x3f\xe2\x1f",
        b"\x82\x20",
        b"\x82\x3f\xe1\x1f",
        b"\xff\x80\x80\x80\x80\x80\x00",
        b"\xff\xff\xff\xff\xff\x0f",
        b"\x00\x7f\xff\xff\xff\xff\x7fa",
        b"\x00\x01a\x02b",
        b"\x82\x40",
        b"\x00\x01a\x84\xff\xff\xff\xff",
        b"\x00\x01a\x82\x1f\xff",
        b"\x00\x01a\x81\x18",
    ],
    ids=[
        "index 0",
        "an index beyond the dynamic table",
        "an index of two bytes beyond the table",
        "the index of a name beyond the table",
        "the index of a name beyond the table, not indexed",
        "a table larger than announced",
        "a table size update after a field",
        "a longer table size update after a field",
        "an integer of many zeros",
        "an index beyond 32 bits",
        "a length beyond 32 bits",
        "a value longer than the block",
        "a literal that ends after its first byte",
        "the end-of-string symbol",
        "padding of a whole byte",
        "padding with zeros",
    ],
)
def test_hostile_blocks_are_errors(block: bytes) -> None:
    with pytest.raises(CompressionError):
        Decoder(LIMIT).decode(block)


def test_table_size_updates_evict() -> None:
    decoder = Decoder(LIMIT)
    decoder.decode(literal(b"a", b"1") + literal(b"b", b"2"))
    assert pairs(decoder, integer(67, 5, 0x20) + b"\xbe") == [(b"b", b"2")]
    with pytest.raises(CompressionError):
        decoder.decode(b"\xbf")
    assert pairs(decoder, b"\x20" + integer(TABLE_SIZE, 5, 0x20) + literal(b"c", b"3") + b"\xbe") == [
        (b"c", b"3"),
        (b"c", b"3"),
    ]
    with pytest.raises(CompressionError):
        decoder.decode(b"\xbf")


def test_generation_changes_with_the_table_only() -> None:
    decoder = Decoder(LIMIT)

    def changed(block: bytes) -> bool:
        before = decoder.generation
        decoder.decode(block)
        return decoder.generation != before

    assert changed(literal(b"a", b"1"))
    assert not changed(b"\xbe\x82" + literal(b"b", b"2", 0x00) + literal(b"b", b"2", 0x10))
    assert not changed(integer(TABLE_SIZE, 5, 0x20) + b"\x82")
    assert changed(b"\x3e\x82")
    assert changed(literal(b"c", b"3"))


def test_list_at_its_limit_is_returned_and_beyond_it_is_not() -> None:
    decoder = Decoder(2 * 34)
    assert decoder.decode(literal(b"a", b"1", 0x00) * 2) is not None
    assert decoder.decode(literal(b"a", b"1", 0x00) * 2 + b"\x82") is None


def test_list_beyond_the_limit_is_not_stored_and_leaves_the_table_in_step() -> None:
    decoder = Decoder(LIMIT)
    large = literal(b"x", b"v" * 3000)
    decoder.decode(large)
    bomb = b"\xbe" * (16 * KIB) + literal(b"later", b"1")
    tracemalloc.start()
    try:
        assert decoder.decode(bomb) is None
        assert tracemalloc.get_traced_memory()[1] < 10 * KIB
    finally:
        tracemalloc.stop()
    assert pairs(decoder, b"\xbe\xbf") == [(b"later", b"1"), (b"x", b"v" * 3000)]


def test_huffman_bomb_is_not_stored() -> None:
    decoder = Decoder(LIMIT)
    block = b"\x00\x01a" + integer(100 * KIB, 7, 0x80) + b"\x00" * (100 * KIB)
    assert decoder.decode(block) is None
    assert pairs(decoder, b"\x82") == [(b":method", b"GET")]


def test_table_stays_within_its_size_whatever_is_inserted() -> None:
    decoder = Decoder(LIMIT)
    for number in range(500):
        decoder.decode(literal(b"", b"%d" % number))
    assert len(decoder._table) <= TABLE_SIZE // 32
    decoder.decode(literal(b"x", b"v" * TABLE_SIZE))
    assert decoder._table == []
    assert decoder._size == 0


def test_idle_decoder_is_small() -> None:
    decoder = Decoder(LIMIT)
    decoder.decode(b"\x82\x87")
    assert sys.getsizeof(decoder) + sys.getsizeof(decoder._table) < 256
