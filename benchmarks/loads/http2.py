"""HTTP/2 as cheaply as Python allows: builds frames, splits what arrives by frame headers.

The load generator and the watchers use it. The windows that they announce are as large as HTTP/2 allows, so that flow
control never limits a measurement; `ReceiveWindow` counts and enlarges the window again after a gigabyte. Rejected:
the h2 library, whose state machine costs several times what a server needs for the same request.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from benchmarks.loads.request import BadResponse

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE = range(9)
END_STREAM = ACK = 0x1
END_HEADERS = 0x4
HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE = 1, 2, 3, 4
DEFAULT_WINDOW = 65_535
LARGEST_WINDOW = (1 << 31) - 1
FRAME_HEADER = 9
SETTINGS_ACK = b"\0\0\0\x04\x01\0\0\0\0"
_HEAD = struct.Struct(">LBL")  # length and type, flags, stream
_SETTING = struct.Struct(">HL")
_INCREMENT = struct.Struct(">L")
_REFILL = 1 << 30


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return _HEAD.pack(len(payload) << 8 | kind, flags, stream) + payload


def frame_header(length: int, kind: int, flags: int, stream: int) -> bytes:
    return _HEAD.pack(length << 8 | kind, flags, stream)


def greeting(stream_window: int = LARGEST_WINDOW) -> bytes:
    """What a client sends first: the preface, its SETTINGS, and the largest window for the whole connection."""
    settings = ((HEADER_TABLE_SIZE, 0), (ENABLE_PUSH, 0), (INITIAL_WINDOW_SIZE, stream_window))
    payload = b"".join(_SETTING.pack(name, value) for name, value in settings)
    return PREFACE + frame(SETTINGS, 0, 0, payload) + window_update(0, LARGEST_WINDOW - DEFAULT_WINDOW)


def window_update(stream: int, increment: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream, _INCREMENT.pack(increment))


def increment_of(payload: bytes) -> int:
    increment: int = _INCREMENT.unpack(payload)[0]
    return increment


def settings_of(payload: bytes) -> dict[int, int]:
    return dict(_SETTING.iter_unpack(payload))


# Called with the stream, the bytes, where the data begins and ends in them, and whether the stream ends with it.
OnData = Callable[[int, "bytes | bytearray", int, int, bool], None]
# Called with type, flags, stream and payload of every other frame.
OnFrame = Callable[[int, int, int, bytes], None]


class FrameReader:
    """Splits received bytes into frames: data is passed on in place as it arrives, other frames when complete."""

    __slots__ = ("_begun", "_ends", "_kept", "_left", "_on_data", "_on_frame", "_stream")

    def __init__(self, on_data: OnData, on_frame: OnFrame) -> None:
        self._on_data, self._on_frame = on_data, on_frame
        self._kept = b""  # the beginning of a frame that is not complete
        self._left = self._stream = 0  # of the DATA frame that is not complete
        self._ends = self._begun = False

    def feed(self, data: bytes | bytearray, size: int) -> None:
        if self._kept:
            data = self._kept + data[:size]
            size, self._kept = len(data), b""
        at = self._continue_data(data, size) if self._left else 0
        while size - at >= FRAME_HEADER:
            length, flags, stream = _HEAD.unpack_from(data, at)
            kind, start = length & 0xFF, at + FRAME_HEADER
            end = start + (length >> 8)
            if kind == DATA:
                if end > size:
                    self._left, self._stream, self._ends = end - size, stream, bool(flags & END_STREAM)
                    self._on_data(stream, data, start, size, False)
                    return
                self._on_data(stream, data, start, end, bool(flags & END_STREAM))
            else:
                if not self._begun:
                    self._check_first(kind, data)
                if end > size:
                    break
                self._on_frame(kind, flags, stream, bytes(data[start:end]))
            at = end
        self._kept = bytes(data[at:size])

    def _continue_data(self, data: bytes | bytearray, size: int) -> int:
        end = min(self._left, size)
        self._left -= end
        self._on_data(self._stream, data, 0, end, self._ends and not self._left)
        return end

    def _check_first(self, kind: int, data: bytes | bytearray) -> None:
        if kind != SETTINGS:
            raise BadResponse(f"the server does not speak HTTP/2: {bytes(data[:40])!r}")
        self._begun = True


class ReceiveWindow:
    """Counts received data; enlarges the window, if it was the largest, long before it is used up."""

    __slots__ = ("_received", "_stream")

    def __init__(self, stream: int) -> None:
        self._stream, self._received = stream, 0

    def received(self, size: int) -> bytes:
        """The frame to send now; nearly always none."""
        self._received += size
        if self._received < _REFILL:
            return b""
        increment, self._received = self._received, 0
        return window_update(self._stream, increment)
