r"""WebSocket frames (RFC 6455, section 5): a reader for those of clients, and the control frames of the server.

    byte 0   FIN, three reserved bits, opcode      0 continuation, 1 text, 2 binary, 8 close, 9 ping, 10 pong
    byte 1   MASK, length: 0-125, 126 (two bytes follow) or 127 (eight bytes follow)
    then     the four bytes of the mask, if there is one; the payload

A watch takes no messages: the reader checks the form of a client's text and binary frames and skips them, whatever
their size, so it buffers at most one control frame. Rejected: a library, which keeps several objects per connection
to assemble messages, which are not needed here.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

_CONTINUATION, _TEXT, _BINARY = 0, 1, 2
CLOSE, PING, PONG = 8, 9, 10
_KNOWN = frozenset((_CONTINUATION, _TEXT, _BINARY, CLOSE, PING, PONG))
_FIN, _RESERVED, _OPCODE, _MASK, _LENGTH = 0x80, 0x70, 0x0F, 0x80, 0x7F
_LARGEST_CONTROL = 125

NORMAL, GOING_AWAY, PROTOCOL_ERROR, NO_CODE, BAD_DATA = 1000, 1001, 1002, 1005, 1007
POLICY, INTERNAL_ERROR = 1008, 1011
# Codes that may be sent: those of the standard and its registry, and those of applications.
_CLOSE_CODES = frozenset((*range(1000, 1004), *range(1007, 1015), *range(3000, 5000)))


class Violation(Exception):
    """A client violated the protocol; `code` is the close code for it."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Control(NamedTuple):
    opcode: int
    payload: bytes


class Reader:
    """Parses the frames of one client from bytes in any pieces."""

    __slots__ = ("_buffer", "_fragmented", "_skip")

    def __init__(self) -> None:
        self._buffer = b""  # an incomplete head or control frame
        self._skip = 0  # payload bytes of a message still to skip
        self._fragmented = False  # the current message continues in another frame

    def feed(self, data: bytes) -> list[Control]:
        """Return the control frames that are complete now. Violation ends the connection."""
        self._buffer += data
        found: list[Control] = []
        while self._buffer:
            if self._skip:
                skipped = min(self._skip, len(self._buffer))
                self._skip -= skipped
                self._buffer = self._buffer[skipped:]
                continue
            frame = self._next()
            if frame is None:
                break
            if frame.opcode >= CLOSE:
                found.append(frame)
        return found

    def _next(self) -> Control | None:
        """Return the next frame, without payload unless it is a control frame; None while it is incomplete."""
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        opcode = buffer[0] & _OPCODE
        self._check(opcode, buffer[0], buffer[1])
        length, start = self._length(buffer)
        if start > len(buffer):
            return None
        if opcode < CLOSE:
            self._fragmented = not buffer[0] & _FIN
            self._skip = length
            self._buffer = buffer[start:]
            return Control(opcode, b"")
        if len(buffer) < start + length:
            return None
        mask, payload = buffer[start - 4 : start], buffer[start : start + length]
        self._buffer = buffer[start + length :]
        return Control(opcode, bytes(byte ^ mask[place % 4] for place, byte in enumerate(payload)))

    def _check(self, opcode: int, first: int, second: int) -> None:
        if first & _RESERVED:
            raise Violation(PROTOCOL_ERROR, "reserved bits are set, and no extension was accepted on")
        if opcode not in _KNOWN:
            raise Violation(PROTOCOL_ERROR, f"opcode {opcode} has no meaning")
        if not second & _MASK:
            raise Violation(PROTOCOL_ERROR, "a client's frames must be masked")
        if opcode >= CLOSE:
            if not first & _FIN or second & _LENGTH > _LARGEST_CONTROL:
                raise Violation(PROTOCOL_ERROR, "a control frame is too long or in pieces")
        elif self._fragmented is not (opcode == _CONTINUATION):
            raise Violation(PROTOCOL_ERROR, "a message begins inside another, or goes on without a beginning")

    @staticmethod
    def _length(buffer: bytes) -> tuple[int, int]:
        """Return the payload's length and start; the start is beyond the buffer while the head is incomplete."""
        length = buffer[1] & _LENGTH
        if length < 126:
            return length, 6
        size, smallest, form = (2, 126, "!H") if length == 126 else (8, 1 << 16, "!Q")
        if len(buffer) < 2 + size:
            return 0, len(buffer) + 1
        length = struct.unpack_from(form, buffer, 2)[0]
        if length < smallest or length >= 1 << 63:
            raise Violation(PROTOCOL_ERROR, "a length is not in its shortest form")
        return length, 6 + size


def control_frame(opcode: int, payload: bytes = b"") -> bytes:
    assert len(payload) <= _LARGEST_CONTROL
    return bytes((_FIN | opcode, len(payload))) + payload


def close_frame(code: int, reason: str = "") -> bytes:
    payload = b"" if code == NO_CODE else struct.pack("!H", code) + reason.encode()[: _LARGEST_CONTROL - 2]
    return control_frame(CLOSE, payload)


def close_code(payload: bytes) -> int:
    """Return the code in a close frame. Violation when it may not be sent."""
    if not payload:
        return NO_CODE
    if len(payload) < 2:
        raise Violation(PROTOCOL_ERROR, "half a close code")
    code: int = struct.unpack_from("!H", payload)[0]
    if code not in _CLOSE_CODES:
        raise Violation(PROTOCOL_ERROR, f"{code} is no close code")
    try:
        payload[2:].decode()
    except UnicodeDecodeError:
        raise Violation(BAD_DATA, "the reason is not UTF-8") from None
    return code
