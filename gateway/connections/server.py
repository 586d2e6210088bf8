"""The server: accepts, and gives every connection a task, a link and a protocol.

`compose` makes one `Server` and runs `serve`. HTTP/1.1 is ours (`http1`); HTTP/2 is Hypercorn's (`http2`).
One watchdog keeps the time limits of all connections. Stopping: no more is accepted, connections at rest
close at once, requests already begun are answered within `grace`, and only then is anything cut off.
"""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress

import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.trio.worker_context import WorkerContext
from trio.lowlevel import wait_readable

from gateway.connections.app import App
from gateway.connections.http1 import Conversation
from gateway.connections.http2 import Http2
from gateway.connections.limits import TICK, Limits
from gateway.connections.link import Link
from gateway.connections.listen import Address, Exhausted, Listener, Settings, open_listeners
from gateway.connections.serving import Handle, Refuse, ServerStatistics, Serving, log
from gateway.connections.tls import Desk, HandshakeFailed, NotTLS, SecureLink
from gateway.requests.observer import RequestObserver
from gateway.requests.request import Peer

# Connections taken in one go before other tasks get their turn.
_ACCEPT_BATCH = 64


class Server:
    def __init__(
        self, handle: Handle, refuse: Refuse, limits: Limits, observer: RequestObserver | None = None
    ) -> None:
        self._serving = Serving(handle, refuse, limits, observer)
        self._settings = Settings(limits)
        self._context = WorkerContext(None)
        self._app = ASGIWrapper(App(self._serving))
        self._desk = Desk()
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
        """Serve until `stop`; returns when all that was accepted is answered, or `grace` is over."""
        opened = open_listeners(self._settings, secure, insecure, tls)
        listeners = [listener for listener in opened if listener is not None]
        try:
            async with trio.open_nursery() as watching:
                watching.start_soon(self._watch)
                async with trio.open_nursery() as connections:
                    async with trio.open_nursery() as accepting:
                        for listener in listeners:
                            accepting.start_soon(self._accept, listener, connections)
                        task_status.started((_address(opened[0]), _address(opened[1])))
                        await stop.wait()
                        accepting.cancel_scope.cancel()
                    watching.start_soon(self._cut_off, grace, connections.cancel_scope)
                    await self._drain(listeners, connections)
                watching.cancel_scope.cancel()
        finally:
            for listener in listeners:
                listener.sock.close()

    async def _drain(self, listeners: list[Listener], connections: trio.Nursery) -> None:
        self._serving.draining = True
        for listener in listeners:
            # The kernel has accepted these for us: closing the listener first would reset them.
            with suppress(Exhausted):
                for sock in listener.accept(self._settings.backlog):
                    self._start(sock, listener.tls, connections)
            listener.sock.close()
        for link in self._serving.links:
            if link.idle:
                link.interrupt()
        await self._context.terminated.set()

    async def _cut_off(self, grace: float, connections: trio.CancelScope) -> None:
        await trio.sleep(grace)
        connections.cancel()
        for link in list(self._serving.links):
            # Hypercorn shields its sends from cancellation.
            link.abort()

    async def _accept(self, listener: Listener, connections: trio.Nursery) -> None:
        while True:
            await wait_readable(listener.sock)
            while (room := self._serving.limits.connections - len(self._serving.links)) <= 0:
                await self._make_room()
            try:
                for sock in listener.accept(min(room, _ACCEPT_BATCH)):
                    self._start(sock, listener.tls, connections)
            except Exhausted as error:
                log.warning("cannot accept connections: %s", error)
                await self._make_room()

    def _start(self, sock: socket.socket, tls: ssl.SSLContext | None, connections: trio.Nursery) -> None:
        serving = self._serving
        limits = serving.limits
        link = Link(sock, limits) if tls is None else SecureLink(sock, limits, tls, self._desk)
        serving.accepted += 1
        serving.links.add(link)
        serving.tick()
        self._arrival.set()
        connections.start_soon(self._connection, link, tls is not None)

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
            pass  # gone, or cut off by the watchdog
        except Exception:
            log.exception("a connection failed")
        finally:
            link.close()
            self._serving.links.discard(link)
            self._departure.set()

    async def _converse(self, link: Link, secure: bool) -> None:
        link.idle = False
        link.deadline = self._serving.now + self._serving.limits.handshake_seconds
        peer = Peer(address=link.peer_address(), secure=secure)
        await link.handshake()
        peer.certificate = link.certificate()
        link.idle = True
        ahead = b""
        if link.protocol != "h2":
            ahead = await Conversation(self._serving, link, peer).run()
            if not ahead:
                return
        await Http2(self._app, self._settings, self._context, link, peer, ahead).run()

    async def _answer_plain(self, link: Link) -> None:
        """Somebody spoke HTTP to the secure port: say so in words they can read."""
        self._serving.handshake_failures += 1
        refusal = self._serving.refusal(400, "client sent an HTTP request to an HTTPS server")
        try:
            Link.send_nowait(link, self._serving.closing_bytes(refusal))
            await link.linger()
        except (OSError, trio.ClosedResourceError):
            pass

    async def _watch(self) -> None:
        """Keep time, while there is anybody to keep it for."""
        ending: list[tuple[float, Link]] = []
        while True:
            if not self._serving.links:
                self._arrival = trio.Event()
                await self._arrival.wait()
            tick = trio.current_time() + TICK
            for deadline, link in ending:
                await trio.sleep_until(deadline)
                if link.streaming and link.deadline <= trio.current_time():
                    link.interrupt()
            await trio.sleep_until(tick)
            ending = self._serving.sweep()


def _address(listener: Listener | None) -> Address | None:
    return None if listener is None else listener.address
