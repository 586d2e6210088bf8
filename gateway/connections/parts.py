"""Sends a body of unknown length over HTTP/1.1 part by part: the next one is produced when the socket took the last."""

from __future__ import annotations

from collections.abc import AsyncIterator

from gateway.connections.server_state import ServerState
from gateway.connections.transport import Transport
from gateway.message import Request, Response
from gateway.watch.framing import LAST_CHUNK


class PartsFailed(Exception):
    """The next part could not be produced; the error is the cause."""


class PartCounter:
    """Counts what was sent of the parts, for an observer."""

    __slots__ = ("payload",)

    def __init__(self) -> None:
        self.payload = 0


async def next_part(parts: AsyncIterator[bytes]) -> bytes:
    """The next part that is not empty; b"" after the last. PartsFailed."""
    try:
        while not (part := await anext(parts)):
            pass
    except StopAsyncIteration:
        return b""
    except Exception as error:
        raise PartsFailed from error
    return part


async def send_parts(
    server: ServerState,
    transport: Transport,
    request: Request,
    response: Response,
    counter: PartCounter,
    chunked: bool,
) -> None:
    """Send all parts: in chunks, or for HTTP/1.0 up to the end of the connection.

    OSError also if one could not be produced: the connection ends, so that the client does not take it for the end.
    """
    assert response.parts is not None
    try:
        await _send(transport, response.parts, counter, chunked)
    except PartsFailed as failed:
        server.cut_off(request, failed)
        raise ConnectionAbortedError from failed
    if request.reserved:
        server.memory.release(request)


async def _send(
    transport: Transport, parts: AsyncIterator[bytes], counter: PartCounter, chunked: bool
) -> None:
    end = b""  # of the chunk before
    while part := await next_part(parts):
        await transport.send_large(b"%b%x\r\n" % (end, len(part)) if chunked else b"", part)
        counter.payload += len(part)
        end = b"\r\n"
        del part  # not held while the next one is produced
    if chunked:
        await transport.send(end + LAST_CHUNK)
