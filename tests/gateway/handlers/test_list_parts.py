"""A list in parts holds memory for one part, less if there is no room, and ends at the client's timeout."""

from __future__ import annotations

import orjson
import pytest
import trio

from rewound.actors.errors import TimedOut
from rewound.actors.store.reads import ListOptions, ListReader
from rewound.gateway.handlers import lists
from rewound.gateway.handlers.lists import ListParts
from rewound.gateway.memory.budget import MemoryBudget
from rewound.gateway.message import Peer, Request
from rewound.gateway.wire.list_layouts import JsonLayout, ListType
from tests.actors.object_store import Store, open_store

COUNT = 30
SIZE = 1000  # of an object, at least
SMALL = 2 * SIZE
PART = 5 * SIZE


@pytest.fixture(autouse=True)
def _short_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "PART", PART)
    monkeypatch.setattr(lists, "SMALL_PART", SMALL)
    monkeypatch.setattr(lists, "SMALL", 0)  # everything is counted
    monkeypatch.setattr("rewound.actors.store.reads.BATCH_ROWS", 10)


async def fill(store: Store) -> None:
    for number in range(COUNT):
        await store.create("configmaps", {"metadata": {"name": f"c{number:02d}"}, "data": {"k": "x" * SIZE}})


async def opened(store: Store, memory: MemoryBudget, seconds: float | None = None) -> ListParts:
    reader = await store.reads.open(store.definition("configmaps"), "default", ListOptions())
    assert isinstance(reader, ListReader)
    request = Request("GET", "/", "", {}, b"", Peer(), user="me")
    parts = ListParts(request, memory, reader, JsonLayout(ListType("L", "v1")), None, seconds)
    await parts.begin(reader.step(), compress=False)
    return parts


async def test_budget_counts_one_part_at_a_time() -> None:
    memory = MemoryBudget(1 << 20)
    async with open_store() as store:
        await fill(store)
        parts = await opened(store, memory)
        body, held = b"", []
        async for part in parts:
            body += part
            held.append(memory.statistics().held)
            assert held[-1] == len(part)
        assert len(orjson.loads(body)["items"]) == COUNT
        assert held[0] > 10 * SIZE  # what the first step had read
        assert max(held[1:]) < 7 * SIZE


async def test_parts_without_room_are_small() -> None:
    memory = MemoryBudget(8 * SIZE)
    async with open_store() as store:
        await fill(store)
        parts = [part async for part in await opened(store, memory)]
        assert len(orjson.loads(b"".join(parts))["items"]) == COUNT
        assert max(map(len, parts)) < 4 * SIZE


async def test_objects_that_become_large_are_divided_among_more_parts() -> None:
    """Defaults may make an object ten times as large as stored."""
    converted = 0

    def grow(body: bytes) -> bytes:
        nonlocal converted
        converted += 1
        return orjson.dumps({**orjson.loads(body), "default": "x" * 10 * SIZE})

    async with open_store() as store:
        await fill(store)
        reader = await store.reads.open(store.definition("configmaps"), "default", ListOptions())
        assert isinstance(reader, ListReader)
        request = Request("GET", "/", "", {}, b"", Peer(), user="me")
        layout = JsonLayout(ListType("L", "v1"))
        parts = ListParts(request, MemoryBudget(1 << 20), reader, layout, grow)
        await parts.begin(reader.step(), compress=False)
        received = []
        async for part in parts:
            received.append(part)
            assert len(part) < 4 * PART + 12 * SIZE
        items = orjson.loads(b"".join(received))["items"]
        assert [one["metadata"]["name"] for one in items] == [f"c{number:02d}" for number in range(COUNT)]
        assert converted == COUNT and len(received) > 12


async def test_reading_ends_after_the_time_that_the_client_allowed(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_store() as store:
        await fill(store)
        parts = await opened(store, MemoryBudget(1 << 20), seconds=5)
        await anext(parts)
        await trio.sleep(60)  # of the client does not count
        read = ListReader.read

        async def slowly(self: ListReader, size: int | None = None) -> list[bytes]:
            await trio.sleep(3)
            return await read(self, size)

        monkeypatch.setattr(ListReader, "read", slowly)
        await anext(parts)
        with pytest.raises(TimedOut):
            await anext(parts)
