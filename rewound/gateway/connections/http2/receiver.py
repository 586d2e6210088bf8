"""The input of an HTTP/2 connection: turns frames into requests, resets, windows and settings.

`next_request` processes frames up to the next request that is complete or must be refused. It keeps the states of
streams (RFC 9113, section 5.1) and the windows of both directions, and raises `ConnectionFault` if the peer breaks a
rule and the connection must end.
"""

from __future__ import annotations

import trio

from rewound.gateway.connections.arriving import Fault
from rewound.gateway.connections.http2.bodies import CONNECTION_WINDOW, STREAM_WINDOW, Bodies
from rewound.gateway.connections.http2.frame_reader import FrameReader
from rewound.gateway.connections.http2.request_heads import Malformed, RequestHead, RequestHeads
from rewound.gateway.connections.http2.stream import Stream, StreamOwner
from rewound.gateway.message import Peer, Request
from rewound.http2.frames import (
    ACK,
    COMPRESSION_ERROR,
    DATA,
    DEFAULT_WINDOW,
    EMPTY_TABLE,
    END_STREAM,
    ENHANCE_YOUR_CALM,
    FLOW_CONTROL_ERROR,
    HEADER_TABLE_SIZE,
    HEADERS,
    HPACK_TABLE_SIZE,
    INITIAL_WINDOW_SIZE,
    MAX_CONCURRENT_STREAMS,
    MAX_HEADER_LIST_SIZE,
    MAX_WINDOW,
    PING,
    PROTOCOL_ERROR,
    REFUSED_STREAM,
    RST_STREAM,
    SETTINGS,
    SETTINGS_ACK,
    STREAM_CLOSED,
    STREAM_MASK,
    WINDOW_UPDATE,
    ConnectionFault,
    frame,
    parse_settings,
    reset,
    settings,
    window_update,
)
from rewound.http2.hpack import CompressionError, TooManyFields

# A smaller window increment, or a smaller part of a body, counts as a useless frame.
_SMALL_INCREMENT = 1024
_SMALL_DATA = 64
# Streams that we reset, but of which the peer may not know it yet.
_MAX_RESETS = 64
# Parameters of a `_Budget`.
_BURST = 2000
_PER_SECOND = 500
_PER_REQUEST = 1

_FRAME = 1
# A request that is malformed or exceeds the limit of streams: it earns nothing.
_NO_REQUEST = _PER_REQUEST + _FRAME
# A request that its client resets right away, when the server has begun to work on it.
_EARLY_RESET = 10
# How many streams or waiting tasks whose windows one frame changes cost as much as one more frame.
_STREAMS_PER_FRAME = 8


class Receiver:
    __slots__ = (
        "_budget",
        "_frames",
        "_heads",
        "_initial_window",
        "_output",
        "_owner",
        "_peer",
        "_resets",
        "_server",
        "_skipped",
        "bodies",
        "held_after",
        "highest",
        "incomplete",
        "opened_at",
        "size_update",
        "streams",
    )

    def __init__(self, owner: StreamOwner, peer: Peer) -> None:
        server, output = owner.server, owner.output
        self._owner = owner
        self._server = server
        self._peer = peer
        self._output = output
        self.held_after = STREAM_MASK  # the last stream that is served
        self.opened_at = 0.0  # when the peer last opened a stream after that
        self._frames = FrameReader(server.limits.http2_head, server.partial_heads)
        self._heads = RequestHeads(server.limits)
        self._budget = _Budget(server.now)
        self.streams: dict[int, Stream] = {}
        self.incomplete: list[Stream] = []  # streams whose head has arrived without the whole body
        self.highest = 0  # the newest stream
        self._skipped = False  # skipped numbers: the peer has not used all up to `highest`
        self._resets: dict[int, None] = {}
        self._initial_window = DEFAULT_WINDOW  # send window of a new stream
        self.bodies = Bodies(server, output)
        self.size_update = b""  # starts the header blocks of responses

    def open(self) -> None:
        """Queue our settings."""
        limits = self._server.limits
        announced = {
            MAX_CONCURRENT_STREAMS: limits.streams,
            INITIAL_WINDOW_SIZE: STREAM_WINDOW,
            MAX_HEADER_LIST_SIZE: limits.http2_head,
        }
        self._output.control(settings(announced))
        self._output.control(window_update(0, CONNECTION_WINDOW - DEFAULT_WINDOW))

    def partial_since(self, now: float) -> float | None:
        """Since when the peer is in the middle of a frame or a header block; None if it is not."""
        return self._frames.partial_since(now)

    def feed(self, data: bytes) -> None:
        self._frames.feed(data)

    def next_request(self) -> Stream | None:
        """Process frames up to the next request that is complete or has a `fault`; return None if there is none yet."""
        frames = self._frames
        while (found := frames.next()) is not None:
            kind, flags, number, payload = found
            if kind == HEADERS:
                stream = self._receive_headers(flags, number, payload)
            elif kind == DATA:
                stream = self._receive_data(flags, number, payload)
            else:
                self._receive_control(kind, flags, number, payload)
                continue
            if stream is not None:
                return stream
        return None

    def take_incomplete(self) -> list[Stream]:
        """The streams whose head has arrived without the whole body, to be handled now."""
        incomplete, self.incomplete = self.incomplete, []
        return [stream for stream in incomplete if stream.parts is not None]

    def reset(self, number: int, code: int) -> None:
        """Reset a stream; frames that are still on their way are ignored."""
        self._output.control(reset(number, code))
        self._ignore(number)

    def hold(self) -> None:
        """Ignore streams that the peer opens from now on."""
        self.held_after = min(self.held_after, self.highest)

    def _ignore(self, number: int) -> None:
        self._resets[number] = None
        if len(self._resets) > _MAX_RESETS:
            del self._resets[next(iter(self._resets))]

    def forget(self, stream: Stream) -> None:
        """Remove a stream whose response is completely queued, or that was reset."""
        if self.streams.pop(stream.number, None) is not None:
            self.bodies.release(stream)

    def end_stream(self, stream: Stream, code: int) -> None:
        """Reset a stream and cancel its request."""
        self.reset(stream.number, code)
        self.drop(stream)

    def drop(self, stream: Stream) -> None:
        self.forget(stream)
        stream.close()
        self._owner.stream_reset(stream)

    def drop_all(self) -> None:
        self._frames.release()
        for stream in list(self.streams.values()):
            self.drop(stream)

    # Requests.

    def _receive_headers(self, flags: int, number: int, block: bytes) -> Stream | None:
        if number <= self.highest:
            return self._receive_trailers(flags, number, block)
        self._skipped = self._skipped or number > self.highest + 2
        self.highest = number
        try:
            head = self._heads.request(block)
        except Malformed:
            self._spend(_NO_REQUEST)
            self.reset(number, PROTOCOL_ERROR)
            return None
        except CompressionError as error:
            raise ConnectionFault(COMPRESSION_ERROR, str(error)) from error
        except TooManyFields as error:
            raise ConnectionFault(ENHANCE_YOUR_CALM, "a header block has too many fields") from error
        if number > self.held_after:
            self._spend(_NO_REQUEST)
            self.opened_at = trio.current_time()
            self._ignore(number)  # GOAWAY refuses it: a reset after that would end clients with h2
            return None
        if self._owner.refuses_streams():
            self._spend(_NO_REQUEST)
            self.reset(number, REFUSED_STREAM)
            return None
        request = Request(
            head.method,
            head.path,
            head.query,
            head.headers.copy(),
            b"",
            self._peer,
            head.repeated,
            head.facts,
        )
        head.facts = request.facts
        stream = Stream(self._owner, number, self._initial_window, STREAM_WINDOW, request)
        stream.began = self._server.now
        if head.fault is not None:
            stream.fault = head.fault
            stream.request_ended = bool(flags & END_STREAM)
            return stream
        if not flags & END_STREAM:
            self._await_body(stream, head)
            return None
        if head.content_length > 0:
            self._spend(_NO_REQUEST)
            self.reset(number, PROTOCOL_ERROR)
            return None
        stream.request_ended = True
        return stream

    def _await_body(self, stream: Stream, head: RequestHead) -> None:
        self.streams[stream.number] = stream
        stream.expected = head.content_length
        stream.parts = []
        stream.deadline = self._server.limits.transfer_deadline(stream.began, 0)
        stream.expects_continue = head.expects_continue
        self.incomplete.append(stream)

    def _receive_trailers(self, flags: int, number: int, block: bytes) -> Stream | None:
        stream = self.streams.get(number)
        try:
            self._heads.trailers(block)
        except Malformed:
            if stream is not None and not stream.request_ended:
                self.end_stream(stream, PROTOCOL_ERROR)
                return None
        except CompressionError as error:
            raise ConnectionFault(COMPRESSION_ERROR, str(error)) from error
        except TooManyFields as error:
            raise ConnectionFault(ENHANCE_YOUR_CALM, "a header block has too many fields") from error
        if stream is None:
            if number in self._resets:
                self._spend(_FRAME)
                return None
            raise ConnectionFault(
                PROTOCOL_ERROR if self._skipped else STREAM_CLOSED, f"stream {number} is closed"
            )
        if stream.request_ended:
            self.end_stream(stream, STREAM_CLOSED)
            return None
        if not flags & END_STREAM:
            self.end_stream(stream, PROTOCOL_ERROR)
            return None
        return self._complete(stream)

    def _receive_data(self, flags: int, number: int, part: bytes) -> Stream | None:
        size = self._frames.flow_size
        self.bodies.count(size)
        stream = self.streams.get(number)
        if stream is not None and stream.parts is not None and not stream.wanted:
            stream.unacknowledged += size
        else:
            self.bodies.acknowledge(size)
        if stream is None:
            self._receive_stray_data(number)
            return None
        if stream.request_ended:
            self.end_stream(stream, STREAM_CLOSED)
            return None
        stream.receive_window -= size
        if stream.receive_window < 0:
            self.end_stream(stream, FLOW_CONTROL_ERROR)
            return None
        if (size < _SMALL_DATA or not part) and not flags & END_STREAM:
            self._spend(_FRAME)
        if stream.parts is None:  # it is refused, and its response is being sent
            stream.request_ended = bool(flags & END_STREAM)
            return None
        fault = self.bodies.add(stream, part)
        server = self._server
        if server.draining:
            stream.deadline = server.limits.transfer_deadline(stream.began, stream.received, server.now)
        if 0 <= stream.expected < stream.received:
            self.end_stream(stream, PROTOCOL_ERROR)
            return None
        if fault is not None:
            return self.refuse(stream, fault, ended=bool(flags & END_STREAM))
        if flags & END_STREAM:
            return self._complete(stream)
        if stream.streamed:
            stream.wake_reader()
        else:
            self.bodies.open_stream(stream)
        return None

    def _receive_stray_data(self, number: int) -> None:
        if self._idle(number):
            raise ConnectionFault(PROTOCOL_ERROR, f"data on stream {number}, which is not open")
        self._spend(_FRAME)
        if number not in self._resets:
            self.reset(number, STREAM_CLOSED)

    def _idle(self, number: int) -> bool:
        """Whether the stream has not been opened yet; even numbers would be the server's."""
        return number > self.highest or not number & 1

    def refuse(self, stream: Stream, fault: Fault, *, ended: bool) -> Stream | None:
        """Refuse a body; return the stream if its request is not being handled yet."""
        self.bodies.release(stream)
        stream.request_ended = ended
        stream.fault = fault
        if not stream.started:
            return stream
        stream.wake_reader()
        return None

    def _complete(self, stream: Stream) -> Stream | None:
        """Complete a request whose last body part has arrived; return the stream if it is to be handled now."""
        if stream.parts is None:
            stream.request_ended = True
            return None
        if stream.expected >= 0 and stream.received != stream.expected:
            self.end_stream(stream, PROTOCOL_ERROR)
            return None
        stream.request_ended = True
        body = b"" if stream.streamed else self.bodies.complete(stream)
        if isinstance(body, Fault):
            return self.refuse(stream, body, ended=True)
        assert stream.request is not None
        stream.request.body = body
        if not stream.started:
            return stream
        stream.wake_reader()
        return None

    # Other frames.

    def _receive_control(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if kind == WINDOW_UPDATE:
            self._open_window(number, int.from_bytes(payload, "big") & MAX_WINDOW)
            return
        self._spend(_FRAME)
        if kind == RST_STREAM:
            self._receive_reset(number)
        elif kind == SETTINGS:
            if not flags & ACK:
                self._apply_settings(payload)
        elif kind == PING and not flags & ACK:
            self._output.control(frame(PING, ACK, 0, payload))
        # GOAWAY changes nothing for us; PRIORITY and frames of unknown types are ignored.

    def _spend(self, cost: int) -> None:
        # Numbers that the peer has skipped are not requests.
        self._budget.spend(cost, self._server.now, 0 if self._skipped else self.highest // 2)

    def _open_window(self, number: int, increment: int) -> None:
        output = self._output
        if increment < _SMALL_INCREMENT:
            self._spend(_FRAME)
        if not number:
            output.window += increment
            if not increment or output.window > MAX_WINDOW:
                code = FLOW_CONTROL_ERROR if increment else PROTOCOL_ERROR
                raise ConnectionFault(code, "the connection's window grows by nothing or too far")
            if output.window > 0:
                output.wake_waiting()
            return
        stream = self.streams.get(number)
        if stream is None:
            if self._idle(number):
                raise ConnectionFault(PROTOCOL_ERROR, f"a window of stream {number}, which is not open")
            self._spend(_FRAME)
        elif not increment or stream.window + increment > MAX_WINDOW:
            self.end_stream(stream, FLOW_CONTROL_ERROR if increment else PROTOCOL_ERROR)
        else:
            stream.opened(increment)

    def _receive_reset(self, number: int) -> None:
        stream = self.streams.get(number)
        if stream is not None:
            if self._server.now - stream.began < 2:
                self._spend(_EARLY_RESET)
            self.drop(stream)
        elif self._idle(number):
            raise ConnectionFault(PROTOCOL_ERROR, f"a reset of stream {number}, which is not open")

    def _apply_settings(self, payload: bytes) -> None:
        window = self._initial_window
        smaller_table = False
        for name, value in parse_settings(payload):
            if name == INITIAL_WINDOW_SIZE:
                # Use the last one: a frame may have thousands of settings, for hundreds of streams.
                window = value
            elif name == HEADER_TABLE_SIZE:
                smaller_table = smaller_table or value < HPACK_TABLE_SIZE
        if smaller_table and not self.size_update:
            self._shrink_table()
        if window != self._initial_window:
            self._change_windows(window)
        self._output.control(SETTINGS_ACK)

    def _shrink_table(self) -> None:
        """Start all further header blocks with a table size update to 0; the next one must (RFC 7541, section 4.2)."""
        self._output.queue_heads()
        self.size_update = EMPTY_TABLE

    def _change_windows(self, size: int) -> None:
        self._spend(len(self.streams) // _STREAMS_PER_FRAME)
        change = size - self._initial_window
        self._initial_window = size
        for stream in self.streams.values():
            if stream.window + change > MAX_WINDOW:
                raise ConnectionFault(FLOW_CONTROL_ERROR, f"stream {stream.number} has too large a window")
            stream.opened(change)


class _Budget:
    """Limits the useless frames of a peer, which cost work but request nothing: pings, settings, resets, empty data.

    Well-behaved clients send few of them, or one with each request. A flood would cost the server more than the peer,
    so the connection of a peer that exceeds the budget ends with ENHANCE_YOUR_CALM.
    """

    __slots__ = ("_left", "_now", "_requests")

    def __init__(self, now: float) -> None:
        self._left = _BURST
        self._now = now
        self._requests = 0

    def spend(self, cost: int, now: float, requests: int) -> None:
        """Spend from the budget now, after so many requests in total. Raises ConnectionFault if it is used up."""
        self._left -= cost
        if self._left < 0:
            self._refill(now, requests)

    def _refill(self, now: float, requests: int) -> None:
        earned = int((now - self._now) * _PER_SECOND) + (requests - self._requests) * _PER_REQUEST
        self._now, self._requests = now, requests
        self._left = min(_BURST, self._left + earned)
        if self._left < 0:
            raise ConnectionFault(ENHANCE_YOUR_CALM, "too many frames that ask for nothing")
