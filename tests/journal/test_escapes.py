"""Bodies are read with the escapes that Go's encoder writes, even if an earlier release stored them without."""

from __future__ import annotations

import json
import struct
from zlib import crc32

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewound.journal import Event, Journal, keys, records
from rewound.journal.contents import decompressed
from rewound.journal.errors import Damaged
from rewound.journal.escapes import escaped
from tests.cases import cases
from tests.journal.model import Model

OFFSET, KEY = 7, keys.of_object(3, "default", "web")
RAW = '{"metadata":{"name":"web"},"data":{"k":"<a>&\u2028\u2029é\\\\b\\b\\f"}}'.encode()
ESCAPED = b'{"metadata":{"name":"web"},"data":{"k":"\\u003ca\\u003e\\u0026\\u2028\\u2029\xc3\xa9\\\\b\\u0008\\u000c"}}'


@cases(
    "raw, wanted",
    [
        (b'"<>&"', b'"\\u003c\\u003e\\u0026"'),
        ('"\u2027\u2028\u2029\u202a"'.encode(), '"\u2027\\u2028\\u2029\u202a"'.encode()),
        (b'"\\b\\f\\n\\\\b\\\\\\f\\""', b'"\\u0008\\u000c\\n\\\\b\\\\\\u000c\\""'),
        (b'"\x7f\\u0001/"', b'"\x7f\\u0001/"'),
        (RAW, ESCAPED),
    ],
)
def test_escapes(raw: bytes, wanted: bytes) -> None:
    assert escaped(raw) == wanted
    assert escaped(wanted) == wanted


def test_text_without_these_characters_is_not_copied() -> None:
    text = b'{"metadata":{"name":"web","annotations":{"a":"\\"\\n"}}}'
    assert escaped(text) is text


@given(st.text(st.sampled_from('<>&\u2028\u2029\b\f\\"bf é\n\0')))
def test_the_value_is_the_same(text: str) -> None:
    written = escaped(json.dumps(text, ensure_ascii=False).encode())
    assert json.loads(written) == text
    assert not set(written.decode()) & set("<>&\u2028\u2029")
    assert len(written) - 2 == sum(map(_length, text))


def _length(character: str) -> int:
    """Of a character as Go writes it."""
    if character in '\\"\n':
        return 2
    return 6 if character in "<>&\u2028\u2029\b\f\0" else len(character.encode())


def row_of_an_earlier_release(key: bytes, offset: int, facts: bytes, body: bytes) -> bytes:
    rest = struct.pack(">QBI", offset, records.ROW_LAYOUT, len(facts)) + facts + body
    return struct.pack(">I", crc32(rest, crc32(key))) + rest


def event_of_an_earlier_release(event: Event, *, layout: int) -> bytes:
    rest = msgpack.packb(event[1 : 11 + layout])
    check = crc32(rest, crc32(keys.pack_offset(event.offset) + bytes((layout,))))
    return struct.pack(">BI", layout, check) + rest


def test_rows_and_events_are_stored_with_escapes(journal: Journal, model: Model) -> None:
    event = model.put("web")._replace(body=RAW)
    journal.append([event])
    with journal.read() as view:
        assert view.get(1, "default", "web") == (event.offset, event.facts, ESCAPED)
        assert view.event(event.offset) == event._replace(body=ESCAPED)
        stored = view.txn.get(keys.pack_offset(event.offset), db=view.databases.events)
        assert decompressed(msgpack.unpackb(stored[5:])[9]) == (event.facts, ESCAPED)


def test_rows_and_events_of_an_earlier_release() -> None:
    row = row_of_an_earlier_release(KEY, OFFSET, b"facts", RAW)
    assert records.decode_row(KEY, memoryview(row)) == (OFFSET, b"facts", ESCAPED)
    for layout, reason in ((1, ""), (2, "because")):
        event = Event(OFFSET, 3, "create", "default", "web", 0, False, 1, "u", "m", b"facts", RAW, reason)
        stored = event_of_an_earlier_release(event, layout=layout)
        wanted = event._replace(body=ESCAPED)
        assert records.decode_event(OFFSET, stored) == wanted
        pairs = [(keys.pack_offset(OFFSET), stored)]
        assert records.decode_events(pairs, OFFSET, 1 << 20) == [wanted]


def test_compressed_event_of_another_program_without_escapes_is_refused() -> None:
    event = Event(OFFSET, 3, "create", "default", "web", 0, False, 1, "u", "m", b"facts", RAW)
    stored = records.encode_event(keys.pack_offset(OFFSET), event)
    with pytest.raises(Damaged, match="body: it has characters that are escaped in stored objects"):
        records.checked_event(OFFSET, stored)
    wanted = event._replace(body=ESCAPED)
    assert records.checked_event(OFFSET, records.encode_event(keys.pack_offset(OFFSET), wanted)) == wanted
