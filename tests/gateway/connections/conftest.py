"""For tests with clients that do not read: what the kernel takes for them is little, on every machine."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
import trio

from gateway.connections.listen import Listener

BUFFER = 32 << 10


@pytest.fixture
def small_send_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's sockets have small buffers that never grow."""
    accept = Listener.accept

    def small_buffers(listener: Listener, limit: int) -> Iterator[socket.socket]:
        for sock in accept(listener, limit):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
            yield sock

    monkeypatch.setattr(Listener, "accept", small_buffers)


def limit_receive_buffer(stream: trio.abc.Stream) -> None:
    """Give a client's socket a small buffer that never grows."""
    while isinstance(stream, trio.SSLStream):
        stream = stream.transport_stream
    assert isinstance(stream, trio.SocketStream)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
