"""Whatever a leader sends with valid checksums is stored correctly, or refused with the name of the field."""

from __future__ import annotations

import random
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import msgpack
import pytest

from rewound.journal import Journal, keys, records, stream
from rewound.journal.errors import CannotFollow, Damaged, NewerLayout
from rewound.journal.frames import FrameChain
from rewound.journal.records import Event
from rewound.journal.repair import verify
from rewound.journal.stream import BadMessage, Commit, Header, Message, Stored, encode_message
from tests.journal.model import Model
from tests.journal.streaming import Receiver, messages, stored_events, stream_of
from tests.journal.test_stream import fill

UNCOMPRESSED = 2  # the layout of events with facts and body as they are
REFUSALS = (BadMessage, Damaged, NewerLayout, CannotFollow)
# Values that a field may have instead of a valid one.
VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        -1,
        0,
        1,
        2**31,
        2**62 + 1,
        2**63,
        2**64 - 1,
        1.5,
        "",
        "text",
        "a\0b",
        "x" * 600,
        b"",
        b"x",
        b"y" * 16,
    ),
    *(
        [],
        [[]],
        [["text", 1]],
        [[b"z" * 16, "1"]],
        [[b"z" * 16, 5], [b"y" * 16, 5]],
        {},
        {"a": 1},
        {"a": "b"},
        {1: 1},
    ),
)


@pytest.fixture
def filled(journal: Journal, model: Model) -> Journal:
    fill(journal, model, 40)
    return journal


def framed(payloads: list[bytes]) -> bytes:
    """A stream with right checksums."""
    chain = FrameChain(stream.MAGIC)
    return stream.MAGIC + b"".join(map(chain.frame, payloads))


def packed_event(offset: int, fields: Any, layout: int = UNCOMPRESSED) -> bytes:
    """An event with a right checksum."""
    packed: bytes = msgpack.packb(fields)
    check = records._event_check(offset, layout, packed)
    return b"E" + keys.pack_offset(offset) + bytes((layout,)) + check.to_bytes(4, "big") + packed


def changed(message: Message, generator: random.Random) -> bytes:
    """A message of which one field is something else."""
    value = generator.choice(VALUES)
    match message:
        case Stored(offset=offset, event=Event() as event):
            fields: list[Any] = list(event[1:])
            number = generator.randrange(-2, len(fields))
            if number == -2:
                return packed_event(generator.choice([0, 1, 2**62 + 1, 2**64 - 1]), fields)
            if number == -1:
                return packed_event(
                    offset, generator.choice([value, fields[:5], [*fields, 1]]), generator.randrange(5)
                )
            fields[number] = value
            return packed_event(offset, fields)
        case Commit():
            wrong = {generator.choice(["offset", "head", "floor"]): generator.choice([0, 2**63, 2**64 - 1])}
            return encode_message(replace(message, **wrong))
        case _:
            fields_of = asdict(message) | ({"timelines": []} if isinstance(message, Header) else {})
            if generator.random() < 0.2:
                return encode_message(message)[:1] + msgpack.packb(value)
            fields_of[generator.choice(list(fields_of))] = value
            if generator.random() < 0.1:
                fields_of.popitem()
            return encode_message(message)[:1] + msgpack.packb(fields_of)


def check_sound(receiver: Receiver) -> None:
    """The stored data is consistent, and the folder opens again."""
    if receiver.copy is None:
        return
    receiver.close()
    again = Journal.open(receiver.path, readonly=True)
    try:
        with again.read() as view:
            assert verify.verify(view).differences == []
            assert view.timelines is not None
            head = view.head
        assert head <= keys.LARGEST_OFFSET
    finally:
        again.close()


def test_streams_with_one_wrong_field(filled: Journal, tmp_path: Path) -> None:
    generator = random.Random(39)
    sound = messages(stream_of(filled))
    refused = 0
    for number in range(150):
        payloads = [encode_message(one) for one in sound]
        place = generator.choice([0, generator.randrange(len(sound))])
        payloads[place] = changed(sound[place], generator)
        receiver = Receiver(tmp_path / f"copy{number}")
        try:
            receiver.receive(framed(payloads))
        except REFUSALS:
            refused += 1
        check_sound(receiver)
    assert refused > 75


def refusal(payloads: list[bytes], path: Path) -> str:
    receiver = Receiver(path)
    with pytest.raises(REFUSALS) as found:
        receiver.receive(framed(payloads))
    if receiver.copy is not None:
        receiver.close()
    return str(found.value)


def test_refusals_name_the_field(filled: Journal, tmp_path: Path) -> None:
    """Messages with which a folder did not open again, hung, or caused a traceback."""
    header, *events = messages(stream_of(filled))
    assert isinstance(header, Header)
    first, second = events[0], events[1]
    assert isinstance(first, Stored) and isinstance(second, Stored) and first.event and second.event
    begin, fields = encode_message(header), list(first.event[1:])

    def with_header(**wrong: Any) -> list[bytes]:
        return [b"H" + msgpack.packb(asdict(header) | {"timelines": []} | wrong)]

    def with_event(offset: int, **wrong: Any) -> list[bytes]:
        assert first.event is not None
        return [begin, packed_event(offset, list(first.event._replace(**wrong)[1:]))]

    cases: list[tuple[str, list[bytes]]] = [
        ("header: timelines: expected a list, found the text 'main'", with_header(timelines="main")),
        ("header: timelines[0].id: expected bytes, found the text 'x'", with_header(timelines=[["x", 1]])),
        ("header: cluster: expected 16 bytes, found 3", with_header(cluster=b"abc")),
        ("header: head: 18446744073709551615 is not between", with_header(head=2**64 - 1)),
        ("header: types: a: has the number 1, which b has too", with_header(types={"b": 1, "a": 1})),
        ("event: offset: 18446744073709551615 is not between", with_event(2**64 - 1)),
        (
            "event 1 has a wrong field (time: expected a number, found the text 'now')",
            with_event(1, time="now"),
        ),
        ("event 1 has a wrong field (body: expected bytes, found the text '{}')", with_event(1, body="{}")),
        ("event 1: type: 77 has no name", with_event(1, type_id=77)),
        ("event 1 has a wrong field (name: no object can be called", with_event(1, name="a\0b")),
        ("event 1 has 3 fields", [begin, packed_event(1, fields[:3])]),
        ("event 1 has layout 9 and this release reads up to 3", [begin, packed_event(1, fields, 9)]),
        ("event: offset: 1 does not follow 2", [begin, encode_message(second), encode_message(first)]),
        ("header: there must be exactly one", [encode_message(first)]),
        ("header: there must be exactly one", [begin, begin]),
        ("types: leases: 7 is another number", [begin, b"T" + msgpack.packb({"leases": 7})]),
        ("commit: offset: 9 is not between 0 and 5", [begin, encode_message(Commit(9, 5, 0))]),
    ]
    for number, (why, payloads) in enumerate(cases):
        assert why in refusal(payloads, tmp_path / f"copy{number}"), why


def test_events_earlier_than_those_that_are_stored_are_refused(filled: Journal, tmp_path: Path) -> None:
    receiver = Receiver(tmp_path / "copy")
    receiver.receive(stream_of(filled))
    header = messages(stream_of(filled, filled.head))[0]
    late = Event(41, 1, "create", "default", "late", 0, False, 1, "u", "m", b"", b"{}")
    payloads = [encode_message(header), packed_event(41, list(late[1:])), encode_message(Commit(41, 41, 0))]
    with pytest.raises(CannotFollow, match="event 41 is earlier than the one before it"):
        receiver.receive(framed(payloads))
    assert stored_events(receiver.opened.journal) == stored_events(filled)
    receiver.close()
