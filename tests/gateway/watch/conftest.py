"""For all watch tests: the server's socket buffers hold less than one large event, and turns have no time limit.

On a busy machine a turn could end anywhere, and what is sent together would be random; tests of turns set their own
limit. With the kernel's autotuning, buffers hold megabytes on one machine and less on another: whether and where a
client that does not read falls behind would be random.
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
