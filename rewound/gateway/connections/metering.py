"""Counts the bytes that a connection accepted of an observed stream's body, by parsing the framed bytes of a group.

Groups frame each event once for all members, so no member knows the size of a payload. A `Meter` finds it in the
frames, in whatever pieces they were sent. `MeteredTransport` puts one between a watch and its transport; only
observed streams have it, all others use the transport directly.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from rewound.gateway.connections.transport import Transport
from rewound.gateway.watch.broadcast import Broadcast, Missed
from rewound.gateway.watch.framing import Framing, as_chunk

# The longest head of a chunk (16 digits and a line break); that of a frame has 10 bytes.
_LONGEST_HEAD = 18

# Returns the length of a head and of its payload; None while the head is incomplete.
ReadHead = Callable[[bytes], tuple[int, int] | None]


def chunk_head(head: bytes) -> tuple[int, int] | None:
    end = head.find(b"\r\n")
    return None if end < 0 else (end + 2, int(head[:end], 16))


def frame_head(head: bytes) -> tuple[int, int] | None:
    """Parse the head of an unmasked WebSocket frame."""
    if len(head) < 2:
        return None
    length = head[1] & 0x7F
    if length < 126:
        return 2, length
    size, form = (4, "!H") if length == 126 else (10, "!Q")
    return (size, struct.unpack_from(form, head, 2)[0]) if len(head) >= size else None


class Meter:
    """Counts payload bytes in a sequence of frames; without `read_head`, everything is payload."""

    __slots__ = ("_head", "_left", "_read_head", "_trailer", "payload")

    def __init__(self, read_head: ReadHead | None, trailer: int = 0) -> None:
        self._read_head = read_head
        self._trailer = trailer  # bytes that follow each payload
        self._head = b""  # the incomplete head of a frame
        self._left = 0  # remaining bytes of the payload and its trailer
        self.payload = 0

    def add(self, data: bytes | memoryview) -> None:
        if self._read_head is None:
            self.payload += len(data)
            return
        at, end = 0, len(data)
        while at < end:
            if not self._left:
                at = self._enter(self._read_head, data, at)
                continue
            step = min(self._left, end - at)
            self.payload += min(step, max(self._left - self._trailer, 0))
            self._left -= step
            at += step

    def _enter(self, read_head: ReadHead, data: bytes | memoryview, at: int) -> int:
        """Parse a head as far as it has arrived; return where it ends."""
        before = len(self._head)
        head = self._head + bytes(data[at : at + _LONGEST_HEAD - before])
        found = read_head(head)
        if found is None:
            self._head = head
            return at + len(head) - before
        size, payload = found
        self._head, self._left = b"", payload + self._trailer
        return at + size - before

    def measure(self, data: bytes) -> int:
        """The number of payload bytes in complete frames."""
        meter = Meter(self._read_head, self._trailer)
        meter.add(data)
        return meter.payload

    @property
    def between_frames(self) -> bool:
        return not self._left and not self._head


def meter_of(framing: Framing) -> Meter:
    """A meter for a body over HTTP/1.1 or HTTP/1.0."""
    return Meter(chunk_head, trailer=2) if framing is as_chunk else Meter(None)


class MeteredTransport:
    """The pipe of an observed watch: its transport, and a meter of what the transport accepted."""

    __slots__ = ("broadcast", "meter", "transport")

    def __init__(self, transport: Transport, meter: Meter) -> None:
        self.transport = transport
        self.meter = meter
        self.broadcast = _metered(type(transport).broadcast)

    @property
    def deadline(self) -> float:
        return self.transport.deadline

    @deadline.setter
    def deadline(self, moment: float) -> None:
        self.transport.deadline = moment

    @property
    def has_unsent(self) -> bool:
        return self.transport.has_unsent

    def transmit(self, data: bytes | memoryview) -> int:
        taken = self.transport.transmit(data)
        self.meter.add(data[: abs(taken)])
        return taken

    async def flush(self) -> None:
        await self.transport.flush()

    async def receive(self) -> bytes:
        return await self.transport.receive()

    def interrupt(self) -> None:
        self.transport.interrupt()


@cache
def _metered(broadcast: Broadcast) -> Broadcast:
    """The broadcast for metered transports of one class: one function for all of them, so that they share groups."""

    def send(pipes: Sequence[MeteredTransport], data: bytes) -> Missed:
        missed: dict[Any, int | Exception] = dict(broadcast([pipe.transport for pipe in pipes], data))
        payload = pipes[0].meter.measure(data) if pipes else 0
        missing: Missed = []
        for pipe in pipes:
            taken = missed.get(pipe.transport, len(data))
            if isinstance(taken, Exception):
                missing.append((pipe, taken))
                continue
            if abs(taken) == len(data) and pipe.meter.between_frames:
                pipe.meter.payload += payload
            else:
                pipe.meter.add(data[: abs(taken)])
            if taken != len(data):
                missing.append((pipe, taken))
        return missing

    return send
