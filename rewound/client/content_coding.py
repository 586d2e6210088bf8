"""Bodies of responses without their content coding, of which this client asks for gzip only.

Members of gzip that follow each other count as one body, as in Go; anything else after a member is an error. Parts have
a bounded size however well a body was compressed, and nothing is kept of what follows the end. Rejected: the decoders
of the HTTP library, which return all that a part becomes at once, and keep what follows the end without a bound.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator
from typing import Final, Protocol

import trio

GZIP: Final = "gzip"
IDENTITY: Final = "identity"
_WINDOW: Final = zlib.MAX_WBITS | 16  # with the head and the checksum of gzip
_DECODED: Final = 1 << 20  # bytes at once


class _Headers(Protocol):
    def multi_items(self) -> list[tuple[str, str]]: ...


class WrongCoding(Exception):
    """A body is not what its Content-Encoding says, or has one that nobody asked for."""


def decoded(headers: _Headers, parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The body of a response. Raises WrongCoding for a coding other than gzip."""
    codings = [value.strip().lower() for name, value in headers.multi_items() if _is_coding(name)]
    named = [one for one in codings if one not in ("", IDENTITY)]
    if not named:
        return parts
    if named != [GZIP]:
        raise WrongCoding(f"its Content-Encoding is {', '.join(named)[:100]!r}, and gzip was asked for")
    return Gunzipped(parts)


def _is_coding(name: str) -> bool:
    return name.lower() == "content-encoding"


class Gunzipped(AsyncIterator[bytes]):
    """No generator, which must not be collected half-read."""

    def __init__(self, parts: AsyncIterator[bytes]) -> None:
        self._parts = parts
        self._decoder = zlib.decompressobj(_WINDOW)
        self._rest = b""  # arrived, and is not decoded
        self._has_more = False  # the decoder may have more of what it got
        self._in_member = False

    async def __anext__(self) -> bytes:
        """The next part. Raises WrongCoding, and what the source raises."""
        while True:
            if not self._rest and not self._has_more:
                self._rest = await self._next()
            part = self._decode()
            if part:
                return part
            if not self._in_member:
                await trio.lowlevel.checkpoint()  # a part may have thousands of empty members

    async def _next(self) -> bytes:
        try:
            return await anext(self._parts)
        except StopAsyncIteration:
            if self._in_member:
                raise WrongCoding("it is not gzip: it is cut short") from None
            raise

    def _decode(self) -> bytes:
        decoder, self._in_member = self._decoder, True
        try:
            part = decoder.decompress(self._rest, _DECODED)
        except zlib.error as error:
            raise WrongCoding(f"it is not gzip ({error})") from error
        self._rest, self._has_more = decoder.unconsumed_tail, len(part) == _DECODED
        if decoder.eof:
            self._rest, self._has_more, self._in_member = decoder.unused_data, False, False
            self._decoder = zlib.decompressobj(_WINDOW)
        return part
