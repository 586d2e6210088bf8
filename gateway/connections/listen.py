"""Listening: Hypercorn's configuration as we use it, its sockets, and accepting without stumbling.

`server` opens its listeners here and takes connections from them. Hypercorn wants names of certificate
files; we hold an SSL context already, so the configuration only makes sockets and names the ALPN protocols.
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
from gateway.connections.serving import log

Address = tuple[str, int]

# Nothing left to accept with: wait, instead of giving up on the listener.
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Exhausted(Exception):
    """The process or the machine is out of file descriptors or buffers."""


class Settings(Config):
    # A burst of clients (all controllers after a restart) waits here instead of being turned away.
    backlog = 1024
    ssl_enabled = True
    include_server_header = False
    errorlog = log
    # Hypercorn would cut a connection off after a thousand requests, together with those under way.
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

    def accept(self, most: int) -> Iterator[socket.socket]:
        """Up to `most` connections that wait already."""
        for _ in range(most):
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
    """The secure and the insecure listener, where an address is given."""
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
    """Connections inherit it: a peer that vanished without a word is found out after about two minutes."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "linux":
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4)
