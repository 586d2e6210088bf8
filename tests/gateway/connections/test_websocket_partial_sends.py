"""Events and control frames on one pipe: however sends are split, each frame is whole and in order."""

from __future__ import annotations

import struct
import tracemalloc
from contextlib import suppress
from typing import Any

import pytest
import trio
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from rewound.gateway.connections.limits import Limits
from rewound.gateway.connections.websocket.connection import WebSocket
from rewound.gateway.watch.framing import as_text_frame
from rewound.gateway.watch.member import CLOSE_TIMEOUT
from tests.cases import cases
from tests.examples import examples
from tests.gateway.watch.memory_hub import FakePipe, memory_hub
from tests.gateway.watch.websocket_client import PING, PONG, TEXT, Frame, masked


class FakeTransport(FakePipe):
    """A transport in memory; `add_input` adds bytes of the client."""

    fd = -1
    limits = Limits()

    def __init__(self, room: float, slice: int) -> None:
        super().__init__(room, slice)
        self._said = b""

    def add_input(self, data: bytes) -> None:
        self._said += data
        self._woken.set()

    async def receive(self) -> bytes:
        if not self._said:
            await wait_interrupt(self)
        data, self._said = self._said, b""
        if not data:
            raise trio.ClosedResourceError
        return data


async def wait_interrupt(transport: FakeTransport) -> None:
    await transport._woken.wait()
    transport._woken = trio.Event()


def frames_in(data: bytes) -> list[Frame]:
    """Parse whole frames; no byte may be left over."""
    found = []
    while data:
        opcode, size = data[0] & 0x0F, data[1]
        start = 2
        if size == 126:
            size, start = struct.unpack_from("!H", data, 2)[0], 4
        assert size < 127 or start == 4
        assert len(data) >= start + size, "a frame is cut"
        found.append(Frame(opcode, data[start : start + size]))
        data = data[start + size :]
    return found


@examples(30, suppress_health_check=list(HealthCheck))
@given(
    room=st.integers(0, 300),
    slice=st.sampled_from([0, 5, 60]),
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("write"), st.integers(0, 150)),
            st.tuples(st.just("ping"), st.integers(0, 99)),
            st.tuples(st.just("read"), st.integers(1, 200)),
        ),
        max_size=25,
    ),
)
def test_frames_stay_whole_in_any_order_of_steps(room: int, slice: int, steps: list[tuple[str, int]]) -> None:
    async def run() -> None:
        async with memory_hub() as base, trio.open_nursery() as nursery:
            transport = FakeTransport(room, slice)
            pipe: Any = WebSocket(transport, b"")  # type: ignore[arg-type]
            watcher = base.join(pipe, framing=as_text_frame)
            nursery.start_soon(receive_until_end, pipe)
            written, pinged = [], []
            for number, (step, value) in enumerate(steps):
                if step == "write":
                    written.append(base.put(f"n-{number}", size=value))
                elif step == "ping":
                    pinged.append(b"%d-%d" % (number, value))
                    transport.add_input(masked(PING, pinged[-1]))
                else:
                    transport.read(value)
                await wait_all_tasks_blocked()
            transport.read(10**9)
            transport.interrupt()
            await wait_all_tasks_blocked()
            found = frames_in(transport.received)
            events = [frame.event for frame in found if frame.opcode == TEXT]
            assert [int(event["object"]["metadata"]["resourceVersion"]) for event in events] == written
            pongs = [frame.payload for frame in found if frame.opcode == PONG]
            # Not every ping needs a pong, but the newest does, and pongs stay in order.
            assert pongs == [ping for ping in pinged if ping in pongs]
            assert pongs[-1:] == pinged[-1:]
            assert not watcher.group.lagging
            nursery.cancel_scope.cancel()

    trio.run(run)


async def receive_until_end(pipe: WebSocket) -> None:
    while True:
        try:
            await pipe.receive()
        except trio.ClosedResourceError:
            continue


@cases("room", range(12))
async def test_pong_sent_in_part_is_completed_before_the_next_event(room: int) -> None:
    async with memory_hub() as base, trio.open_nursery() as nursery:
        transport = FakeTransport(room, 0)
        pipe: Any = WebSocket(transport, b"")  # type: ignore[arg-type]
        base.join(pipe, framing=as_text_frame)
        nursery.start_soon(receive_until_end, pipe)
        transport.add_input(masked(PING, b"12345678"))
        await wait_all_tasks_blocked()
        base.put("a")
        await wait_all_tasks_blocked()
        transport.read(10**6)
        await wait_all_tasks_blocked()
        assert [frame.opcode for frame in frames_in(transport.received)] == [PONG, TEXT]
        nursery.cancel_scope.cancel()


async def test_interruption_while_a_frame_arrives_is_not_lost() -> None:
    """A kind is removed, a version is reached or the server stops at the moment when the client sends a pong."""
    transport = FakeTransport(10**6, 0)
    pipe = WebSocket(transport, b"")  # type: ignore[arg-type]
    interrupted = trio.Event()

    async def receive() -> None:
        with suppress(trio.ClosedResourceError):
            await pipe.receive()
        interrupted.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(receive)
        await wait_all_tasks_blocked()
        transport.add_input(masked(PONG))
        pipe.interrupt()
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert interrupted.is_set()


async def test_bytes_after_a_violation_are_discarded() -> None:
    async with memory_hub() as base, trio.open_nursery() as nursery:
        transport = FakeTransport(20, 0)
        pipe: Any = WebSocket(transport, b"")  # type: ignore[arg-type]
        base.join(pipe, framing=as_text_frame)
        nursery.start_soon(receive_until_end, pipe)
        base.put("a", size=100)
        await wait_all_tasks_blocked()
        assert len(transport.received) == 20  # the client stops reading in the middle of an event
        transport.add_input(b"\x81\x05hello")  # no mask
        await wait_all_tasks_blocked()
        tracemalloc.start()
        try:
            for _ in range(100):
                transport.add_input(bytes(32 << 10))
                await wait_all_tasks_blocked()
            used, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert used < 1 << 20
        nursery.cancel_scope.cancel()


async def test_client_that_sends_on_and_does_not_read_is_disconnected(autojump_clock: MockClock) -> None:
    """A task that always finds bytes is never interrupted: it has to check the clock itself."""
    async with memory_hub() as base:
        transport = FakeTransport(20, 0)
        pipe: Any = WebSocket(transport, b"\x81\x05hello")  # type: ignore[arg-type]
        base.join(pipe, framing=as_text_frame)
        base.put("a", size=100)
        await wait_all_tasks_blocked()
        with trio.fail_after(2 * CLOSE_TIMEOUT), pytest.raises(ConnectionResetError):
            await receive_from_chatty_client(transport, pipe)


async def receive_from_chatty_client(transport: FakeTransport, pipe: WebSocket) -> None:
    while True:
        with suppress(trio.ClosedResourceError):
            await pipe.receive()
        await trio.sleep(0.1)
        transport.add_input(b"more")
