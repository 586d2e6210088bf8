"""HTTP/3 for `--transport asgi`: Hypercorn's `H3Protocol` over aioquic, with an endpoint of our own.

One task reads the UDP socket and passes each datagram to its connection. A connection has a task of its own, so that
one that waits or fails does not affect others. If a connection is waiting, only a few datagrams are queued for it and
more are dropped; QUIC sends them again. Requests have no client certificate, because aioquic does not ask for one.

aioquic buffers the data of a stream without a limit. So the connection counts what it passed to aioquic, reads from
the log of packets what was sent, and lets a body wait until little is left in between.

Rejected: Hypercorn's own endpoint (`QuicProtocol`). It has no such limit, does not notify an application when its
client disconnects, and terminates the server on a frame for a stream that has ended.
"""

from __future__ import annotations

import logging
import socket
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any, Final

import trio
from aioquic.buffer import Buffer  # type: ignore[attr-defined]
from aioquic.h3.connection import H3_ALPN, ErrorCode
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import (
    ConnectionIdIssued,
    ConnectionIdRetired,
    ConnectionTerminated,
    ProtocolNegotiated,
    QuicEvent,
    StopSendingReceived,
    StreamReset,
)
from aioquic.quic.logger import QuicLogger, QuicLoggerTrace
from aioquic.quic.packet import QuicPacketType, encode_quic_version_negotiation, pull_quic_header
from hypercorn.config import Config
from hypercorn.protocol.events import Body, Data, EndBody, EndData, Event, StreamClosed
from hypercorn.protocol.h3 import H3Protocol
from hypercorn.trio.task_group import TaskGroup
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import AppWrapper, ConnectionState

from rewound.gateway.connections.asgi.scopes import CONNECTION, AcceptedConnection
from rewound.gateway.connections.listen import CannotListen
from rewound.gateway.connections.responder import log
from rewound.gateway.connections.server_state import ServerState
from rewound.gateway.message import Peer
from rewound.gateway.settings.server_config import QUIC

_DATAGRAM: Final = 2**16
_QUEUED: Final = 64  # datagrams queued for a connection
_UNSENT: Final = 64 * 1024  # unsent bytes of a stream above which its body waits
_CID: Final = 8  # bytes
_SMALLEST_INITIAL: Final = 1200  # smallest first datagram of a client, in bytes

Datagram = tuple[bytes, Any]  # a datagram and its source address


class _Streams(QuicLoggerTrace):
    """aioquic's log of one connection, which records only how far each stream has been sent."""

    def __init__(self, *, is_client: bool, odcid: bytes) -> None:
        super().__init__(is_client=is_client, odcid=odcid)
        self.given: dict[int, int] = {}  # bytes sent, by stream
        self.sent: dict[int, int] = {}

    def log_event(self, *, category: str, event: str, data: dict[str, Any]) -> None:
        if event == "packet_sent":
            for frame in data["frames"]:
                if frame["frame_type"] == "stream" and frame["stream_id"] in self.given:
                    number, end = frame["stream_id"], frame["offset"] + frame["length"]
                    self.sent[number] = max(self.sent.get(number, 0), end)

    def unsent(self, number: int) -> int:
        """How many bytes of a stream are waiting to be sent."""
        return self.given.get(number, 0) - self.sent.get(number, 0)

    def forget(self, number: int) -> None:
        self.given.pop(number, None)
        self.sent.pop(number, None)


class _Log(QuicLogger):
    """Creates the log of one connection."""

    streams: _Streams

    def start_trace(self, is_client: bool, odcid: bytes) -> QuicLoggerTrace:
        self.streams = _Streams(is_client=is_client, odcid=odcid)
        return self.streams

    def end_trace(self, trace: QuicLoggerTrace) -> None:
        pass


class _Quic(QuicConnection):
    """A QUIC connection that counts how many bytes of each stream are waiting to be sent."""

    def __init__(self, configuration: QuicConfiguration, first: bytes) -> None:
        quic_log = _Log()
        super().__init__(
            configuration=replace(configuration, quic_logger=quic_log),
            original_destination_connection_id=first,
        )
        self.streams = quic_log.streams

    def send_stream_data(self, stream_id: int, data: bytes, end_stream: bool = False) -> None:
        given = self.streams.given
        given[stream_id] = given.get(stream_id, 0) + len(data)
        super().send_stream_data(stream_id, data, end_stream)


class _Http3(H3Protocol):
    """Hypercorn's protocol. Streams end when their clients end them, and take no more than can be sent soon."""

    def __init__(self, owner: _Connection, state: ConnectionState) -> None:
        endpoint = owner.endpoint
        super().__init__(
            endpoint.application,
            endpoint.config,
            endpoint.context,
            owner.tasks,
            state,
            owner.address[:2],
            endpoint.address[:2],
            owner.quic,
            owner.transmit,
        )
        self._owner = owner
        self._ended: set[int] = set()  # streams whose response is complete

    async def handle(self, quic_event: QuicEvent) -> None:
        try:
            await super().handle(quic_event)
        except KeyError:
            pass  # the response is complete and the stream was dropped
        if isinstance(quic_event, StreamReset | StopSendingReceived):
            self.drop(quic_event.stream_id)

    def drop(self, stream_id: int) -> None:
        """Forget a stream that the client has ended."""
        stream = self.streams.pop(stream_id, None)
        if stream is not None:
            self.task_group.spawn(stream.handle, StreamClosed(stream_id=stream_id))
        self._owner.wake()

    def drop_all(self) -> None:
        for stream_id in list(self.streams):
            self.drop(stream_id)

    async def stream_send(self, event: Event) -> None:
        number, owner = event.stream_id, self._owner
        if isinstance(event, Body | Data):
            for at in range(0, len(event.data), _UNSENT):
                await self._wait_below(number, _UNSENT)
                if self._is_open(number):
                    part = type(event)(stream_id=number, data=event.data[at : at + _UNSENT])
                    await super().stream_send(part)
        elif not self._is_open(number):
            return  # the client has ended it; the application will notice
        elif isinstance(event, EndBody | EndData):
            await super().stream_send(event)
            await self._wait_below(number, 1)
            self._ended.add(number)
        elif isinstance(event, StreamClosed):
            if number not in self._ended:
                owner.quic.reset_stream(number, ErrorCode.H3_INTERNAL_ERROR)
                await owner.transmit()
            self._ended.discard(number)
            owner.quic.streams.forget(number)
            await super().stream_send(event)
        else:
            await super().stream_send(event)

    def _is_open(self, number: int) -> bool:
        return number in self.streams and not self._owner.ended

    async def _wait_below(self, number: int, size: int) -> None:
        """Wait until a stream has fewer unsent bytes, or has ended."""
        owner = self._owner
        while self._is_open(number) and owner.quic.streams.unsent(number) >= size:
            await owner.changed.wait()


class _Connection:
    """One client: its task handles its datagrams and aioquic's timer."""

    def __init__(self, endpoint: Http3Endpoint, first: bytes, address: Any) -> None:
        self.endpoint = endpoint
        self.address = address
        self.quic = _Quic(endpoint.configuration, first)
        self.cids = {first, self.quic.host_cid}
        self.tasks: TaskGroup
        self.ended = False
        self._http3: _Http3 | None = None
        self._put, self._take = trio.open_memory_channel[Datagram](_QUEUED)
        self.changed = trio.Event()  # set when packets were sent, or a stream or the connection has ended
        self._waiting = trio.CancelScope()

    def feed(self, datagram: Datagram) -> None:
        """Queue a datagram, or drop it, as if the network had lost it."""
        try:
            self._put.send_nowait(datagram)
        except trio.WouldBlock:
            pass

    async def run(self) -> None:
        try:
            async with TaskGroup() as self.tasks:
                while not self.ended:
                    await self._step()
                if self._http3 is not None:
                    self._http3.drop_all()
        except* (OSError, trio.ClosedResourceError):
            pass
        except* Exception:
            log.exception("a connection of HTTP/3 failed")
        finally:
            self.ended = True
            self.wake()
            self.endpoint.forget(self)

    async def _step(self) -> None:
        """Handle the next datagram, or the timer."""
        quic = self.quic
        data, address = b"", None
        self._waiting = trio.CancelScope()
        self._set_timer()
        with self._waiting:
            data, address = await self._take.receive()
        if not data:
            quic.handle_timer(now=trio.current_time())
        else:
            quic.receive_datagram(data, address, now=trio.current_time())
        while (event := quic.next_event()) is not None:
            await self._handle(event)
        await self.transmit()

    async def _handle(self, event: QuicEvent) -> None:
        if isinstance(event, ConnectionTerminated):
            self.ended = True
        elif isinstance(event, ProtocolNegotiated):
            peer = Peer(address=str(self.address[0]), secure=True)
            self._http3 = _Http3(self, ConnectionState({CONNECTION: AcceptedConnection(peer)}))
        elif isinstance(event, ConnectionIdIssued):
            self.cids.add(event.connection_id)
            self.endpoint.connections[event.connection_id] = self
        elif isinstance(event, ConnectionIdRetired):
            self.cids.discard(event.connection_id)
            self.endpoint.connections.pop(event.connection_id, None)
        if self._http3 is not None:
            await self._http3.handle(event)

    async def transmit(self) -> None:
        """Send what may be sent now; the rest follows when the client has acknowledged some of it."""
        for data, address in self.quic.datagrams_to_send(now=trio.current_time()):
            await self.endpoint.send(data, address)
        self._set_timer()
        self.wake()

    def _set_timer(self) -> None:
        timer = self.quic.get_timer()
        self._waiting.deadline = inf if timer is None else timer

    def wake(self) -> None:
        changed, self.changed = self.changed, trio.Event()
        changed.set()

    @property
    def busy(self) -> bool:
        """Whether it has requests in progress."""
        return self._http3 is not None and bool(self._http3.streams)

    def close(self) -> None:
        self.quic.close(error_code=ErrorCode.H3_NO_ERROR)


class Http3Endpoint:
    def __init__(
        self,
        server: ServerState,
        application: AppWrapper,
        config: Config,
        context: WorkerContext,
        sock: socket.socket,
    ) -> None:
        self._server = server
        self.application = application
        self.config = config
        self.context = context
        self.address = sock.getsockname()
        self.connections: dict[bytes, _Connection] = {}
        self._all: set[_Connection] = set()
        self._socket = trio.socket.from_stdlib_socket(sock)
        self.load_certificate()
        logging.getLogger("quic").setLevel(logging.WARNING)  # otherwise it logs every connection
        self._versions = self.configuration.supported_versions

    def load_certificate(self) -> None:
        """Use the certificate and the key in their files from now on. Connections keep those with which they began."""
        config = self.config
        assert config.certfile is not None and config.keyfile is not None, (
            "the settings require a secure port"
        )
        configuration = QuicConfiguration(
            alpn_protocols=H3_ALPN, is_client=False, idle_timeout=self._server.limits.idle_seconds
        )
        configuration.load_cert_chain(Path(config.certfile), Path(config.keyfile))
        self.configuration = configuration

    async def send(self, data: bytes, address: Any) -> None:
        try:
            await self._socket.sendto(data, address)
        except OSError:
            pass  # as if the network had lost the datagram

    async def serve(self, stop: trio.Event) -> None:
        """Serve until `stop`, then until all requests are complete or the grace period is over."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._read, nursery)
            await stop.wait()
            with trio.move_on_after(self.config.graceful_timeout):
                while any(one.busy for one in self._all):
                    await trio.sleep(0.05)
            for connection in list(self._all):
                connection.close()
                await connection.transmit()
            nursery.cancel_scope.cancel()
        self._socket.close()

    async def _read(self, nursery: trio.Nursery) -> None:
        while True:
            data, address = await self._socket.recvfrom(_DATAGRAM)
            try:
                header = pull_quic_header(Buffer(data=data), host_cid_length=_CID)
            except ValueError:
                continue
            if header.version is not None and header.version not in self._versions:
                await self._negotiate_version(header, address)
                continue
            connection = self.connections.get(header.destination_cid)
            if connection is None:
                initial = header.packet_type is QuicPacketType.INITIAL and len(data) >= _SMALLEST_INITIAL
                if not initial or not self._has_room():
                    continue
                connection = self._accept(header.destination_cid, address)
                nursery.start_soon(connection.run)
            connection.feed((data, address))

    def _has_room(self) -> bool:
        terminated = self.context.terminated.is_set()
        return not terminated and len(self._all) < self._server.limits.connections

    def _accept(self, first: bytes, address: Any) -> _Connection:
        connection = _Connection(self, first, address)
        self._all.add(connection)
        self._server.accepted += 1
        for cid in connection.cids:
            self.connections[cid] = connection
        return connection

    async def _negotiate_version(self, header: Any, address: Any) -> None:
        data = encode_quic_version_negotiation(
            source_cid=header.destination_cid,
            destination_cid=header.source_cid,
            supported_versions=self._versions,
        )
        await self.send(data, address)

    def forget(self, connection: _Connection) -> None:
        self._all.discard(connection)
        for cid in connection.cids:
            self.connections.pop(cid, None)


def open_socket(bind: str) -> socket.socket:
    """Open the UDP socket. Raises CannotListen."""
    host, _, port = bind.rpartition(":")
    host = host.strip("[]")
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
    try:
        sock.bind((host, int(port)))
    except OSError as error:
        sock.close()
        unknown = isinstance(error, socket.gaierror)
        raise CannotListen(
            f"{QUIC}{bind}", error.errno or 0, error.strerror or str(error), unknown_host=unknown
        ) from None
    sock.setblocking(False)
    return sock
