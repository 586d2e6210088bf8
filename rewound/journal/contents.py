"""Facts and bodies of events, compressed: objects of Kubernetes have most of their bytes in common.

    contents    zstd frame of [facts length:4 facts body], with the dictionary `contents.zdict`

The dictionary is part of the layout: it never changes. A better one would be another layout of events. It has what
objects of both dialects share (benchmarks/decisions/compression.py made it), and makes an event of 2.7 kB one of 0.3 kB
in a few microseconds (docs/decisions/0093-compressed-events.md).
"""

from __future__ import annotations

import struct
import threading
from pathlib import Path
from typing import Final

import zstandard

from rewound.journal.keys import Buffer

LARGEST: Final = 256 << 20  # bytes of facts and body; more is damage, and not allocated
LEVEL: Final = 3
_LENGTH: Final = struct.Struct(">I")


class _Codecs(threading.local):
    """zstd's contexts are for one thread at a time."""

    def __init__(self) -> None:
        dictionary = zstandard.ZstdCompressionDict(Path(__file__).with_name("contents.zdict").read_bytes())
        # The layout says which dictionary it is, and events have a checksum.
        compressor = zstandard.ZstdCompressor(
            level=LEVEL, dict_data=dictionary, write_dict_id=False, write_checksum=False
        )
        self.compress = compressor.compress
        self.decompress = zstandard.ZstdDecompressor(dict_data=dictionary).decompress


_codecs = _Codecs()


def compressed(facts: bytes, body: bytes) -> bytes:
    return _codecs.compress(_LENGTH.pack(len(facts)) + facts + body)


def decompressed(contents: Buffer) -> tuple[bytes, bytes]:
    """Facts and body. Raises ValueError."""
    try:
        size = zstandard.frame_content_size(contents)
        if not _LENGTH.size <= size <= LARGEST:
            raise ValueError(f"contents: {size} bytes, not {_LENGTH.size} to {LARGEST}")
        found = _codecs.decompress(contents)
    except zstandard.ZstdError as error:
        raise ValueError(f"contents: {error}") from error
    middle = _LENGTH.size + _LENGTH.unpack_from(found)[0]
    if middle > len(found):
        raise ValueError(f"contents: {len(found)} bytes, too few for their facts")
    return found[_LENGTH.size : middle], found[middle:]
