"""Lifelines in the API: objects from create to delete, among those that the caller may list."""

from __future__ import annotations

import pytest
import trio

from rewound.actors.rewind.moments import rfc3339
from rewound.journal import retention
from tests.actors.object_store import Document
from tests.gateway.api import ALICE, Api, config_map, served
from tests.rewind.page.test_timeline import MERGE, TIMELINE, ask, named, story
from tests.rewind.test_at import allow

OBJECTS = f"{TIMELINE}/objects"
SECOND = 1_000_000


def owned(name: str, owner: Document) -> Document:
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "top", "uid": owner["metadata"]["uid"]}
    return {"metadata": {"name": name, "ownerReferences": [reference]}}


async def test_lives_from_create_to_delete() -> None:
    async with served() as api:
        began = await story(api)
        (life,) = (await ask(api, OBJECTS, type="cm", **{"from": rfc3339(began - SECOND)}))["items"]
        assert (life["kind"], life["name"], life["depth"], life["changes"]) == ("ConfigMap", "web", 0, 3)
        assert (life["created"], life["deleted"]) == (began, began + 20 * SECOND)
        assert life["marks"] == [began + seconds * SECOND for seconds in (0, 10, 20)]
        assert life["phases"] == []
        # In a range in which nothing changed it exists; after its deletion it does not.
        inside = {"from": rfc3339(began + 2 * SECOND), "to": rfc3339(began + 5 * SECOND)}
        (quiet,) = (await ask(api, OBJECTS, type="cm", **inside))["items"]
        assert (quiet["created"], quiet["deleted"], quiet["changes"], quiet["marks"]) == (began, 0, 0, [])
        after = {"from": rfc3339(began + 25 * SECOND)}
        assert (await ask(api, OBJECTS, type="cm", **after))["items"] == []


async def test_dependents_below_owners_in_pages() -> None:
    async with served() as api:
        top = await api.create("configmaps", config_map("top"))
        await api.create("configmaps", config_map("busy"))
        for name in ("b", "a"):
            await api.create("secrets", owned(name, top))
        for number in range(5):
            path = api.path("configmaps", name="busy")
            (await api.ask("PATCH", path, {"data": {"n": str(number)}}, headers=MERGE)).expect(200)
        path = f"{OBJECTS}?type=cm&type=secrets&namespace=default"
        whole = await ask(api, path)
        shape = [(item["name"], item["depth"]) for item in whole["items"]]
        assert shape == [("busy", 0), ("top", 0), ("b", 1), ("a", 1)]
        assert whole["items"][2]["owner"] == top["metadata"]["uid"]
        assert whole["total"] == 4
        page = await ask(api, f"{path}&limit=3")
        rest = await ask(api, f"{path}&limit=3&continue={page['metadata']['continue']}")
        assert page["items"] + rest["items"] == whole["items"]
        assert "continue" not in rest["metadata"]
        flat = await ask(api, f"{path}&roots=false&name=!busy")
        assert {(item["name"], item["depth"]) for item in flat["items"]} == {("a", 0), ("b", 0), ("top", 0)}
        assert named(await ask(api, f"{path}&verb=patch")) == ["busy"]
        # The tree of one object; also after it was deleted.
        uid = top["metadata"]["uid"]
        await api.delete("secrets", "a")
        assert named(await ask(api, f"{path}&under={uid}")) == ["top", "b", "a"]
        one = await ask(api, f"{path}&under={uid}&limit=2")
        assert (named(one), one["total"]) == (["top", "b"], 3)
        assert named(await ask(api, f"{path}&under={uid}&continue={one['metadata']['continue']}")) == ["a"]
        assert named(await ask(api, f"{path}&under=nobody")) == []
        assert named(await ask(api, f"{path}&name=a&name=top")) == ["top", "a"]


async def test_phases_of_namespaces() -> None:
    async with served() as api:
        await api.create("namespaces", {"metadata": {"name": "other"}})
        (life,) = (await ask(api, OBJECTS, type="ns", name="other"))["items"]
        assert [(words, tone) for _, words, tone in life["phases"]] == [("Active", "good")]


async def test_shows_what_the_caller_may_list() -> None:
    async with served() as api:
        await api.create("configmaps", config_map("seen"))
        await api.create("secrets", {"metadata": {"name": "hidden"}, "stringData": {"a": "hunter2"}})
        assert (await api.ask("GET", OBJECTS, token=ALICE)).expect(200)["items"] == []
        await allow(api, {"apiGroups": [""], "resources": ["configmaps", "secrets"], "verbs": ["list"]})
        found = (await api.ask("GET", f"{OBJECTS}?namespace=default", token=ALICE)).expect(200)
        assert "seen" in named(found)
        assert "hidden" not in named(found)
        # Without the right to its history, a caller cannot find out by trying who wrote.
        for query in ("user=admin", "manager=test"):
            of_user = (await api.ask("GET", f"{OBJECTS}?namespace=default&{query}", token=ALICE)).expect(200)
            assert of_user["items"] == []


async def test_updates_of_status_are_left_out() -> None:
    async with served() as api:
        path = "/api/v1/nodes/n1"
        await api.create("nodes", {"metadata": {"name": "n1"}})
        labels = {"metadata": {"labels": {"a": "b"}}}
        (await api.ask("PATCH", path, labels, headers=MERGE)).expect(200)
        before = await api.head()
        for status in ("False", "True"):
            ready = {"status": {"conditions": [{"type": "Ready", "status": status}]}}
            (await api.ask("PATCH", f"{path}/status", ready, headers=MERGE)).expect(200)
        (life,) = (await ask(api, f"{OBJECTS}?type=node"))["items"]
        (without,) = (await ask(api, f"{OBJECTS}?type=node&status=false"))["items"]
        assert (life["changes"], without["changes"]) == (4, 2)
        assert [words for _, words, _ in without["phases"]] == ["Unknown", "NotReady", "Ready"]
        compared = f"{TIMELINE}/comparison?type=node&from={before}"
        assert named(await ask(api, compared)) == ["n1"]
        assert named(await ask(api, f"{compared}&status=false")) == []
        (await api.ask("PATCH", path, {"metadata": {"labels": {"a": "c"}}}, headers=MERGE)).expect(200)
        (changed,) = (await ask(api, f"{compared}&status=false"))["items"]
        assert changed["from"] == before


async def raise_floor(api: Api, floor: int) -> None:
    """As the server does, outside of requests."""
    assert api.store is not None
    with trio.fail_after(60):
        while not retention.advance(api.store.journal, floor, 1).done:
            await trio.lowlevel.checkpoint()


class NoTime:
    """A turn on the event loop that ends after each step."""

    def over(self) -> bool:
        return True


async def test_requests_at_the_same_time_while_events_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rewound.rewind.turns.Turn", NoTime)
    for name in ("_FOLDED", "_COPIED"):
        monkeypatch.setattr(f"rewound.actors.rewind.lifelines.{name}", 1)
    async with served() as api:
        for number in range(6):
            await api.create("configmaps", config_map(f"old-{number}"))
        floor = int(await api.head())
        for number in range(6):
            await api.create("configmaps", config_map(f"new-{number}"))
        path = f"{OBJECTS}?type=cm&namespace=default&name=old-*&name=new-*"
        expected = {f"{age}-{number}" for age in ("old", "new") for number in range(6)}

        async def look(limit: int) -> None:
            seen, token = list[str](), ""
            while not seen or token:
                response = await api.ask("GET", f"{path}&limit={limit}&continue={token}")
                if response.status == 410:  # events were removed since the first page
                    seen, token = [], ""
                    continue
                page = response.expect(200)
                seen, token = seen + named(page), page["metadata"].get("continue", "")
            assert sorted(seen) == sorted(expected)

        for _ in range(2):
            async with trio.open_nursery() as nursery:
                for limit in (5, 20, 30):
                    nursery.start_soon(look, limit)
                nursery.start_soon(raise_floor, api, floor)
                for number in range(4):
                    await api.create("secrets", {"metadata": {"generateName": f"s-{number}-"}})
            floor += 3


async def test_refused_tokens() -> None:
    async with served() as api:
        for token in ("x", "W10", "WzEsMl0", "WzEsLTIsM10", "eyJmcm9tIjogMX0"):
            refused = (await api.ask("GET", f"{OBJECTS}?continue={token}")).expect(400)
            assert "continue key is not valid" in refused["message"]
