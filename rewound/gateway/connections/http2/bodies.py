"""The request bodies of one HTTP/2 connection as they arrive: flow control and memory limits.

`Receiver` adds the data of all streams. A stream has a small window until its body is wanted. Until then its data is
not acknowledged on the connection either, so that a peer cannot make the server hold more than that window.
Incomplete bodies are limited per stream and per connection, together with those that handlers still hold; a body in
tiny frames takes no more memory than one in large frames. If the handlers of a connection hold more than `_UNCOUNTED`
bytes, the rest counts against the server's memory budget.
"""

from __future__ import annotations

from rewound.gateway.connections.arriving import Fault, add_part, join_parts
from rewound.gateway.connections.http2.output import Output
from rewound.gateway.connections.http2.stream import Stream
from rewound.gateway.connections.server_state import ServerState
from rewound.http2.frames import (
    DEFAULT_WINDOW,
    FLOW_CONTROL_ERROR,
    ConnectionFault,
    window_update,
)

# What a peer may send before we acknowledge it: on a stream at first (the protocol's default), on a stream whose body
# is wanted, and on the connection.
STREAM_WINDOW = DEFAULT_WINDOW
WANTED_WINDOW = 256 * 1024
CONNECTION_WINDOW = 1024 * 1024
_LEAST_INCREMENT = 16 * 1024
# Bytes of bodies that the handlers of one connection hold before they count against the server's budget.
_UNCOUNTED = 128 * 1024
# Bytes of incomplete bodies on one connection, and the same plus those of requests being handled.
_MAX_INCOMPLETE = 16 * 1024 * 1024
_MAX_HELD = 64 * 1024 * 1024
_TOO_MANY = Fault(429, "too many large requests on one connection: retry this one after the others")


class Bodies:
    __slots__ = ("_held", "_incomplete", "_output", "_server", "_unacknowledged", "_window")

    def __init__(self, server: ServerState, output: Output) -> None:
        self._server = server
        self._output = output
        self._window = CONNECTION_WINDOW  # bytes that the peer may still send
        self._unacknowledged = 0
        self._incomplete = 0  # bytes of incomplete bodies
        self._held = 0  # the same, plus bodies that handlers hold

    def count(self, size: int) -> None:
        """Count data of any stream. Raises ConnectionFault if it exceeds the connection's window."""
        self._window -= size
        if self._window < 0:
            raise ConnectionFault(FLOW_CONTROL_ERROR, "more data than the window of the connection")

    def acknowledge(self, size: int) -> None:
        """Reopen the connection's window by the size of data that is wanted, complete or discarded."""
        self._unacknowledged += size
        # Unwanted data may occupy most of the window; then the others use the rest of it.
        if self._unacknowledged >= min(CONNECTION_WINDOW // 2, self._window):
            self._output.control(window_update(0, self._unacknowledged))
            self._window += self._unacknowledged
            self._unacknowledged = 0

    def want(self, stream: Stream) -> None:
        """Open the window of a stream: its handler waits for the body, and there is memory for it."""
        if stream.parts is not None:
            stream.wanted = True
            self._acknowledge_stream(stream)
            self.open_stream(stream)

    def _acknowledge_stream(self, stream: Stream) -> None:
        size, stream.unacknowledged = stream.unacknowledged, 0
        if size:
            self.acknowledge(size)

    def add(self, stream: Stream, part: bytes) -> Fault | None:
        """Add a part to an incomplete body; return a fault if it is refused."""
        parts, size = stream.parts, len(part)
        assert parts is not None
        add_part(parts, part)
        stream.received += size
        stream.held += size
        self._incomplete += size
        self._held += size
        limits = self._server.limits
        if stream.received > limits.body and not stream.streamed:
            return Fault(413, f"Request entity too large: limit is {limits.body}")
        if self._incomplete > _MAX_INCOMPLETE or self._held > _MAX_HELD:
            return _TOO_MANY
        return None

    def take(self, stream: Stream) -> bytes:
        """Take what has arrived of a streamed body, and let the peer send as much again."""
        if not stream.parts:
            return b""
        part = join_parts(stream.parts)
        stream.parts.clear()
        size = len(part)
        stream.held -= size
        self._incomplete -= size
        self._held -= size
        self._acknowledge_stream(stream)
        if not stream.request_ended and STREAM_WINDOW - stream.receive_window >= _LEAST_INCREMENT:
            self._output.control(window_update(stream.number, STREAM_WINDOW - stream.receive_window))
            stream.receive_window = STREAM_WINDOW
        return part

    def open_stream(self, stream: Stream) -> None:
        """Reopen the window of a wanted stream if half of it is used, as far as there is memory."""
        if not stream.wanted or stream.receive_window >= WANTED_WINDOW // 2:
            return
        if stream.expected >= 0:
            needed = stream.expected - stream.received
            window = WANTED_WINDOW if needed > stream.receive_window else 0
        else:
            window = min(WANTED_WINDOW, self.room(stream))
            stream.wake_reader()  # wake the reader, which reserves more memory
        if window - stream.receive_window >= _LEAST_INCREMENT:
            self._output.control(window_update(stream.number, window - stream.receive_window))
            stream.receive_window = window

    @staticmethod
    def room(stream: Stream) -> int:
        """How many more bytes of a body of unknown length fit its memory; the first window is not counted."""
        assert stream.request is not None
        return STREAM_WINDOW + stream.request.reserved - stream.received

    def complete(self, stream: Stream) -> bytes | Fault:
        """Return the body, or a fault if it is refused; the body counts as held until `release`."""
        parts, request = stream.parts, stream.request
        assert parts is not None and request is not None
        self._incomplete -= stream.received
        stream.parts = None
        self._acknowledge_stream(stream)
        if self._held > _UNCOUNTED and stream.received > request.reserved:
            memory = self._server.responder.memory
            if not memory.try_take(request, stream.received - request.reserved):
                return _TOO_MANY
        return join_parts(parts)

    def release(self, stream: Stream) -> None:
        """Discard what has arrived of a body whose request is refused or has ended."""
        if stream.parts is not None:
            self._incomplete -= stream.held
            stream.parts = None
        self._acknowledge_stream(stream)
        self._held -= stream.held
        stream.held = 0
