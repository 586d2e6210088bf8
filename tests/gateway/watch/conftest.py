"""What holds for all tests of watches: the server's sockets hold less than one large event.

Left alone they grow, by rules of the kernel's own, to hold megabytes on one machine and less on another: whether a
watcher that does not read is behind, and in the middle of which event, would be an accident.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from gateway.connections.listen import Listener

ROOM = 48 << 10  # the kernel makes it twice as much; with less, its delayed acknowledgements are felt


@pytest.fixture(autouse=True)
def sockets_that_are_soon_full(monkeypatch: pytest.MonkeyPatch) -> None:
    accept = Listener.accept

    def small_buffers(listener: Listener, most: int) -> Iterator[socket.socket]:
        for sock in accept(listener, most):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, ROOM)
            yield sock

    monkeypatch.setattr(Listener, "accept", small_buffers)
