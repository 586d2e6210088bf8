"""An HTTP/2 peer that resets its connection while it is being answered costs nobody anything, and no line in
the log."""

from __future__ import annotations

import socket
import struct

import pytest
import trio

from gateway.requests.request import Request, Response
from tests.gateway.frames import Frames, frames
from tests.gateway.rest import at_rest
from tests.gateway.serving import served

RESET_ON_CLOSE = struct.pack("ii", 1, 0)
# Whether the server finds out by sending or by receiving is a matter of chance; it may be either.
TIMES = 20


def reset(client: Frames) -> None:
    assert isinstance(client.stream, trio.SocketStream)
    client.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    client.stream.socket.close()


async def test_a_reset_that_is_found_by_sending(caplog: pytest.LogCaptureFixture) -> None:
    clients: list[Frames] = []

    async def reset_and_answer(_request: Request) -> Response:
        reset(clients.pop())
        return Response(200, b"x" * 100_000)

    async with served(reset_and_answer) as host:
        for _ in range(TIMES):
            async with frames(host) as client:
                clients.append(client)
                await client.request()
                await at_rest()
        assert host.statistics.requests == TIMES
    assert not caplog.records
