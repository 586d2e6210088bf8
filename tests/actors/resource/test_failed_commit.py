"""A failed commit also fails everything that was decided after it; later writes succeed, with newer versions."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from rewound.actors.store.committer import Committer
from rewound.journal.batch import Batch
from rewound.journal.errors import StorageFull
from rewound.journal.log import OnPut
from tests.actors.object_store import Refused, Store, open_store


class Disk:
    """Wraps the journal's `write`: a test makes it fail or wait."""

    def __init__(self, store: Store) -> None:
        self._write = store.journal.write
        self.full = False
        store.journal.write = self  # type: ignore[method-assign,assignment]

    def __call__(self, batch: Batch, on_put: OnPut | None = None) -> None:
        if self.full:
            raise StorageFull(Path("data"), "No space left on device")
        self._write(batch, on_put)


def config_map(name: str, **data: str) -> dict:
    return {"metadata": {"name": name}, "data": data}


def version(document: dict) -> int:
    return int(document["metadata"]["resourceVersion"])


async def test_failed_write_stores_nothing() -> None:
    async with open_store() as store:
        disk = Disk(store)
        kept = await store.create("configmaps", config_map("kept", text="old"))
        disk.full = True
        for attempt in (
            store.create("configmaps", config_map("new")),
            store.replace("configmaps", config_map("kept", text="new")),
            store.delete("configmaps", "kept"),
        ):
            with pytest.raises(Refused, match="No space left on device") as refused:
                await attempt
            assert refused.value.reason == "InsufficientStorage"
        listed = await store.list("configmaps")
        assert [item["data"] for item in listed["items"]] == [{"text": "old"}]
        assert version(listed) == version(kept)


async def test_same_write_succeeds_later_with_a_newer_version() -> None:
    async with open_store() as store:
        disk = Disk(store)
        before = version(await store.create("configmaps", config_map("a")))
        disk.full = True
        for _ in range(3):
            with pytest.raises(Refused):
                await store.create("configmaps", config_map("b"))
        disk.full = False
        made = await store.create("configmaps", config_map("b"))
        # Offsets given to the refused proposals are never used again.
        assert version(made) == before + 4
        assert version(await store.replace("configmaps", config_map("b", text="x"))) == before + 5


async def test_versions_increase_after_a_restart() -> None:
    async with open_store() as store:
        disk = Disk(store)
        before = version(await store.create("configmaps", config_map("a")))
        disk.full = True
        with pytest.raises(Refused):
            await store.create("configmaps", config_map("b"))
        await store.restart()
        assert version(await store.create("configmaps", config_map("b"))) > before


async def test_reads_and_validation_work_while_the_disk_is_full() -> None:
    async with open_store() as store:
        disk = Disk(store)
        await store.create("configmaps", config_map("a", text="x"))
        disk.full = True
        assert (await store.get("configmaps", "a"))["data"] == {"text": "x"}
        assert (await store.create("configmaps", config_map("b"), dryRun="All"))["metadata"]["name"] == "b"
        assert version(await store.replace("configmaps", config_map("a", text="x"))) == store.journal.head
        with pytest.raises(Refused) as refused:
            await store.create("configmaps", config_map("a"))
        assert refused.value.reason == "AlreadyExists"


async def test_writes_decided_on_a_failed_batch_fail_too() -> None:
    """Three writes depend on each other, and the commit of the first fails."""
    async with open_store() as store:
        disk = Disk(store)
        await store.create("configmaps", config_map("a"))
        committer = Committer(store.journal, store.feed)
        store.directory.actor(store.definition("configmaps"))._committer = committer
        replies: list[str] = []

        async def write(what: str) -> None:
            try:
                if what == "create" or what == "again":
                    await store.create("configmaps", config_map("b"))
                else:
                    await store.replace("configmaps", config_map("b", text=what))
                replies.append(f"{what} done")
            except Refused as refused:
                replies.append(f"{what} {refused.reason}")

        async with trio.open_nursery() as nursery:
            for what in ("create", "again", "replace"):
                nursery.start_soon(write, what)
                await wait_all_tasks_blocked()
            assert replies == []
            disk.full = True
            async with trio.open_nursery() as writing:
                writing.start_soon(committer.run)
                await committer.drained()
                await wait_all_tasks_blocked()
                assert sorted(replies) == [
                    f"{what} InsufficientStorage" for what in ("again", "create", "replace")
                ]
                disk.full = False
                await write("create")
                assert replies[-1] == "create done"
                await write("again")
                assert replies[-1] == "again AlreadyExists"
                writing.cancel_scope.cancel()


async def test_reply_that_depends_on_a_pending_write_waits_for_it() -> None:
    async with open_store() as store:
        await store.create("configmaps", config_map("a"))
        committer = Committer(store.journal, store.feed)
        store.directory.actor(store.definition("configmaps"))._committer = committer
        replies: list[str] = []

        async def create(number: int) -> None:
            try:
                await store.create("configmaps", config_map("b"))
                replies.append(f"{number} made")
            except Refused as refused:
                replies.append(f"{number} {refused.reason}")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(create, 1)
            await wait_all_tasks_blocked()
            nursery.start_soon(create, 2)
            await wait_all_tasks_blocked()
            # Nothing is durable yet: "already exists" could turn out to be wrong.
            assert replies == []
            nursery.start_soon(committer.run)
            await committer.drained()
            await wait_all_tasks_blocked()
            assert sorted(replies) == ["1 made", "2 AlreadyExists"]
            nursery.cancel_scope.cancel()


async def test_drained_returns_after_the_committer_was_cancelled() -> None:
    async with open_store() as store:
        committer = Committer(store.journal, store.feed)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(committer.run)
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        committer.submit([], lambda _: None)
        await committer.drained()
