"""If a handler raises, its client gets 500, the log a traceback, and the server continues."""

import pytest

from rewound.gateway.message import Request, Response
from tests.gateway.connections.http_server import served


async def handle(request: Request) -> Response:
    if request.path == "/broken":
        raise RuntimeError("a bug of ours")
    return Response(200, b"fine")


async def test_handler_that_raises_gives_500_and_keeps_the_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with served(handle) as host, host.connect() as client:
        assert (await client.get("/broken")).status == 500
        assert (await client.get("/fine")).body == b"fine"
        assert host.statistics.failed == 1
    [record] = caplog.records
    assert record.getMessage() == "GET /broken failed"
    assert record.exc_info is not None
    assert "a bug of ours" in caplog.text


async def test_other_pipelined_requests_get_their_responses() -> None:
    async with served(handle) as host, host.connect() as client:
        await client.send(
            b"".join(b"GET /%b HTTP/1.1\r\nHost: t\r\n\r\n" % p for p in (b"a", b"broken", b"b"))
        )
        assert [(await client.reply()).status for _ in range(3)] == [200, 500, 200]
