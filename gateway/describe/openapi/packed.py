"""Documents that are made once and sent to every client: compressed, with a mark that changes when they do."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import trio

from gateway.wire import compression, etags

T = TypeVar("T")
Member = tuple[str, str, bytes]  # "paths" or "definitions", a path or title, the encoded member

SLICE = 0.001  # seconds that a document may be worked on before others get their turn


@dataclass(frozen=True, slots=True)
class Packed:
    """Kept compressed: nearly every client reads it so, and plain it is ten times as large."""

    packed: bytes
    size: int  # unpacked
    etag: str
    content_type: bytes

    async def plain(self) -> bytes:
        return await trio.to_thread.run_sync(zlib.decompress, self.packed, compression.GZIP)


@dataclass(frozen=True, slots=True)
class Part:
    """What one section adds to the document in OpenAPI 2.0, encoded: its paths, and the definitions it refers to."""

    packed: bytes
    titles: tuple[str, ...]  # of the definitions
    lengths: tuple[int, ...]  # of all paths together, then of each definition

    @classmethod
    def of(cls, members: Iterable[Member], separator: bytes) -> Part:
        paths: list[bytes] = []
        definitions: dict[str, bytes] = {}
        for place, name, encoded in members:
            if place == "paths":
                paths.append(encoded)
            else:
                definitions[name] = encoded
        pieces = [separator.join(paths), *definitions.values()]
        return cls(zlib.compress(b"".join(pieces)), tuple(definitions), tuple(map(len, pieces)))

    def unpacked(self) -> tuple[bytes, dict[str, bytes]]:
        """The paths, separated; and the definitions by title."""
        plain = zlib.decompress(self.packed)
        pieces, begin = [], 0
        for length in self.lengths:
            pieces.append(plain[begin : begin + length])
            begin += length
        paths, *definitions = pieces
        return paths, dict(zip(self.titles, definitions, strict=True))


async def gather(pieces: Iterator[T]) -> list[T]:
    """In slices, because a thread that holds the interpreter makes others wait longer than a slice does."""
    made: list[T] = []
    until = time.perf_counter() + SLICE
    for piece in pieces:
        made.append(piece)
        if time.perf_counter() >= until:
            await trio.lowlevel.checkpoint()
            until = time.perf_counter() + SLICE
    return made


async def pack(pieces: Iterator[bytes], content_type: bytes) -> Packed:
    made = await gather(pieces)
    return await trio.to_thread.run_sync(_packed, b"".join(made), content_type)


def _packed(body: bytes, content_type: bytes) -> Packed:
    packed = zlib.compress(body, 6, compression.GZIP)
    return Packed(packed, len(body), etags.etag_of(body), content_type)
