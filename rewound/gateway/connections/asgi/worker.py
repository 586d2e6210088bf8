"""`rewound serve --transport asgi`: Hypercorn's HTTP/1.1 and HTTP/2 on our connections, with the same application.

It replaces `gateway.connections.server.Server`, and uses it for everything but the protocol: listeners, TLS, client
certificates, the limits of connections and handshakes, the order of stopping. Each accepted connection gets
Hypercorn's `TCPServer`, which sees our transport as a trio stream. So requests have the peer's certificate in the
state of their scope, which Hypercorn's own worker does not pass on.

Rejected: `hypercorn.trio.serve`. It shields a send from every time limit, and one error in a connection (for example
a DATA frame for a stream that has ended) ends all of them: we use its protocols, not its worker.
"""

from __future__ import annotations

import ssl
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Final, cast

import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ASGIFramework, ConnectionState

from rewound.actors.certificates.pools import TrustPools
from rewound.gateway.connections.arriving import Fault
from rewound.gateway.connections.asgi.requests import AsgiRequests
from rewound.gateway.connections.asgi.scopes import CONNECTION, AcceptedConnection
from rewound.gateway.connections.asgi.strict_syntax import HTTP2_PREFACE, StrictSyntax
from rewound.gateway.connections.http1.connection import HTTP1, closing_bytes
from rewound.gateway.connections.limits import KIB, Limits
from rewound.gateway.connections.listen import Listener
from rewound.gateway.connections.responder import Handle, Refuse, log
from rewound.gateway.connections.server import Server
from rewound.gateway.connections.server_state import ServerState, ServerStatistics
from rewound.gateway.connections.transport import Transport
from rewound.gateway.exchange import RequestObserver
from rewound.gateway.memory.budget import MemoryBudget
from rewound.gateway.message import Peer
from rewound.gateway.settings.server_config import Address

if TYPE_CHECKING:
    from rewound.gateway.connections.asgi.http3 import Http3Endpoint

# Bytes of a message that are encrypted at once.
_SLICE: Final = 256 * KIB
_PING_SECONDS: Final = 30.0
_BROKEN: Final = (OSError, trio.ClosedResourceError, trio.BrokenResourceError)


class HypercornServer:
    def __init__(
        self,
        handle: Handle,
        refuse: Refuse,
        limits: Limits,
        observer: RequestObserver | None = None,
        memory: MemoryBudget | None = None,
    ) -> None:
        self.quic_address: Address | None = None  # where it listens for HTTP/3
        self._endpoints: list[Http3Endpoint] = []
        self._server = Server(
            handle, refuse, limits, observer, memory, serve_connection=self._serve_connection
        )
        self._requests = AsgiRequests(self._server.state)
        self._application = ASGIWrapper(cast(ASGIFramework, self._requests))
        self._context = WorkerContext(None)
        self._config = Config()  # set by `serve`

    def statistics(self) -> ServerStatistics:
        return self._server.statistics()

    def replace_handler(self, handle: Handle) -> None:
        self._server.replace_handler(handle)

    def replace_tls(self, context: ssl.SSLContext, pools: TrustPools | None) -> None:
        """Also for HTTP/3, whose certificate is read from the files that the configuration names."""
        self._server.replace_tls(context, pools)
        for endpoint in self._endpoints:
            endpoint.load_certificate()

    async def serve(
        self,
        config: Config,
        *,
        tls: ssl.SSLContext | None,
        stop: trio.Event,
        pools: TrustPools | None = None,
        task_status: trio.TaskStatus[list[Listener]] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        self._config = config
        _set_protocol_options(config)
        async with trio.open_nursery() as nursery:
            for bind in config.quic_bind:
                self._listen_quic(bind, nursery, stop)
            nursery.start_soon(self._end_at, stop)
            await self._server.serve(config, tls=tls, stop=stop, pools=pools, task_status=task_status)

    def _listen_quic(self, bind: str, nursery: trio.Nursery, stop: trio.Event) -> None:
        """Serve HTTP/3, and announce it in the responses of the other protocols. Raises CannotListen."""
        from rewound.gateway.connections.asgi.http3 import Http3Endpoint, open_socket

        sock, config = open_socket(bind), self._config
        self.quic_address = sock.getsockname()[:2]
        config.alt_svc_headers = [f'h3=":{self.quic_address[1]}"; ma=3600']
        endpoint = Http3Endpoint(self._server.state, self._application, config, self._context, sock)
        self._endpoints.append(endpoint)
        nursery.start_soon(endpoint.serve, stop)

    async def _end_at(self, stop: trio.Event) -> None:
        """Make connections end after the requests that they have."""
        await stop.wait()
        await self._context.terminated.set()

    async def _serve_connection(self, transport: Transport, peer: Peer) -> None:
        """Serve one connection."""
        accepted = AcceptedConnection(peer, transport)
        state = ConnectionState({CONNECTION: accepted})
        stream = (_TlsStream if peer.secure else _Stream)(transport, self._server.state, accepted)
        serve = partial(TCPServer, self._application, self._config, self._context)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_end_with_client, stream, accepted, nursery.cancel_scope)
                await serve(state, cast("trio.SSLStream[trio.SocketStream]", stream))
                nursery.cancel_scope.cancel()
        except* _BROKEN:
            pass
        except* (KeyError, UnicodeDecodeError):
            # For example a frame for a stream that has ended, or a non-ASCII path over HTTP/2. Any client can cause
            # it, so it is not a warning.
            log.debug("Hypercorn failed on a connection, which is closed", exc_info=True)
            transport.abort()
        finally:
            stream.stop_checking()
            self._server.state.partial_heads.hold(transport, 0)


async def _end_with_client(stream: _Stream, accepted: AcceptedConnection, scope: trio.CancelScope) -> None:
    """End a connection when its client does; Hypercorn would wait for the idle timeout."""
    await stream.ended.wait()
    await accepted.wait_idle()
    scope.cancel()


def _set_protocol_options(config: Config) -> None:
    """Set the options that Hypercorn's protocols need; the rest is that of the server."""
    config.errorlog = log
    config.include_server_header = False
    config.keep_alive_max_requests = 1 << 62  # otherwise watches would end with a connection
    config.websocket_ping_interval = _PING_SECONDS
    config.websocket_max_message_size = 64 * KIB  # a watch needs nothing from its client


class _Stream:
    """A transport as a trio stream for Hypercorn."""

    def __init__(self, transport: Transport, server: ServerState, accepted: AcceptedConnection) -> None:
        self._transport = transport
        self._server = server
        self._accepted = accepted
        self._head = 0  # bytes received since the last request
        self._http2 = transport.protocol == "h2"
        self._first = not self._http2  # nothing has been received yet: it may be HTTP/2
        self._syntax = None if self._http2 else StrictSyntax(accepted.peer, server.limits)
        self.ended = trio.Event()  # nothing more is read
        self.socket = transport.socket

    async def receive_some(self, max_bytes: int) -> bytes:
        try:
            data = await self._receive_first() if self._first else await self._receive()
        except trio.ClosedResourceError:
            self.ended.set()
            raise
        except OSError as error:
            self.ended.set()
            raise trio.BrokenResourceError from error
        if not data:
            self.ended.set()
        elif self._syntax is not None and (fault := self._syntax.fault(data)) is not None:
            try:
                if not self._syntax.in_body:  # bytes of a request that is being handled
                    await self._refuse(fault)
            finally:
                self.ended.set()
            return b""
        if not self._http2:  # frames on an idle connection are not part of a head
            self._limit_head(len(data))
        return data

    async def _receive_first(self) -> bytes:
        """Enough bytes to tell whether the client uses HTTP/2 without TLS; later ones cannot change that."""
        data = await self._receive()
        while data and len(data) < len(HTTP2_PREFACE) and HTTP2_PREFACE.startswith(data):
            self._limit_head(len(data))
            more = await self._receive()
            if not more:
                return b""
            data += more
        self._first = False
        if data.startswith(HTTP2_PREFACE):
            self._http2 = True
            self.stop_checking()
        return data

    async def _refuse(self, fault: Fault) -> None:
        """Send the last response of the connection, unless the one before it is not complete soon."""
        server, transport = self._server, self._transport
        if self._accepted.running:
            with trio.move_on_after(server.limits.linger_seconds):
                await self._accepted.wait_idle()
        if self._accepted.running or transport.closed:
            return
        transport.deadline = inf
        response = server.responder.refusal(fault.status, fault.message)
        try:
            await transport.send(closing_bytes(server.heads(HTTP1), response))
            await transport.linger()
        except OSError as error:
            raise trio.BrokenResourceError from error

    async def _receive(self) -> bytes:
        """Receive bytes. An interruption ends an idle connection or one with a slow peer, but no request in
        progress.
        """
        transport = self._transport
        while True:
            if transport.closed:
                # Closed by Hypercorn, which continues to read after an error of its peer.
                raise trio.ClosedResourceError
            try:
                return await transport.receive()
            except trio.ClosedResourceError:
                if transport.closed or not self._accepted.running:
                    raise

    def _limit_head(self, size: int) -> None:
        """Limit the time and the memory of a partial head; how much Hypercorn has parsed is unknown."""
        transport, server = self._transport, self._server
        if self._accepted.running:
            self._head = 0
        else:
            self._head += size
            if transport.deadline == inf and self._head:
                transport.deadline = trio.current_time() + server.limits.head_seconds
        server.partial_heads.hold(transport, self._head)

    def stop_checking(self) -> None:
        """Stop checking: what follows is not HTTP/1.1, or nothing follows."""
        syntax, self._syntax = self._syntax, None
        if syntax is not None:
            syntax.release()

    async def send_all(self, data: bytes) -> None:
        self._head, self._transport.deadline = 0, inf
        if self._syntax is not None and self._syntax.switches(data):
            self.stop_checking()
        try:
            for at in range(0, len(data), _SLICE):
                await self._transport.send(data[at : at + _SLICE])
        except OSError as error:
            raise trio.BrokenResourceError from error

    async def send_eof(self) -> None:
        self._transport.send_eof()

    async def aclose(self) -> None:
        self._transport.close()
        await trio.lowlevel.checkpoint()


class _TlsStream(_Stream):
    """The same stream with the methods by which Hypercorn recognizes TLS; the handshake is already done."""

    async def do_handshake(self) -> None:
        await trio.lowlevel.checkpoint()

    def selected_alpn_protocol(self) -> str | None:
        return self._transport.protocol

    @property
    def transport_stream(self) -> _Stream:
        return self
