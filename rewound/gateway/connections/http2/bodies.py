"""The bodies of requests on one HTTP/2 connection, as they arrive: windows and the limits of memory.

`Receiver` adds the data of all streams. A stream gets a small window until its body is wanted; data of a body that is
not wanted yet stays unacknowledged on the connection too, so that its peer makes the server hold no more than that
window. Bodies in progress are bounded per stream and per connection, together with those that handlers still have; a
body in tiny frames occupies no more memory than one in large frames. A connection whose handlers have more than
`_UNCOUNTED` bytes takes memory of the server's budget for the rest.
"""

from __future__ import annotations

from rewound.gateway.connections.arriving import Fault, add_part, join_parts
from rewound.gateway.connections.http2.output import Output
from rewound.gateway.connections.http2.protocol import (
    DEFAULT_WINDOW,
    FLOW_CONTROL_ERROR,
    ConnectionFault,
    window_update,
)
from rewound.gateway.connections.http2.stream import Stream
from rewound.gateway.connections.server_state import ServerState

# What a peer may send before we acknowledge: on one stream at first (as before the settings arrive), on one whose body
# is wanted, and on the connection.
STREAM_WINDOW = DEFAULT_WINDOW
WANTED_WINDOW = 256 * 1024
CONNECTION_WINDOW = 1024 * 1024
_LEAST_INCREMENT = 16 * 1024
# Bytes of bodies that the handlers of one connection have before they count against the server's budget.
_UNCOUNTED = 128 * 1024
# Bytes of incomplete bodies on one connection, and with those of requests that are being handled.
_MAX_INCOMPLETE = 16 * 1024 * 1024
_MAX_HELD = 64 * 1024 * 1024
_TOO_MANY = Fault(429, "too many large requests on one connection: send this one again, after the others")


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
        """Count data of any stream. ConnectionFault."""
        self._window -= size
        if self._window < 0:
            raise ConnectionFault(FLOW_CONTROL_ERROR, "more data than the window of the connection")

    def acknowledge(self, size: int) -> None:
        """Open the connection's window again by the size of data that is wanted, complete or discarded."""
        self._unacknowledged += size
        # Unwanted data may occupy most of the window: then others go on with the rest of it.
        if self._unacknowledged >= min(CONNECTION_WINDOW // 2, self._window):
            self._output.control(window_update(0, self._unacknowledged))
            self._window += self._unacknowledged
            self._unacknowledged = 0

    def want(self, stream: Stream) -> None:
        """There is room for the body of a stream, and its handler waits for it."""
        if stream.parts is not None:
            stream.wanted = True
            self._acknowledge_stream(stream)
            self.open_stream(stream)

    def _acknowledge_stream(self, stream: Stream) -> None:
        size, stream.unacknowledged = stream.unacknowledged, 0
        if size:
            self.acknowledge(size)

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
        """Open the window of a wanted stream again if it has used half of it, as far as there is memory for it."""
        if not stream.wanted or stream.receive_window >= WANTED_WINDOW // 2:
            return
        if stream.expected >= 0:
            needed = stream.expected - stream.received
            window = WANTED_WINDOW if needed > stream.receive_window else 0
        else:
            window = min(WANTED_WINDOW, self.room(stream))
            stream.wake_reader()  # to take memory for more
        if window - stream.receive_window >= _LEAST_INCREMENT:
            self._output.control(window_update(stream.number, window - stream.receive_window))
            stream.receive_window = window

    @staticmethod
    def room(stream: Stream) -> int:
        """How many bytes more of a body of unknown length there is memory for; the first window is not counted."""
        assert stream.request is not None
        return STREAM_WINDOW + stream.request.reserved - stream.received

    def complete(self, stream: Stream) -> bytes | Fault:
        """Return the body, or why it is refused; the body counts as held until `release`."""
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
        """Discard what has arrived of a body; its request is refused, or has ended."""
        if stream.parts is not None:
            self._incomplete -= stream.held
            stream.parts = None
        self._acknowledge_stream(stream)
        self._held -= stream.held
        stream.held = 0
