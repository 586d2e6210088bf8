"""A value of etcd takes no more memory and no more lists than a record has, whatever another program put there."""

from __future__ import annotations

import struct
import tracemalloc

import msgpack
import pytest

from rewound.actors.store.etcd.records import Change, Head, Unreadable, decode_heads, encode_heads
from tests.cases import cases

SIZE = 1_500_000  # bytes: what etcd takes by default


def long_list(claims: int) -> bytes:
    return b"\xdd" + struct.pack(">I", claims)


VALUES = {
    "lists of nothing": long_list(SIZE) + b"\x90" * SIZE,
    "lists of few lists": b"\x9f" * 200 + b"\x90" * SIZE,
    "nested lists that claim to be long": long_list(SIZE) * 1000 + b"\x01" * SIZE,
    "nested lists": b"\x91" * 1000 + b"\x90",
    "maps": b"\x81\x01" * 1000 + b"\x80",
    "few long lists": msgpack.packb([2, [[1] * 127] * 500]),
}


@cases("name", VALUES)
def test_value_that_would_take_much_memory_is_unreadable(name: str) -> None:
    for decode in (Change.decode, decode_heads):
        tracemalloc.start()
        try:
            with pytest.raises(Unreadable):
                decode(VALUES[name])
            # Without a bound the first takes 97 MB. slipcover and other threads of the process take some.
            assert tracemalloc.get_traced_memory()[1] < 16 << 20
        finally:
            tracemalloc.stop()


def test_largest_record_of_a_node_is_read() -> None:
    heads = tuple(Head("things", "ns", f"x{number}", b"id") for number in range(120))
    assert decode_heads(encode_heads(heads)) == heads
