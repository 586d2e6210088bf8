"""A list in parts: each is read at the version of the first and encoded when the client has taken the part before.

The connection iterates over it. Between two parts it holds a position and no objects. An error on the way (the version
has been compacted, the journal is damaged, timeoutSeconds have passed) ends the response without its end, so that no
client takes it for the whole list.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from actors.errors import TimedOut
from actors.messages import Object
from actors.store.reads import Listing, ListReader
from gateway.memory.budget import SMALL, MemoryBudget
from gateway.message import Request
from gateway.wire.compression import COMPRESSOR_BYTES, Compressor
from gateway.wire.encoders import list_metadata
from gateway.wire.list_layouts import Element, Layout, encode_elements

# Bytes of objects in a part, and in a part for which the budget has no room: then it is not counted.
PART, SMALL_PART = 512 << 10, SMALL


Show = Callable[[list[bytes]], Awaitable[list[bytes]]]


class ListParts:
    def __init__(
        self,
        request: Request,
        memory: MemoryBudget,
        reader: ListReader,
        layout: Layout,
        element: Element | None,
        seconds: float | None = None,
        show: Show | None = None,
    ) -> None:
        self._request = request
        self._memory = memory
        self._reader = reader
        self._layout = layout
        self._element = element
        self._seconds = seconds  # that reading may still take
        self._show = show  # converts what has been read, where a webhook has to
        self._compressor: Compressor | None = None
        self._size = PART
        self._first: bytes | None = None
        self._began = self._ended = False

    async def begin(self, bodies: list[bytes], *, compress: bool) -> bool:
        """Make the first part from what has been read; returns whether all parts are compressed."""
        if compress and self._memory.try_take(self._request, COMPRESSOR_BYTES):
            self._compressor = Compressor()
        self._first = await self._encode(bodies)
        if not self._count(len(self._first)):
            await self.begin_small()
        return self._compressor is not None

    async def begin_small(self) -> None:
        """Read again from the start, in parts that need no room."""
        self._memory.release(self._request)
        self._compressor, self._first = None, None
        self._began = self._ended = False
        self._size = SMALL_PART
        self._reader.rewind()
        self._first = await self._encode(await self._read())

    def __aiter__(self) -> ListParts:
        return self

    async def __anext__(self) -> bytes:
        part, self._first = self._first, None
        if part is not None:
            return part
        if self._ended:
            raise StopAsyncIteration
        part = await self._encode(await self._read())
        if not self._count(len(part)):
            self._size = SMALL_PART  # from now on
        return part

    async def _read(self) -> list[bytes]:
        bodies = await self._read_stored()
        return bodies if self._show is None else await self._show(bodies)

    async def _read_stored(self) -> list[bytes]:
        if self._seconds is None:
            return await self._reader.read(self._size)
        began = trio.current_time()
        with trio.move_on_after(self._seconds):
            bodies = await self._reader.read(self._size)
            self._seconds -= trio.current_time() - began
            return bodies
        raise TimedOut("Timeout: the request did not finish within the time it allowed (timeoutSeconds)")

    async def _encode(self, bodies: list[bytes]) -> bytes:
        layout, complete = self._layout, self._reader.complete
        elements = await encode_elements(self._element, bodies, layout.in_thread)
        pieces = [layout.separator.join(elements)]
        if not self._began:
            pieces.insert(0, layout.head(self._metadata_ahead()))
        elif elements:
            pieces.insert(0, layout.separator)
        if complete:
            pieces.append(layout.tail(self._metadata_behind()))
        self._began, self._ended = True, complete
        part = b"".join(pieces)
        return part if self._compressor is None else await self._compressor.compress(part, last=complete)

    def _metadata_ahead(self) -> Object | None:
        return None if self._reader.limited else list_metadata(Listing([], self._reader.version))

    def _metadata_behind(self) -> Object | None:
        """What a limited list says of its rest is known at its end."""
        return list_metadata(self._reader.listing([])) if self._reader.limited else None

    def _count(self, size: int) -> bool:
        """Count what the connection holds from now on: one part. False if the budget has no room for it."""
        request, memory = self._request, self._memory
        held = (COMPRESSOR_BYTES if self._compressor else 0) + (size if size > SMALL else 0)
        if held > request.reserved:
            return memory.try_take(request, held - request.reserved)
        memory.release(request, request.reserved - held)
        return True
