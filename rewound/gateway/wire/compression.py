"""gzip for large responses, if the client accepts it.

Small responses stay plain: compressing them takes more time than the network saves. Very large ones are compressed in
a worker thread, because zlib releases the GIL. The level is 1, because higher levels take several times as long on
JSON and save little more. A compressed response has HEADERS, so that no cache sends it to a client without gzip.
"""

from __future__ import annotations

import zlib

from rewound.gateway.wire.worker_threads import encode_in_thread

THRESHOLD = 128 * 1024  # bytes; only larger bodies are compressed
HEADERS = ((b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding"))

# About five milliseconds of zlib: longer than other requests should have to wait.
_THREAD_THRESHOLD = 512 * 1024
# The same for parts of a body: a millisecond, because they follow each other.
_PART_THREAD_THRESHOLD = 128 * 1024
COMPRESSOR_BYTES = 256 * 1024  # zlib's memory while a body is compressed in parts
GZIP = 31  # zlib's wbits for a gzip header and a 32 KiB window


def accepts_gzip(accept_encoding: bytes | None) -> bool:
    """Whether Accept-Encoding allows gzip: by name or by `*`, with a quality above zero."""
    if not accept_encoding:
        return False
    wildcard = False
    for token in accept_encoding.lower().split(b","):
        coding, _, parameters = token.partition(b";")
        coding = coding.strip()
        if coding in (b"gzip", b"x-gzip"):
            return _has_quality(parameters)
        if coding == b"*":
            wildcard = _has_quality(parameters)
    return wildcard


def _has_quality(parameters: bytes) -> bool:
    name, _, quality = parameters.partition(b"=")
    if name.strip() != b"q":
        return True
    try:
        return float(quality) > 0
    except ValueError:
        return False


class Compressor:
    """Compresses a body part by part."""

    __slots__ = ("_zlib",)

    def __init__(self) -> None:
        self._zlib = zlib.compressobj(1, zlib.DEFLATED, GZIP)

    async def compress(self, part: bytes, *, last: bool) -> bytes:
        """The bytes that can be sent now; may be empty."""
        if len(part) <= _PART_THREAD_THRESHOLD:
            return self._compress(part, last)
        return await encode_in_thread(self._compress, part, last)

    def _compress(self, part: bytes, last: bool) -> bytes:
        compressed = self._zlib.compress(part)
        return compressed + self._zlib.flush() if last else compressed


async def compress(body: bytes) -> bytes:
    if len(body) <= _THREAD_THRESHOLD:
        return _gzip(body)
    return await encode_in_thread(_gzip, body)


def _gzip(body: bytes) -> bytes:
    return zlib.compress(body, 1, GZIP)
