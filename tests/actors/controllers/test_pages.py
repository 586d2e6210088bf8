"""A page of a collection is bounded in objects and bytes, so that large objects do not block the event loop."""

from __future__ import annotations

from rewound.actors.controllers.stored_objects import PAGE_BYTES, PAGE_SIZE, Position, next_page
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
