"""The start of a watch without a version: a synthetic ADDED event for every existing object, in list order.

All pages are read at one version, so that concurrent writes do not appear in them; the watch continues with the
events after that version. For a client that does not read, the server keeps the rest of one frame and a continue
token, never a page: it reads the page again from there when the client can accept more.

Reading and encoding is long work, so only one task does it per pass of the event loop. Its cost depends on the
encoded objects, not only on what is stored: the defaults of a custom kind may make any small object large.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import orjson
from msgspec.structs import replace

from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.runtime.turns import Turn, next_turn
from rewound.actors.store.reads import Listing, ListOptions, Reads
from rewound.gateway.watch.member import Member, send_all
from rewound.gateway.watch.watched_type import SentEvents
from rewound.gateway.wire.worker_threads import encode_in_thread

# Objects in the first page and in the largest; bytes of events that later pages should have; and the size at which
# any page ends.
FIRST_PAGE, LARGEST_PAGE = 50, 1000
PAGE_BYTES, MOST_BYTES = 256 << 10, 1 << 20
IN_THREAD = 64 << 10  # bytes of an object, or of the event before it


# (an object, whether it is the first of its stream) -> frame
Frame = Callable[[bytes, bool], bytes]
# Converts objects by a webhook, if needed; raises ConversionFailed.
Convert = Callable[[list[bytes]], Awaitable[list[bytes]]]


class WatchEnded(Exception):
    """The watch ended before it joined its group."""


class InitialEvents:
    def __init__(
        self,
        reads: Reads,
        definition: Definition,
        namespace: str | None,
        options: ListOptions,
        not_older_than: int = 0,
    ) -> None:
        """`not_older_than`: a committed version; an injected fault may start the watch before the newest one."""
        self._reads = reads
        self._definition = definition
        self._namespace = namespace
        self._options = options
        self._limit = FIRST_PAGE  # continue token of the next page
        self._last: tuple[str, str] | None = None  # namespace and name of the last object sent
        self._version = 0
        self._complete = False  # the last page has been read
        self._rest = b""  # rest of the partly sent frame
        self.sent = SentEvents()  # counts what is sent
        self.not_older_than = not_older_than
        self.end: Callable[[int], bytes] | None = None  # version -> the frame that follows the last object

    def begin_at(self, version: int) -> None:
        """Send the objects as they were at an older version of the watch history, if that is not too old."""
        self._options = replace(self._options, at=max(version, self.not_older_than))

    async def send_first(self, member: Member, frame: Frame, convert: Convert | None = None) -> int | None:
        """Send the first page; return its version, or None if there is more to send. Does not wait for the client."""
        self._rest = await self._offer_page(member, frame, convert)
        return self._version if self._complete and not self._rest else None

    async def send(self, member: Member, frame: Frame, convert: Convert | None = None) -> int:
        """Send the other objects and return their version.

        Raises WatchEnded, Expired, or OSError if the client disconnects.
        """
        while True:
            await send_all(member, self._rest)
            if member.should_end():
                raise WatchEnded
            if self._complete:
                return self._version
            await next_turn()
            self._rest = await self._offer_page(member, frame, convert)

    async def _offer_page(self, member: Member, frame: Frame, convert: Convert | None) -> bytes:
        """Read the next page and send what fits; return the rest of a partly sent frame."""
        token = ""
        if self._last is not None:
            # A client's continue token expires with time; this one is new, and valid as long as its version.
            token = self._reads.token_after(self._version, *self._last)
        listing = await self._page(token, self._limit)
        self._version = listing.version
        member.cursor = listing.version  # for the error message if the version expires meanwhile
        shown = listing.bodies if convert is None else await convert(listing.bodies)
        frames = await _frames(member, shown, frame)
        self._limit = _next_limit(frames)
        rest, last = _offer(member, listing, frames, self.sent)
        if last is None and (listing.token or len(frames) < len(listing.bodies)):
            last = listing.bodies[len(frames) - 1]
        if last is None:
            self._complete = True
            if self.end is not None:
                end = self.end(self._version)
                rest = end[abs(member.pipe.transmit(end)) :]
        else:
            self._last = _identity(last)
        return rest

    async def _page(self, token: str, limit: int) -> Listing:
        options = replace(self._options, resource_version="", match="", limit=limit, token=token)
        return await self._reads.listing(self._definition, self._namespace, options)


async def _frames(member: Member, shown: list[bytes], frame: Frame) -> list[bytes]:
    """The events of objects, encoded in turns, up to the one that brings them to `MOST_BYTES`."""
    frames: list[bytes] = []
    size = 0
    turn = Turn()
    for body in shown:
        if len(body) > IN_THREAD or (frames and len(frames[-1]) > IN_THREAD):
            frames.append(await encode_in_thread(frame, body, member.first_pending))
        else:
            frames.append(frame(body, member.first_pending))
        member.first_pending = False
        size += len(frames[-1])
        if size >= MOST_BYTES:
            break
        if turn.over():
            await next_turn()
            turn = Turn()
    return frames


def _offer(
    member: Member, listing: Listing, frames: list[bytes], counter: SentEvents
) -> tuple[bytes, bytes | None]:
    """Send what fits; return the rest of a partly sent frame, and its object."""
    sent = abs(member.pipe.transmit(b"".join(frames))) if frames else 0
    for number, (data, body) in enumerate(zip(frames, listing.bodies, strict=False)):
        if sent < len(data):
            # The rest of this one follows later; those after it are read again.
            _count(counter, frames[: number + 1])
            return data[sent:], body
        sent -= len(data)
    _count(counter, frames)
    return b"", None


def _count(counter: SentEvents, frames: list[bytes]) -> None:
    counter.add([(0, data) for data in frames], sum(map(len, frames)))


def _next_limit(frames: list[bytes]) -> int:
    size = sum(map(len, frames))
    return max(1, min(LARGEST_PAGE, PAGE_BYTES * len(frames) // size)) if size else FIRST_PAGE


def _identity(body: bytes) -> tuple[str, str]:
    metadata = orjson.loads(body)["metadata"]
    return metadata.get("namespace", ""), metadata["name"]
