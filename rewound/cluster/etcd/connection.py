"""gRPC calls over one HTTP/2 connection to a member of etcd (RFC 9113; gRPC over HTTP/2).

A call is a stream: its request is sent with all others that are ready, in one write, and its `Exchange` waits for the
reply. The connection's window is always open, so that an unread watch does not block calls; the window of a stream
opens again when its data has been read, which bounds the memory of a watch.

Requests never use HPACK's dynamic table, so a head is a constant. Heads of replies with indexed fields only, as nearly
all are, are decoded once for each state of etcd's table.

etcd's server sends a ping with every request that it receives, to estimate the bandwidth, unless it still waits for the
reply to one. We delay the reply a little: that saves a ping, a reply and a wake-up of both processes for each call, a
fifth of the CPU of a small call.
"""

from __future__ import annotations

import os
import socket
import ssl
import struct
from collections import deque
from math import inf
from typing import Final
from urllib.parse import unquote

import hpack
import trio

from rewound.actors.access.remote.deadlines import TooSlow
from rewound.cluster.etcd.replies import Lost, NotDone, failure
from rewound.gateway.outgoing.connections import cause_of
from rewound.gateway.outgoing.streams import ByteStream

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GO_AWAY, _WINDOW, _CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
_END_STREAM, _ACK, _END_HEADERS, _PADDED, _PRIORITY = 1, 1, 4, 8, 32
_INITIAL_WINDOW, _MAX_LIST = 4, 6  # settings
_REFUSED, _CANCEL = 7, 8  # reasons of a reset
_DEFAULT_WINDOW: Final = (1 << 16) - 1
_FRAME: Final = 1 << 14  # the largest that every peer accepts; we accept no larger ones either
_LAST_STREAM: Final = (1 << 31) - 1
STREAM_WINDOW: Final = 4 << 20  # bytes of a watch that may wait to be read, plus one message
_CONNECTION_WINDOW: Final = 1 << 30
_MAX_HEAD: Final = 64 << 10
PING_SECONDS: Final = 0.5  # before pings are answered; etcd gives a connection up after 20 s
_MOST_PINGS: Final = 16  # unanswered; etcd has at most two
# A range is read whole: pages of thousands of keys are far below.
MAX_MESSAGE: Final = 128 << 20


class Broken(Exception):
    """The peer does not speak HTTP/2 as it should, or ended the connection."""


class Exchange:
    """One call: a stream with one request, and the messages of its reply."""

    __slots__ = (
        "_arrived",
        "_connection",
        "_ended",
        "_failure",
        "_task",
        "_unread",
        "ends",
        "id",
        "rest",
        "sent",
        "window",
    )

    def __init__(self, connection: Connection, number: int, window: int, ends: bool) -> None:
        self.id = number
        self.ends = ends  # the request has one message
        self._connection = connection
        self.sent = False  # at least the head
        self.rest = b""  # of the request, waiting for the window
        self.window = window  # for what we send
        self._arrived = bytearray()
        self._unread = 0  # bytes for which the peer has not got a window again
        self._ended = False
        self._failure: Exception | None = None
        self._task: trio.lowlevel.Task | None = None

    async def message(self) -> bytes:
        """The next message of the reply. Raises NotDone, Lost or EtcdError; Lost at the end of the stream; TooSlow."""
        while True:
            found = self._take()
            if found is not None:
                return found
            if self._failure is not None:
                raise self._failure
            if self._ended:
                raise Lost("it ended the stream")
            await self._wait()

    async def reply(self) -> bytes:
        """The only message of a call that succeeded. Raises the same errors as `message`."""
        while not self._ended and self._failure is None:
            await self._wait()
        if self._failure is not None:
            raise self._failure
        found = self._take()
        if found is None:
            raise Lost("its reply is incomplete")
        return found

    def expire(self) -> None:
        self.finish(TooSlow())
        self.close()

    def close(self) -> None:
        """Close the call: the caller does not wait for more."""
        self.finish(Lost("it was closed"))
        self._connection.leave(self)

    # Called by the connection.

    def arrive(self, data: bytes) -> None:
        self._arrived += data
        self._unread += len(data)
        if len(self._arrived) > MAX_MESSAGE:
            self.finish(Lost(f"it sent a message of more than {MAX_MESSAGE} bytes"))
            self.close()
        elif self._unread >= STREAM_WINDOW // 2 and not self._complete():
            self._open_window()
        elif self._task is not None and self._complete():
            self._wake()

    def finish(self, why: Exception | None) -> None:
        if not self._ended and self._failure is None:
            self._ended, self._failure = why is None, why
            self._wake()

    def _complete(self) -> bool:
        arrived = self._arrived
        return len(arrived) >= 5 and len(arrived) >= 5 + int.from_bytes(arrived[1:5])

    def _take(self) -> bytes | None:
        if not self._complete():
            if self._unread >= STREAM_WINDOW // 4:  # a frame for every event would wake both processes
                self._open_window()
            return None
        arrived = self._arrived
        end = 5 + int.from_bytes(arrived[1:5])
        message = bytes(memoryview(arrived)[5:end])
        if arrived[0]:
            raise Lost("its reply is compressed, which was not requested")
        del arrived[:end]
        return message

    def _open_window(self) -> None:
        if not self._ended:
            self._connection.open_window(self.id, self._unread)
        self._unread = 0

    async def _wait(self) -> None:
        self._task = trio.lowlevel.current_task()

        def abort(_: object) -> trio.lowlevel.Abort:
            self._task = None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    def _wake(self) -> None:
        if self._task is not None:
            task, self._task = self._task, None
            trio.lowlevel.reschedule(task)


class Connection:
    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._exchanges: dict[int, Exchange] = {}
        self._next = 1
        self._usable = True
        self.heard = -inf  # when data arrived last
        self._out: list[bytes] = []
        self._has_out = trio.Event()
        settings = struct.pack(">HIHI", _INITIAL_WINDOW, STREAM_WINDOW, _MAX_LIST, _MAX_HEAD)
        self._queue(_PREFACE + _frame(_SETTINGS, 0, 0, settings))
        self.open_window(0, _CONNECTION_WINDOW - _DEFAULT_WINDOW)
        self._unsent: list[Exchange] = []  # whose heads are in `_out`
        self._window, self._stream_window = _DEFAULT_WINDOW, _DEFAULT_WINDOW  # for what we send
        self._blocked: deque[Exchange] = deque()  # that wait for a window
        self._unread = 0  # bytes for which the peer has not got the connection's window again
        self._decoder = hpack.Decoder()
        self._decoder.max_header_list_size = _MAX_HEAD
        self._decoded: dict[bytes, dict[bytes, bytes]] = {}
        self._head: tuple[int, int, bytes] | None = None  # stream, flags, and the beginning of a block
        self._pings: list[bytes] = []  # whose replies are due
        self._has_pings = trio.Event()

    @property
    def usable(self) -> bool:
        """Whether it accepts new calls."""
        return self._usable and self._next <= _LAST_STREAM

    async def run(self) -> None:
        """Send and receive until the connection ends, which ends all calls."""
        why = "the connection was closed"
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._write)
                nursery.start_soon(self._reply_to_pings)
                try:
                    await self._read()
                except TooSlow:
                    pass  # `fail` has closed the stream, and said why
                except (OSError, Broken) as error:
                    why = shown(error)
                nursery.cancel_scope.cancel()
        finally:
            self.fail(why)

    def fail(self, why: str) -> None:
        """End the connection and its calls: those whose heads were not sent yet are NotDone, the others Lost."""
        self._usable = False
        exchanges, self._exchanges = self._exchanges, {}
        for exchange in exchanges.values():
            exchange.finish(Lost(why) if exchange.sent else NotDone(why))
        self._stream.close()

    def start(self, head: bytes, message: bytes, *, ends: bool) -> Exchange:
        """Send a request, whose header block is `head`. `ends`: no further message follows."""
        exchange = Exchange(self, self._next, self._stream_window, ends)
        self._next += 2
        self._exchanges[exchange.id] = exchange
        data = b"\0%b%b" % (len(message).to_bytes(4), message)
        self._queue(_frame(_HEADERS, _END_HEADERS, exchange.id, head))
        self._unsent.append(exchange)
        if not self._blocked and len(data) <= min(_FRAME, self._window, exchange.window):
            self._window -= len(data)
            exchange.window -= len(data)
            self._queue(_frame(_DATA, _END_STREAM if ends else 0, exchange.id, data))
        else:
            exchange.rest = data
            self._blocked.append(exchange)
            self._send_blocked()
        return exchange

    def leave(self, exchange: Exchange) -> None:
        if self._exchanges.pop(exchange.id, None) is not None:
            self._reset(exchange)

    def _reset(self, exchange: Exchange) -> None:
        """Reset the stream, even if a part of the request was not sent."""
        self._queue(_frame(_RESET, 0, exchange.id, _CANCEL.to_bytes(4)))
        if exchange.rest:
            exchange.rest = b""
            self._blocked.remove(exchange)

    def open_window(self, number: int, size: int) -> None:
        self._queue(_frame(_WINDOW, 0, number, size.to_bytes(4)))

    # Sending.

    def _queue(self, frames: bytes) -> None:
        self._out.append(frames)
        if len(self._out) == 1:
            self._has_out.set()

    async def _write(self) -> None:
        try:
            while True:
                await self._has_out.wait()
                self._has_out = trio.Event()
                out, self._out = self._out, []
                for exchange in self._unsent:
                    exchange.sent = True
                self._unsent.clear()
                await self._stream.send(b"".join(out))
        except (OSError, TooSlow):
            pass  # the task that reads says why, perhaps after replies that have arrived

    async def _reply_to_pings(self) -> None:
        while True:
            await self._has_pings.wait()
            await trio.sleep(PING_SECONDS)
            self._send_ping_replies()

    def _send_ping_replies(self) -> None:
        pings, self._pings, self._has_pings = self._pings, [], trio.Event()
        for body in pings:
            self._queue(_frame(_PING, _ACK, 0, body))

    def _send_blocked(self) -> None:
        """Send as much of the waiting requests as the windows allow, in order."""
        for _ in range(len(self._blocked)):
            exchange = self._blocked.popleft()
            while (
                exchange.rest and (size := min(_FRAME, self._window, exchange.window, len(exchange.rest))) > 0
            ):
                part, exchange.rest = exchange.rest[:size], exchange.rest[size:]
                self._window -= size
                exchange.window -= size
                flags = _END_STREAM if exchange.ends and not exchange.rest else 0
                self._queue(_frame(_DATA, flags, exchange.id, part))
            if exchange.rest:
                self._blocked.append(exchange)

    # Receiving.

    async def _read(self) -> None:
        buffer = b""
        while arrived := await self._stream.receive():
            self.heard = trio.current_time()
            buffer = buffer + arrived if buffer else arrived
            at = 0
            while len(buffer) - at >= 9:
                size = buffer[at] << 16 | buffer[at + 1] << 8 | buffer[at + 2]
                if size > _FRAME:
                    raise Broken("it does not speak HTTP/2: is it a client URL of etcd?")
                end = at + 9 + size
                if end > len(buffer):
                    break
                number = int.from_bytes(buffer[at + 5 : at + 9]) & _LAST_STREAM
                self._frame(buffer[at + 3], buffer[at + 4], number, buffer[at + 9 : end])
                at = end
            buffer = buffer[at:]

    def _frame(self, kind: int, flags: int, number: int, body: bytes) -> None:
        if kind == _DATA:
            self._data(flags, number, body)
        elif kind in (_HEADERS, _CONTINUATION):
            self._block(kind, flags, number, body)
        elif kind == _WINDOW:
            self._window_update(number, int.from_bytes(body) & _LAST_STREAM)
        elif kind == _SETTINGS and not flags & _ACK:
            self._settings(body)
        elif kind == _PING and not flags & _ACK:
            self._pings.append(body)
            self._has_pings.set()
            if len(self._pings) > _MOST_PINGS:
                self._send_ping_replies()
        elif kind == _RESET:
            reason = int.from_bytes(body)
            kind_of = NotDone if reason == _REFUSED else Lost
            self._finish(number, kind_of(f"it reset the stream (reason {reason})"))
        elif kind == _GO_AWAY:
            self._go_away(int.from_bytes(body[:4]) & _LAST_STREAM)

    def _data(self, flags: int, number: int, body: bytes) -> None:
        self._unread += len(body)
        if self._unread >= _CONNECTION_WINDOW // 4:
            self.open_window(0, self._unread)
            self._unread = 0
        exchange = self._exchanges.get(number)
        if exchange is not None:
            exchange.arrive(_unpadded(flags, body))
            if flags & _END_STREAM:
                self._finish(number, Lost("its reply has no status"))

    def _block(self, kind: int, flags: int, number: int, body: bytes) -> None:
        """Handle a header block, or a part of one."""
        if kind == _HEADERS:
            body = _unpadded(flags, body)
            first, begun = flags, body[5:] if flags & _PRIORITY else body
        elif self._head is None or self._head[0] != number:
            raise Broken("it sent a part of a head where none begins")
        else:
            _, first, begun = self._head
            begun += body
        if len(begun) > _MAX_HEAD:
            raise Broken("it sent a head that is too large")
        self._head = None if flags & _END_HEADERS else (number, first, begun)
        if flags & _END_HEADERS:
            self._fields(number, self._decode(begun), ends=bool(first & _END_STREAM))

    def _decode(self, block: bytes) -> dict[bytes, bytes]:
        known = self._decoded.get(block)
        if known is not None:
            return known
        try:
            fields = dict(self._decoder.decode(block, raw=True))
        except hpack.HPACKError:
            raise Broken("it sent a head that cannot be decoded") from None
        if all(
            0x80 < byte < 0xFF for byte in block
        ):  # indexed fields, in one byte each: they change no table
            self._decoded[block] = fields
        else:
            self._decoded.clear()
        return fields

    def _fields(self, number: int, fields: dict[bytes, bytes], *, ends: bool) -> None:
        status = fields.get(b":status", b"200")
        if status != b"200":
            self._finish(number, Lost(f"it responded with status {status.decode('latin-1')}"))
        elif ends:
            code = fields.get(b"grpc-status", b"")
            if code == b"0":
                self._finish(number, None)
            elif code.isdigit():
                message = unquote(fields.get(b"grpc-message", b"").decode("latin-1"))
                self._finish(number, failure(int(code), message))
            else:
                self._finish(number, Lost("its reply has no status"))

    def _finish(self, number: int, why: Exception | None) -> None:
        exchange = self._exchanges.pop(number, None)
        if exchange is not None:
            exchange.finish(why)
            if exchange.rest:  # refused before the whole request was sent
                self._reset(exchange)

    def _window_update(self, number: int, size: int) -> None:
        if not number:
            self._window += size
        elif (exchange := self._exchanges.get(number)) is not None:
            exchange.window += size
        self._send_blocked()

    def _settings(self, body: bytes) -> None:
        for name, value in struct.iter_unpack(">HI", body):
            if name == _INITIAL_WINDOW:
                for exchange in self._exchanges.values():
                    exchange.window += value - self._stream_window
                self._stream_window = value
        self._queue(_frame(_SETTINGS, _ACK, 0, b""))
        self._send_blocked()

    def _go_away(self, last: int) -> None:
        """Handle GOAWAY: no new calls, and those after its last stream are not done."""
        self._usable = False
        for number in [one for one in self._exchanges if one > last]:
            self._finish(number, NotDone("it closes the connection"))


def _frame(kind: int, flags: int, number: int, body: bytes) -> bytes:
    return b"%b%c%c%b%b" % (len(body).to_bytes(3), kind, flags, number.to_bytes(4), body)


def _unpadded(flags: int, body: bytes) -> bytes:
    return body[1 : len(body) - body[0]] if flags & _PADDED and body else body


def header_block(path: str, authority: str, tls: bool, fields: dict[str, str]) -> bytes:
    """The head of a request. Nothing enters the peer's table, so it is the same for every connection."""
    pairs = {"content-type": "application/grpc", "te": "trailers", **fields}
    return b"".join(
        (
            b"\x83\x87" if tls else b"\x83\x86",  # POST, and https or http
            b"\x04" + _string(path),
            b"\x01" + _string(authority),
            *(b"\x10" + _string(name) + _string(value) for name, value in pairs.items()),
        )
    )


def _string(text: str) -> bytes:
    data = text.encode("latin-1")
    size = len(data)
    if size < 127:
        return b"%c%b" % (size, data)
    length, rest = bytearray((127,)), size - 127
    while rest > 127:
        length.append(rest & 127 | 128)
        rest >>= 7
    length.append(rest)
    return bytes(length) + data


def shown(error: Exception) -> str:
    """Describe why a connection failed."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not valid: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed ({(error.reason or 'unknown').replace('_', ' ').lower()})"
    if isinstance(error, socket.gaierror):
        return "no such host"
    if isinstance(error, OSError) and (number := cause_of(error).errno):
        return os.strerror(number).lower()
    return str(error) or type(error).__name__
