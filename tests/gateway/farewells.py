"""GOAWAY frames, kept from h2: it takes one for the end of everything, though streams under way go on to their end."""

from __future__ import annotations

_HEAD = 9  # bytes: three of length, type, flags, four of stream
_GOAWAY = 0x7


class Farewells:
    def __init__(self) -> None:
        self.said = False
        self._buffer = b""

    def without(self, data: bytes) -> bytes:
        """Whole frames of all that came so far, but for farewells."""
        self._buffer += data
        kept = b""
        while len(self._buffer) >= _HEAD:
            end = _HEAD + int.from_bytes(self._buffer[:3], "big")
            if len(self._buffer) < end:
                break
            if self._buffer[3] == _GOAWAY:
                self.said = True
            else:
                kept += self._buffer[:end]
            self._buffer = self._buffer[end:]
        return kept
