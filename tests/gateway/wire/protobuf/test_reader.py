"""The reader accepts messages of other encoders: zeros, fields out of order, repeated or unknown, packed numbers."""

from __future__ import annotations

import pytest

from rewound.actors.kinds.schema.fields import (
    ANY_JSON,
    BOOL,
    BYTES,
    INT32,
    INT64,
    INT_OR_STRING,
    MICRO_TIME,
    QUANTITIES,
    STRING,
    STRING_MAP,
    TIME,
    Field,
    ListOf,
    MapOf,
    Struct,
)
from rewound.gateway.wire.protobuf.reader import UnknownFieldNumbers, read_message
from rewound.gateway.wire.protobuf.wire_format import MalformedMessage
from rewound.gateway.wire.protobuf.writer import message_writer
from tests.cases import cases

INNER = Struct("test.v1.Inner", Field("a", STRING, 1), Field("b", INT64, 2, pointer=True))
THING = Struct(
    "test.v1.Thing",
    Field("name", STRING, 1),
    Field("count", INT32, 2),
    Field("limit", INT64, 3, pointer=True),
    Field("on", BOOL, 4),
    Field("off", BOOL, 5, pointer=True),
    Field("inner", INNER, 6, pointer=True),
    Field("numbers", ListOf(INT64), 7),
    Field("port", INT_OR_STRING, 8),
    Field("when", TIME, 9),
    Field("exactly", MICRO_TIME, 10),
    Field("extra", MapOf(ListOf(STRING)), 11),
    Field("amounts", QUANTITIES, 12),
    Field("anything", ANY_JSON, 13),
    Field("key", BYTES, 14),
    Field("labels", STRING_MAP, 15),
    Field("many", ListOf(INNER), 16),
    Field("left", STRING, 1, embedded=17),
    Field("right", INNER, 2, embedded=17, pointer=True),
    Field("kind", STRING, 0),
)


@cases(
    ("raw", "found"),
    [
        (b"", {}),
        (b"\x0a\x00\x10\x00\x20\x00", {}),  # zeros of plain fields
        (b"\x18\x00\x28\x00\x32\x00", {"limit": 0, "off": False, "inner": {}}),  # zeros of pointers
        (b"\x10\x02\x0a\x01a", {"count": 2, "name": "a"}),
        (b"\x0a\x01a\x0a\x01b", {"name": "b"}),
        (b"\x0a\x01a\x0a\x00", {}),
        (b"\x32\x03\x0a\x01a\x32\x02\x10\x00", {"inner": {"a": "a", "b": 0}}),  # two halves of one message
        (b"\x38\x01\x38\x02", {"numbers": [1, 2]}),
        (b"\x3a\x03\x01\x80\x01", {"numbers": [1, 128]}),
        (b"\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", {"count": -1}),
        (b"\x4a\x00", {}),  # no time at all
        (b"\x4a\x04\x08\x01\x10\x07", {"when": "1970-01-01T00:00:01Z"}),
        (b"\x52\x07\x08\x01\x10\x98\xf2\x8f\x01", {"exactly": "1970-01-01T00:00:01.002357Z"}),
        (b"\x42\x06\x08\x00\x10\x50\x1a\x00", {"port": 80}),
        (b"\x42\x08\x08\x01\x10\x00\x1a\x02ab", {"port": "ab"}),
        (b"\x5a\x0b\x0a\x01k\x12\x06\x0a\x01a\x0a\x01b", {"extra": {"k": ["a", "b"]}}),
        (b"\x5a\x03\x0a\x01k", {"extra": {"k": []}}),
        (b"\x7a\x06\x12\x01v\x0a\x01k", {"labels": {"k": "v"}}),  # the value first
        (b"\x7a\x00", {"labels": {"": ""}}),
        (b"\x82\x01\x00\x82\x01\x03\x0a\x01a", {"many": [{}, {"a": "a"}]}),
        (b"\x8a\x01\x07\x0a\x01l\x12\x02\x10\x05", {"left": "l", "right": {"b": 5}}),
        (b"\x6a\x04\x0a\x02{}", {"anything": {}}),
        (b"\xa2\x06\x03abc\xa8\x06\x07\xb5\x06abcd\xb9\x06abcdefgh\x0a\x01a", {"name": "a"}),  # unknown ones
    ],
)
def test_message_is_read_as_its_object(raw: bytes, found: object) -> None:
    assert read_message(THING, raw, UnknownFieldNumbers()) == found


@cases(
    ("raw", "why"),
    [
        (b"\x0a", "unexpected EOF"),
        (b"\x0a\x05ab", "unexpected EOF"),
        (b"\x80", "unexpected EOF"),
        (b"\x32\x03\x0a\x05a", "inner: unexpected EOF"),
        (b"\x08\x01", "name: field number 1 cannot have wire type 0"),
        (b"\x12\x01a", "count: field number 2 cannot have wire type 2"),
        (b"\x0b", "does not exist"),
        (b"\x02\x00", "does not exist"),
        (b"\x82\x01\x03\x0a\x01\xff", "many.a: is not UTF-8 text"),
        (b"\x6a\x03\x0a\x01{", "anything: must be JSON"),
        (b"\x4a\x0a\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "when: is a time outside"),
        (b"\x8a\x01\x02\x08\x01", "left: field number 1 cannot have wire type 0"),
    ],
)
def test_malformed_message_is_refused(raw: bytes, why: str) -> None:
    with pytest.raises(MalformedMessage) as caught:
        read_message(THING, raw, UnknownFieldNumbers())
    assert why in str(caught.value)


def test_writer_writes_what_the_reader_reads() -> None:
    thing = {
        "name": "a",
        "count": -3,
        "limit": 0,
        "off": False,
        "inner": {"a": "a", "b": -(2**63)},
        "numbers": [0, 2**62],
        "port": "http",
        "when": "1969-12-31T23:59:59Z",
        "exactly": "2026-02-03T04:05:06.000007Z",
        "extra": {"b": [], "a": ["x", ""]},
        "amounts": {"cpu": "500m"},
        "anything": {"deep": [None, 1.5]},
        "key": "AAH/",
        "labels": {"b": "1", "a": "2"},
        "many": [{}, {"a": "z"}],
        "left": "l",
        "right": {},
    }
    assert read_message(THING, message_writer(THING)(thing), UnknownFieldNumbers()) == thing


def test_fields_and_map_keys_are_written_in_order() -> None:
    written = message_writer(THING)({"labels": {"b": "", "a": ""}, "name": "n", "kind": "Thing", "left": "l"})
    assert written == b"\x0a\x01n\x7a\x05\x0a\x01a\x12\x00\x7a\x05\x0a\x01b\x12\x00\x8a\x01\x03\x0a\x01l"
