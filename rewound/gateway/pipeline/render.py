"""Makes responses from JSON documents, in the representation that the client asked for.

The journal stores JSON bytes; they are sent unchanged unless the client asks for YAML, protobuf or indentation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.schema.exact_decoder import problems_in
from rewound.actors.messages import Deleted
from rewound.gateway.message import Response
from rewound.gateway.pipeline.context import RequestContext
from rewound.gateway.pipeline.errors import Failure
from rewound.gateway.wire import compression, yaml
from rewound.gateway.wire.json import dump_line, pretty
from rewound.gateway.wire.worker_threads import encode_in_thread

# All warnings of a response together. Many clients accept heads of 16 KiB at most.
MAX_WARNING_BYTES = 4096
SHORTENED_WARNING = 256  # characters of each warning if all together are too long
_LARGE = 64 * 1024  # bytes; larger documents are indented in a worker thread
MAX_WARNINGS = 60  # Python's http.client accepts 100 header lines of all kinds


async def respond(context: RequestContext, body: bytes, status: int = 200) -> Response:
    """The response with this document, in the representation that the client asked for."""
    response = Response(status, body)
    is_unchanged = context.representation.media == "json" and not context.pretty
    if context.exchange is not None and not (is_unchanged and len(body) <= compression.THRESHOLD):
        context.exchange.response_json = body  # the body that is sent may become another one
    if is_unchanged:
        pass
    elif context.protobuf is not None:
        encoded = await context.protobuf.from_json_in_thread(body)
        if encoded is not None:
            response.body, response.content_type = encoded, context.representation.content_type
    elif context.representation.media == "yaml":
        response.body = await yaml.from_json_in_thread(body)
        response.content_type = context.representation.content_type
    elif context.pretty:
        response.body = pretty(body) if len(body) <= _LARGE else await encode_in_thread(pretty, body)
    if context.warnings or len(response.body) > compression.THRESHOLD:
        await complete(context, response)
    return response


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
    """Each warning once, shortened or left out where all together exceed the limits: clients refuse large heads.

    Empty ones are left out. The last header reports how many were left out.
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
    """The Status that responds to a delete."""
    details: dict[str, Any] = {"name": outcome.name}
    if definition.group:
        details["group"] = definition.group
    return success({**details, "kind": definition.plural, "uid": outcome.uid})


def success(details: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
