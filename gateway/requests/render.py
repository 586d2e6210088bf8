"""From a document's JSON bytes to the answer that the client asked for.

JSON bytes come ready from the journal, with a newline at their end; they go out untouched unless YAML, protobuf or
pretty printing was asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from actors.kinds.schema.problems import problems_in
from gateway.requests.call import Call
from gateway.requests.errors import Failure
from gateway.requests.request import Response
from gateway.wire import compression, yaml
from gateway.wire.json import dump_line, pretty

# Of all warnings of one answer together, and of one of them where they are too many. Many clients take heads of
# 16 KiB at most.
WARNING_BYTES, WARNING_SHOWN = 4096, 256
WARNINGS = 60  # header lines: Python's http.client reads 100 of all kinds


def at_once(call: Call, body: bytes) -> Response | None:
    """The answer where it is the body and nothing else, which is nearly always."""
    if (
        call.representation.media != "json"
        or call.pretty
        or call.warnings
        or len(body) > compression.THRESHOLD
    ):
        return None
    return Response(200, body)


async def answer(call: Call, body: bytes, status: int = 200) -> Response:
    response = Response(status, body)
    if call.messages is not None:
        encoded = await call.messages.from_json_off_loop(body)
        if encoded is not None:
            response.body, response.content_type = encoded, call.representation.content_type
    elif call.representation.media == "yaml":
        response.body = await yaml.from_json_off_loop(body)
        response.content_type = call.representation.content_type
    elif call.pretty:
        response.body = pretty(body)
    if call.warnings:
        response.headers.extend((b"warning", text) for text in warning_headers(call.warnings))
    if len(response.body) > compression.THRESHOLD and compression.acceptable(
        call.request.headers.get(b"accept-encoding")
    ):
        response.body = await compression.compress(response.body)
        response.headers.extend(compression.HEADERS)
    return response


async def document(call: Call, value: Any, status: int = 200) -> Response:
    return await answer(call, dump_line(value), status)


async def failure(call: Call, failed: Failure) -> Response:
    response = await document(call, failed.document(), failed.code)
    response.headers.extend(failed.headers)
    return response


def text(body: str, status: int = 200, content_type: bytes = b"text/plain; charset=utf-8") -> Response:
    headers = [(b"x-content-type-options", b"nosniff")]
    return Response(status, body.encode(), content_type, headers)


def warning_headers(messages: list[str]) -> Iterator[bytes]:
    """Each once, as many as fit, and none longer than a line of text once they do not: clients refuse large heads.

    A last one says how many were left out.
    """
    texts = list(dict.fromkeys(messages))
    headers = [warning_header(text) for text in texts]
    if sum(map(len, headers)) > WARNING_BYTES:
        headers = [warning_header(text[:WARNING_SHOWN]) for text in texts]
    size = 0
    for index, header in enumerate(headers):
        size += len(header)
        if size > WARNING_BYTES or index == WARNINGS:
            left_out = sum(problems_in(text) for text in texts[index:])
            yield warning_header(f"{left_out} more warnings were left out")
            return
        yield header


def warning_header(message: str) -> bytes:
    """RFC 7234 warning 299; what is not printable becomes a space so that it stays one header line."""
    quoted = message.replace("\\", "\\\\").replace('"', '\\"')
    printable = "".join(c if c.isprintable() else " " for c in quoted)
    return b'299 - "' + printable.encode("utf-8") + b'"'
