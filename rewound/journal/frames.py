"""Frames with chained checksums, of which exports, streams and backups consist after their magic bytes.

    frame    length:4 check:4 payload            check = crc32(payload, check of the frame before)
             big-endian; the check before the first frame is crc32(magic)

The magic bytes end with the number of the format. A release reads one number: a new kind of payload needs no new one,
because readers ignore those that they do not know.

A lost, moved or repeated frame is detected like a flipped bit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from zlib import crc32

from rewound.journal.errors import NewerLayout

MAX_FRAME = 64 << 20  # a larger length means damage: objects are limited to a twentieth of it
LEAD = struct.Struct(">II")


class BadFrame(Exception):
    """`position` is that of the frame, counted from the first byte of the magic."""

    def __init__(self, position: int, why: str) -> None:
        self.position, self.why = position, why
        super().__init__(f"at byte {position}: {why}")


class FrameChain:
    """Wraps payloads in frames with chained checksums, starting after the magic bytes."""

    def __init__(self, magic: bytes) -> None:
        self.check = crc32(magic)

    def frame(self, payload: bytes) -> bytes:
        self.check = crc32(payload, self.check)
        return LEAD.pack(len(payload), self.check) + payload


class FrameParser:
    """Takes bytes as they arrive, and returns the payloads of complete frames."""

    def __init__(self, magic: bytes) -> None:
        self._magic = magic
        self._buffer = bytearray()
        self.check = crc32(magic)
        self.position = 0  # position of the first byte after the last complete frame

    @property
    def rest(self) -> int:
        """How many bytes of an incomplete frame have arrived."""
        return len(self._buffer)

    def payloads(self, data: bytes) -> Iterator[bytes]:
        """The payloads that are complete with this data. Consume all of them before the next call.

        Raises BadFrame if a frame does not match its checksum, NewerLayout if the magic bytes have a later number.
        """
        self._buffer += data
        if not self.position:
            start = self._buffer[: len(self._magic)]
            if start != self._magic[: len(start)]:
                if start[:-1] == self._magic[:-1] and start[-1:].isdigit():
                    name = self._magic[:-2].decode().removeprefix("rewound ")
                    raise NewerLayout(f"the {name}", int(start[-1:]), int(self._magic[-1:]))
                raise BadFrame(0, "it does not begin as it should")
            if len(start) < len(self._magic):
                return
            self._take(len(self._magic))
        while (payload := self._next()) is not None:
            yield payload

    def _next(self) -> bytes | None:
        if len(self._buffer) < LEAD.size:
            return None
        length, check = LEAD.unpack_from(self._buffer)
        if not 0 < length <= MAX_FRAME:
            raise BadFrame(self.position, f"no record has {length} bytes")
        end = LEAD.size + length
        if len(self._buffer) < end:
            return None
        payload = bytes(memoryview(self._buffer)[LEAD.size : end])
        if crc32(payload, self.check) != check:
            raise BadFrame(self.position, "a record does not match its checksum")
        self.check = check
        self._take(end)
        return payload

    def _take(self, size: int) -> None:
        del self._buffer[:size]
        self.position += size
