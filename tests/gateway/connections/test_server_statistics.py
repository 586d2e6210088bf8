"""The counters that /metrics reads."""

import trio

from rewound.gateway.message import Request, Response
from tests.gateway.connections.http_server import served
from tests.settling import settled


async def test_connections_and_requests_are_counted() -> None:
    release = trio.Event()

    async def handle(request: Request) -> Response:
        if request.path == "/busy":
            await release.wait()
        return Response(200, b"")

    async with served(handle) as host, host.connect() as resting, host.connect() as busy:
        await resting.get()
        await busy.send(b"GET /busy HTTP/1.1\r\nHost: t\r\n\r\n")
        await settled()
        async with host.connect() as bad:
            await bad.request(b"nonsense\r\n\r\n")
            assert await bad.ended()
        while host.statistics.open > 2:
            await settled()
        figures = host.statistics
        assert (figures.open, figures.idle, figures.accepted) == (2, 1, 3)
        assert (figures.requests, figures.refused, figures.failed) == (2, 1, 0)
        assert not figures.draining
        release.set()
        await busy.reply()
    assert host.statistics.open == 0
