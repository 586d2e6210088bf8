"""The parts of a body as they arrive: tiny ones are joined, as an object for each would be many times its bytes."""

from __future__ import annotations

Parts = list[bytes | bytearray]

_SMALL_PART = 4096


def add_part(parts: Parts, part: bytes) -> None:
    if len(part) >= _SMALL_PART or not parts:
        parts.append(part)
    elif isinstance(last := parts[-1], bytearray):
        last += part
    else:
        parts.append(bytearray(part))


def join_parts(parts: Parts) -> bytes:
    first = parts[0] if parts else b""
    return first if len(parts) < 2 and isinstance(first, bytes) else b"".join(parts)
