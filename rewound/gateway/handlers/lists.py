"""Responds to lists: in one body if the list is short, else in parts that are produced as the client takes them.

Nothing here holds the event loop: objects are read and encoded in turns, large ones are encoded in a worker thread.
Memory for clients that read slowly is bounded: `MemoryBudget` counts every body and part, and while it is used up parts
are small. A list in protobuf has to be held whole, and is refused then. The size after encoding counts: Tables,
indented JSON and defaults of custom kinds may be many times as long as the stored objects.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import trio
from msgspec.structs import replace

from rewound.actors.errors import BadRequest, TimedOut
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.messages import Object
from rewound.actors.runtime.threads import run_in_thread
from rewound.actors.runtime.turns import SharedTurns, next_turn
from rewound.actors.selectors import FieldSelector, LabelSelector
from rewound.actors.store.reads import Listing, ListOptions, ListReader
from rewound.gateway.memory.budget import SMALL, MemoryBudget
from rewound.gateway.message import Request, Response
from rewound.gateway.pipeline import render
from rewound.gateway.pipeline.context import RequestContext
from rewound.gateway.pipeline.parameters import LARGE_SELECTOR
from rewound.gateway.pipeline.render import Encoder, Encoders, encode_document
from rewound.gateway.store import Store
from rewound.gateway.wire import compression
from rewound.gateway.wire.compression import COMPRESSOR_BYTES, Compressor
from rewound.gateway.wire.encoders import list_metadata
from rewound.gateway.wire.list_layouts import (
    CborLayout,
    Element,
    JsonLayout,
    Layout,
    PrettyLayout,
    ProtobufLayout,
    YamlLayout,
    combined,
    encode_elements,
)

# Lists up to about this size have one body, with a Content-Length, if there is room for it.
WHOLE = 4 << 20
# Copies of its objects that a conversion holds: request and response of the webhook, and the converted objects.
_COPIES = 3
# Bytes of objects in a part; and in a part while the budget is used up, which is not counted.
PART, SMALL_PART = 512 << 10, SMALL
# How many times as long as the stored objects a part may become; beyond that it gets fewer objects.
_GROWTH = 4
_TIMED_OUT = "Timeout: the request did not finish within the time it allowed (timeoutSeconds)"

Show = Callable[[list[bytes]], Awaitable[list[bytes]]]  # converts stored objects, if a webhook has to


class Deadline:
    """A context manager that ends a list or deletecollection with a 504 response when timeoutSeconds have passed."""

    __slots__ = ("_scope",)

    def __init__(self, context: RequestContext) -> None:
        seconds = context.seconds("timeoutSeconds")
        self._scope = trio.move_on_after(seconds) if seconds is not None else None

    def __enter__(self) -> None:
        if self._scope is not None:
            self._scope.__enter__()

    def __exit__(self, *error: Any) -> None:
        if self._scope is None:
            return
        self._scope.__exit__(*error)
        if self._scope.cancelled_caught:
            raise TimedOut(_TIMED_OUT)


class ListHandler:
    def __init__(self, store: Store, encoders: Encoders, *, chunking: bool) -> None:
        """`chunking`: whether `limit` and `continue` are supported."""
        self._reads = store.reads
        self.encoders = encoders
        self._memory = store.memory
        self._chunking = chunking
        # Divides lists that start in the same pass of the event loop over several passes.
        self._turns = SharedTurns()

    def page(self, context: RequestContext) -> tuple[int, str]:
        """The requested page of a list: limit (0: all) and continue token."""
        parameters = context.parameters
        if not self._chunking:
            return 0, ""
        return max(parameters.integer("limit") or 0, 0), parameters.first("continue") or ""

    async def respond(
        self, context: RequestContext, definition: Definition, options: ListOptions, at: int | None = None
    ) -> Response:
        """`at` is the time to which ages in a Table are relative; None: the present."""
        bodies: list[bytes] = []
        try:
            with Deadline(context):
                found = await self._reads.open(definition, context.route.namespace or None, options)
                if isinstance(found, ListReader):
                    if self._turns.over():
                        await self._turns.next()
                    bodies = found.step()
                    if not found.complete:
                        await _read_short(found, bodies)
        except TimedOut:
            self._reads.check_reached(options)
            raise
        encoder = self.encoders.of(context, definition, at)
        if definition.converts_by_webhook:
            return await self._respond_converted(context, definition, encoder, found, bodies)
        if isinstance(found, Listing):
            return await self._respond_counted(context, encoder, found)
        layout, element = _form(context, encoder)
        elements = await self._short(context, element, bodies, layout.in_thread) if found.complete else None
        if elements is None:
            long = self._in_parts if context.protobuf is None else self._whole_protobuf
            return await long(context, encoder, found, bodies)
        response = await _whole(context, encoder, found.listing(bodies), layout, element, elements)
        if context.protobuf is not None:
            self._count(context, response)
        elif len(response.body) > SMALL and not self._memory.try_take(context.request, len(response.body)):
            return await self._in_parts(context, encoder, found, None)
        return response

    async def _short(
        self, context: RequestContext, element: Element | None, bodies: list[bytes], in_thread: int
    ) -> list[bytes] | None:
        """The encoded elements of a list; None if they are long, or the memory budget is used up."""
        if element is not None and self._turns.over():
            await self._turns.next()
        elements = await encode_elements(element, bodies, in_thread, PART)
        held = 0
        while len(elements) < len(bodies):
            size = sum(map(len, elements)) - held
            if held + size > _GROWTH * WHOLE or not self._memory.try_take(context.request, size):
                self._memory.release(context.request, held)
                return None
            held += size
            elements += await encode_elements(element, bodies[len(elements) :], in_thread, PART)
        self._memory.release(context.request, held)
        return elements

    async def _respond_converted(
        self,
        context: RequestContext,
        definition: Definition,
        encoder: Encoder,
        found: Listing | ListReader,
        bodies: list[bytes],
    ) -> Response:
        """As `respond`, with objects that a webhook converts: one call for a short list, else one for each part."""
        show = partial(self._show, context, definition)
        if isinstance(found, Listing):
            bodies = found.bodies
        shown = await show(bodies)
        if isinstance(found, ListReader) and not found.complete:
            return await self._in_parts(context, encoder, found, shown, show)
        listing = found if isinstance(found, Listing) else found.listing(bodies)
        return await self._respond_counted(context, encoder, replace(listing, bodies=shown))

    async def _show(
        self, context: RequestContext, definition: Definition, bodies: Sequence[bytes]
    ) -> list[bytes]:
        """Have a webhook convert objects, with the memory of the call counted. Raises TooManyRequests."""
        size = _COPIES * sum(map(len, bodies))
        if size <= SMALL:
            return await self.encoders.converted.all(definition, bodies)
        self._memory.take(context.request, size)
        try:
            return await self.encoders.converted.all(definition, bodies)
        finally:
            self._memory.release(context.request, size)

    async def respond_whole(
        self, context: RequestContext, definition: Definition, listing: Listing
    ) -> Response:
        """The response with a list that has been read. Raises TooManyRequests."""
        encoder = self.encoders.of(context, definition)
        if definition.converts_by_webhook:
            listing = replace(listing, bodies=await self._show(context, definition, listing.bodies))
        return await self._respond_counted(context, encoder, listing)

    async def _respond_counted(self, context: RequestContext, encoder: Encoder, listing: Listing) -> Response:
        """The list in one body, which is counted while it is encoded. Raises TooManyRequests."""
        layout, element = _form(context, encoder)
        elements: list[bytes] = []
        held = 0
        while len(elements) < len(listing.bodies):
            left = listing.bodies[len(elements) :]
            fresh = await encode_elements(element, left, layout.in_thread, WHOLE)
            elements += fresh
            if len(fresh) < len(left):
                self._memory.take(context.request, size := sum(map(len, fresh)))
                held += size
        response = await _whole(context, encoder, listing, layout, element, elements)
        self._memory.release(context.request, held)
        self._count(context, response)
        return response

    async def respond_object(self, context: RequestContext, encoder: Encoder, body: bytes) -> Response:
        """The response to a get of a large object. Raises TooManyRequests."""
        response = await render.respond(context, await encode_document(encoder, body))
        self._count(context, response)
        return response

    def _count(self, context: RequestContext, response: Response) -> None:
        """Raises TooManyRequests if the memory budget has no room for the body."""
        if len(response.body) > SMALL:
            self._memory.take(context.request, len(response.body))

    async def _in_parts(
        self,
        context: RequestContext,
        encoder: Encoder,
        reader: ListReader,
        bodies: list[bytes] | None,
        show: Show | None = None,
    ) -> Response:
        """`bodies` are the first objects; None without room for large parts. `show` converts those of other parts."""
        context.request.body = b""  # free its memory for the parts
        layout, element = _form(context, encoder)
        assert not isinstance(layout, ProtobufLayout)
        seconds = context.seconds("timeoutSeconds")
        parts = ListParts(context.request, self._memory, reader, layout, element, seconds, show)
        headers = render.warnings_of(context)
        if bodies is None:
            await parts.begin_small()
        elif await parts.begin(bodies, compress=render.accepts_gzip(context)):
            headers.extend(compression.HEADERS)
        return Response(200, b"", _content_type(context), headers, parts=parts)

    async def _whole_protobuf(
        self, context: RequestContext, encoder: Encoder, reader: ListReader, bodies: list[bytes]
    ) -> Response:
        """Read and encode the whole list. Raises TooManyRequests if the memory budget has no room for it."""
        layout, element = _form(context, encoder)
        assert isinstance(layout, ProtobufLayout)
        elements: list[bytes] = []
        while True:
            fresh = await encode_elements(element, bodies, layout.in_thread, WHOLE)
            # Twice, because joining copies them.
            self._memory.take(context.request, 2 * sum(map(len, fresh)))
            elements += fresh
            bodies = bodies[len(fresh) :]
            if bodies:
                continue
            if reader.complete:
                break
            with Deadline(context):
                bodies = await reader.read(PART)
        document = layout.document(list_metadata(reader.listing([])), elements)
        response = await render.complete(context, Response(200, document, _content_type(context)))
        self._memory.release(context.request, context.request.reserved - len(response.body))
        return response


async def _read_short(reader: ListReader, bodies: list[bytes]) -> None:
    """Read on while the list may still be short, and until there is at least one object."""
    size = sum(map(len, bodies))
    while not reader.complete and (not bodies or size * _ratio(reader, len(bodies)) <= WHOLE):
        await next_turn()
        more = reader.step()
        size += sum(map(len, more))
        bodies += more


def _ratio(reader: ListReader, read: int) -> float:
    """The estimated number of objects in the list, divided by the number read so far."""
    return 1 if reader.expected is None else max(1, reader.expected / read)


def _form(context: RequestContext, encoder: Encoder) -> tuple[Layout | ProtobufLayout, Element | None]:
    """The layout of the list, and the function that encodes an element; None if elements are sent as stored."""
    layout = _layout(context, encoder)
    return layout, combined(encoder.element, layout.element)


async def _whole(
    context: RequestContext,
    encoder: Encoder,
    listing: Listing,
    layout: Layout | ProtobufLayout,
    element: Element | None,
    elements: list[bytes],
) -> Response:
    """The list in one body."""
    if element is None or not elements:
        return await render.respond(context, encoder.listing(listing))
    metadata = list_metadata(listing)
    exchange = context.exchange
    if exchange is not None and exchange.keeps_response and encoder.element is None:
        exchange.response_json = encoder.listing(listing)
    if isinstance(layout, ProtobufLayout | CborLayout):
        body = layout.document(metadata, elements)
    else:
        body = layout.head(metadata) + layout.separator.join(elements) + layout.tail(None)
    return await render.complete(context, Response(200, body, _content_type(context)))


def _layout(context: RequestContext, encoder: Encoder) -> Layout | ProtobufLayout:
    type_ = encoder.list_type
    if context.protobuf is not None:
        return ProtobufLayout(type_, context.protobuf)
    if context.cbor is not None:
        return CborLayout(type_, context.cbor)
    if context.representation.media == "yaml":
        return YamlLayout(type_)
    return PrettyLayout(type_) if context.pretty else JsonLayout(type_)


def _content_type(context: RequestContext) -> bytes:
    media = context.representation.media
    return b"application/json" if media == "json" else context.representation.content_type


class ListParts:
    """A list in parts: each is read at the version of the first and encoded when the client has read the previous one.

    The connection iterates over it. Between two parts it holds a position and no objects. An error meanwhile (the
    version was compacted, the journal is damaged, timeoutSeconds passed) aborts the response, so that no client takes
    it for the whole list.
    """

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
        self._seconds = seconds  # left for reading
        self._show = show  # converts objects, if a webhook has to
        self._compressor: Compressor | None = None
        self._size = PART
        self._first: bytes | None = None
        self._left: list[bytes] = []  # objects that did not fit into the previous part
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
        """Read again from the start, in small parts, which are not counted."""
        self._memory.release(self._request)
        self._compressor, self._first, self._left = None, None, []
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
        await next_turn()
        part = await self._encode(self._left or await self._read())
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
        raise TimedOut(_TIMED_OUT)

    async def _encode(self, bodies: list[bytes]) -> bytes:
        layout = self._layout
        elements = await encode_elements(self._element, bodies, layout.in_thread, _GROWTH * self._size)
        self._left = bodies[len(elements) :]
        complete = self._reader.complete and not self._left
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
        """The metadata that is known only at the end: continue and remainingItemCount of a limited list."""
        return list_metadata(self._reader.listing([])) if self._reader.limited else None

    def _count(self, size: int) -> bool:
        """Count one part, which the connection will hold; False if the memory budget has no room for it."""
        request, memory = self._request, self._memory
        held = (COMPRESSOR_BYTES if self._compressor else 0) + (size if size > SMALL else 0)
        if held > request.reserved:
            return memory.try_take(request, held - request.reserved)
        memory.release(request, request.reserved - held)
        return True


# Selectors are parsed one at a time, because parsing holds the interpreter lock.
_PARSING = trio.CapacityLimiter(1)
T = TypeVar("T")


async def parse_selectors(
    context: RequestContext, definition: Definition
) -> tuple[LabelSelector | None, FieldSelector | None]:
    """Label and field selector, by the names of stored fields. Raises BadRequest for a field that is not selectable."""
    label_text = context.parameters.first("labelSelector")
    field_text = context.parameters.first("fieldSelector")
    labels = await _parse(LabelSelector.parse, label_text) if label_text else None
    if not field_text:
        return labels, None
    return labels, _known_fields(definition, await _parse(FieldSelector.parse, field_text))


async def _parse(parse: Callable[[str], T], text: str) -> T:
    if len(text) < LARGE_SELECTOR:
        return parse(text)
    return await run_in_thread(parse, text, limiter=_PARSING)


def _known_fields(definition: Definition, fields: FieldSelector) -> FieldSelector:
    for label, _, _ in fields.requirements:
        if not definition.selects(label):
            raise BadRequest(definition.unsupported_field_text(label))
    selection = definition.selection
    return fields.renamed(definition.stored_field).reading(selection.late, selection.fields)
