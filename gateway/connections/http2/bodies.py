"""The bodies of requests on one HTTP/2 connection, as they arrive: the connection's window and the limits of memory.

`Receiver` adds the data of all streams. Bodies in progress are bounded per stream and per connection, together with
those that handlers still have; a body in tiny frames occupies no more memory than one in large frames.
"""

from __future__ import annotations

from gateway.connections.body_parts import add_part, join_parts
from gateway.connections.http2.output import Output
from gateway.connections.http2.protocol import FLOW_CONTROL_ERROR, ConnectionFault, window_update
from gateway.connections.http2.stream import Stream
from gateway.connections.parser import Fault
from gateway.connections.server_state import ServerState

# What a peer may send before we acknowledge: on one stream, and on the connection.
STREAM_WINDOW = 256 * 1024
CONNECTION_WINDOW = 1024 * 1024
# Bytes of incomplete bodies on one connection, and with those of requests that are being handled.
_MAX_INCOMPLETE = 16 * 1024 * 1024
_MAX_HELD = 64 * 1024 * 1024


class Bodies:
    __slots__ = ("_held", "_incomplete", "_output", "_server", "_unacknowledged", "_window")

    def __init__(self, server: ServerState, output: Output) -> None:
        self._server = server
        self._output = output
        self._window = CONNECTION_WINDOW  # bytes that the peer may send
        self._unacknowledged = 0
        self._incomplete = 0  # bytes of bodies in progress
        self._held = 0  # the same, and of bodies that handlers have

    def count(self, size: int) -> None:
        """Count data of any stream, and open the connection's window again. ConnectionFault."""
        self._window -= size
        if self._window < 0:
            raise ConnectionFault(FLOW_CONTROL_ERROR, "more data than the window of the connection")
        self._unacknowledged += size
        if self._unacknowledged >= CONNECTION_WINDOW // 2:
            self._output.control(window_update(0, self._unacknowledged))
            self._window += self._unacknowledged
            self._unacknowledged = 0

    def add(self, stream: Stream, part: bytes) -> Fault | None:
        """Add a part to a body in progress; return why it is refused."""
        parts, size = stream.parts, len(part)
        assert parts is not None
        add_part(parts, part)
        stream.received += size
        stream.held += size
        self._incomplete += size
        self._held += size
        limits = self._server.limits
        if stream.received > limits.body:
            return Fault(413, f"Request entity too large: limit is {limits.body}")
        if self._incomplete > _MAX_INCOMPLETE or self._held > _MAX_HELD:
            return Fault(
                429, "too many large requests on one connection: send this one again, after the others"
            )
        return None

    def open_stream(self, stream: Stream) -> None:
        """Open the window of a stream again if it has used half of it."""
        if stream.receive_window < STREAM_WINDOW // 2:
            self._output.control(window_update(stream.number, STREAM_WINDOW - stream.receive_window))
            stream.receive_window = STREAM_WINDOW

    def complete(self, stream: Stream) -> bytes:
        """Return the body; it counts as held until `release`."""
        parts = stream.parts
        assert parts is not None
        self._incomplete -= stream.received
        stream.parts = None
        return join_parts(parts)

    def release(self, stream: Stream) -> None:
        """Discard what has arrived of a body; its request is refused, or has ended."""
        if stream.parts is not None:
            self._incomplete -= stream.received
            stream.parts = None
        self._held -= stream.held
        stream.held = 0
