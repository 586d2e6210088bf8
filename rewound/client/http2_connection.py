"""One HTTP/2 connection of the client, which many requests share (RFC 9113).

`run` reads, writes and checks the health of the connection in three tasks; `open` begins a request in the task of its
caller, who reads the response from its `Stream`. What arrives for one stream never waits for the reader of another:
the window of each stream bounds what waits in memory, and the window of the connection is larger than all of them
together. Whatever the server does, a stream ends: with its response, or with `StreamFailed`.

Our own code, as in the server (docs/decisions/0016-http2.md), whose frames it uses: httpcore lets one slow reader stop
all others, and h2 cannot read what a server still sends after GOAWAY (docs/decisions/0094-shared-connections.md).
"""

from __future__ import annotations

from typing import Final

import trio

from rewound.http2 import frames
from rewound.http2.frames import ConnectionFault
from rewound.http2.hpack import CompressionError, Decoder, Field, TooManyFields, encode_string

MOST_STREAMS: Final = 250  # at once: as many as Kubernetes' servers allow, if the server names no limit
# Bytes that may arrive before the reader of a stream takes them: 10 MB a second at a round trip of 100 ms.
STREAM_WINDOW: Final = 1 << 20
CONNECTION_WINDOW: Final = 1 << 30
PART: Final = 1 << 16  # bytes that a reader gets at once
# Seconds, as in Kubernetes' clients: without a frame, a PING asks whether the server is there.
SILENT_SECONDS: Final = 30.0
PING_SECONDS: Final = 15.0
UNUSED_SECONDS: Final = 90.0  # without a stream
MOST_UNSENT: Final = 1 << 20  # bytes for a server that does not read; more control frames end the connection
_FULL: Final = 1 << 17  # unsent bytes for which a body waits
_RECEIVED: Final = 1 << 16  # bytes at once
_GOODBYE_SECONDS: Final = 1.0
_MAX_HEAD: Final = 1 << 16
_LAST_STREAM: Final = (1 << 31) - 1
_PING: Final = b"rewound?"
_CODES: Final = {
    frames.NO_ERROR: "NO_ERROR",
    frames.PROTOCOL_ERROR: "PROTOCOL_ERROR",
    frames.INTERNAL_ERROR: "INTERNAL_ERROR",
    frames.FLOW_CONTROL_ERROR: "FLOW_CONTROL_ERROR",
    frames.STREAM_CLOSED: "STREAM_CLOSED",
    frames.FRAME_SIZE_ERROR: "FRAME_SIZE_ERROR",
    frames.REFUSED_STREAM: "REFUSED_STREAM",
    frames.CANCEL: "CANCEL",
    frames.COMPRESSION_ERROR: "COMPRESSION_ERROR",
    frames.ENHANCE_YOUR_CALM: "ENHANCE_YOUR_CALM",
}
_SIZES: Final = {frames.RST_STREAM: 4, frames.PING: 8, frames.WINDOW_UPDATE: 4}
_ON_STREAM: Final = frozenset((frames.DATA, frames.HEADERS, frames.RST_STREAM, frames.CONTINUATION))
_ON_CONNECTION: Final = frozenset((frames.SETTINGS, frames.PING, frames.GOAWAY))
_CHANGES_TABLE: Final = frames.EMPTY_TABLE  # at the start of the first block: we use no dynamic table
_NEVER_INDEXED: Final = frozenset((b"authorization",))

Headers = list[tuple[bytes, bytes]]


class StreamFailed(Exception):
    """The stream or its connection ended before the response did."""


class NotProcessed(StreamFailed):
    """The same before the server did anything: the request may be sent again, on another connection."""


class StreamSilent(Exception):
    """The server sent nothing for a stream for too long."""


class Stream:
    """A request and its response. Use it as a context manager: its end resets what has not ended."""

    __slots__ = (
        "_arrived",
        "_changed",
        "_connection",
        "_taken",
        "ended",
        "failure",
        "headers",
        "number",
        "receive_window",
        "send_window",
        "sent",
        "status",
        "waits_to_send",
    )

    def __init__(self, connection: Connection, number: int, send_window: int, *, sent: bool) -> None:
        self._connection = connection
        self.number = number
        self.sent = sent  # the whole request
        self.waits_to_send = False
        self.status = 0  # until the head of the response has arrived
        self.headers: list[Field] = []
        self._arrived = bytearray()  # not taken yet; many small frames take no more memory than a large one
        self._taken = 0  # bytes that were taken, and that the server may send again
        self._changed: trio.Event | None = None
        self.send_window = send_window
        self.receive_window = STREAM_WINDOW
        self.ended = False  # the whole response has arrived, or `failure` says why not
        self.failure: StreamFailed | None = None

    @property
    def is_open(self) -> bool:
        """Whether the server still waits for the request, or we for the response."""
        return not self.ended or (self.failure is None and not self.sent)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Forget it. If it has not ended, the server gets a reset."""
        self._connection.close_stream(self)
        self._arrived.clear()

    async def send(self, body: bytes, seconds: float) -> None:
        """Send the body; it ends early if the response has. Raises StreamSilent if the windows stay closed."""
        rest = memoryview(body)
        self.waits_to_send = True
        while not self.ended and not self.sent:
            queued = self._connection.send_data(self, rest)
            rest = rest[queued:]
            if not rest:
                self.sent = True
            elif not queued:
                await self._change(seconds)
        self.waits_to_send = False

    async def read_head(self, seconds: float) -> None:
        """Wait for `status` and `headers`. Raises StreamFailed or StreamSilent."""
        while not self.status:
            if self.failure is not None:
                raise type(self.failure)(str(self.failure))  # a new one for each task that raises it
            await self._change(seconds)

    async def read(self, seconds: float) -> bytes:
        """The next part of the body; empty at its end. Raises StreamFailed or StreamSilent."""
        if self._arrived or self.ended:
            await trio.lowlevel.checkpoint()
        while not self._arrived:
            if self.failure is not None:
                raise StreamFailed(str(self.failure))
            if self.ended:
                return b""
            await self._change(seconds)
        return self._take()

    def _take(self) -> bytes:
        part = bytes(self._arrived[:PART])
        del self._arrived[:PART]
        self.took(len(part))
        return part

    def took(self, size: int) -> None:
        """Let the server send as much again, once it is worth a frame."""
        self._taken += size
        if self._taken >= STREAM_WINDOW // 2 and not self.ended:
            self.receive_window += self._taken
            self._connection.control(frames.window_update(self.number, self._taken))
            self._taken = 0

    async def _change(self, seconds: float) -> None:
        changed = self._changed = trio.Event()
        with trio.move_on_after(seconds):
            await changed.wait()
        if not changed.is_set():
            raise StreamSilent

    # The connection calls these.

    def wake(self) -> None:
        changed, self._changed = self._changed, None
        if changed is not None:
            changed.set()

    def arrive(self, part: bytes) -> None:
        if part:
            self._arrived += part
            self.wake()

    def end(self, failure: StreamFailed | None = None) -> None:
        if not self.ended:
            self.ended, self.failure = True, failure
            self.wake()


class Connection:
    def __init__(self, stream: trio.abc.Stream) -> None:
        """A stream on which nothing was sent yet, with TLS that has negotiated h2."""
        self._stream = stream
        self._streams: dict[int, Stream] = {}
        self._next = 1
        self._scope = trio.CancelScope()
        self._unsent = bytearray()
        self._sending: trio.CancelScope | None = None
        self._sendable = trio.Event()
        self._buffer = b""
        self._block: list[bytes] | None = None  # a header block that CONTINUATION frames continue
        self._block_flags = self._block_stream = 0
        self._decoder = Decoder(_MAX_HEAD)
        self._send_window = frames.DEFAULT_WINDOW
        self._initial_window = frames.DEFAULT_WINDOW
        self._received = 0  # bytes that count for the connection's window, since its last update
        self._heard = trio.current_time()
        self._asked = False  # a PING was sent, and nothing has arrived since
        self._unused_since = self._heard
        self.most_streams = MOST_STREAMS
        self.leaving = False  # the server takes no new streams
        self.failure: str | None = None  # why it has ended; empty if we have closed it
        self.ready = trio.Event()  # the server has sent its settings, or the connection has ended
        announced = {
            frames.ENABLE_PUSH: 0,
            frames.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
            frames.MAX_HEADER_LIST_SIZE: _MAX_HEAD,
        }
        self._unsent += frames.PREFACE + frames.settings(announced)
        self._unsent += frames.window_update(0, CONNECTION_WINDOW - frames.DEFAULT_WINDOW)
        self._sendable.set()

    @property
    def has_room(self) -> bool:
        """Whether another stream can be opened."""
        return not self.takes_nothing and len(self._streams) < self.most_streams

    @property
    def takes_nothing(self) -> bool:
        """Whether no stream can be opened, also after others have ended."""
        usable = self.failure is None and not self.leaving and self._next < _LAST_STREAM
        return not usable or not self.most_streams

    @property
    def streams(self) -> int:
        """How many are open."""
        return len(self._streams)

    async def run(self) -> None:
        """Serve the streams until the connection ends or is closed; then every stream has ended."""
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._write)
                    nursery.start_soon(self._watch_health)
                    await self._read()
        finally:
            for stream in self._streams.values():
                stream.end(StreamFailed(self.failure or "the connection was closed"))
            self.ready.set()
            await self._say_goodbye()

    def close(self) -> None:
        """End it in order: the server gets GOAWAY."""
        self._fail("")

    def open(self, headers: Headers, *, body: bool) -> Stream:
        """Send the head of a request. There must be room."""
        assert self.has_room
        number, self._next = self._next, self._next + 2
        block = b"".join([_literal(*one) for one in headers])
        if number == 1:
            block = _CHANGES_TABLE + block
        stream = self._streams[number] = Stream(self, number, self._initial_window, sent=not body)
        self.control(frames.header_frames(block, number, end=not body))
        return stream

    def close_stream(self, stream: Stream) -> None:
        """Forget a stream; the server stops to send it."""
        if self._streams.pop(stream.number, None) is not None and stream.is_open:
            self.control(frames.reset(stream.number, frames.CANCEL))
        self._unused_since = trio.current_time()
        self._leave_when_done()

    def send_data(self, stream: Stream, rest: memoryview) -> int:
        """Queue as much of a body as the windows allow, and its end with the last byte; returns how much."""
        if len(self._unsent) >= _FULL and rest:
            return 0  # `_write` wakes the stream
        size = max(0, min(len(rest), stream.send_window, self._send_window, frames.FRAME_SIZE))
        if not size and rest:
            return 0
        stream.send_window -= size
        self._send_window -= size
        flags = frames.END_STREAM if size == len(rest) else 0
        self.control(frames.frame(frames.DATA, flags, stream.number, bytes(rest[:size])))
        return size

    def control(self, frame: bytes) -> None:
        """Queue a frame."""
        if self.failure is None:
            self._unsent += frame
            self._sendable.set()

    # The tasks.

    async def _read(self) -> None:
        try:
            while True:
                data = await self._stream.receive_some(_RECEIVED)
                if not data:
                    self._fail("the server closed the connection")
                    return
                self._heard, self._asked = trio.current_time(), False
                self._buffer = self._buffer + data if self._buffer else bytes(data)
                self._receive()
                if len(self._unsent) > MOST_UNSENT:
                    self._fail("the server does not read what it asks for")
        except ConnectionFault as fault:
            self._break(fault.code, fault.message)
        except CompressionError as error:
            self._break(frames.COMPRESSION_ERROR, str(error))
        except TooManyFields:
            self._break(frames.ENHANCE_YOUR_CALM, "a header block has too many fields")
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            self._fail(_reason(error))
        finally:
            self.close()

    async def _write(self) -> None:
        try:
            while True:
                await self._sendable.wait()
                self._sendable = trio.Event()
                data, self._unsent = bytes(self._unsent), bytearray()
                # Half a frame would end the connection: a close waits for the rest, but not for long.
                self._sending = trio.CancelScope(shield=True)
                with self._sending as scope:
                    await self._stream.send_all(data)
                if scope.cancelled_caught:
                    return
                self._sending = None
                if len(data) >= _FULL:
                    self._wake_senders()
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            self._fail(_reason(error))

    async def _watch_health(self) -> None:
        """Find a server that is silent, as clients of Kubernetes do, and a connection that nobody uses."""
        while True:
            now = trio.current_time()
            if not self._streams and now >= self._unused_since + UNUSED_SECONDS:
                self.close()
                return
            if now >= self._heard + SILENT_SECONDS:
                self._asked = True
                self.control(frames.frame(frames.PING, 0, 0, _PING))
                await trio.sleep(PING_SECONDS)
                if self._asked:
                    self._fail(f"the server did not respond to a PING within {PING_SECONDS:g} seconds")
                    return
            else:
                await trio.sleep_until(self._heard + SILENT_SECONDS)

    async def _say_goodbye(self) -> None:
        """Send what is left, and GOAWAY with it, unless the server is gone or a frame is half sent."""
        with trio.move_on_after(_GOODBYE_SECONDS, shield=True):
            try:
                if self._sending is None:
                    await self._stream.send_all(bytes(self._unsent))
            except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
                pass
        with trio.CancelScope(shield=True):
            await trio.aclose_forcefully(self._stream)

    def _fail(self, why: str) -> None:
        if self.failure is None:
            if not why:
                self._unsent += frames.goaway(0, frames.NO_ERROR)
            self.failure = why
            self._scope.cancel()
            if self._sending is not None:
                self._sending.deadline = trio.current_time() + _GOODBYE_SECONDS

    def _break(self, code: int, message: str) -> None:
        """End the connection because the server broke a rule."""
        if self.failure is None:
            self._unsent += frames.goaway(0, code, message)
            self._fail(f"the server broke a rule of HTTP/2: {message}")

    def _leave_when_done(self) -> None:
        if self.leaving and not self._streams:
            self.close()

    def _wake_senders(self) -> None:
        for stream in self._streams.values():
            if stream.waits_to_send:
                stream.wake()

    # What arrives.

    def _receive(self) -> None:
        buffer, position = self._buffer, 0
        while len(buffer) - position >= frames.HEAD_SIZE and self.failure is None:
            word, flags, number = frames.HEAD.unpack_from(buffer, position)
            size = word >> 8
            if size > frames.FRAME_SIZE:
                raise ConnectionFault(frames.FRAME_SIZE_ERROR, "a frame is larger than was announced")
            start = position + frames.HEAD_SIZE
            if len(buffer) < start + size:
                break
            position = start + size
            self._frame(word & 0xFF, flags, number & frames.STREAM_MASK, buffer[start:position])
        self._buffer = buffer[position:]

    def _frame(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if not self.ready.is_set() and (kind != frames.SETTINGS or flags & frames.ACK):
            raise ConnectionFault(frames.PROTOCOL_ERROR, "its first frame is not SETTINGS")
        if self._block is not None and (kind != frames.CONTINUATION or number != self._block_stream):
            raise ConnectionFault(frames.PROTOCOL_ERROR, "a header block is interrupted")
        if (kind in _ON_STREAM and not number) or (kind in _ON_CONNECTION and number):
            raise ConnectionFault(frames.PROTOCOL_ERROR, f"a frame of type {kind} is on stream {number}")
        if kind in _ON_STREAM and (number >= self._next or not number & 1):
            raise ConnectionFault(frames.PROTOCOL_ERROR, f"stream {number} was not opened")
        if len(payload) != _SIZES.get(kind, len(payload)):
            raise ConnectionFault(frames.FRAME_SIZE_ERROR, f"a frame of type {kind} has a wrong size")
        if kind == frames.DATA:
            self._data(flags, number, payload)
        elif kind == frames.HEADERS:
            self._headers(flags, number, payload)
        elif kind == frames.CONTINUATION:
            self._continue(flags, payload)
        elif kind == frames.SETTINGS:
            if not flags & frames.ACK:
                self._settings(payload)
        elif kind == frames.WINDOW_UPDATE:
            self._window(number, int.from_bytes(payload, "big") & frames.MAX_WINDOW)
        elif kind == frames.RST_STREAM:
            self._reset(number, int.from_bytes(payload, "big"))
        elif kind == frames.PING:
            if not flags & frames.ACK:
                self.control(frames.frame(frames.PING, frames.ACK, 0, payload))
        elif kind == frames.GOAWAY:
            self._goaway(payload)
        elif kind == frames.PUSH_PROMISE:
            raise ConnectionFault(frames.PROTOCOL_ERROR, "it pushes, which was not allowed")

    def _data(self, flags: int, number: int, payload: bytes) -> None:
        size = len(payload)
        self._received += size
        if self._received >= CONNECTION_WINDOW // 4:
            self.control(frames.window_update(0, self._received))
            self._received = 0
        stream = self._streams.get(number)
        if stream is None:
            return  # it was reset
        if not stream.status:
            raise ConnectionFault(frames.PROTOCOL_ERROR, f"data of stream {number} before its head")
        if stream.ended:
            raise ConnectionFault(frames.STREAM_CLOSED, f"data of stream {number} after its end")
        stream.receive_window -= size
        if stream.receive_window < 0:
            raise ConnectionFault(frames.FLOW_CONTROL_ERROR, f"the window of stream {number} is exceeded")
        if flags & frames.PADDED:
            payload = _without_padding(payload)
            stream.took(size - len(payload))
        stream.arrive(payload)
        if flags & frames.END_STREAM:
            stream.end()

    def _headers(self, flags: int, number: int, payload: bytes) -> None:
        if flags & frames.PADDED:
            payload = _without_padding(payload)
        if flags & frames.HAS_PRIORITY:
            payload = payload[5:]
        self._block, self._block_flags, self._block_stream = [], flags, number
        self._continue(flags, payload)

    def _continue(self, flags: int, payload: bytes) -> None:
        block = self._block
        if block is None:
            raise ConnectionFault(frames.PROTOCOL_ERROR, "a continuation of no header block")
        block.append(payload)
        # Empty ones count too.
        if sum(map(len, block)) > _MAX_HEAD or len(block) > 64:
            raise ConnectionFault(frames.ENHANCE_YOUR_CALM, "a header block is too large")
        if flags & frames.END_HEADERS:
            self._block = None
            # Also of streams that were reset: the table must stay in step.
            fields = self._decoder.decode(b"".join(block))
            stream = self._streams.get(self._block_stream)
            if stream is not None and not stream.ended:
                self._head(stream, fields)
                if self._block_flags & frames.END_STREAM:
                    if not stream.status:
                        self._refuse(stream, frames.PROTOCOL_ERROR, "a response has no head")
                    stream.end()

    def _head(self, stream: Stream, fields: list[Field] | None) -> None:
        """Take the head of a response. Informational ones and trailers say nothing."""
        if stream.status:
            return
        if fields is None:
            self._refuse(stream, frames.ENHANCE_YOUR_CALM, "the head of a response is too large")
            return
        status = fields[0][1] if fields and fields[0][0] == b":status" else b""
        if len(status) != 3 or not status.isdigit():
            self._refuse(stream, frames.PROTOCOL_ERROR, "a response has no status")
        elif not status.startswith(b"1"):
            stream.status, stream.headers = int(status), fields[1:]
            stream.wake()

    def _refuse(self, stream: Stream, code: int, why: str) -> None:
        self.control(frames.reset(stream.number, code))
        stream.end(StreamFailed(why))

    def _settings(self, payload: bytes) -> None:
        if len(payload) % 6:
            raise ConnectionFault(frames.FRAME_SIZE_ERROR, "a SETTINGS frame has a wrong size")
        for name, value in frames.parse_settings(payload):
            if name == frames.MAX_CONCURRENT_STREAMS:
                self.most_streams = min(value, MOST_STREAMS)
            elif name == frames.INITIAL_WINDOW_SIZE:
                for stream in self._streams.values():
                    stream.send_window += value - self._initial_window
                self._initial_window = value
                self._wake_senders()
        self.control(frames.SETTINGS_ACK)
        self.ready.set()

    def _window(self, number: int, increment: int) -> None:
        if not number:
            self._send_window += increment
            if not increment or self._send_window > frames.MAX_WINDOW:
                raise ConnectionFault(frames.FLOW_CONTROL_ERROR, "a window grows by nothing or too far")
            self._wake_senders()
        elif (stream := self._streams.get(number)) is not None and not stream.ended:
            stream.send_window += increment
            if not increment or stream.send_window > frames.MAX_WINDOW:
                self._refuse(stream, frames.FLOW_CONTROL_ERROR, "a window grows by nothing or too far")
            stream.wake()

    def _reset(self, number: int, code: int) -> None:
        stream = self._streams.get(number)
        if stream is None:
            return
        name = _CODES.get(code, str(code))
        if code == frames.REFUSED_STREAM and not stream.status:
            stream.end(NotProcessed(f"the server refused the stream ({name})"))
        else:
            stream.end(StreamFailed(f"the server reset the stream ({name})"))

    def _goaway(self, payload: bytes) -> None:
        """Open no new streams; those that the server has accepted go on to their end, or that of the connection."""
        if len(payload) < 8:
            raise ConnectionFault(frames.FRAME_SIZE_ERROR, "a GOAWAY frame has a wrong size")
        last = int.from_bytes(payload[:4], "big") & frames.STREAM_MASK
        code = int.from_bytes(payload[4:8], "big")
        self.leaving = True
        for number, stream in self._streams.items():
            if number > last:
                stream.end(NotProcessed(f"the server leaves ({_CODES.get(code, code)})"))
        self._leave_when_done()


def _literal(name: bytes, value: bytes) -> bytes:
    """A field that enters no table, and that no proxy may put into one if it is a secret."""
    first = b"\x10" if name in _NEVER_INDEXED else b"\x00"
    return first + encode_string(name) + encode_string(value)


def _without_padding(payload: bytes) -> bytes:
    if not payload or payload[0] >= len(payload):
        raise ConnectionFault(frames.PROTOCOL_ERROR, "the padding of a frame is as long as the frame")
    return payload[1 : len(payload) - payload[0]]


def _reason(error: Exception) -> str:
    return str(error.__cause__ or error) or "the connection was lost"
