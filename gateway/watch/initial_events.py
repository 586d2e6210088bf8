"""The start of a watch without a version: a synthetic ADDED event for every existing object, in list order.

All pages are read at one version, so concurrent writes do not appear in them; the watch continues with the events
after that version. For a client that does not read, the server keeps the rest of one frame and a continue token,
never a page: it reads the page again from there when the client can take more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import orjson
import trio

from actors.kinds.declaration.definition import Definition
from actors.store.reads import Listing, ListOptions, Reads
from gateway.watch.member import Member, send_all

# Objects in the first page and the largest; bytes that the pages after the first should have.
FIRST_PAGE, LARGEST_PAGE = 50, 1000
PAGE_BYTES = 256 << 10


# (an object, whether it is the first of its stream) -> frame
Frame = Callable[[bytes, bool], bytes]


class WatchEnded(Exception):
    """The watch ended before it joined its group."""


class InitialEvents:
    def __init__(
        self, reads: Reads, definition: Definition, namespace: str | None, options: ListOptions
    ) -> None:
        self._reads = reads
        self._definition = definition
        self._namespace = namespace
        self._options = options

    async def send(self, member: Member, frame: Frame) -> int:
        """Send all objects and return their version. WatchEnded, Expired, or OSError when the client disconnected."""
        token, limit = "", FIRST_PAGE
        while True:
            listing = await self._page(token, limit)
            version = listing.version
            member.cursor = version  # for the error message if the version expires meanwhile
            limit = _next_limit(listing)
            rest, last = _offer(member, listing, frame)
            if last is None and listing.token:
                last = listing.bodies[-1]
            last_sent = None if last is None else _identity(last)
            del listing, last
            await send_all(member, rest)
            if member.should_end():
                raise WatchEnded
            if last_sent is None:
                return version
            # A client's continue token expires with time; this one lives as long as its version is in the journal.
            token = self._reads.token_after(version, *last_sent)
            await trio.lowlevel.checkpoint()

    async def _page(self, token: str, limit: int) -> Listing:
        options = replace(self._options, resource_version="", match="", limit=limit, token=token)
        return await self._reads.listing(self._definition, self._namespace, options)


def _offer(member: Member, listing: Listing, frame: Frame) -> tuple[bytes, bytes | None]:
    """Send what fits; return the rest of the frame sent in part, and its object."""
    frames = []
    for body in listing.bodies:
        frames.append(frame(body, member.first_pending))
        member.first_pending = False
    sent = abs(member.pipe.transmit(b"".join(frames))) if frames else 0
    for data, body in zip(frames, listing.bodies, strict=True):
        if sent < len(data):
            return data[sent:], body
        sent -= len(data)
    return b"", None


def _next_limit(listing: Listing) -> int:
    size = sum(map(len, listing.bodies))
    return max(1, min(LARGEST_PAGE, PAGE_BYTES * len(listing.bodies) // size)) if size else FIRST_PAGE


def _identity(body: bytes) -> tuple[str, str]:
    metadata = orjson.loads(body)["metadata"]
    return metadata.get("namespace", ""), metadata["name"]
