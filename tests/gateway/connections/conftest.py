"""Fixtures: which transport a server uses, and small kernel buffers for clients that do not read."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
import trio

from rewound.gateway.connections.asgi.worker import HypercornServer
from rewound.gateway.connections.listen import Listener
from tests.gateway.connections import http_server

BUFFER = 32 << 10


@pytest.fixture(params=["ours", "hypercorn"])
def protocols(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs a test twice: with our own protocols, and with those of `--transport asgi`.

    docs/transports.md lists where Hypercorn's protocols differ; tests of these differences do not use this fixture.
    """
    if request.param == "hypercorn":
        monkeypatch.setattr(http_server, "Server", HypercornServer)


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
