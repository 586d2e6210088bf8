"""A meter finds the size of payloads in frames, wherever sends divide these."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rewound.gateway.connections.metering import Meter, frame_head, meter_of
from rewound.gateway.watch.framing import as_chunk, as_text_frame, unframed

SIZES = st.lists(st.sampled_from([1, 2, 15, 16, 125, 126, 4096, 65_535, 65_536, 70_000]), max_size=5)
CUTS = st.lists(st.integers(1, 40_000), max_size=30)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    found = []
    for cut in cuts:
        found.append(data[:cut])
        data = data[cut:]
    return [*found, data]


@given(SIZES, CUTS)
def test_meter_counts_payload_of_chunks(sizes: list[int], cuts: list[int]) -> None:
    data, meter = b"".join(as_chunk(b"x" * size) for size in sizes), meter_of(as_chunk)
    for piece in pieces(data, cuts):
        meter.add(piece)
    assert (meter.payload, meter.between_frames) == (sum(sizes), True)
    assert meter.measure(data) == sum(sizes)


@given(SIZES, CUTS)
def test_meter_counts_payload_of_websocket_frames(sizes: list[int], cuts: list[int]) -> None:
    data, meter = b"".join(as_text_frame(b"x" * size) for size in sizes), Meter(frame_head)
    for piece in pieces(data, cuts):
        meter.add(memoryview(piece))
    assert (meter.payload, meter.between_frames) == (sum(sizes), True)


def test_event_sent_in_part_counts_that_part() -> None:
    meter = meter_of(as_chunk)
    meter.add(as_chunk(b"x" * 100)[:-50])
    assert (meter.payload, meter.between_frames) == (52, False)


def test_body_without_framing_counts_every_byte() -> None:
    meter = meter_of(unframed)
    meter.add(b"5\r\nhello\r\n")
    assert meter.payload == 10
