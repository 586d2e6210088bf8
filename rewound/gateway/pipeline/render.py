"""Makes responses from stored objects and JSON documents, in the representation that the client asked for.

The journal stores JSON bytes. An `Encoder` makes documents of them; these are sent unchanged unless the client asks for
YAML, protobuf, CBOR or indentation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from rewound.actors.conversion.converter import Converter
from rewound.actors.conversion.reads import ConvertedObjects
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.schema.exact_decoder import problems_in
from rewound.actors.messages import Deleted
from rewound.actors.names import Names
from rewound.actors.store.reads import Listing
from rewound.gateway.message import Response
from rewound.gateway.pipeline.context import RequestContext
from rewound.gateway.pipeline.errors import Failure
from rewound.gateway.wire import compression, yaml
from rewound.gateway.wire.encoders import PartialMetadataEncoder, TableEncoder, object_encoder
from rewound.gateway.wire.json import dump_line, pretty
from rewound.gateway.wire.list_layouts import Element, ListType
from rewound.gateway.wire.worker_threads import encode_in_thread

# All warnings of a response together. Many clients accept heads of 16 KiB at most.
MAX_WARNING_BYTES = 4096
SHORTENED_WARNING = 256  # characters of each warning if all together are too long
_LARGE = 64 * 1024  # bytes; larger documents are indented in a worker thread
MAX_WARNINGS = 60  # Python's http.client accepts 100 header lines in all


class Encoder(Protocol):
    in_thread: int  # stored objects of more bytes are encoded in a worker thread

    def item(self, body: bytes) -> bytes:
        """An object inside another document, such as a watch event."""

    def document(self, body: bytes) -> bytes:
        """An object as a whole response, which ends with a newline."""

    def listing(self, listing: Listing) -> bytes:
        """A list as a whole response."""

    @property
    def list_type(self) -> ListType: ...

    @property
    def element(self) -> Element | None:
        """Makes an element of a list from a stored object; None if it is the stored object."""


async def encode_document(encoder: Encoder, body: bytes) -> bytes:
    """An object as a whole response; encoded in a worker thread if it is large and has to be parsed."""
    if len(body) <= encoder.in_thread or encoder.element is None:
        return encoder.document(body)
    return await encode_in_thread(encoder.document, body)


class Encoders:
    """Chooses the encoder for the representation that a client asked for: plain objects, a Table, or metadata alone.

    Writes choose it before they read their body: a request whose representation cannot be given changes nothing.
    """

    def __init__(self, names: Names, now: Callable[[], int], converter: Converter) -> None:
        # Objects that a webhook has to convert (`converts`) are converted before they are encoded.
        self.converted = ConvertedObjects(converter)
        self._names = names
        self._now = now

    def of(self, context: RequestContext, definition: Definition, at: int | None = None) -> Encoder:
        """The encoder for this definition's objects and this request; refuses an unknown includeObject.

        `at` is the time to which ages in a Table are relative; None: the present.
        """
        if not context.representation.as_kind:
            return object_encoder(definition)
        return self.maker(context, at)(definition)

    def maker(self, context: RequestContext, at: int | None = None) -> Callable[[Definition], Encoder]:
        """Return a function that makes encoders for any definition, without holding the request."""
        names, chosen = self._names, context.representation
        now = self._now if at is None else lambda: at
        include = context.parameters.first("includeObject") or ""

        def make(definition: Definition) -> Encoder:
            if not chosen.as_kind:
                return object_encoder(definition)
            if chosen.as_kind != "Table":
                return PartialMetadataEncoder(definition, names, chosen.as_version)
            return TableEncoder(definition, names, chosen.as_version, include, now)

        return make


async def respond(context: RequestContext, body: bytes, status: int = 200) -> Response:
    """The response with this document, in the representation that the client asked for."""
    response = Response(status, body)
    if context.pretty or context.representation.media != "json":
        await _represent(context, response)
    if context.warnings or len(response.body) > compression.THRESHOLD:
        await complete(context, response)
    return response


async def _represent(context: RequestContext, response: Response) -> None:
    """Replace the JSON of a response by the representation that the client asked for."""
    body = response.body
    if context.exchange is not None:
        context.exchange.response_json = body  # for the audit log
    if context.protobuf is not None:
        encoded = await context.protobuf.from_json_in_thread(body)
        if encoded is not None:
            response.body, response.content_type = encoded, context.representation.content_type
    elif context.cbor is not None:
        response.body = await context.cbor.from_json_in_thread(body)
        response.content_type = context.representation.content_type
    elif context.representation.media == "yaml":
        response.body = await yaml.from_json_in_thread(body)
        response.content_type = context.representation.content_type
    elif context.pretty:
        response.body = pretty(body) if len(body) <= _LARGE else await encode_in_thread(pretty, body)


async def complete(context: RequestContext, response: Response) -> Response:
    """Add the warnings, and compress the body if it is large and the client accepts that."""
    if context.warnings:
        response.headers.extend(warnings_of(context))
    if len(response.body) > compression.THRESHOLD and accepts_gzip(context):
        exchange = context.exchange
        if exchange is not None and exchange.keeps_response and response.content_type == b"application/json":
            exchange.response_json = response.body
        response.body = await compression.compress(response.body)
        response.headers.extend(compression.HEADERS)
    return response


def warnings_of(context: RequestContext) -> list[tuple[bytes, bytes]]:
    return [(b"warning", text) for text in warning_headers(context.warnings)]


def accepts_gzip(context: RequestContext) -> bool:
    return compression.accepts_gzip(context.request.headers.get(b"accept-encoding"))


async def document(context: RequestContext, value: Any, status: int = 200) -> Response:
    return await respond(context, dump_line(value), status)


async def failure(context: RequestContext, failed: Failure) -> Response:
    response = await document(context, failed.document(), failed.code)
    response.headers.extend(failed.headers)
    return response


def text(body: str, status: int = 200, content_type: bytes = b"text/plain; charset=utf-8") -> Response:
    headers = [(b"x-content-type-options", b"nosniff")]
    return Response(status, body.encode(), content_type, headers)


def warning_headers(messages: list[str]) -> Iterator[bytes]:
    """One header for each distinct warning; shortened or left out above the limits, because clients refuse large heads.

    Empty ones are dropped. The last header says how many were left out.
    """
    texts = [text for text in dict.fromkeys(messages) if text]
    headers = [warning_header(text) for text in texts]
    if sum(map(len, headers)) > MAX_WARNING_BYTES:
        headers = [warning_header(text[:SHORTENED_WARNING]) for text in texts]
    size = 0
    for index, header in enumerate(headers):
        size += len(header)
        if size > MAX_WARNING_BYTES or index == MAX_WARNINGS:
            left_out = sum(problems_in(text) for text in texts[index:])
            yield warning_header(f"{left_out} more warnings were left out")
            return
        yield header


def warning_header(message: str) -> bytes:
    """RFC 7234 warning 299; characters that are not printable become spaces, so that it stays one header line."""
    quoted = message.replace("\\", "\\\\").replace('"', '\\"')
    printable = "".join(c if c.isprintable() else " " for c in quoted)
    return b'299 - "' + printable.encode("utf-8") + b'"'


def deleted_status(definition: Definition, outcome: Deleted) -> dict[str, Any]:
    """The Status that a delete returns."""
    details: dict[str, Any] = {"name": outcome.name}
    if definition.group:
        details["group"] = definition.group
    return success({**details, "kind": definition.plural, "uid": outcome.uid})


def success(details: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
