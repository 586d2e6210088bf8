"""Facts and bodies of events, compressed: objects of Kubernetes have most of their bytes in common.

    contents    zstd frame of [facts length:4 facts body], with the dictionary `contents.zdict`

A frame says how many bytes it becomes, and a hostile one of 10 kB may say 256 MiB. What a server stores is the bound:
`LARGEST_OBJECT` limits writes (`actors/resource/object_size.py`), `LARGEST` what is written to a journal and read
from it. Nothing is allocated for a frame that says more, or does not say how much it is.

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

# Bytes of an object as JSON. etcd limits objects to 1.5 MiB of protobuf, where a character takes down to a sixth.
LARGEST_OBJECT: Final = 8 << 20
# Bytes of facts and body. Facts are parts of the object once more; a delete may add times to an object of any size.
LARGEST: Final = 2 * LARGEST_OBJECT + (64 << 10)
LEVEL: Final = 3
_LENGTH: Final = struct.Struct(">I")
_ROOM: Final = 64  # bytes: more than a version and the length


class BadContents(ValueError):
    """Contents that no server has written."""


class TooLarge(BadContents):
    """Contents, or what they say they would become, have more bytes than any server stores."""

    def __init__(self, size: int) -> None:
        self.size = size
        super().__init__(f"contents: {size} bytes, and no event has more than {LARGEST}")


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


def fits(facts: bytes, body: bytes) -> bool:
    """Whether an event may have them; the version is added to a body whose version is empty."""
    return len(facts) + len(body) <= LARGEST - _ROOM


def compressed(facts: bytes, body: bytes) -> bytes:
    """Raises TooLarge."""
    if len(facts) + len(body) > LARGEST - _LENGTH.size:
        raise TooLarge(len(facts) + len(body))
    return _codecs.compress(_LENGTH.pack(len(facts)) + facts + body)


def decompressed(contents: Buffer) -> tuple[bytes, bytes]:
    """Facts and body. Raises BadContents."""
    try:
        size = zstandard.frame_content_size(contents)
        if size > LARGEST:
            raise TooLarge(size)
        if size < _LENGTH.size:  # -1: it is unknown
            raise BadContents(f"contents: {size} bytes, not {_LENGTH.size} to {LARGEST}")
        found = _codecs.decompress(contents)
    except zstandard.ZstdError as error:
        raise BadContents(f"contents: {error}") from error
    middle = _LENGTH.size + _LENGTH.unpack_from(found)[0]
    if middle > len(found):
        raise BadContents(f"contents: {len(found)} bytes, too few for their facts")
    return found[_LENGTH.size : middle], found[middle:]
