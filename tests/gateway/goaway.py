"""Removes GOAWAY frames from what a server sends: h2 would close the connection, though open streams continue."""

from __future__ import annotations

_HEAD = 9  # bytes: three of length, type, flags, four of stream
_GOAWAY = 0x7


class GoAwayFilter:
    def __init__(self) -> None:
        self.received = False
        self._buffer = b""

    def without_goaway(self, data: bytes) -> bytes:
        """Return the frames that are complete now, except GOAWAY; keep an incomplete one for the next call."""
        self._buffer += data
        kept = b""
        while len(self._buffer) >= _HEAD:
            end = _HEAD + int.from_bytes(self._buffer[:3], "big")
            if len(self._buffer) < end:
                break
            if self._buffer[3] == _GOAWAY:
                self.received = True
            else:
                kept += self._buffer[:end]
            self._buffer = self._buffer[end:]
        return kept
