"""Builds HTTP/2 frames with struct, legal or not, and parses them into `Frame`."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = (
    range(10)
)
KINDS = (
    *("DATA", "HEADERS", "PRIORITY", "RST_STREAM", "SETTINGS"),
    *("PUSH_PROMISE", "PING", "GOAWAY", "WINDOW_UPDATE", "CONTINUATION"),
)

ACK = END_STREAM = 0x1
END_HEADERS = 0x4
PADDED = 0x8
PRIORITIZED = 0x20


class ErrorCode(IntEnum):
    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    SETTINGS_TIMEOUT = 4
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    CONNECT_ERROR = 10
    ENHANCE_YOUR_CALM = 11
    INADEQUATE_SECURITY = 12
    HTTP_1_1_REQUIRED = 13


class Setting(IntEnum):
    HEADER_TABLE_SIZE = 1
    ENABLE_PUSH = 2
    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4
    MAX_FRAME_SIZE = 5
    MAX_HEADER_LIST_SIZE = 6
    ENABLE_CONNECT_PROTOCOL = 8


Field = tuple[bytes, bytes]
Fields = Iterable[tuple[str | bytes, str | bytes]]


def frame(
    kind: int, payload: bytes = b"", *, flags: int = 0, stream: int = 0, length: int | None = None
) -> bytes:
    """Any frame; `length` overrides the true one, and a `stream` of 2**31 or more sets the reserved bit."""
    announced = len(payload) if length is None else length
    return struct.pack(">BHBBI", announced >> 16, announced & 0xFFFF, kind, flags, stream) + payload


def data(stream: int, body: bytes = b"", *, end: bool = False, pad: int | None = None) -> bytes:
    flags = (END_STREAM if end else 0) | (0 if pad is None else PADDED)
    return frame(DATA, _padded(body, pad), flags=flags, stream=stream)


def headers(
    stream: int,
    block: bytes,
    *,
    end: bool = True,
    done: bool = True,
    pad: int | None = None,
    priority: bytes = b"",
) -> bytes:
    """HEADERS; `end` ends the stream, `done` the header block, `priority` is the five bytes of priority fields."""
    flags = (END_STREAM if end else 0) | (END_HEADERS if done else 0) | (0 if pad is None else PADDED)
    flags |= PRIORITIZED if priority else 0
    return frame(HEADERS, _padded(priority + block, pad), flags=flags, stream=stream)


def _padded(payload: bytes, pad: int | None) -> bytes:
    return payload if pad is None else bytes([pad]) + payload + bytes(pad)


def continuation(stream: int, block: bytes, *, done: bool = True) -> bytes:
    return frame(CONTINUATION, block, flags=END_HEADERS if done else 0, stream=stream)


def settings(values: Mapping[Any, int] | Iterable[tuple[int, int]] = (), *, ack: bool = False) -> bytes:
    pairs = values.items() if isinstance(values, Mapping) else values
    payload = b"".join(struct.pack(">HI", *pair) for pair in pairs)
    return frame(SETTINGS, payload, flags=ACK if ack else 0)


def ping(payload: bytes = b"pingpong", *, ack: bool = False) -> bytes:
    return frame(PING, payload, flags=ACK if ack else 0)


def goaway(last: int = 0, code: int = 0, debug: bytes = b"") -> bytes:
    return frame(GOAWAY, struct.pack(">II", last, code) + debug)


def rst_stream(stream: int, code: int = ErrorCode.CANCEL) -> bytes:
    return frame(RST_STREAM, struct.pack(">I", code), stream=stream)


def window_update(stream: int, increment: int) -> bytes:
    return frame(WINDOW_UPDATE, struct.pack(">I", increment), stream=stream)


def priority(stream: int, depends_on: int = 0, *, weight: int = 16, exclusive: bool = False) -> bytes:
    return frame(PRIORITY, priority_fields(depends_on, weight=weight, exclusive=exclusive), stream=stream)


def priority_fields(depends_on: int = 0, *, weight: int = 16, exclusive: bool = False) -> bytes:
    return struct.pack(">IB", depends_on | (exclusive << 31), weight - 1)


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame as it arrived; a HEADERS frame that ends its block has the decoded fields."""

    kind: int
    flags: int
    stream: int
    payload: bytes
    fields: tuple[Field, ...] = ()

    @property
    def ends_stream(self) -> bool:
        return self.kind in (DATA, HEADERS) and bool(self.flags & END_STREAM)

    @property
    def ack(self) -> bool:
        return self.kind in (SETTINGS, PING) and bool(self.flags & ACK)

    @property
    def content(self) -> bytes:
        """The payload of DATA without padding."""
        if self.flags & PADDED:
            return self.payload[1 : len(self.payload) - self.payload[0]]
        return self.payload

    @property
    def code(self) -> ErrorCode:
        return ErrorCode(int.from_bytes(self.payload[4:8] if self.kind == GOAWAY else self.payload))

    @property
    def settings(self) -> dict[int, int]:
        return dict(struct.iter_unpack(">HI", self.payload))

    def __str__(self) -> str:
        kind = KINDS[self.kind] if self.kind < len(KINDS) else f"type {self.kind}"
        detail = f" {self.code.name}" if self.kind in (RST_STREAM, GOAWAY) else ""
        return f"{kind}{detail} on {self.stream}, flags {self.flags:#x}, {len(self.payload)} bytes"
