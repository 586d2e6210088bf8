"""What changes nothing is in no stream: dry runs, refused writes, and writes that are equal to what is there."""

from __future__ import annotations

import pytest

from actors.errors import StorageRefused
from actors.store.committer import Committer
from tests.actors.object_store import Refused
from tests.gateway.api import config_map, served
from tests.gateway.idle import until_idle
from tests.gateway.watch.watching import told, watching

MERGE = {"content-type": "application/merge-patch+json"}


async def test_only_the_last_write_shows() -> None:
    async with served() as api, watching(api, api.path("configmaps")) as watch:
        await api.create("configmaps", config_map("a"))
        assert await watch.told(1) == [("ADDED", "a")]
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
        assert await watch.told(1) == [("ADDED", "z")]
        await until_idle()
        assert watch.untaken == []


async def test_a_finalizer_holds_the_deleted_event_back() -> None:
    async with served() as api, watching(api, api.path("configmaps")) as watch:
        held = {"metadata": {"name": "a", "finalizers": ["example.com/hold"]}}
        await api.create("configmaps", held)
        await api.delete("configmaps", "a")
        await api.replace("configmaps", {"metadata": {"name": "a", "finalizers": []}})
        events = await watch.take(3)
        assert [told(event)[0] for event in events] == ["ADDED", "MODIFIED", "DELETED"]
        assert "deletionTimestamp" in events[1]["object"]["metadata"]
        assert events[2]["object"]["metadata"]["finalizers"] == ["example.com/hold"]


async def test_a_refused_commit_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal is full for a while: nothing of that time was ever there."""
    async with served() as api, watching(api, api.path("configmaps")) as watch:
        with monkeypatch.context() as full:
            full.setattr(Committer, "_append", lambda *_: StorageRefused("no room"))
            with pytest.raises(Refused):
                await api.create("configmaps", config_map("lost"))
        await api.create("configmaps", config_map("a"))
        assert await watch.told(1) == [("ADDED", "a")]
