"""A connection continues after a watch: requests sent during the watch get their responses, in order."""

from __future__ import annotations

import orjson
from trio.testing import MockClock

from tests.gateway.api import config_map, served
from tests.gateway.connections.http_server import Client
from tests.gateway.watch.watching import Chunks, Watch, connect, request, watching
from tests.settling import advance, settled


async def test_requests_sent_during_a_watch_get_responses_after_it(mock_clock: MockClock) -> None:
    async with served() as api:
        path, at = api.path("configmaps"), await api.head()
        stream = await connect(api)
        watch = Watch()
        chunks = Chunks(stream, watch)
        # The first in the same segment as the watch, the second later, the third in two pieces.
        await stream.send_all(
            request(f"{path}?watch=1&timeoutSeconds=5&resourceVersion={at}") + request(f"{path}/a")
        )
        await api.create("configmaps", config_map("a"))
        await stream.send_all(request(f"{path}/b"))
        third = request(f"{path}/a")
        await stream.send_all(third[:20])
        await advance(mock_clock, 6)
        await stream.send_all(third[20:])
        await chunks.read()
        assert [event["type"] for event in await watch.end()] == ["ADDED"]
        client = Client(stream)
        client._buffer += chunks.buffer
        assert [(await client.reply()).status for _ in range(3)] == [200, 404, 200]
        await stream.aclose()


async def test_connection_serves_one_watch_after_another(mock_clock: MockClock) -> None:
    async with served() as api:
        path, at = api.path("configmaps"), await api.head()
        stream = await connect(api)
        asked = request(f"{path}?watch=1&timeoutSeconds=5&resourceVersion={at}")
        await stream.send_all(asked + asked)
        first, second = Watch(), Watch()
        await api.create("configmaps", config_map("a"))
        await advance(mock_clock, 6)
        chunks = Chunks(stream, first)
        await chunks.read()
        await api.create("configmaps", config_map("b"))
        await advance(mock_clock, 6)
        again = Chunks(stream, second)
        again.buffer = chunks.buffer
        await again.read()
        assert len(await first.end()) == 1
        assert len(await second.end()) == 2
        await stream.aclose()


async def test_watch_pipelined_after_other_requests_gets_its_events() -> None:
    async with served() as api:
        await api.create("configmaps", config_map("a"))
        path = api.path("configmaps")
        stream = await connect(api)
        await stream.send_all(request(f"{path}/a") + request(f"{path}?watch=1"))
        client = Client(stream)
        assert orjson.loads((await client.reply()).body)["metadata"]["name"] == "a"
        watch = Watch()
        chunks = Chunks(stream, watch)
        chunks.buffer = bytes(client._buffer)
        api.nursery.start_soon(chunks.read)
        assert await watch.types_and_names(1) == [("ADDED", "a")]
        await stream.aclose()
        await watch.wait_over()


async def test_http_1_0_client_gets_no_chunks(mock_clock: MockClock) -> None:
    async with served() as api:
        await api.create("configmaps", config_map("a"))
        for keep_alive in ("", "Connection: keep-alive\r\n"):
            stream = await connect(api)
            target = f"{api.path('configmaps')}?watch=1&timeoutSeconds=5"
            await stream.send_all(
                f"GET {target} HTTP/1.0\r\nAuthorization: Bearer admin-token\r\n{keep_alive}\r\n".encode()
            )
            await advance(mock_clock, 6)
            received = b""
            while data := await stream.receive_some(65536):
                received += data
            head, _, body = received.partition(b"\r\n\r\n")
            assert b"connection: close" in head
            assert b"chunked" not in head
            assert [orjson.loads(line)["type"] for line in body.splitlines()] == ["ADDED"]
            await stream.aclose()


async def test_client_that_does_not_read_to_the_end_of_an_event_is_disconnected(
    mock_clock: MockClock,
) -> None:
    async with served() as api:
        at = await api.head()
        query = {"resourceVersion": at, "timeoutSeconds": 5}
        async with watching(api, api.path("configmaps"), stalled=True, **query) as watch:
            await settled()
            for number in range(12):
                await api.create("configmaps", config_map(f"c-{number:02}", big="x" * 100_000))
            for _ in range(12):
                await advance(mock_clock, 1)
            watch.resume()  # type: ignore[attr-defined]
            await watch.wait_over()
            assert not watch.ended


async def test_client_that_reads_at_the_last_moment_gets_whole_events(mock_clock: MockClock) -> None:
    async with served() as api:
        at = await api.head()
        query = {"resourceVersion": at, "timeoutSeconds": 5}
        async with watching(api, api.path("configmaps"), stalled=True, **query) as watch:
            await settled()
            for number in range(12):
                await api.create("configmaps", config_map(f"c-{number:02}", big="x" * 100_000))
            for _ in range(7):
                await advance(mock_clock, 1)
            watch.resume()  # type: ignore[attr-defined]
            events = await watch.end()
            assert 0 < len(events) < 12
            assert [event["object"]["metadata"]["name"] for event in events] == [
                f"c-{number:02}" for number in range(len(events))
            ]
