"""Listeners: Hypercorn's configuration, its sockets, and an accept that survives errors of single connections.

`server` opens its listeners here and accepts connections from them. Hypercorn expects names of certificate files;
we have an SSL context already, so its configuration only creates sockets and lists the ALPN protocols.
"""

from __future__ import annotations

import errno
import socket
import ssl
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from hypercorn.config import Config

from gateway.connections.limits import Limits
from gateway.connections.server_state import log

Address = tuple[str, int]

# No resources to accept with: wait, and keep the listener.
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Exhausted(Exception):
    """The process or the machine is out of file descriptors or buffers."""


class Settings(Config):
    # The kernel queues a burst of clients (all controllers after a restart) instead of refusing them.
    backlog = 1024
    ssl_enabled = True
    include_server_header = False
    errorlog = log
    # Hypercorn would close a connection after a thousand requests, together with those in progress.
    keep_alive_max_requests = sys.maxsize

    def __init__(self, limits: Limits) -> None:
        self.keep_alive_timeout = limits.idle_seconds
        self.h2_max_concurrent_streams = limits.streams
        self.h2_max_header_list_size = limits.head


@dataclass(frozen=True, slots=True)
class Listener:
    sock: socket.socket
    tls: ssl.SSLContext | None

    @property
    def address(self) -> Address:
        name = self.sock.getsockname()
        return name[0], name[1]

    def accept(self, limit: int) -> Iterator[socket.socket]:
        """Accept up to `limit` connections that wait already."""
        for _ in range(limit):
            try:
                sock, _address = self.sock.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    raise Exhausted(str(error)) from error
                continue  # that client left before it was accepted
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            yield sock


def open_listeners(
    settings: Settings, secure: Address | None, insecure: Address | None, tls: ssl.SSLContext | None
) -> tuple[Listener | None, Listener | None]:
    """Open the secure and the insecure listener, each if it has an address."""
    if secure is not None and tls is None:
        raise ValueError("a secure address needs a TLS context")
    if tls is not None:
        tls.set_alpn_protocols(settings.alpn_protocols)
    settings.bind = [f"{secure[0]}:{secure[1]}"] if secure else []
    settings.insecure_bind = [f"{insecure[0]}:{insecure[1]}"] if insecure else []
    sockets = settings.create_sockets()
    for sock in sockets.secure_sockets + sockets.insecure_sockets:
        _notice_dead_peers(sock)
        sock.listen(settings.backlog)
    return (
        Listener(sockets.secure_sockets[0], tls) if secure else None,
        Listener(sockets.insecure_sockets[0], None) if insecure else None,
    )


def _notice_dead_peers(sock: socket.socket) -> None:
    """Set TCP keepalive, which connections inherit: it detects a vanished peer after about two minutes."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "linux":
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4)
