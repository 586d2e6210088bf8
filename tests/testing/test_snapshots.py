"""Restoring a snapshot brings every object back exactly; everything derived from objects follows."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from rewound.actors.runtime import turns
from rewound.actors.store import committer
from rewound.actors.store.feed import Feed
from rewound.journal.batch import Batch
from rewound.journal.log import Journal, OnPut
from rewound.journal.records import Event
from rewound.testing import controls
from tests.actors.object_store import memory_folder
from tests.gateway.api import ALICE, Api, ApiResponse, config_map, labelled, names, served
from tests.gateway.journal_commands import run_journal

SNAPSHOTS = "/debug/rewound/snapshots"
Document = dict[str, Any]


async def take(api: Api, name: str = "before") -> None:
    (await api.ask("POST", SNAPSHOTS, {"name": name})).expect(201)


async def restore(api: Api, name: str = "before") -> Document:
    return (await api.ask("POST", f"{SNAPSHOTS}/{name}/restore")).expect(200)


def unversioned(document: Document) -> Document:
    metadata = {key: value for key, value in document["metadata"].items() if key != "resourceVersion"}
    return {**document, "metadata": metadata}


async def test_restore_brings_objects_back_exactly() -> None:
    async with served(enable_test_controls=True) as api:
        changed = await api.create("configmaps", config_map("changed", color="blue"))
        deleted = await api.create("configmaps", config_map("deleted", color="blue"))
        await take(api)
        await api.replace("configmaps", config_map("changed", color="red"))
        await api.delete("configmaps", "deleted")
        await api.create("configmaps", config_map("deleted", color="other"))
        await api.delete("configmaps", "deleted")
        await api.create("configmaps", config_map("added"))
        head = int(await api.head())
        result = await restore(api)
        assert result["changed"] == 3
        for before in (changed, deleted):
            now = await api.get("configmaps", before["metadata"]["name"])
            assert unversioned(now) == unversioned(before)
            assert int(now["metadata"]["resourceVersion"]) > head
        assert (await api.ask("GET", api.path("configmaps", name="added"))).status == 404
        assert (await restore(api))["changed"] == 0
        (listed,) = (await api.ask("GET", SNAPSHOTS)).expect(200)["items"]
        assert listed["version"] == result["version"]  # the same state, with fewer events after it


async def test_restored_objects_can_be_written_again() -> None:
    async with served(enable_test_controls=True) as api:
        before = await api.create("configmaps", config_map("one", color="blue"))
        await take(api)
        await api.delete("configmaps", "one")
        await api.create("configmaps", config_map("two"))
        await restore(api)
        conflict = await api.ask("PUT", api.path("configmaps", name="one"), before)
        assert conflict.status == 409
        again = await api.replace("configmaps", config_map("one", color="red"))
        assert again["metadata"]["uid"] == before["metadata"]["uid"]
        await api.create("configmaps", config_map("two"))
        await restore(api)
        assert (await api.get("configmaps", "one"))["data"] == {"color": "blue"}


async def test_deletion_that_waits_for_a_finalizer_is_undone() -> None:
    async with served(enable_test_controls=True) as api:
        await take(api, "empty")
        held = {"metadata": {"name": "held", "finalizers": ["example.com/held"]}}
        before = await api.create("configmaps", held)
        await take(api)
        await api.delete("configmaps", "held")
        assert "deletionTimestamp" in (await api.get("configmaps", "held"))["metadata"]
        await restore(api)
        assert unversioned(await api.get("configmaps", "held")) == unversioned(before)
        await restore(api, "empty")  # although it has a finalizer
        assert names(await api.list("configmaps")) == []


async def test_restored_namespace_has_its_objects_and_controllers_leave_it_alone() -> None:
    async with served(enable_test_controls=True) as api:
        await api.create("namespaces", labelled("shop"))
        owner = await api.create("configmaps", config_map("owner"), "shop")
        reference = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": "owner",
            "uid": owner["metadata"]["uid"],
        }
        await api.create(
            "configmaps", {"metadata": {"name": "owned", "ownerReferences": [reference]}}, "shop"
        )
        await take(api)
        await api.delete("namespaces", "shop")
        with trio.fail_after(60):
            while (await api.ask("GET", api.path("namespaces", None, "shop"))).status == 200:
                pass
        await restore(api)
        assert {"owner", "owned"} <= set(names(await api.list("configmaps", "shop")))
        head = await api.head()
        await take(api, "after")  # waits until controllers have nothing left to do
        assert await api.head() == head
        await api.create("configmaps", config_map("new"), "shop")


async def test_namespace_that_waits_for_a_finalizer_is_active_again() -> None:
    async with served(enable_test_controls=True) as api:
        await api.create("namespaces", labelled("shop"))
        held = {"metadata": {"name": "held", "finalizers": ["example.com/held"]}}
        before = await api.create("configmaps", held, "shop")
        await take(api)
        await api.delete("namespaces", "shop")
        with trio.fail_after(60):
            while "deletionTimestamp" not in (await api.get("configmaps", "held", "shop"))["metadata"]:
                pass
        await restore(api)
        assert (await api.get("namespaces", "shop"))["status"] == {"phase": "Active"}
        await take(api, "after")  # waits until controllers have nothing left to do
        assert unversioned(await api.get("configmaps", "held", "shop")) == unversioned(before)
        await api.create("configmaps", config_map("new"), "shop")


async def test_quotas_follow_a_restore() -> None:
    async with served(enable_test_controls=True) as api:
        quota = {"metadata": {"name": "few"}, "spec": {"hard": {"count/configmaps": "1"}}}
        await api.create("resourcequotas", quota)
        with trio.fail_after(60):
            while not (await api.get("resourcequotas", "few"))["status"].get("used"):
                pass
        await take(api)
        await api.create("configmaps", config_map("one"))
        assert (await api.ask("POST", api.path("configmaps"), config_map("two"))).status == 403
        await take(api, "full")
        await restore(api)
        await api.create("configmaps", config_map("two"))
        await restore(api, "full")
        assert (await api.get("resourcequotas", "few"))["status"]["used"] == {"count/configmaps": "1"}
        assert (await api.ask("POST", api.path("configmaps"), config_map("two"))).status == 403


async def test_service_addresses_follow_a_restore() -> None:
    async with served(enable_test_controls=True) as api:
        service = {"metadata": {"name": "one"}, "spec": {"ports": [{"port": 80}]}}
        address = (await api.create("services", service))["spec"]["clusterIP"]
        await take(api)
        await api.delete("services", "one")
        other = {"metadata": {"name": "two"}, "spec": {"ports": [{"port": 80}], "clusterIP": address}}
        await api.create("services", other)
        await restore(api)
        assert (await api.get("services", "one"))["spec"]["clusterIP"] == address
        refused = await api.ask("POST", api.path("services"), other)
        assert refused.status == 422 and "already allocated" in refused.text
        free = {"metadata": {"name": "three"}, "spec": {"ports": [{"port": 80}]}}
        assert (await api.create("services", free))["spec"]["clusterIP"] != address


def registered(api: Api, plural: str) -> Document:
    schema = {"type": "object"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": plural, "kind": plural.capitalize()},
        "versions": [version],
    }
    return {"metadata": {"name": f"{plural}.example.com"}, "spec": spec}


async def custom(api: Api, method: str, path: str, body: Document | None = None) -> ApiResponse:
    """Send a request to a custom kind; it may take a moment until it is served."""
    for _ in range(1000):
        response = await api.ask(method, f"/apis/example.com/v1/namespaces/default/{path}", body)
        if response.status != 404 or b"page" not in response.body:
            return response
    return response


async def test_custom_kinds_come_and_go_with_their_definitions() -> None:
    async with served(enable_test_controls=True) as api:
        await api.create("customresourcedefinitions", registered(api, "kept"))
        body = {"apiVersion": "example.com/v1", "kind": "Kept", "metadata": {"name": "one"}}
        before = (await custom(api, "POST", "kept", body)).expect(201)
        await take(api)
        await api.delete("customresourcedefinitions", "kept.example.com")
        await api.create("customresourcedefinitions", registered(api, "added"))
        body = {"apiVersion": "example.com/v1", "kind": "Added", "metadata": {"name": "one"}}
        (await custom(api, "POST", "added", body)).expect(201)
        await restore(api)
        assert unversioned((await custom(api, "GET", "kept/one")).expect(200)) == unversioned(before)
        assert (await api.ask("GET", "/apis/example.com/v1/namespaces/default/added/one")).status == 404
        await api.create("customresourcedefinitions", registered(api, "added"))
        listed = (await custom(api, "GET", "added")).expect(200)
        assert listed["items"] == []


async def test_custom_object_keeps_the_defaults_that_clients_saw() -> None:
    """It was stored before its schema had a default, and is written again later."""
    async with served(enable_test_controls=True) as api:
        definition = registered(api, "kept")
        await api.create("customresourcedefinitions", definition)
        body = {"apiVersion": "example.com/v1", "kind": "Kept", "metadata": {"name": "one"}}
        (await custom(api, "POST", "kept", body)).expect(201)
        schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        schema["properties"] = {"size": {"type": "integer", "default": 3}}
        stored = await api.get("customresourcedefinitions", "kept.example.com")
        await api.replace("customresourcedefinitions", {**stored, "spec": definition["spec"]})
        before = (await custom(api, "GET", "kept/one")).expect(200)
        assert before["size"] == 3
        await take(api)
        (await custom(api, "PUT", "kept/one", {**before, "size": 4})).expect(200)
        await restore(api)
        assert unversioned((await custom(api, "GET", "kept/one")).expect(200)) == unversioned(before)


async def test_rights_follow_a_restore() -> None:
    async with served(enable_test_controls=True) as api:
        await take(api)
        path, group = api.path("configmaps"), api.path("clusterroles").split("/")[2]
        binding = {
            "metadata": {"name": "alice"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "view"},
            "subjects": [{"apiGroup": group, "kind": "User", "name": "alice"}],
        }
        await api.create("rolebindings", binding)
        assert (await api.ask("GET", path, token=ALICE)).status == 200
        await take(api, "bound")
        await restore(api)
        assert (await api.ask("GET", path, token=ALICE)).status == 403
        await restore(api, "bound")
        assert (await api.ask("GET", path, token=ALICE)).status == 200


async def test_restore_amid_writes_leaves_a_sound_journal() -> None:
    with memory_folder() as folder:
        async with served(folder, enable_test_controls=True) as api:
            await api.create("configmaps", config_map("shared", round="0"))
            await take(api)

            async def write(number: int) -> None:
                for turn in range(6):
                    await api.ask("POST", api.path("configmaps"), config_map(f"of-{number}-{turn}"))
                    await api.ask(
                        "PUT", api.path("configmaps", name="shared"), config_map("shared", round=f"{number}")
                    )
                    await api.ask("DELETE", api.path("configmaps", name="shared" if turn == 3 else "of-0-0"))

            async with trio.open_nursery() as nursery:
                for number in range(3):
                    nursery.start_soon(write, number)
                for _ in range(5):
                    await restore(api)
            await restore(api)
            assert [one["data"] for one in (await api.list("configmaps"))["items"]] == [{"round": "0"}]
            await api.finish()
        assert run_journal("verify", f"--data-dir={folder / 'data'}").lines[-1] == "sound"


async def test_unknown_snapshots_and_wrong_bodies_are_refused() -> None:
    async with served(enable_test_controls=True) as api:
        unknown = (await api.ask("POST", f"{SNAPSHOTS}/nothing/restore")).expect(404)
        assert unknown["message"] == 'snapshots "nothing" not found'
        for body in (b"[]", b'{"name": 1}', b'{"name": "a/b"}', b'{"name": "a b"}', b"{"):
            assert (await api.ask("POST", SNAPSHOTS, body)).status == 400, body
        first = (await api.ask("POST", SNAPSHOTS)).expect(201)
        assert first["name"] == "snapshot-1"
        assert (await api.ask("GET", SNAPSHOTS)).expect(200)["items"] == [first]


class LargeRestore(trio.abc.Instrument):
    """Observes the commit of a restore: where it runs, what runs at the same time, and how its events are published."""

    def __init__(self, patch: pytest.MonkeyPatch, beside: Callable[[], Awaitable[None]]) -> None:
        self.loop_turns = 0
        self.published: list[tuple[int, int]] = []  # events, and turns of the event loop before them
        self.in_loop: list[int] = []  # sizes of batches that were appended in the thread of the event loop
        self._beside = beside
        self._loop = threading.get_ident()
        self._write, self._publish = Journal.write, Feed.publish
        patch.setattr(controls, "LARGE", 10)
        patch.setattr(committer, "PUBLISHED_AT_ONCE", 4)
        patch.setattr(turns, "TURN", -1.0)
        patch.setattr(Journal, "write", lambda *given: self._write_observed(*given))
        patch.setattr(Feed, "publish", lambda feed, events: self._publish_observed(feed, events))

    def _write_observed(self, journal: Journal, batch: Batch, on_put: OnPut | None = None) -> None:
        if threading.get_ident() == self._loop:
            self.in_loop.append(batch.size)
        else:
            trio.from_thread.run(self._beside)
        self._write(journal, batch, on_put)

    def _publish_observed(self, feed: Feed, events: Sequence[Event]) -> None:
        self.published.append((len(events), self.loop_turns))
        self._publish(feed, events)

    def before_io_wait(self, timeout: float) -> None:
        self.loop_turns += 1


async def test_large_restore_does_not_hold_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(enable_test_controls=True) as api, trio.open_nursery() as nursery:
        objects = [await api.create("configmaps", config_map(f"c-{number}", n="1")) for number in range(30)]
        await take(api)
        for number in range(30):
            await api.replace("configmaps", config_map(f"c-{number}", n="2"))
        responses: list[ApiResponse] = []

        async def write(name: str, body: Document) -> None:
            responses.append(await api.ask("PUT", api.path("configmaps", name=name), body))

        async def beside() -> None:
            stale = await api.get("configmaps", "c-0")  # reads continue, with the state before
            assert stale["data"] == {"n": "2"}
            nursery.start_soon(write, "c-0", stale)
            nursery.start_soon(write, "c-1", config_map("c-1", n="3"))
            await wait_all_tasks_blocked()
            assert responses == []

        with monkeypatch.context() as patch:
            seen = LargeRestore(patch, beside)
            trio.lowlevel.add_instrument(seen)
            result = await restore(api)
            trio.lowlevel.remove_instrument(seen)
        assert result["changed"] == 30
        parts = seen.published[:8]
        assert [count for count, _ in parts] == [4] * 7 + [2]
        assert all(before < after for (_, before), (_, after) in pairwise(parts))
        assert 30 not in seen.in_loop
        await wait_all_tasks_blocked()
        assert sorted(one.status for one in responses) == [200, 409]  # decided on the restored state
        assert (await api.get("configmaps", "c-1"))["data"] == {"n": "3"}
        for before in objects[2:] + objects[:1]:
            assert unversioned(await api.get("configmaps", before["metadata"]["name"])) == unversioned(before)
