"""gzip for large answers, when the client says that it can read it.

Small answers stay plain: compressing costs more time than the network saves. Large ones are compressed in a
worker thread, where zlib runs beside the event loop. Level 1, because on JSON the higher levels take
several times as long for little less. An answer so made carries HEADERS: no cache may hand it to a client
without gzip.
"""

from __future__ import annotations

import zlib

from gateway.wire.aside import tell_aside

THRESHOLD = 128 * 1024  # bytes; only a larger body is worth it
HEADERS = ((b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding"))

# About five milliseconds of zlib: longer than other requests should have to wait.
_OFF_LOOP = 512 * 1024
GZIP = 31  # what zlib calls a gzip header around a 32 KiB window


def acceptable(accept_encoding: bytes | None) -> bool:
    """Whether gzip is allowed: named, or covered by `*`, with a quality above zero."""
    if not accept_encoding:
        return False
    wildcard = False
    for token in accept_encoding.lower().split(b","):
        coding, _, parameters = token.partition(b";")
        coding = coding.strip()
        if coding in (b"gzip", b"x-gzip"):
            return _wanted(parameters)
        if coding == b"*":
            wildcard = _wanted(parameters)
    return wildcard


def _wanted(parameters: bytes) -> bool:
    name, _, quality = parameters.partition(b"=")
    if name.strip() != b"q":
        return True
    try:
        return float(quality) > 0
    except ValueError:
        return False


async def compress(body: bytes) -> bytes:
    if len(body) <= _OFF_LOOP:
        return _gzip(body)
    return await tell_aside(_gzip, body)


def _gzip(body: bytes) -> bytes:
    return zlib.compress(body, 1, GZIP)
