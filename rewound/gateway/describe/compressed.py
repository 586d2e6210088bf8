"""Documents that are created once and sent to every client: stored compressed, with an ETag."""

from __future__ import annotations

import hashlib
import time
import zlib
from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec
import trio

from rewound.gateway.wire import compression

T = TypeVar("T")
Member = tuple[str, str, bytes]  # "paths" or "definitions", its name there, the encoded member

SLICE = 0.001  # seconds of work on a document before other tasks run


class CompressedDocument(msgspec.Struct, frozen=True):
    """A document stored compressed, because most clients accept gzip and the plain document is ten times as large."""

    compressed: bytes
    size: int  # uncompressed
    etag: str
    content_type: bytes

    async def content(self, *, gzip: bool) -> tuple[bytes, bool]:
        """The body, and whether it is compressed: a long one is, if `gzip` allows it."""
        if gzip and self.size > compression.THRESHOLD:
            return self.compressed, True
        return await trio.to_thread.run_sync(zlib.decompress, self.compressed, compression.GZIP), False


class Part(msgspec.Struct, frozen=True):
    """One section's encoded part of the OpenAPI 2.0 document: its paths, and the definitions that they refer to."""

    compressed: bytes
    definition_names: tuple[str, ...]
    lengths: tuple[int, ...]  # sizes: all paths together, then each definition

    @classmethod
    def of(cls, members: Iterable[Member], separator: bytes) -> Part:
        paths: list[bytes] = []
        definitions: dict[str, bytes] = {}
        for parent, name, member in members:
            if parent == "paths":
                paths.append(member)
            else:
                definitions[name] = member
        encoded = [separator.join(paths), *definitions.values()]
        return cls(zlib.compress(b"".join(encoded)), tuple(definitions), tuple(map(len, encoded)))

    def decompress(self) -> tuple[bytes, dict[str, bytes]]:
        """The paths joined by the separator, and the definitions by name."""
        plain = zlib.decompress(self.compressed)
        encoded, begin = [], 0
        for length in self.lengths:
            encoded.append(plain[begin : begin + length])
            begin += length
        paths, *definitions = encoded
        return paths, dict(zip(self.definition_names, definitions, strict=True))


async def collect_in_slices(items: Iterator[T]) -> list[T]:
    """Collect the items with a checkpoint after each slice: a worker thread would hold the GIL for longer."""
    made: list[T] = []
    until = time.perf_counter() + SLICE
    for item in items:
        made.append(item)
        if time.perf_counter() >= until:
            await trio.lowlevel.checkpoint()
            until = time.perf_counter() + SLICE
    return made


async def collect_body(parts: Iterator[bytes]) -> bytes:
    return b"".join(await collect_in_slices(parts))


async def compress_document(parts: Iterator[bytes], content_type: bytes) -> CompressedDocument:
    return await trio.to_thread.run_sync(compressed, await collect_body(parts), content_type)


def compressed(body: bytes, content_type: bytes, etag: str = "") -> CompressedDocument:
    """Compress a body, which takes long. `etag` is that of the body, unless another form has the same ETag."""
    found = zlib.compress(body, 6, compression.GZIP)
    return CompressedDocument(found, len(body), etag or etag_of(body), content_type)


def etag_of(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest().upper()


def quoted(etag: str) -> bytes:
    return f'"{etag}"'.encode()


def matches(if_none_match: bytes | None, etag: str) -> bool:
    """Whether the If-None-Match header lists this ETag; * matches any."""
    if not if_none_match:
        return False
    listed = (one.strip().removeprefix(b"W/") for one in if_none_match.split(b","))
    return any(one in (quoted(etag), b"*") for one in listed)
