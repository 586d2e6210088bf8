"""docs/decisions/0006-websocket.md: framing events and reading clients' frames, by wsproto and by our own code."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable

from wsproto.connection import Connection, ConnectionType
from wsproto.events import TextMessage
from wsproto.frame_protocol import FrameProtocol

from benchmarks.decisions.measure import Effort, compare, effort_of_command_line, show
from rewound.gateway.watch.framing import as_text_frame

WATCHERS = 1000
EVENT = b'{"type":"MODIFIED","object":{"payload":"%b"}}\n' % (b"x" * 1250)
# What clients send to a watch: an answer to our ping, a ping, or a message that nobody reads.
PONG, PING, TEXT = 10, 9, 1


def masked(opcode: int, payload: bytes) -> bytes:
    """A frame as a client sends it."""
    size = len(payload)
    length = (
        bytes((0x80 | size,))
        if size < 126
        else b"\xfe" + size.to_bytes(2, "big")
        if size < 1 << 16
        else b"\xff" + size.to_bytes(8, "big")
    )
    mask = os.urandom(4)
    mixed = bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))
    return bytes((0x80 | opcode,)) + length + mask + mixed


def main(effort: Effort) -> None:
    _framing(effort)
    _reading(effort)
    _memory()


def _framing(effort: Effort) -> None:
    connections = [Connection(ConnectionType.SERVER) for _ in range(WATCHERS)]
    text = EVENT.decode()

    def by_wsproto() -> None:
        for connection in connections:
            connection.send(TextMessage(data=text))

    ours, library = "one frame that all share", "wsproto, a frame for each connection"
    compare(
        f"frame an event of 1.3 kB for {WATCHERS} watchers, each watcher's share",
        {ours: lambda: as_text_frame(EVENT), library: by_wsproto},
        effort,
        per=WATCHERS,
    )


def _reading(effort: Effort) -> None:
    sent = {
        "an empty pong": masked(PONG, b""),
        "a ping of 125 bytes": masked(PING, b"p" * 125),
        "a message of 1 MB in pieces of 32 kB": masked(TEXT, b"m" * (1 << 20)),
    }
    for title, data in sent.items():
        pieces = [data[start : start + 32768] for start in range(0, len(data), 32768)]
        compare(
            f"read {title}",
            {"wsproto FrameProtocol": _frame_protocol(pieces), "by hand": _skipping(pieces)},
            effort,
        )


class Skipping:
    """What was rejected: control frames read by hand, and messages skipped without unmasking them."""

    __slots__ = ("_buffer", "_skip")

    def __init__(self) -> None:
        self._buffer = b""
        self._skip = 0

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        self._buffer += data
        found: list[tuple[int, bytes]] = []
        while self._buffer:
            if self._skip:
                skipped = min(self._skip, len(self._buffer))
                self._skip -= skipped
                self._buffer = self._buffer[skipped:]
                continue
            frame = self._next()
            if frame is None:
                break
            if frame[0] >= 8:
                found.append(frame)
        return found

    def _next(self) -> tuple[int, bytes] | None:
        buffer = self._buffer
        if len(buffer) < 6:
            return None
        opcode, length, start = buffer[0] & 15, buffer[1] & 127, 6
        if length > 125:
            size = 2 if length == 126 else 8
            length, start = int.from_bytes(buffer[2 : 2 + size], "big"), 6 + size
        if opcode < 8:
            self._skip, self._buffer = length, buffer[start:]
            return opcode, b""
        if len(buffer) < start + length:
            return None
        mask, payload = buffer[start - 4 : start], buffer[start : start + length]
        self._buffer = buffer[start + length :]
        return opcode, bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))


def _skipping(pieces: list[bytes]) -> Callable[[], object]:
    reader = Skipping()

    def work() -> None:
        for piece in pieces:
            reader.feed(piece)

    return work


def _frame_protocol(pieces: list[bytes]) -> Callable[[], object]:
    protocol = FrameProtocol(client=False, extensions=[])

    def work() -> None:
        for piece in pieces:
            protocol.receive_bytes(piece)
            for _ in protocol.received_frames():
                pass

    return work


def _memory() -> None:
    pong = [masked(PONG, b"")]
    figures = {
        "wsproto FrameProtocol": _bytes_each(lambda: FrameProtocol(False, []), _frame_protocol, pong),
        "by hand": _bytes_each(Skipping, _skipping, pong),
        "wsproto Connection": _bytes_each(lambda: Connection(ConnectionType.SERVER), _frame_protocol, pong),
    }
    show("memory of an idle connection's reader", figures, "B")


def _bytes_each(
    make: Callable[[], object], use: Callable[[list[bytes]], Callable[[], object]], pieces: list[bytes]
) -> float:
    use(pieces)()  # imports and caches
    tracemalloc.start()
    held = [make() for _ in range(WATCHERS)]
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return size / len(held)


if __name__ == "__main__":
    main(effort_of_command_line())
