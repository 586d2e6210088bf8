"""A document that was made once and is given to whoever asks: packed, with a mark that changes when it does."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import trio

from gateway.wire import compression, marks

SLICE = 0.001  # seconds that a document may be worked on before others get their turn


@dataclass(frozen=True, slots=True)
class Printed:
    """Kept packed: nearly every client reads it so, and plain it is ten times as large."""

    packed: bytes
    size: int  # unpacked
    mark: str
    content_type: bytes

    async def plain(self) -> bytes:
        return await trio.to_thread.run_sync(zlib.decompress, self.packed, compression.GZIP)


async def printed(pieces: Iterator[bytes], content_type: bytes) -> Printed:
    """In slices, because a thread that holds the interpreter makes others wait longer than a slice does."""
    made: list[bytes] = []
    until = time.perf_counter() + SLICE
    for piece in pieces:
        made.append(piece)
        if time.perf_counter() >= until:
            await trio.lowlevel.checkpoint()
            until = time.perf_counter() + SLICE
    return await trio.to_thread.run_sync(_packed, b"".join(made), content_type)


def _packed(body: bytes, content_type: bytes) -> Printed:
    packed = zlib.compress(body, 6, compression.GZIP)
    return Printed(packed, len(body), marks.mark_of(body), content_type)
