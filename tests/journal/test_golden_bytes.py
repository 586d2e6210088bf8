"""The stored bytes of every layout: every later release must read them."""

from __future__ import annotations

import msgpack
import pytest
import zstandard

from rewound.journal import Event, keys, records
from rewound.journal.errors import Damaged, NewerLayout
from tests.cases import cases

EVENT = Event(
    offset=2024,
    type_id=3,
    verb="update",
    namespace="default",
    name="web",
    previous=2000,
    removed=False,
    time=1_700_000_000_000_000,
    user="alice",
    manager="kubectl",
    facts=b"\x92\x80\x80",
    body=b'{"metadata":{"name":"web"}}',
)
OFFSET_KEY = bytes.fromhex("00000000000007e8")
STATE_KEY = bytes.fromhex("0003") + b"default\0web"
TYPE_KEY = bytes.fromhex("000300000000000007e8")

EVENT_1 = bytes.fromhex(
    "01fb361e019b03a6757064617465a764656661756c74a3776562cd07d0c2cf00060a24181e4000a5616c696365a76b75"
    "626563746cc403928080c41b7b226d65746164617461223a7b226e616d65223a22776562227d7d"
)
EVENT_2 = bytes.fromhex(
    "02a8fe8de69c03a6757064617465a764656661756c74a3776562cd07d0c2cf00060a24181e4000a5616c696365a76b75"
    "626563746cc403928080c41b7b226d65746164617461223a7b226e616d65223a22776562227d7dad726f6c6c6261636b"
    "20746f2037"
)
EVENT_3 = bytes.fromhex(
    "03104c32b19b03a6757064617465a764656661756c74a3776562cd07d0c2cf00060a24181e4000a5616c696365a76b75"
    "626563746cc41a28b52ffd20228d00005000000003928080227d7d010010041e23ad726f6c6c6261636b20746f2037"
)
ROW_0 = bytes.fromhex(
    "1d10899b00000000000007e800000000039280807b226d65746164617461223a7b226e616d65223a22776562227d7d"
)
# An earlier release wrote the same object like this.
ROW_1 = bytes.fromhex(
    "d28e9e5300000000000007e801000000039280807b226d65746164617461223a7b226e616d65223a22776562227d7d"
)
LINK_1 = bytes.fromhex("923c9283010000000000000007d064656661756c7400776562")
COUNT_1 = bytes.fromhex("4463c1100000000000000007")


def test_keys() -> None:
    assert keys.pack_offset(2024) == OFFSET_KEY
    assert keys.of_object(3, "default", "web") == STATE_KEY
    assert keys.by_type(3, 2024) == TYPE_KEY
    assert keys.by_object(STATE_KEY, 2024) == STATE_KEY + b"\0" + OFFSET_KEY
    assert keys.scopes_of(STATE_KEY) == (b"\0\3", b"\0\3default\0")


def test_event_layout_1() -> None:
    assert records.decode_event(2024, EVENT_1) == EVENT
    assert records.decode_event(2024, memoryview(EVENT_1)) == EVENT


def test_row_layouts_0_and_1() -> None:
    assert records.encode_row(STATE_KEY, 2024, EVENT.facts, EVENT.body) == ROW_0
    for row in (ROW_0, ROW_1):
        assert records.decode_row(STATE_KEY, memoryview(row)) == (2024, EVENT.facts, EVENT.body)
        assert records.row_offset(STATE_KEY, memoryview(row)) == 2024


def test_link_layout_1() -> None:
    link = records.Link(2024, STATE_KEY, 2000, False)
    assert records.encode_link(TYPE_KEY, STATE_KEY, 2000, False) == LINK_1
    assert records.decode_link(TYPE_KEY, LINK_1) == link


def test_count() -> None:
    assert records.encode_count(b"\0\3", 7) == COUNT_1
    assert records.decode_count(b"\0\3", COUNT_1) == 7


@cases("position", range(len(EVENT_1)))
def test_event_with_a_flipped_bit_is_damaged(position: int) -> None:
    damaged = bytearray(EVENT_1)
    damaged[position] ^= 1 << (position % 8)
    with pytest.raises(Damaged, match="2024"):
        records.decode_event(2024, bytes(damaged))


def stored(event: Event) -> tuple[bytes, bytes]:
    key = keys.pack_offset(event.offset)
    return key, records.encode_event(key, event)


def test_many_events_are_decoded_like_each() -> None:
    offsets = [1, 2, 255, 256, 257, 511, 512, 65_535, 65_536, 1 << 24, (1 << 40) + 255, (1 << 40) + 256]
    events = [EVENT._replace(offset=offset, reason="why" * (offset % 3 == 0)) for offset in offsets]
    found = records.decode_events(map(stored, events), keys.MAX_OFFSET, 1 << 20)
    assert found == events == [records.decode_event(one.offset, stored(one)[1]) for one in events]
    assert records.decode_events(map(stored, events), 256, 1 << 20) == events[:4]
    assert records.decode_events(map(stored, events), keys.MAX_OFFSET, 1) == events[:1]


@cases("position", range(len(EVENT_1)))
def test_one_of_many_events_with_a_flipped_bit_is_damaged(position: int) -> None:
    damaged = bytearray(EVENT_1)
    damaged[position] ^= 1 << (position % 8)
    with pytest.raises(Damaged, match="2024"):
        records.decode_events(
            [stored(EVENT._replace(offset=2023)), (OFFSET_KEY, bytes(damaged))], 3000, 1 << 20
        )


@cases("bit", range(64))
def test_one_of_many_events_under_another_key_is_damaged(bit: int) -> None:
    key = keys.pack_offset(EVENT.offset ^ (1 << bit))
    with pytest.raises(Damaged):
        records.decode_events([(key, EVENT_1)], 1 << 65, 1 << 20)


@cases("position", range(len(ROW_1)))
def test_row_with_a_flipped_bit_is_damaged(position: int) -> None:
    damaged = bytearray(ROW_1)
    damaged[position] ^= 1 << (position % 8)
    with pytest.raises(Damaged, match="default/web"):
        records.decode_row(STATE_KEY, memoryview(damaged))
    with pytest.raises(Damaged, match="default/web"):
        records.row_offset(STATE_KEY, memoryview(damaged))


def test_record_under_another_key_is_damaged() -> None:
    with pytest.raises(Damaged):
        records.decode_event(2025, EVENT_1)
    with pytest.raises(Damaged):
        records.decode_row(STATE_KEY + b"x", memoryview(ROW_1))
    with pytest.raises(Damaged):
        records.row_offset(STATE_KEY + b"x", memoryview(ROW_1))
    with pytest.raises(Damaged):
        records.decode_link(keys.by_type(3, 2025), LINK_1)
    with pytest.raises(Damaged):
        records.decode_count(b"\0\4", COUNT_1)


@cases("length", [0, 3, 12])
def test_truncated_record_is_damaged(length: int) -> None:
    with pytest.raises(Damaged):
        records.decode_event(2024, EVENT_1[:length])
    with pytest.raises(Damaged):
        records.decode_row(STATE_KEY, memoryview(ROW_1[:length]))
    with pytest.raises(Damaged):
        records.row_offset(STATE_KEY, memoryview(ROW_1[:length]))
    with pytest.raises(Damaged):
        records.decode_link(TYPE_KEY, LINK_1[:length])
    with pytest.raises(Damaged):
        records.decode_count(b"\0\3", COUNT_1[: min(length, 11)])


def test_old_layouts_are_upcast_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_manager(fields: records.Fields) -> records.Fields:
        return [*fields[:8], "unknown", *fields[9:]]

    def shout(fields: records.Fields) -> records.Fields:
        return [fields[0], fields[1].upper(), *fields[2:]]

    monkeypatch.setattr(records, "EVENT_UPCASTERS", {1: without_manager, 2: shout})
    assert records.decode_event(2024, EVENT_1) == EVENT._replace(manager="unknown", verb="UPDATE")


def test_newer_layout_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("EVENT_LAYOUT", "ROW_LAYOUT", "LINK_LAYOUT"):
        monkeypatch.setattr(records, name, 0)
    with pytest.raises(NewerLayout, match="newer release"):
        records.decode_event(2024, EVENT_1)
    with pytest.raises(NewerLayout):
        records.decode_row(STATE_KEY, memoryview(ROW_1))
    with pytest.raises(NewerLayout):
        records.row_offset(STATE_KEY, memoryview(ROW_1))
    with pytest.raises(NewerLayout):
        records.decode_link(TYPE_KEY, LINK_1)


def test_events_of_layout_2_have_a_reason() -> None:
    assert records.decode_event(2024, EVENT_2) == EVENT._replace(reason="rollback to 7")


@pytest.mark.parametrize("reason", ["", "rollback to 7"])
def test_events_of_layout_3_are_compressed(reason: str) -> None:
    """Other releases of zstd may compress in other bytes, which all can read."""
    large = EVENT._replace(
        reason=reason, facts=b"", body=b'{"metadata":{"name":"web","namespace":"default"}}' * 50
    )
    for event in (large, EVENT._replace(reason=reason), EVENT._replace(reason=reason, facts=b"", body=b"")):
        encoded = records.encode_event(OFFSET_KEY, event)
        assert encoded[0] == 3
        assert records.decode_event(2024, encoded) == event
        assert records.decode_events([(OFFSET_KEY, encoded)], 2024, 1) == [event]
    assert len(records.encode_event(OFFSET_KEY, large)) < len(large.body) / 10


def test_event_layout_3() -> None:
    assert records.decode_event(2024, EVENT_3) == EVENT._replace(reason="rollback to 7")


def of_contents(contents: object) -> bytes:
    """An event of layout 3 with a right checksum."""
    packed: bytes = msgpack.packb([*EVENT[1:10], contents, ""])
    return b"\3" + records._event_check(2024, 3, packed).to_bytes(4, "big") + packed


@pytest.mark.parametrize(
    ("contents", "why"),
    [
        (b"", "contents: "),
        (b"no frame", "contents: "),
        ("text", "contents: expected bytes, found the text 'text'"),
        (zstandard.compress(b"\0\0\0\5abc"), "contents: 7 bytes, too few for their facts"),
        (zstandard.compress(b"abc"), "contents: 3 bytes, not 4 to"),
        (zstandard.compress(b"\0\0\0\0" + bytes(100))[:-3], "contents: "),
        # It says that it has 2 ** 40 bytes: refused before they are allocated.
        (
            bytes.fromhex("28b52ffde0") + (1 << 40).to_bytes(8, "little") + b"\1\0\0",
            "contents: 1099511627776 bytes",
        ),
    ],
)
def test_contents_that_cannot_be_read_are_damage(contents: object, why: str) -> None:
    for read in (
        lambda value: records.decode_event(2024, value),
        lambda value: records.decode_events([(OFFSET_KEY, value)], 2024, 1),
    ):
        with pytest.raises(Damaged, match="event 2024 has a wrong field") as found:
            read(of_contents(contents))
        assert why in str(found.value)
