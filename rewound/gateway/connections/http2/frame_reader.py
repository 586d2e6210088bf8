"""Reads the frames of an HTTP/2 peer, and checks everything that does not depend on the state of a stream.

`feed` adds bytes, `next` returns the next whole frame. HEADERS and its CONTINUATION frames are returned as one header
block, without padding and priorities. A frame that is too large is refused when its head has arrived.
"""

from __future__ import annotations

from rewound.gateway.connections.arriving import PartialHeads
from rewound.http2.frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    ENHANCE_YOUR_CALM,
    FRAME_SIZE,
    FRAME_SIZE_ERROR,
    GOAWAY,
    HAS_PRIORITY,
    HEAD,
    HEAD_SIZE,
    HEADERS,
    PADDED,
    PING,
    PREFACE,
    PRIORITY,
    PROTOCOL_ERROR,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    STREAM_MASK,
    WINDOW_UPDATE,
    ConnectionFault,
)

Frame = tuple[int, int, int, bytes]  # type, flags, stream, payload

# Frames in one header block: the largest accepted head fits into a few.
_MAX_BLOCK_FRAMES = 64
_WHOLE_REQUEST = END_HEADERS | END_STREAM
# Types whose payload has one size, and whether they belong to a stream (None: to either).
_SIZES = {PRIORITY: 5, RST_STREAM: 4, PING: 8, WINDOW_UPDATE: 4}
_ON_STREAM = frozenset((DATA, HEADERS, PRIORITY, RST_STREAM, CONTINUATION))
_ON_CONNECTION = frozenset((SETTINGS, PING, GOAWAY))


class FrameReader:
    __slots__ = (
        "_begun",
        "_block",
        "_block_flags",
        "_block_frames",
        "_block_size",
        "_block_stream",
        "_buffer",
        "_max_block",
        "_opened",
        "_partial_heads",
        "_position",
        "_since",
        "_since_begun",
        "flow_size",
    )

    def __init__(self, max_block: int, partial_heads: PartialHeads) -> None:
        self._max_block = max_block
        self._partial_heads = partial_heads
        self._buffer = b""
        self._position = 0
        self._opened = False  # the preface has been read
        self._block: list[bytes] | None = None  # the header block that CONTINUATION frames continue
        self._block_flags = self._block_stream = self._block_size = self._block_frames = 0
        self._begun = 0  # frames and blocks in progress after a read
        self._since: float | None = None  # when the current one started
        self._since_begun = 0
        self.flow_size = 0  # size of the last DATA frame, with its padding

    def partial_since(self, now: float) -> float | None:
        """Since when a frame or a header block is incomplete; None if none is.

        Call it after each read: the start of another frame is the time of the call that notices it.
        """
        if self._position == len(self._buffer) and self._block is None and self._opened:
            self._since = None
            return None
        begun = self._begun + (self._position > 0 and self._block is None)
        if self._since is None or begun != self._since_begun:
            self._since, self._since_begun = now, begun
        return self._since

    def feed(self, data: bytes) -> None:
        if self._position == len(self._buffer):
            self._buffer = data
        else:
            if self._position and self._block is None:
                self._begun += 1
            self._buffer = self._buffer[self._position :] + data
        self._position = 0
        if not self._opened:
            self._read_preface()

    def _read_preface(self) -> None:
        buffer = self._buffer
        if not PREFACE.startswith(buffer[: len(PREFACE)]):
            raise ConnectionFault(PROTOCOL_ERROR, "the connection does not begin with the preface of HTTP/2")
        if len(buffer) < len(PREFACE) + HEAD_SIZE:
            return
        word, flags, _ = HEAD.unpack_from(buffer, len(PREFACE))
        if word & 0xFF != SETTINGS or flags & ACK:
            raise ConnectionFault(PROTOCOL_ERROR, "the first frame is not SETTINGS")
        self._opened = True
        self._position = len(PREFACE)

    def next(self) -> Frame | None:
        """Return the next frame; None if it has not arrived whole."""
        while self._opened:
            buffer, position = self._buffer, self._position
            left = len(buffer) - position
            if left < HEAD_SIZE:
                break
            word, flags, stream = HEAD.unpack_from(buffer, position)
            size = word >> 8
            if size > FRAME_SIZE:
                raise ConnectionFault(FRAME_SIZE_ERROR, f"a frame is larger than {FRAME_SIZE} bytes")
            if left < HEAD_SIZE + size:
                break
            self._position = end = position + HEAD_SIZE + size
            kind = word & 0xFF
            payload = buffer[position + HEAD_SIZE : end]
            if kind == HEADERS and flags == _WHOLE_REQUEST and self._block is None and stream & 1:
                return HEADERS, flags, stream & STREAM_MASK, payload
            found = self._checked(kind, flags, stream & STREAM_MASK, payload)
            if found is not None:
                return found
        if self._position == len(self._buffer):
            self._buffer, self._position = b"", 0
        return None

    def _checked(self, kind: int, flags: int, stream: int, payload: bytes) -> Frame | None:
        if self._block is not None or kind == CONTINUATION:
            return self._continued(kind, flags, stream, payload)
        if (kind in _ON_STREAM and not stream) or (kind in _ON_CONNECTION and stream):
            raise ConnectionFault(PROTOCOL_ERROR, f"a frame of type {kind} is on stream {stream}")
        size = _SIZES.get(kind)
        if size is not None and len(payload) != size:
            raise ConnectionFault(FRAME_SIZE_ERROR, f"a frame of type {kind} has {len(payload)} bytes")
        if kind == DATA:
            self.flow_size = len(payload)
            if flags & PADDED:
                payload = _without_padding(payload)
        elif kind == HEADERS:
            return self._headers(flags, stream, payload)
        elif kind == SETTINGS:
            if len(payload) % 6 or (flags & ACK and payload):
                raise ConnectionFault(FRAME_SIZE_ERROR, f"a SETTINGS frame has {len(payload)} bytes")
        elif kind == GOAWAY:
            if len(payload) < 8:
                raise ConnectionFault(FRAME_SIZE_ERROR, f"a GOAWAY frame has {len(payload)} bytes")
        elif kind == PUSH_PROMISE:
            raise ConnectionFault(PROTOCOL_ERROR, "a client cannot push")
        return kind, flags, stream, payload

    def _headers(self, flags: int, stream: int, payload: bytes) -> Frame | None:
        if not stream & 1:
            raise ConnectionFault(PROTOCOL_ERROR, f"a client cannot open stream {stream}")
        if flags & PADDED:
            payload = _without_padding(payload)
        if flags & HAS_PRIORITY:
            if len(payload) < 5:
                # Padding that leaves too little is a padding error (RFC 9113, section 6.2).
                code = PROTOCOL_ERROR if flags & PADDED else FRAME_SIZE_ERROR
                raise ConnectionFault(code, "a HEADERS frame is too short for its priority")
            payload = payload[5:]
        if flags & END_HEADERS:
            return HEADERS, flags, stream, payload
        self._begun += 1
        self._block, self._block_flags, self._block_stream = [payload], flags, stream
        self._block_size, self._block_frames = len(payload), 1
        self._partial_heads.hold(self, len(payload))
        return None

    def drop_head(self) -> None:
        """Drop the header block, because too much is held for those of all connections; the rest of it is refused."""
        self._block, self._block_frames = [], _MAX_BLOCK_FRAMES

    def release(self) -> None:
        """Release what has been read, because the connection has ended."""
        self._partial_heads.hold(self, 0)

    def _continued(self, kind: int, flags: int, stream: int, payload: bytes) -> Frame | None:
        block = self._block
        if block is None or kind != CONTINUATION or stream != self._block_stream:
            raise ConnectionFault(PROTOCOL_ERROR, "a header block is not continued, or its continuation is")
        block.append(payload)
        self._block_size += len(payload)
        self._block_frames += 1
        if self._block_size > self._max_block or self._block_frames > _MAX_BLOCK_FRAMES:
            raise ConnectionFault(ENHANCE_YOUR_CALM, "a header block is too large")
        if not flags & END_HEADERS:
            self._partial_heads.hold(self, self._block_size)
            return None
        self._block = None
        self.release()
        return HEADERS, self._block_flags, stream, b"".join(block)


def _without_padding(payload: bytes) -> bytes:
    if not payload or payload[0] >= len(payload):
        raise ConnectionFault(PROTOCOL_ERROR, "the padding of a frame is as long as the frame, or longer")
    return payload[1 : len(payload) - payload[0]]
