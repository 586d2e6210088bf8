"""The transports of a watch from the client's side, without a socket: bytes in, complete documents out.

Framing is strict: a chunk, a text frame or a line that is not exactly one event fails the test.
"""

from __future__ import annotations

import h2.config
import h2.connection
import h2.events
import wsproto
from wsproto.events import AcceptConnection, CloseConnection, Ping, RejectConnection, Request, TextMessage
from wsproto.utilities import ProtocolError

from tests.gateway.goaway import GoAwayFilter
from tests.robustness.cluster import LOOPBACK, TOKEN

_AUTHORIZATION = f"Bearer {TOKEN}"
EXPECTED_CLOSE_CODES = (1000, 1001, 1008, 1011)


class BadFraming(AssertionError):
    """Received bytes that are not one complete event in the framing of the transport."""


class Transport:
    """`status` is 0 until the response begins; `finished`: the stream ended as its protocol says."""

    secure = False
    protocols: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.status = 0
        self.finished = False

    @property
    def open(self) -> bool:
        return self.status in (0, 101, 200)

    def request(self, target: str) -> None:
        raise NotImplementedError

    def outgoing(self) -> bytes:
        """The bytes to send now."""
        raise NotImplementedError

    def receive(self, data: bytes) -> list[bytes]:
        """The documents that are complete with these bytes."""
        raise NotImplementedError


class Http1(Transport):
    """HTTP/1.1: each chunk is one event and its line feed."""

    def __init__(self) -> None:
        super().__init__()
        self._out = b""
        self._buffer = b""

    def request(self, target: str) -> None:
        self._out = f"GET {target} HTTP/1.1\r\nHost: t\r\nAuthorization: {_AUTHORIZATION}\r\n\r\n".encode()

    def outgoing(self) -> bytes:
        out, self._out = self._out, b""
        return out

    def receive(self, data: bytes) -> list[bytes]:
        self._buffer += data
        if not self.status and not self._head():
            return []
        found: list[bytes] = []
        while self.status == 200 and not self.finished and (chunk := self._chunk()) is not None:
            if chunk:
                found.append(chunk)
        return found

    def _head(self) -> bool:
        head, end, rest = self._buffer.partition(b"\r\n\r\n")
        if end:
            self.status, self._buffer = int(head.split()[1]), rest
        return bool(end)

    def _chunk(self) -> bytes | None:
        line, end, rest = self._buffer.partition(b"\r\n")
        size = int(line, 16) if end else 0
        if not end or len(rest) < size + 2:
            return None
        chunk, mark, self._buffer = rest[:size], rest[size : size + 2], rest[size + 2 :]
        if mark != b"\r\n" or (size and (chunk.count(b"\n") != 1 or not chunk.endswith(b"\n"))):
            raise BadFraming(f"a chunk that is not an event: {chunk[-200:] + mark!r}")
        self.finished = not size
        return chunk


class Http1Tls(Http1):
    secure = True
    protocols = ("http/1.1",)


class WebSocket(Transport):
    """WebSocket: each text frame is one event."""

    def __init__(self) -> None:
        super().__init__()
        self._connection = wsproto.WSConnection(wsproto.ConnectionType.CLIENT)
        self._out = b""
        self._text = ""

    def request(self, target: str) -> None:
        headers = [(b"authorization", _AUTHORIZATION.encode())]
        self._out += self._connection.send(Request(host=LOOPBACK, target=target, extra_headers=headers))

    def outgoing(self) -> bytes:
        out, self._out = self._out, b""
        return out

    def receive(self, data: bytes) -> list[bytes]:
        self._connection.receive_data(data)
        found: list[bytes] = []
        try:
            for event in self._connection.events():
                self._handle(event, found)
        except ProtocolError as error:
            raise BadFraming(str(error)) from error
        return found

    def _handle(self, event: object, found: list[bytes]) -> None:
        match event:
            case AcceptConnection():
                self.status = 101
            case RejectConnection(status_code=status):
                self.status = status
            case TextMessage(data=text, message_finished=whole):
                self._text += text
                if whole:
                    found.append(self._text.encode())
                    self._text = ""
            case Ping():
                self._out += self._connection.send(event.response())
            case CloseConnection(code=code):
                self.finished = code in EXPECTED_CLOSE_CODES
                self._out += self._connection.send(event.response())
            case _:
                raise BadFraming(f"{event} in a watch")


class WebSocketTls(WebSocket):
    secure = True
    protocols = ("http/1.1",)


class Http2(Transport):
    """HTTP/2: events as lines of one stream."""

    secure = True
    protocols = ("h2",)

    def __init__(self) -> None:
        super().__init__()
        self._connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
        self._goaway = GoAwayFilter()
        self._buffer = b""

    def request(self, target: str) -> None:
        self._connection.initiate_connection()
        pseudo = [(":method", "GET"), (":path", target), (":scheme", "https"), (":authority", LOOPBACK)]
        self._connection.send_headers(1, [*pseudo, ("authorization", _AUTHORIZATION)], end_stream=True)

    def outgoing(self) -> bytes:
        return self._connection.data_to_send()

    def receive(self, data: bytes) -> list[bytes]:
        for event in self._connection.receive_data(self._goaway.without_goaway(data)):
            self._handle(event)
        *lines, self._buffer = self._buffer.split(b"\n")
        if self.finished and self._buffer and self.status == 200:
            raise BadFraming(f"the stream ended in the middle of an event: {self._buffer[-200:]!r}")
        return lines if self.status == 200 else []

    def _handle(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.ResponseReceived(headers=headers):
                self.status = int(dict(headers)[b":status"])
            case h2.events.DataReceived(data=data, flow_controlled_length=length):
                self._buffer += data
                self._connection.acknowledge_received_data(length, 1)
            case h2.events.StreamEnded():
                self.finished = True


TRANSPORTS: tuple[type[Transport], ...] = (Http1, Http1Tls, WebSocket, WebSocketTls, Http2)
