"""The frames of a WebSocket client are read equally, in whatever pieces they arrive."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.connections.websocket.frames import (
    CLOSE,
    PING,
    PONG,
    Control,
    Reader,
    Violation,
    close_code,
    close_frame,
)
from tests.gateway.watch.websocket_client import masked

controls = st.builds(
    lambda opcode, payload: (masked(opcode, payload), [Control(opcode, payload)]),
    st.sampled_from([PING, PONG, CLOSE]),
    st.binary(max_size=125),
)
LARGE = (masked(2, b"x" * 70_000), [])
messages = st.builds(
    lambda opcode, payload, mask: (masked(opcode, payload, mask=mask), []),
    st.sampled_from([1, 2]),
    st.binary(max_size=200),
    st.binary(min_size=4, max_size=4),
)


@given(
    st.lists(st.one_of(controls, messages, st.just(LARGE)), max_size=8),
    st.lists(st.integers(1, 60), max_size=40),
)
def test_frames_are_read_equally_in_any_pieces(
    frames: list[tuple[bytes, list[Control]]], cuts: list[int]
) -> None:
    reader = Reader()
    data = b"".join(sent for sent, _ in frames)
    found: list[Control] = []
    for cut in cuts:
        found += reader.feed(data[:cut])
        data = data[cut:]
    found += reader.feed(data)
    assert found == [control for _, expected in frames for control in expected]
    assert reader._buffer == b""


@given(st.lists(st.binary(max_size=30), min_size=1, max_size=6), st.data())
def test_pings_between_fragments_are_read(parts: list[bytes], data: st.DataObject) -> None:
    reader, sent, expected = Reader(), b"", []
    for place, part in enumerate(parts):
        sent += masked(0 if place else 1, part, fin=place == len(parts) - 1)
        if data.draw(st.booleans()):
            sent += masked(PING, b"%d" % place)
            expected.append(Control(PING, b"%d" % place))
    assert reader.feed(sent) == expected
    assert reader.feed(masked(2, b"another")) == []


@given(st.binary(max_size=300))
def test_any_bytes_are_frames_or_a_violation(data: bytes) -> None:
    reader = Reader()
    with suppress(Violation):
        for place in range(0, len(data), 7):
            reader.feed(data[place : place + 7])
    assert len(reader._buffer) <= 140


@pytest.mark.parametrize("code", [1000, 1001, 1008, 1011, 3000, 4999])
def test_close_codes_survive_a_round_trip(code: int) -> None:
    assert close_code(close_frame(code, "why")[2:]) == code


def test_long_close_reason_is_truncated() -> None:
    assert len(close_frame(1002, "x" * 500)) == 127
