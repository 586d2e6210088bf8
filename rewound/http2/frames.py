"""The constants of HTTP/2 (RFC 9113), and the frames that server and client build.

A frame is a head of nine bytes (length, type, flags, stream) and a payload. `HEAD` packs the head as three integers,
with length and type together in the first.
"""

from __future__ import annotations

import struct
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD: Final = struct.Struct(">IBI")  # length << 8 | type, flags, stream
HEAD_SIZE: Final = 9
STREAM_MASK: Final = 0x7FFFFFFF  # masks the reserved bit

# Frame types.
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS = range(5)
PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(5, 10)

# Flags.
END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
HAS_PRIORITY: Final = 0x20

# Error codes.
NO_ERROR: Final = 0x0
PROTOCOL_ERROR: Final = 0x1
INTERNAL_ERROR: Final = 0x2
FLOW_CONTROL_ERROR: Final = 0x3
STREAM_CLOSED: Final = 0x5
FRAME_SIZE_ERROR: Final = 0x6
REFUSED_STREAM: Final = 0x7
CANCEL: Final = 0x8
COMPRESSION_ERROR: Final = 0x9
ENHANCE_YOUR_CALM: Final = 0xB

# Settings.
HEADER_TABLE_SIZE: Final = 0x1
ENABLE_PUSH: Final = 0x2
MAX_CONCURRENT_STREAMS: Final = 0x3
INITIAL_WINDOW_SIZE: Final = 0x4
MAX_FRAME_SIZE: Final = 0x5
MAX_HEADER_LIST_SIZE: Final = 0x6

DEFAULT_WINDOW: Final = 65_535
MAX_WINDOW: Final = 0x7FFFFFFF
# The largest payload that every peer accepts. We announce no other, so that no frame takes more memory than this.
FRAME_SIZE: Final = 16_384

_SETTING: Final = struct.Struct(">HI")
# The allowed values of a setting, and the error code for others (RFC 9113, section 6.5.2).
_ANY: Final = (0, (1 << 32) - 1, PROTOCOL_ERROR)
_ALLOWED: Final = {
    ENABLE_PUSH: (0, 1, PROTOCOL_ERROR),
    INITIAL_WINDOW_SIZE: (0, MAX_WINDOW, FLOW_CONTROL_ERROR),
    MAX_FRAME_SIZE: (FRAME_SIZE, (1 << 24) - 1, PROTOCOL_ERROR),
}
_pack = HEAD.pack


class ConnectionFault(Exception):
    """The peer broke a rule, and the connection must end: GOAWAY with this error code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return _pack(len(payload) << 8 | kind, flags, stream) + payload


def header_frames(block: bytes, stream: int, *, end: bool) -> bytes:
    """A header block as HEADERS and as many CONTINUATION frames as it needs."""
    flags = END_STREAM if end else 0
    if len(block) <= FRAME_SIZE:
        return _pack(len(block) << 8 | HEADERS, flags | END_HEADERS, stream) + block
    parts = [block[start : start + FRAME_SIZE] for start in range(0, len(block), FRAME_SIZE)]
    frames = [frame(HEADERS, flags, stream, parts[0])]
    frames += [frame(CONTINUATION, 0, stream, part) for part in parts[1:-1]]
    frames.append(frame(CONTINUATION, END_HEADERS, stream, parts[-1]))
    return b"".join(frames)


def settings(values: dict[int, int]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join([_SETTING.pack(*item) for item in values.items()]))


def parse_settings(payload: bytes) -> list[tuple[int, int]]:
    """The peer's settings in order, as names and values. Raises ConnectionFault if a value is not allowed."""
    values = [(name, value) for name, value in _SETTING.iter_unpack(payload)]
    for name, value in values:
        least, most, code = _ALLOWED.get(name, _ANY)
        if not least <= value <= most:
            raise ConnectionFault(code, f"setting {name} has the value {value}")
    return values


def window_update(stream: int, increment: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream, increment.to_bytes(4, "big"))


def reset(stream: int, code: int) -> bytes:
    return frame(RST_STREAM, 0, stream, code.to_bytes(4, "big"))


def goaway(last_stream: int, code: int, message: str = "") -> bytes:
    return frame(GOAWAY, 0, 0, struct.pack(">II", last_stream, code) + message.encode())


SETTINGS_ACK: Final = frame(SETTINGS, ACK, 0)
HPACK_TABLE_SIZE: Final = 4096  # size of the peer's table unless its settings say otherwise
EMPTY_TABLE: Final = b"\x20"  # starts a header block: sets the table's size to 0
CONTINUE: Final = b"\x08\x03100"  # the header block of a response with status 100
