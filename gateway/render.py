"""From a document's JSON bytes to the answer that the client asked for.

JSON bytes come ready from the journal; they go out untouched unless YAML or pretty printing was asked for.
"""

from __future__ import annotations

from typing import Any

import orjson

from gateway.call import Call
from gateway.errors import Failure
from gateway.request import Response
from gateway.wire import compression, yaml
from gateway.wire.json import pretty


async def answer(call: Call, body: bytes, status: int = 200) -> Response:
    response = Response(status, body)
    if call.representation.media != "json":
        response.body = await yaml.from_json_off_loop(body)
        response.content_type = call.representation.content_type
    elif call.pretty:
        response.body = pretty(body)
    if call.warnings:
        response.headers.extend((b"warning", warning_header(text)) for text in call.warnings)
    if len(response.body) > compression.THRESHOLD and compression.acceptable(
        call.request.headers.get(b"accept-encoding")
    ):
        response.body = await compression.compress(response.body)
        response.headers.extend(compression.HEADERS)
    return response


async def document(call: Call, value: Any, status: int = 200) -> Response:
    return await answer(call, orjson.dumps(value), status)


async def failure(call: Call, failed: Failure) -> Response:
    response = await document(call, failed.document(), failed.code)
    response.headers.extend(failed.headers)
    return response


def text(body: str, status: int = 200, content_type: bytes = b"text/plain; charset=utf-8") -> Response:
    headers = [(b"x-content-type-options", b"nosniff")]
    return Response(status, body.encode(), content_type, headers)


def warning_header(message: str) -> bytes:
    """RFC 7234 warning 299; what is not printable ASCII is escaped so that it stays one header line."""
    quoted = message.replace("\\", "\\\\").replace('"', '\\"')
    printable = "".join(c if c.isprintable() else " " for c in quoted)
    return b'299 - "' + printable.encode("utf-8") + b'"'
