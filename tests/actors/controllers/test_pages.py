"""A page of a collection is bounded in objects and bytes, and one is read in each pass, so that none blocks the event
loop.
"""

from __future__ import annotations

import pytest
import trio

from rewound.actors.controllers import stored_objects
from rewound.actors.controllers.stored_objects import (
    PAGE_BYTES,
    PAGE_SIZE,
    Page,
    Position,
    each_stored,
    next_page,
    take_pages,
)
from rewound.journal.view import View
from tests.actors.object_store import Store, open_store


def pages(store: Store) -> list[list[str]]:
    found: list[list[str]] = []
    after: Position | None = None
    while True:
        with store.journal.read() as view:
            rows = list(next_page(view, store.journal.type_id("configmaps"), "default", after))
        if not rows:
            return found
        found.append([name for _, name, _ in rows])
        after = rows[-1][:2]


async def test_pages_are_bounded_by_bytes() -> None:
    async with open_store() as store:
        for name in "abcde":
            data = {"x": "x" * (PAGE_BYTES // 2)}
            await store.create("configmaps", {"metadata": {"name": name}, "data": data})
        assert pages(store) == [["a", "b"], ["c", "d"], ["e"]]


async def test_pages_are_bounded_by_objects() -> None:
    async with open_store() as store:
        for number in range(PAGE_SIZE + 1):
            await store.create("configmaps", {"metadata": {"name": f"{number:03}"}})
        assert [len(page) for page in pages(store)] == [PAGE_SIZE, 1]


async def test_a_pass_reads_one_page_of_all_scans(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a start many controllers scan all objects at once."""
    monkeypatch.setattr(stored_objects, "PAGE_SIZE", 1)
    pages_read = most = 0

    def count(_view: View, _page: Page) -> None:
        nonlocal pages_read
        pages_read += 1

    async def other(done: trio.Event) -> None:
        nonlocal most
        while not done.is_set():
            before = pages_read
            await trio.lowlevel.checkpoint()
            most = max(most, pages_read - before)

    async with open_store() as store:
        for number in range(10):
            await store.create("configmaps", {"metadata": {"name": f"{number}"}})
        type_id, done = store.journal.type_id("configmaps"), trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(other, done)
            async with trio.open_nursery() as scans:
                for _ in range(20):
                    scans.start_soon(take_pages, store.journal, type_id, None, count)
            done.set()
    assert pages_read == 200
    assert most <= 2  # those of the pass before and after it, as trio runs tasks in any order


async def test_scan_of_a_type_reads_the_pages_of_all_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_objects, "PAGE_SIZE", 2)
    wanted = [(namespace, name) for namespace in ("default", "other") for name in "abc"]
    async with open_store() as store:
        await store.create("namespaces", {"metadata": {"name": "other"}}, namespace="")
        for namespace, name in wanted:
            await store.create("configmaps", {"metadata": {"name": name}}, namespace=namespace)
        found = [
            (stored["metadata"]["namespace"], stored["metadata"]["name"])
            async for stored in each_stored(store.journal, store.journal.type_id("configmaps"), None)
        ]
        assert [each for each in found if each in wanted] == wanted
