"""The server: a worker for Hypercorn's configuration, with our own HTTP/1.1 and HTTP/2.

`ApiServer` creates one `Server` and runs `serve`. It listens on the configured binds, accepts, and gives each
connection a task, a transport and a protocol (`http1`, `http2`). One watchdog enforces the time limits of all
connections. When the server stops, it stops accepting, closes idle connections at once, completes requests in
progress within `graceful_timeout`, and only then aborts the rest. A connection that only waits for its peer ends
within seconds (`Limits.draining`). Rejected: Hypercorn's `worker_serve` with a subclass of its `TCPServer`, because
it takes that class from a name in its own module, and imports protocols that are not used
(docs/decisions/0007-hypercorn.md).
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Final

import trio
from hypercorn.config import Config
from trio.lowlevel import checkpoint, wait_readable

from rewound.actors.certificates.pools import Roles, TrustPools
from rewound.actors.runtime.background_import import imported, is_imported
from rewound.gateway.connections.http1.connection import HTTP1, Http1Connection, closing_bytes
from rewound.gateway.connections.limits import TICK, Limits
from rewound.gateway.connections.listen import Exhausted, Listener, open_listeners
from rewound.gateway.connections.read_turns import ReadTurns
from rewound.gateway.connections.responder import Handle, Refuse
from rewound.gateway.connections.server_state import ServerState, ServerStatistics, log
from rewound.gateway.connections.tls import HandshakeFailed, NotTLS, SharedBios, TlsTransport
from rewound.gateway.connections.transport import Transport
from rewound.gateway.exchange import RequestObserver
from rewound.gateway.memory.budget import MemoryBudget
from rewound.gateway.message import Peer
from rewound.gateway.settings.server_config import Address

if TYPE_CHECKING:
    from rewound.gateway.connections.http2.connection import Http2

ServeConnection = Callable[[Transport, Peer], Awaitable[None]]

_HTTP2: Final = "rewound.gateway.connections.http2.connection"
# Connections accepted at once before other tasks run; fewer if another process accepts too and has fewer. Accepting
# does not wait for handshakes: the kernel's queue is in order, so a client would wait for all clients before it.
_ACCEPT_BATCH = 32
# How long a process lets another one with fewer connections accept the next.
_YIELD = 0.001


class Server:
    def __init__(
        self,
        handle: Handle,
        refuse: Refuse,
        limits: Limits,
        observer: RequestObserver | None = None,
        memory: MemoryBudget | None = None,
        *,
        serve_connection: ServeConnection | None = None,
    ) -> None:
        """`serve_connection` serves a connection instead of our own protocols."""
        self._serve_connection = serve_connection
        self._state = ServerState(handle, refuse, limits, observer, memory)
        self._http2: Http2 | None = None  # set by the first HTTP/2 connection
        self._background: trio.Nursery | None = None
        self._bios = SharedBios()
        self._turns = ReadTurns()
        self._tls: ssl.SSLContext | None = None
        self._pools: TrustPools | None = None  # if set, the roles of a client certificate depend on its CA
        self._accepted = trio.Event()
        self._closed = trio.Event()
        self._share, self._lease = limits.share, limits.lease

    @property
    def state(self) -> ServerState:
        return self._state

    @property
    def quic_address(self) -> Address | None:
        return None

    def statistics(self) -> ServerStatistics:
        return self._state.statistics()

    def replace_handler(self, handle: Handle) -> None:
        """Pass requests that arrive from now on, also over existing connections, to another handler."""
        self._state.responder.handle = handle

    def replace_tls(self, context: ssl.SSLContext, pools: TrustPools | None) -> None:
        """Use another TLS context, and other pools, for connections that arrive from now on."""
        self._tls, self._pools = context, pools

    async def serve(
        self,
        config: Config,
        *,
        tls: ssl.SSLContext | None,
        stop: trio.Event,
        pools: TrustPools | None = None,
        task_status: trio.TaskStatus[list[Listener]] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve until `stop`; return when all accepted requests have their responses, or the grace period is over."""
        self._tls, self._pools = tls, pools
        listeners = open_listeners(config, tls)
        try:
            async with trio.open_nursery() as background:
                background.start_soon(self._run_watchdog)
                background.start_soon(self._state.unauthenticated.run)
                background.start_soon(self._turns.run)
                self._background = background
                async with trio.open_nursery() as connections:
                    async with trio.open_nursery() as accepting:
                        for listener in listeners:
                            accepting.start_soon(self._accept, listener, connections)
                        task_status.started(listeners)
                        await stop.wait()
                        accepting.cancel_scope.cancel()
                    background.start_soon(
                        self._abort_after_grace, config.graceful_timeout, connections.cancel_scope
                    )
                    await self._drain(listeners, config.backlog, connections)
                background.cancel_scope.cancel()
        finally:
            for listener in listeners:
                listener.sock.close()

    async def _drain(self, listeners: list[Listener], backlog: int, connections: trio.Nursery) -> None:
        self._state.begin_drain()
        for listener in listeners:
            # The kernel has accepted these already: closing the listener first would reset them.
            with suppress(Exhausted):
                for number, sock in enumerate(listener.accept(backlog), 1):
                    self._start(sock, listener.tls is not None, connections)
                    if number % _ACCEPT_BATCH == 0:
                        await checkpoint()
            listener.sock.close()

    async def _abort_after_grace(self, grace: float, connections: trio.CancelScope) -> None:
        await trio.sleep(grace)
        connections.cancel()
        for transport in list(self._state.transports):
            transport.abort()

    async def _accept(self, listener: Listener, connections: trio.Nursery) -> None:
        if self._share is not None and self._share.begin is not None:
            await self._share.begin.wait()
        while True:
            await wait_readable(listener.sock)
            while (room := self._room()) <= 0:
                if self._lease is None or not await self._lease.ask():
                    await self._make_room()
            if self._share is not None and self._share.is_ahead():
                await trio.sleep(_YIELD)
            try:
                for sock in listener.accept(min(room, _ACCEPT_BATCH)):
                    self._start(sock, listener.tls is not None, connections)
                    if self._share is not None and self._share.is_ahead():
                        break
            except Exhausted as error:
                log.warning("cannot accept connections: %s", error)
                await self._make_room()

    def _room(self) -> int:
        """How many more connections there is room for."""
        lease = self._lease
        most = self._state.limits.connections if lease is None else lease.allowed
        return most - len(self._state.transports)

    def _start(self, sock: socket.socket, secure: bool, connections: trio.Nursery) -> None:
        state = self._state
        limits = state.limits
        tls = self._tls if secure else None
        transport = Transport(sock, limits) if tls is None else TlsTransport(sock, limits, tls, self._bios)
        transport.turns = self._turns
        state.accepted += 1
        state.transports.add(transport)
        self._record_share()
        state.tick()
        self._accepted.set()
        connections.start_soon(self._connection, transport, secure)

    async def _make_room(self) -> None:
        """Close the connection that has been idle, or has waited for the rest of a head, longest; wait until any
        closes.

        Otherwise a process that sends partial heads would keep all others out.
        """
        idle = [transport for transport in self._state.transports if transport.idle]
        if idle:
            longest = min(idle, key=lambda transport: transport.deadline)
            longest.deadline = -inf
            longest.interrupt()
        elif isinstance(waiting := self._state.partial_heads.longest_waiting(), Transport):
            waiting.abort()  # a response, and the time to read it, would occupy the place for longer
        self._closed = trio.Event()
        with trio.move_on_after(TICK):
            await self._closed.wait()

    async def _connection(self, transport: Transport, secure: bool) -> None:
        try:
            await self._run_protocol(transport, secure)
        except NotTLS:
            await self._refuse_plain_http(transport)
        except HandshakeFailed as error:
            self._state.handshake_failures += 1
            if isinstance(error.__cause__, ssl.SSLError):
                self._report_handshake(transport, error.__cause__)
        except (OSError, trio.ClosedResourceError):
            pass  # the client disconnected, or the watchdog interrupted
        except Exception:
            log.exception("a connection failed")
        finally:
            transport.close()
            self._state.transports.discard(transport)
            self._record_share()
            self._closed.set()

    def _record_share(self) -> None:
        if self._share is not None:
            self._share.record(len(self._state.transports))
        if self._lease is not None:
            self._lease.open = len(self._state.transports)

    def _report_handshake(self, transport: Transport, error: ssl.SSLError) -> None:
        """Log why a handshake failed. The log limits how often: any client can cause this."""
        if not isinstance(error, ssl.SSLCertVerificationError):
            log.info("a TLS handshake with %s failed: %s", transport.peer_address(), error.reason or error)
            return
        self._state.certificate_failures += 1
        log.warning(
            "the certificate of a client at %s cannot be verified: %s; its connection ends, whatever other "
            "credentials it has",
            transport.peer_address(),
            error.verify_message,
        )

    async def _run_protocol(self, transport: Transport, secure: bool) -> None:
        transport.idle = False
        transport.deadline = self._state.now + self._state.limits.handshake_seconds
        peer = Peer(address=transport.peer_address(), secure=secure)
        self._state.unauthenticated.accept(transport, peer)
        await transport.handshake()
        peer.certificate = transport.certificate()
        if peer.certificate is not None:
            seconds = ssl.cert_time_to_seconds(str(peer.certificate["notAfter"]))
            peer.certificate_expires = seconds * 1_000_000_000
            if self._pools is not None:
                _set_roles(peer, self._pools.of(*transport.certificate_chain()))
        transport.idle = True
        if self._serve_connection is not None:
            transport.deadline = inf
            if transport.unauthenticated is not None:  # the tasks that it starts are not measured
                transport.unauthenticated.end()
            await self._serve_connection(transport, peer)
            return
        ahead = b""
        if transport.protocol != "h2":
            ahead = await Http1Connection(self._state, transport, peer).run()
            if not ahead:
                return
        http2 = self._http2 or await self._start_http2()
        await http2.serve(transport, peer, ahead)

    async def _start_http2(self) -> Http2:
        """Import HTTP/2 with its first connection, because a start does not need it."""
        if not is_imported(_HTTP2, "Http2"):
            await imported(_HTTP2)
        from rewound.gateway.connections.http2.connection import Http2

        if self._http2 is None:
            assert self._background is not None, "connections are accepted by `serve`"
            self._http2 = Http2(self._state)
            self._background.start_soon(self._http2.flusher.run)
        return self._http2

    async def _refuse_plain_http(self, transport: Transport) -> None:
        """Respond in plain HTTP to a client that sent plain HTTP to the secure port."""
        self._state.handshake_failures += 1
        state = self._state
        refusal = state.responder.refusal(400, "client sent an HTTP request to an HTTPS server")
        try:
            Transport.send_nowait(transport, closing_bytes(state.heads(HTTP1), refusal))
            await transport.linger()
        except (OSError, trio.ClosedResourceError):
            pass

    async def _run_watchdog(self) -> None:
        """Check the deadlines of all connections once a second, more often in a drain, while there are connections."""
        ending: list[tuple[float, Transport]] = []
        while True:
            if not self._state.transports:
                self._accepted = trio.Event()
                await self._accepted.wait()
            tick = trio.current_time() + self._state.period
            for deadline, transport in ending:
                await trio.sleep_until(deadline)
                if transport.streaming and transport.deadline <= trio.current_time():
                    transport.interrupt()
            await trio.sleep_until(tick)
            ending = self._state.interrupt_expired()


NO_POOL: Final = (
    "no CA of --client-ca-file or --requestheader-client-ca-file has issued the client certificate; "
    "before Python 3.13, an intermediate CA has to be in the file itself"
)


def _set_roles(peer: Peer, roles: Roles) -> None:
    """Set the roles of a certificate to those of the CA that issued it."""
    if not (roles.client or roles.proxy):
        raise HandshakeFailed(NO_POOL)
    if roles.proxy:
        peer.proxy_certificate = peer.certificate
    if not roles.client:
        peer.certificate = None
