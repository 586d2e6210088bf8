"""The server: listens, accepts, and gives every connection a task, a link and a protocol.

`compose` makes one `Server` and runs `serve`. Hypercorn's Config makes the listening sockets and names the ALPN
protocols, its classes speak HTTP/2 (`http2`); HTTP/1.1 is ours (`http1`). One watchdog looks after the time limits
of all connections. Stopping: no more is accepted, connections at rest close at once, requests already begun are
answered within `grace`.
"""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Iterator

import trio
from hypercorn.config import Config
from trio.lowlevel import wait_readable

from gateway.heads import CLOSE, head
from gateway.http1 import Conversation
from gateway.limits import TICK, Limits
from gateway.link import Link
from gateway.request import Peer
from gateway.serving import Handle, Refuse, ServerStatistics, Serving, log
from gateway.tls import HandshakeFailed, NotTLS, SecureLink

Address = tuple[str, int]

# Connections taken in one go before other tasks get their turn.
_ACCEPT_BATCH = 64
# Out of file descriptors: the pause before the next try.
_BACK_OFF = 0.1
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class _Listening(Config):
    """Hypercorn's configuration where the TLS context is given instead of file names."""

    # A burst of clients (all controllers after a restart) waits here instead of being turned away.
    backlog = 1024
    ssl_enabled = True

    @classmethod
    def on(cls, secure: Address | None, insecure: Address | None) -> _Listening:
        config = cls()
        config.bind = [_bind(secure)] if secure else []
        config.insecure_bind = [_bind(insecure)] if insecure else []
        return config


def _bind(address: Address) -> str:
    return f"{address[0]}:{address[1]}"


class Server:
    def __init__(self, handle: Handle, refuse: Refuse, limits: Limits) -> None:
        self._serving = Serving(handle, refuse, limits)
        self._arrival = trio.Event()
        self._departure = trio.Event()

    def statistics(self) -> ServerStatistics:
        return self._serving.statistics()

    async def serve(
        self,
        *,
        secure: Address | None,
        insecure: Address | None,
        tls: ssl.SSLContext | None,
        stop: trio.Event,
        grace: float,
        task_status: trio.TaskStatus[tuple[Address | None, Address | None]] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve until `stop`; returns when all that was accepted is answered or `grace` is over."""
        if secure is not None and tls is None:
            raise ValueError("a secure address needs a TLS context")
        config = _Listening.on(secure, insecure)
        if tls is not None:
            tls.set_alpn_protocols(config.alpn_protocols)
        listeners = _listen(config, tls)
        async with trio.open_nursery() as watching:
            watching.start_soon(self._watch)
            async with trio.open_nursery() as connections:
                async with trio.open_nursery() as accepting:
                    for listener, context in listeners:
                        accepting.start_soon(self._accept_all, listener, context, connections)
                    task_status.started(_addresses(listeners))
                    await stop.wait()
                    accepting.cancel_scope.cancel()
                connections.cancel_scope.deadline = trio.current_time() + grace
                self._drain(listeners, connections)
            watching.cancel_scope.cancel()

    def _drain(self, listeners: Listeners, connections: trio.Nursery) -> None:
        self._serving.draining = True
        for listener, context in listeners:
            # The kernel has accepted these for us: closing the listener now would reset them.
            for sock in _accept_batch(listener, 1024):
                self._start(sock, context, connections)
            listener.close()
        for link in self._serving.links:
            if link.idle:
                link.interrupt()

    async def _accept_all(
        self, listener: socket.socket, context: ssl.SSLContext | None, connections: trio.Nursery
    ) -> None:
        while True:
            await wait_readable(listener)
            while len(self._serving.links) >= self._serving.limits.connections:
                await self._make_room()
            try:
                for sock in _accept_batch(listener, _ACCEPT_BATCH):
                    self._start(sock, context, connections)
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                log.warning("cannot accept connections: %s", error)
                await trio.sleep(_BACK_OFF)

    def _start(self, sock: socket.socket, context: ssl.SSLContext | None, connections: trio.Nursery) -> None:
        serving = self._serving
        link = Link(sock, serving.limits) if context is None else SecureLink(sock, serving.limits, context)
        serving.accepted += 1
        serving.links.add(link)
        serving.now = trio.current_time()
        self._arrival.set()
        connections.start_soon(self._connection, link, context is not None)

    async def _make_room(self) -> None:
        """Ask the connection that has been at rest longest to go, and wait for one that does."""
        resting = [link for link in self._serving.links if link.idle]
        if resting:
            min(resting, key=lambda link: link.deadline).interrupt()
        self._departure = trio.Event()
        with trio.move_on_after(TICK):
            await self._departure.wait()

    async def _connection(self, link: Link, secure: bool) -> None:
        try:
            await self._converse(link, secure)
        except NotTLS:
            await self._answer_plain(link)
        except HandshakeFailed:
            self._serving.handshake_failures += 1
        except (OSError, trio.ClosedResourceError):
            pass
        except Exception:
            log.exception("a connection failed")
        finally:
            link.close()
            self._serving.links.discard(link)
            self._departure.set()

    async def _converse(self, link: Link, secure: bool) -> None:
        link.idle = False
        link.deadline = self._serving.now + self._serving.limits.handshake_seconds
        peer = Peer(address=_peer_address(link.socket), secure=secure)
        await link.handshake()
        peer.certificate = link.certificate()
        link.idle = True
        await Conversation(self._serving, link, peer).run()

    async def _answer_plain(self, link: Link) -> None:
        """Somebody spoke HTTP to the secure port: say so in words they can read."""
        self._serving.handshake_failures += 1
        response = self._serving.refusal(400, "client sent an HTTP request to an HTTPS server")
        try:
            await Link.send(link, head(response, CLOSE) + response.body)
            await link.linger()
        except (OSError, trio.ClosedResourceError):
            pass

    async def _watch(self) -> None:
        """Keep time, while there is anybody to keep it for."""
        while True:
            if not self._serving.links:
                self._arrival = trio.Event()
                await self._arrival.wait()
            await trio.sleep(TICK)
            self._serving.sweep()


Listeners = list[tuple[socket.socket, ssl.SSLContext | None]]


def _listen(config: _Listening, tls: ssl.SSLContext | None) -> Listeners:
    sockets = config.create_sockets()
    listeners: Listeners = [(sock, tls) for sock in sockets.secure_sockets]
    listeners += [(sock, None) for sock in sockets.insecure_sockets]
    for sock, _ in listeners:
        sock.listen(config.backlog)
    return listeners


def _addresses(listeners: Listeners) -> tuple[Address | None, Address | None]:
    def bound(wanted: bool) -> Address | None:
        for sock, context in listeners:
            if (context is not None) is wanted:
                name = sock.getsockname()
                return name[0], name[1]
        return None

    return bound(True), bound(False)


def _accept_batch(listener: socket.socket, size: int) -> Iterator[socket.socket]:
    for _ in range(size):
        try:
            sock, _address = listener.accept()
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno in _EXHAUSTED:
                raise
            continue  # that one client left before it was accepted
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield sock


def _peer_address(sock: socket.socket) -> str:
    try:
        return str(sock.getpeername()[0])
    except OSError:
        return ""
