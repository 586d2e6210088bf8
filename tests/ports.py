"""Free ports for servers that must know their port before they start."""

from __future__ import annotations

import socket

# Held until this process ends. They are bound but not listening: a server, which sets SO_REUSEADDR, can still listen
# on such a port, and the kernel gives it to no other listener or client.
_reserved: list[socket.socket] = []


def reserve_port() -> int:
    """Reserve a port of 127.0.0.1. A port that is only found free might be taken when the server starts a second
    later.
    """
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", 0))
    _reserved.append(sock)
    port: int = sock.getsockname()[1]
    return port
