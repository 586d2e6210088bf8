"""Watches in protobuf: every event is a length and a message; over a WebSocket, a binary frame."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio_websocket
from trio.testing import MockClock

from tests.gateway.api import ADMIN, Api, config_map, served
from tests.gateway.protobuf_client import MEDIA, event, message, wrapped
from tests.gateway.watch.watching import Chunks, Watch, connect, watching, with_query
from tests.settling import advance, settled

STREAM = f"{MEDIA};stream=watch"


async def first_events(api: Api, count: int, **query: Any) -> list[tuple[str, Any]]:
    """Return the first events of a new watch over HTTP/1.1."""
    watch = Watch()
    async with await connect(api) as stream:
        reader = Events(stream, watch)
        url = with_query(api.path("configmaps"), watch=1, **query)
        await reader.open(url, ADMIN, {"Accept": STREAM})
        await reader.read_head()
        assert (watch.status, watch.headers[b"content-type"]) == (200, STREAM.encode())
        return [await reader.event() for _ in range(count)]


class Events(Chunks):
    """Every chunk is one event, with its length before it."""

    async def event(self) -> tuple[str, Any]:
        size = int(await self._until(b"\r\n"), 16)
        while len(self.buffer) < size + 2:
            await self._more()
        chunk, self.buffer = self.buffer[:size], self.buffer[size + 2 :]
        assert int.from_bytes(chunk[:4], "big") == size - 4
        return event(chunk[4:])


async def test_events_are_length_prefixed_messages() -> None:
    async with served() as api:
        at = await api.head()
        await api.create("configmaps", config_map("a", k="v"))
        await api.replace("configmaps", config_map("a", k="w" * 70_000))
        await api.delete("configmaps", "a")
        found = await first_events(api, 3, resourceVersion=at)
        assert [type_ for type_, _ in found] == ["ADDED", "MODIFIED", "DELETED"]
        assert [len(shown.data["k"]) for _, shown in found] == [1, 70_000, 70_000]
        assert found[0][1].metadata.namespace == "default"


async def test_initial_events_and_bookmarks_in_protobuf(mock_clock: MockClock) -> None:
    async with served() as api:
        await api.create("configmaps", config_map("a"))
        found: list[tuple[str, Any]] = []

        async def watch() -> None:
            found.extend(await first_events(api, 2, allowWatchBookmarks="true", timeoutSeconds=5))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            await advance(mock_clock, 6)
        (first, shown), (second, mark) = found
        assert (first, shown.metadata.name, second) == ("ADDED", "a", "BOOKMARK")
        assert mark.metadata.resourceVersion == await api.head()


async def test_watch_beyond_the_history_gets_a_status_in_protobuf() -> None:
    async with served() as api:
        at = await api.head()
        await api.create("configmaps", config_map("a"))
        api.clock.advance(400)
        await api.create("configmaps", config_map("b"))
        [(type_, status)] = await first_events(api, 1, resourceVersion=at)
        assert (type_, status.reason, status.code) == ("ERROR", "Expired", 410)


async def test_json_and_protobuf_watches_get_the_same_event() -> None:
    async with served() as api, watching(api, api.path("configmaps")) as other:
        at = await api.head()
        await api.create("configmaps", config_map("a"))
        [(_, shown)] = await first_events(api, 1, resourceVersion=at)
        [event_] = await other.take(1)
        assert event_["object"]["metadata"]["uid"] == shown.metadata.uid


@pytest.mark.parametrize("size", [1, 200, 70_000])
async def test_protobuf_over_a_websocket(size: int) -> None:
    async with served() as api, await connect(api) as stream, trio.open_nursery() as nursery:
        at = await api.head()
        connection = await trio_websocket.wrap_client_stream(
            nursery,
            stream,
            "localhost",
            with_query(api.path("configmaps"), watch=1, resourceVersion=at),
            extra_headers=[(b"authorization", f"Bearer {ADMIN}".encode()), (b"accept", MEDIA.encode())],
        )
        await api.create("configmaps", config_map("a", k="x" * size))
        frame = await connection.get_message()
        assert isinstance(frame, bytes)
        type_, shown = event(frame)
        assert (type_, len(shown.data["k"])) == ("ADDED", size)
        nursery.cancel_scope.cancel()


async def test_protobuf_watch_of_one_object() -> None:
    async with served() as api:
        await api.create("configmaps", config_map("other"))
        sent = message("ConfigMap")
        sent.metadata.name = "a"
        body = wrapped("v1", "ConfigMap", sent)
        await api.ask("POST", api.path("configmaps"), body, headers={"content-type": MEDIA})
        [(_, shown)] = await first_events(api, 1, fieldSelector="metadata.name=a")
        assert shown.metadata.name == "a"
        await settled()
