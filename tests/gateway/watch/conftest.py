"""All tests of watches: the server's socket buffers hold less than one large event, and turns have no end.

A busy machine would end a turn at any place: what is sent together would be random. Tests of turns set their own.
The kernel's autotuning would let them hold megabytes on one machine and less on another: whether a client that does
not read falls behind, and in the middle of which event, would be random.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from rewound.actors.runtime import turns
from rewound.gateway.connections.listen import Listener

SEND_BUFFER = 48 << 10  # the kernel doubles it; with less, delayed acknowledgements slow the tests


@pytest.fixture(autouse=True)
def small_send_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    accept = Listener.accept

    def small_buffers(listener: Listener, limit: int) -> Iterator[socket.socket]:
        for sock in accept(listener, limit):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
            yield sock

    monkeypatch.setattr(Listener, "accept", small_buffers)


@pytest.fixture(autouse=True)
def endless_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "TURN", 3600.0)
