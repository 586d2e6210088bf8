"""How a watch without a version begins: a synthetic ADDED event for every object there is, in the order of a list.

Pages are read at one version, so writes that go on meanwhile neither show nor disturb; the events of the watch go on
from that version. A client that does not read holds the rest of one frame and a place in the list, never a page:
the page is read again from that place when it can take more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import orjson
import trio

from actors.kinds.declaration.definition import Definition
from actors.store.reads import Listing, ListOptions, Reads
from gateway.watch.member import Member, push

# Objects in the first page; how many bytes the next ones should have.
FIRST_PAGE, LARGEST_PAGE = 50, 1000
PAGE_BYTES = 256 << 10


Frame = Callable[[bytes, bool], bytes]  # an object, and whether it is the first of its stream


class Over(Exception):
    """The time of a watch was up before it was in step with its group."""


class State:
    def __init__(
        self, reads: Reads, definition: Definition, namespace: str | None, options: ListOptions
    ) -> None:
        self._reads = reads
        self._definition = definition
        self._namespace = namespace
        self._options = options

    async def send(self, member: Member, frame: Frame) -> int:
        """Send it all; the version that it is of. Over, Expired, or OSError when the client is gone."""
        place, limit = "", FIRST_PAGE
        while True:
            listing = await self._page(place, limit)
            version = listing.version
            member.cursor = version  # to be told if the watch history passes it meanwhile
            limit = _next_limit(listing)
            rest, last = _offer(member, listing, frame)
            if last is None and listing.token:
                last = listing.bodies[-1]
            behind = None if last is None else _identity(last)
            del listing, last
            await push(member, rest)
            if member.over():
                raise Over
            if behind is None:
                return version
            # A client's token ages with its list; this one never does: a slow beginning lasts as long as its version.
            place = self._reads.token_behind(version, *behind)
            await trio.lowlevel.checkpoint()

    async def _page(self, place: str, limit: int) -> Listing:
        options = replace(self._options, resource_version="", match="", limit=limit, token=place)
        return await self._reads.listing(self._definition, self._namespace, options)


def _offer(member: Member, listing: Listing, frame: Frame) -> tuple[bytes, bytes | None]:
    """Send what fits. The rest of the frame under way, and the object it shows."""
    frames = []
    for body in listing.bodies:
        frames.append(frame(body, member.fresh))
        member.fresh = False
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
