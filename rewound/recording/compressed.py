"""Reads files that may be compressed."""

from __future__ import annotations

import gzip
import io
from typing import BinaryIO, Final, cast

_GZIP: Final = b"\x1f\x8b"


def decompressed(stream: io.BufferedReader | BinaryIO) -> BinaryIO:
    """Decompress a stream if it begins like gzip: a pipe has no name that would say so."""
    buffered = (
        stream if isinstance(stream, io.BufferedReader) else io.BufferedReader(cast(io.RawIOBase, stream))
    )
    if buffered.peek(2)[:2] == _GZIP:
        return cast(BinaryIO, gzip.GzipFile(fileobj=buffered))
    return buffered
