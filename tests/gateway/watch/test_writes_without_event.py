"""Writes that change nothing cause no event: dry runs, refused writes, and writes equal to the stored object."""

from __future__ import annotations

import pytest

from rewound.actors.errors import StorageRefused
from rewound.actors.store.committer import BatchWriter
from tests.actors.object_store import Refused
from tests.gateway.api import config_map, served
from tests.gateway.watch.watching import type_and_name, watching
from tests.settling import settled

MERGE = {"content-type": "application/merge-patch+json"}


async def test_writes_without_change_give_no_event() -> None:
    async with served() as api, watching(api, api.path("configmaps")) as watch:
        await api.create("configmaps", config_map("a"))
        assert await watch.types_and_names(1) == [("ADDED", "a")]
        path = api.path("configmaps")
        await api.create("configmaps", config_map("dry"), dryRun="All")
        await api.replace("configmaps", config_map("a", x="dry"), dryRun="All")
        await api.ask("PATCH", f"{path}/a?dryRun=All", b'{"data":{"x":"dry"}}', headers=MERGE)
        await api.delete("configmaps", "a", dryRun="All")
        await api.delete_collection("configmaps", dryRun="All")
        await api.replace("configmaps", config_map("a"))
        await api.ask("PATCH", f"{path}/a", b"{}", headers=MERGE)
        for status, method, where, body in [
            (409, "POST", path, config_map("a")),
            (422, "POST", path, config_map("Bad_Name")),
            (400, "POST", path, b"{"),
            (409, "PUT", f"{path}/a", {"metadata": {"name": "a", "resourceVersion": "1"}}),
            (404, "PUT", f"{path}/none", config_map("none")),
            (404, "DELETE", f"{path}/none", None),
        ]:
            assert (await api.ask(method, where, body)).status == status
        await api.create("configmaps", config_map("z"))
        assert await watch.types_and_names(1) == [("ADDED", "z")]
        await settled()
        assert watch.untaken == []


async def test_deleted_event_waits_for_the_finalizer() -> None:
    async with served() as api, watching(api, api.path("configmaps")) as watch:
        held = {"metadata": {"name": "a", "finalizers": ["example.com/hold"]}}
        await api.create("configmaps", held)
        await api.delete("configmaps", "a")
        await api.replace("configmaps", {"metadata": {"name": "a", "finalizers": []}})
        events = await watch.take(3)
        assert [type_and_name(event)[0] for event in events] == ["ADDED", "MODIFIED", "DELETED"]
        assert "deletionTimestamp" in events[1]["object"]["metadata"]
        assert events[2]["object"]["metadata"]["finalizers"] == ["example.com/hold"]


async def test_failed_commit_gives_no_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the journal is full, commits fail and cause no events."""
    async with served() as api, watching(api, api.path("configmaps")) as watch:
        with monkeypatch.context() as full:
            full.setattr(BatchWriter, "append", lambda *_: StorageRefused("no room"))
            with pytest.raises(Refused):
                await api.create("configmaps", config_map("lost"))
        await api.create("configmaps", config_map("a"))
        assert await watch.types_and_names(1) == [("ADDED", "a")]
