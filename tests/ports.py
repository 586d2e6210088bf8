"""Ports for servers that need theirs before they start."""

from __future__ import annotations

import socket

# Until this process ends. Bound and not listening: a server, which sets SO_REUSEADDR, can listen on such a port, and
# the kernel gives it to nobody else, neither to a listener nor to a client.
_reserved: list[socket.socket] = []


def reserve_port() -> int:
    """A port of 127.0.0.1. One that is only found free may be another's when the server starts, a second later."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", 0))
    _reserved.append(sock)
    port: int = sock.getsockname()[1]
    return port
