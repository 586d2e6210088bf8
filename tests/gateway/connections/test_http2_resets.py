"""An HTTP/2 peer that resets its connection while it is being answered costs nobody anything, and no line in
the log."""

from __future__ import annotations

import socket
import struct

import pytest
import trio

from gateway.requests.request import Request, Response
from tests.gateway.connections.http2_client import Http2Client, http2_client
from tests.gateway.connections.http_server import served
from tests.gateway.idle import until_idle

RESET_ON_CLOSE = struct.pack("ii", 1, 0)
# Whether the server finds out by sending or by receiving is a matter of chance; it may be either.
TIMES = 20


def reset(client: Http2Client) -> None:
    assert isinstance(client.stream, trio.SocketStream)
    client.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    client.stream.socket.close()


async def test_a_reset_that_is_found_by_sending(caplog: pytest.LogCaptureFixture) -> None:
    clients: list[Http2Client] = []

    async def reset_and_answer(_request: Request) -> Response:
        reset(clients.pop())
        return Response(200, b"x" * 100_000)

    async with served(reset_and_answer) as host:
        for _ in range(TIMES):
            async with http2_client(host) as client:
                clients.append(client)
                await client.request()
                await until_idle()
        assert host.statistics.requests == TIMES
    assert not caplog.records
