"""Records that would take far more memory than what a server stores are damage, and are not decoded."""

from __future__ import annotations

import struct
import tracemalloc
import zlib
from collections.abc import Callable
from typing import Any
from zlib import crc32

import msgpack
import pytest
import zstandard

from rewound.journal import Event, Journal, contents, keys, records, retention, snapshots
from rewound.journal.contents import LARGEST
from rewound.journal.errors import Damaged, EventTooLarge
from rewound.journal.repair.verify import verify
from rewound.journal.snapshot_writer import take
from tests.cases import cases
from tests.journal.model import Model


def stored(event: Event, frame: bytes) -> bytes:
    """The bytes of an event with any contents."""
    packed = msgpack.packb([*event[1:10], frame, event.reason])
    layout = bytes((records.EVENT_LAYOUT,))
    return layout + crc32(packed, crc32(keys.pack_offset(event.offset) + layout)).to_bytes(4, "big") + packed


def claiming(size: int) -> bytes:
    """A sound frame that becomes so many bytes."""
    dictionary = zstandard.ZstdCompressionDict(
        contents.Path(contents.__file__).with_name("contents.zdict").read_bytes()
    )
    compressor = zstandard.ZstdCompressor(dict_data=dictionary, write_dict_id=False)
    return compressor.compress(struct.pack(">I", 0) + b"x" * (size - 4))


def put(journal: Journal, event: Event, value: bytes) -> None:
    """Replace the bytes of an event."""
    database = journal.environment.databases.events
    journal.environment.write(lambda txn: txn.put(keys.pack_offset(event.offset), value, db=database))


def peak(work: Callable[[], Any]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture
def poisoned(journal: Journal, model: Model) -> Journal:
    """The second of four events claims 64 MiB."""
    journal.register_type("configmaps")
    events = [model.put("a"), model.put("b"), model.put("b"), model.put("a")]
    journal.append(events)
    put(journal, events[1], stored(events[1], claiming(64 << 20)))
    return journal


WHY = (
    f"event 2 has a wrong field (contents: {64 << 20} bytes, and no event has more than {LARGEST}; "
    "of type 1, default/b)"
)


def test_verify_names_the_event_its_object_and_the_size(poisoned: Journal) -> None:
    with poisoned.read() as view:
        assert verify(view).differences[0] == WHY


def test_nothing_is_allocated_for_an_event_that_is_too_large(poisoned: Journal) -> None:
    def read() -> None:
        with pytest.raises(Damaged), poisoned.read() as view:
            view.event(2)
        with poisoned.read() as view:
            assert [bool(event.body) for event in view.all_events(0)] == [True, False, True, True]
        with poisoned.read() as view:
            assert [bool(event.body) for event in view.newer_events(0, 10, 1 << 20)] == [
                True,
                False,
                True,
                True,
            ]

    assert peak(read) < 1 << 20


def test_other_events_are_read_and_retention_passes_it(poisoned: Journal, model: Model) -> None:
    with poisoned.read() as view:
        assert [event.offset for event in view.history(1, "default", "a")] == [1, 4]
        assert len(list(view.at(3).rows(1))) == 2
        with pytest.raises(Damaged):
            list(view.history(1, "default", "b"))
        assert [event.time for event in view.all_events(0, contents=False)] == [
            one.time for one in model.events
        ]
    assert retention.advance(poisoned, 3).deleted == 1
    with poisoned.read() as view:
        assert [event.offset for event in view.all_events(0)] == [1, 3, 4]


def test_largest_event_is_stored_and_read_and_a_larger_one_is_refused(journal: Journal, model: Model) -> None:
    journal.register_type("configmaps")
    event = model.put("a")
    body = event.body[:-1] + b',"x":"'
    body += b"y" * (LARGEST - len(event.facts) - len(body) - 4 - 2) + b'"}'
    with pytest.raises(EventTooLarge, match="type 1, default/a has 16,842,749 bytes"):
        journal.append([event._replace(body=body + b" ")])
    assert journal.head == 0
    journal.append([event._replace(body=body)])
    with journal.read() as view:
        assert view.event(1) == event._replace(body=body)


@cases(
    "packed",
    [
        b"\x9b" + b"\x90" * (1 << 20),
        b"\x9b" + b"\xdc\xff\xff" * 300 + b"\x01" * 66_000,
        b"\x9b" + b"\xde\xff\xff" * 300 + b"\x01" * 66_000,
        msgpack.packb([1, "v", "n", "x", 0, False, 1, "u", "m", [[]] * 100_000, ""]),
    ],
)
def test_lists_inside_a_record_take_no_memory(packed: bytes) -> None:
    for layout in (1, 2, 3):
        check = crc32(packed, crc32(keys.pack_offset(7) + bytes((layout,))))
        value = bytes((layout,)) + check.to_bytes(4, "big") + packed

        def read(value: bytes = value) -> None:
            with pytest.raises(Damaged):
                records.decode_event(7, value)

        assert peak(read) < 4 * len(packed)


def test_snapshot_that_decompresses_to_too_much_is_damage(journal: Journal, model: Model) -> None:
    journal.register_type("configmaps")
    journal.append([model.put("a")])
    list(take(journal))
    key = snapshots.chunk_key(1, 0)
    packed = zlib.compress(bytes(snapshots.LARGEST + 1))
    value = crc32(packed, crc32(key)).to_bytes(4, "big") + packed
    database = journal.environment.databases.snapshots
    journal.environment.write(lambda txn: txn.put(key, value, db=database))
    with pytest.raises(Damaged, match="chunk 0 of the snapshot at 1 cannot be read"), journal.read() as view:
        snapshots.load(view, 1, 1)
