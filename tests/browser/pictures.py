"""Makes the PNG of a screenshot small: at most 256 colors, one byte a pixel."""

from __future__ import annotations

import struct
import zlib
from collections import Counter

SIGNATURE = b"\x89PNG\r\n\x1a\n"
CHANNELS = {2: 3, 6: 4}
COLORS = 256


def smaller(png: bytes) -> bytes:
    width, height, channels, raw = _decode(png)
    pixels = _unfiltered(raw, width, height, channels)
    rounded = [(r & 0xFC, g & 0xFC, b & 0xFC) for r, g, b in _colors(pixels, channels)]
    palette = [color for color, _ in Counter(rounded).most_common(COLORS)]
    number = {color: at for at, color in enumerate(palette)}
    for color in set(rounded) - number.keys():
        number[color] = min(range(len(palette)), key=lambda at: _distance(palette[at], color))
    rows = bytearray()
    for y in range(height):
        rows.append(0)
        rows += bytes([number[color] for color in rounded[y * width : (y + 1) * width]])
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    # Rounding down must leave white white.
    table = b"".join(bytes(part | part >> 6 for part in color) for color in palette)
    return (
        SIGNATURE
        + _chunk(b"IHDR", head)
        + _chunk(b"PLTE", table)
        + _chunk(b"IDAT", zlib.compress(bytes(rows), 9))
        + _chunk(b"IEND", b"")
    )


def _distance(one: tuple[int, int, int], other: tuple[int, int, int]) -> int:
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))


def _decode(png: bytes) -> tuple[int, int, int, bytes]:
    assert png.startswith(SIGNATURE)
    at, packed = len(SIGNATURE), b""
    width = height = channels = 0
    while at < len(png):
        (size,) = struct.unpack_from(">I", png, at)
        kind, data = png[at + 4 : at + 8], png[at + 8 : at + 8 + size]
        if kind == b"IHDR":
            width, height, depth, color, _, _, interlaced = struct.unpack(">IIBBBBB", data)
            assert (depth, interlaced) == (8, 0)
            channels = CHANNELS[color]
        elif kind == b"IDAT":
            packed += data
        at += 12 + size
    return width, height, channels, zlib.decompress(packed)


def _unfiltered(raw: bytes, width: int, height: int, size: int) -> bytes:
    length = width * size
    found, before = bytearray(), bytearray(length)
    for y in range(height):
        start = y * (length + 1)
        kind, row = raw[start], bytearray(raw[start + 1 : start + 1 + length])
        for at in range(length) if kind else ():
            left = row[at - size] if at >= size else 0
            above = before[at]
            corner = before[at - size] if at >= size else 0
            guess = (0, left, above, (left + above) // 2, _paeth(left, above, corner))[kind]
            row[at] = (row[at] + guess) & 0xFF
        found += row
        before = row
    return bytes(found)


def _paeth(left: int, above: int, corner: int) -> int:
    guess = left + above - corner
    return min((left, above, corner), key=lambda one: abs(guess - one))


def _colors(pixels: bytes, size: int) -> zip[tuple[int, int, int]]:
    return zip(pixels[0::size], pixels[1::size], pixels[2::size], strict=True)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
