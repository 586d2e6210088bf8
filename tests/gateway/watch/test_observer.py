"""An observer is called when a watch starts, and when it ends: with the reason and how many bytes it sent."""

from __future__ import annotations

import orjson
import pytest
from trio.testing import MockClock

from rewound.gateway.watch.selection import Selection
from rewound.server.extensions import Extensions
from tests.gateway.api import config_map, served
from tests.gateway.observing import Observer
from tests.gateway.watch.http2_watches import connection
from tests.gateway.watch.watching import (
    Watch,
    connect,
    ports,
    request,
    stalling_transports,
    transports,
    watching,
)
from tests.gateway.watch.websocket_client import CLOSE, masked, websocket_client
from tests.settling import advance, settled

PATH = "/api/v1/namespaces/default/secrets"
STAGES = ["received", "attributes", "decision", "started", "complete"]


def status(transport: str) -> int:
    return 101 if transport in ("ws", "wss") else 200


def size(watch: Watch, transport: str) -> int:
    """Return the size of a stream's body: its events as sent, each with a line feed except in WebSocket messages."""
    events = sum(len(orjson.dumps(event)) for event in watch.events)
    return events if transport in ("ws", "wss") else events + len(watch.events)


@transports
async def test_watch_that_times_out_is_reported_complete(transport: str, mock_clock: MockClock) -> None:
    observer = Observer()
    async with served(extensions=Extensions(observer=observer), **ports(transport)) as api:
        at = await api.head()
        async with (
            watching(api, PATH, transport, resourceVersion=at, timeoutSeconds=600) as watch,
            watching(api, PATH, transport, resourceVersion=at, timeoutSeconds=900) as other,
        ):
            for name in ("a", "b"):
                await api.create("secrets", config_map(name))
            await watch.take(2)
            await other.take(2)
            records = [
                record for record in observer.records if record.method == "GET" and record.path == PATH
            ]
            assert [record.stages for record in records] == [STAGES[:-1]] * 2
            await advance(mock_clock, 601)
            await watch.end()
            await settled()
            assert [record.stages[-1] for record in records] == ["complete", "started"]
            await api.create("secrets", config_map("c"))
            await other.take(1)
            await advance(mock_clock, 301)
            await other.end()
            await settled()
    assert [record.stages for record in records] == [STAGES] * 2
    assert records[0].end == (status(transport), size(watch, transport), False)
    assert records[1].end == (status(transport), size(other, transport), False)
    assert records[0].observed_attributes is not None and records[0].observed_attributes.verb == "watch"


@transports
async def test_watch_whose_client_disconnects_is_reported_cut_off(transport: str) -> None:
    observer = Observer()
    async with served(extensions=Extensions(observer=observer), **ports(transport)) as api:
        async with watching(api, PATH, transport) as watch:
            await api.create("secrets", config_map("a"))
            await watch.take(1)
        [record, _] = await observer.ended(2, PATH)
    assert transport in ("ws", "wss") or watch.headers[b"audit-id"] == record.audit_id
    assert (record.stages, record.end) == (STAGES, (status(transport), size(watch, transport), True))


@transports
async def test_watch_of_a_stopping_server_is_reported_complete(transport: str) -> None:
    observer = Observer()
    async with (
        served(extensions=Extensions(observer=observer), **ports(transport)) as api,
        watching(api, PATH, transport) as watch,
    ):
        await api.create("secrets", config_map("a"))
        await watch.take(1)
        await api.close_idle()
        api.stop.set()
        await watch.end()
        [record, _] = await observer.ended(2, PATH)
        assert record.stages == STAGES
        assert record.end == (status(transport), size(watch, transport), False)


@stalling_transports
async def test_bytes_of_a_slow_reader_are_counted_exactly(transport: str, mock_clock: MockClock) -> None:
    """Its events are sent in parts, some by the sweep and some by its catch-up task."""
    observer = Observer()
    async with served(extensions=Extensions(observer=observer), **ports(transport)) as api:
        at = await api.head()
        query = {"resourceVersion": at, "timeoutSeconds": 600}
        async with watching(api, PATH, transport, stalled=True, **query) as watch:
            await settled()
            for number in range(12):
                await api.create("secrets", {**config_map(f"s-{number}"), "stringData": {"a": "x" * 30_000}})
            watch.resume()  # type: ignore[attr-defined]
            await watch.take(12)
            await advance(mock_clock, 601)
            await watch.end()
            await settled()
        [record] = [one for one in observer.records if one.method == "GET" and one.path == PATH]
    assert (record.stages, record.end) == (STAGES, (status(transport), size(watch, transport), False))


async def test_each_http2_stream_is_reported(mock_clock: MockClock) -> None:
    observer = Observer()
    async with served(extensions=Extensions(observer=observer)) as api, connection(api) as client:
        timed = await client.watch(PATH, timeoutSeconds=600)
        left = await client.watch(PATH)
        stopped = await client.watch(PATH)
        await api.create("secrets", config_map("a"))
        for watch in (timed, left, stopped):
            await watch.take(1)
        records = [record for record in observer.records if record.method == "GET" and record.path == PATH]
        assert [record.stages for record in records] == [STAGES[:-1]] * 3
        await client.cancel(left)
        await advance(mock_clock, 601)
        await timed.end()
        await settled()
        assert [record.stages[-1] for record in records] == ["complete", "complete", "started"]
        await api.close_idle()
        api.stop.set()
        await stopped.end()
        await observer.ended(4, PATH)
    assert [record.stages for record in records] == [STAGES] * 3
    sent = size(timed, "http2")
    assert [record.end for record in records] == [(200, sent, False), (200, sent, True), (200, sent, False)]


async def test_websocket_closed_by_its_client_is_reported() -> None:
    observer = Observer()
    async with served(extensions=Extensions(observer=observer)) as api:
        async with websocket_client(api, f"{PATH}?watch=1") as raw:
            await api.create("secrets", config_map("a"))
            frame = await raw.frame()
            assert raw.headers[b"audit-id"] == observer.records[-2].audit_id
            await raw.send(masked(CLOSE, b"\x03\xe8"))
            assert (await raw.frame()).code == 1000
        [record, _] = await observer.ended(2, PATH)
    assert (record.stages, record.end) == (STAGES, (101, len(frame.payload), False))


async def test_refused_websocket_is_reported() -> None:
    observer = Observer()
    async with served(extensions=Extensions(observer=observer)) as api:
        async with websocket_client(api, f"{PATH}?watch=1", headers={"Sec-WebSocket-Key": "short"}) as raw:
            assert raw.status == 400
        [record] = await observer.ended(1, PATH)
    assert record.stages == ["received", "attributes", "decision", "complete"]
    assert (record.status, record.cut_off) == (400, False)


@pytest.mark.parametrize("transport", ["plain", "ws"])
async def test_failed_sweep_is_reported_as_panic(transport: str, monkeypatch: pytest.MonkeyPatch) -> None:
    observer = Observer()
    async with served(extensions=Extensions(observer=observer)) as api:
        async with watching(api, PATH, transport) as watch:
            monkeypatch.setattr(Selection, "select", lambda *_: 1 / 0)
            await api.create("secrets", config_map("a"))
            [event] = await watch.end()
            assert event["object"]["code"] == 500
        [record, _] = await observer.ended(2, PATH)
    assert record.stages == [*STAGES[:-1], "panic", "complete"]
    assert record.end == (status(transport), size(watch, transport), False)


async def test_watch_between_pipelined_requests_is_reported(mock_clock: MockClock) -> None:
    observer = Observer()
    async with served(extensions=Extensions(observer=observer)) as api:
        stream = await connect(api)
        paths = ("/version", f"{PATH}?watch=1&timeoutSeconds=60", "/livez")
        await stream.send_all(b"".join(request(path) for path in paths))
        await settled()
        [before] = await observer.ended(1, "/version")
        assert (before.status, before.cut_off) == (200, False)
        await advance(mock_clock, 61)
        [watch] = await observer.ended(1, PATH)
        assert (watch.stages, watch.end) == (STAGES, (200, 0, False))
        [after] = await observer.ended(1, "/livez")
        assert after.end == (200, len("ok"), False)
        await stream.aclose()


async def test_bytes_without_chunks_are_counted_over_http_1_0(mock_clock: MockClock) -> None:
    observer = Observer()
    async with served(extensions=Extensions(observer=observer)) as api:
        stream = await connect(api)
        head = request(f"{PATH}?watch=1&timeoutSeconds=60").replace(b"HTTP/1.1", b"HTTP/1.0")
        await stream.send_all(head)
        await settled()
        await api.create("secrets", config_map("a"))
        await advance(mock_clock, 61)
        received = b""
        while data := await stream.receive_some(65536):
            received += data
        record, _ = await observer.ended(2, PATH)
        assert record.end == (200, len(received.partition(b"\r\n\r\n")[2]), False)
        await stream.aclose()


async def test_failed_sweep_of_http2_streams_is_reported_as_panic(monkeypatch: pytest.MonkeyPatch) -> None:
    observer = Observer()
    async with served(extensions=Extensions(observer=observer)) as api, connection(api) as client:
        watch = await client.watch(PATH)
        monkeypatch.setattr(Selection, "select", lambda *_: 1 / 0)
        await api.create("secrets", config_map("a"))
        await watch.end()
        [record, _] = await observer.ended(2, PATH)
    assert record.stages == [*STAGES[:-1], "panic", "complete"]
    assert record.end == (200, size(watch, "http2"), False)
