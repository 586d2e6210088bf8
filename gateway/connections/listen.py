"""Listeners: the server's sockets, and an accept that survives errors of single connections.

`server` opens its listeners here and accepts connections from them.
"""

from __future__ import annotations

import errno
import socket
import ssl
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

Address = tuple[str, int]

ALPN_PROTOCOLS = ["h2", "http/1.1"]
# The kernel queues a burst of clients (all controllers after a restart) instead of refusing them.
BACKLOG = 1024
# No resources to accept with: wait, and keep the listener.
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Exhausted(Exception):
    """The process or the machine is out of file descriptors or buffers."""


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
    secure: Address | None, insecure: Address | None, tls: ssl.SSLContext | None
) -> tuple[Listener | None, Listener | None]:
    """Open the secure and the insecure listener, each if it has an address."""
    if secure is not None and tls is None:
        raise ValueError("a secure address needs a TLS context")
    if tls is not None:
        tls.set_alpn_protocols(ALPN_PROTOCOLS)
    with ExitStack() as on_error:
        first = None if secure is None else Listener(_listen(secure, on_error), tls)
        second = None if insecure is None else Listener(_listen(insecure, on_error), None)
        on_error.pop_all()
    return first, second


def _listen(address: Address, on_error: ExitStack) -> socket.socket:
    """Listen on an address of IPv4 or IPv6; `on_error` gets what closes the socket if opening another one fails."""
    host, port = address[0].strip("[]"), address[1]
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    on_error.callback(sock.close)
    sock.setblocking(False)
    # A restarted server can bind while connections of the previous process are in TIME_WAIT.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    _notice_dead_peers(sock)
    sock.bind((host, port))
    sock.listen(BACKLOG)
    return sock


def _notice_dead_peers(sock: socket.socket) -> None:
    """Set TCP keepalive, which connections inherit: it detects a vanished peer after about two minutes."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "linux":
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4)
