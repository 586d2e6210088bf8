"""An HTTP/2 peer that resets its connection during a response affects no other client and logs nothing."""

from __future__ import annotations

import socket
import struct

import pytest
import trio

from rewound.gateway.message import Request, Response
from tests.gateway.connections.http2_client import Http2Client, http2_client
from tests.gateway.connections.http_server import served
from tests.settling import eventually, settled

RESET_ON_CLOSE = struct.pack("ii", 1, 0)
# The server may notice while sending or while receiving.
TIMES = 20


def reset(client: Http2Client) -> None:
    assert isinstance(client.stream, trio.SocketStream)
    client.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    client.stream.socket.close()


async def test_connection_reset_during_the_response_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    clients: list[Http2Client] = []

    async def reset_and_answer(_request: Request) -> Response:
        reset(clients.pop())
        return Response(200, b"x" * 100_000)

    async with served(reset_and_answer) as host:
        for number in range(TIMES):
            async with http2_client(host) as client:
                clients.append(client)
                await client.request()
                await eventually(lambda: host.statistics.requests == number + 1)  # noqa: B023
                await settled()
    assert not caplog.records
