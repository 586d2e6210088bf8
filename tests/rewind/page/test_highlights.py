"""GET timeline/highlights: fights over fields and failing objects, however many other events there are."""

from __future__ import annotations

from typing import Any

from rewound.actors.rewind.moments import rfc3339
from tests.browser.journal_page import patch
from tests.gateway.api import ALICE, Api, config_map, served
from tests.rewind.test_at import allow

TIMELINE = "/apis/rewound.cluster.io/v1/timeline"


async def highlights(api: Api, query: str = "", **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = (await api.ask("GET", f"{TIMELINE}/highlights{query}", **more)).expect(200)
    return found


async def test_a_fight_below_hundreds_of_other_changes() -> None:
    async with served() as api:
        await api.create("configmaps", config_map("fought", color="blue"))
        await api.create("configmaps", config_map("calm", color="blue"))
        path = api.path("configmaps", name="fought")
        for number in range(6):
            api.clock.advance(1)
            await patch(api, path, {"data": {"color": str(number)}}, fieldManager=("one", "two")[number % 2])
        for number in range(30):
            change = {"data": {"color": str(number)}}
            await patch(api, api.path("configmaps", name="calm"), change, fieldManager="one")
        (fight,) = (await highlights(api))["fights"]
        assert (fight["name"], fight["field"], fight["turns"]) == ("fought", "data.color", 6)
        assert [one["fieldManager"] for one in fight["authors"]] == ["one", "two"]
        assert (await highlights(api, "?type=!configmaps"))["fights"] == []
        assert (await highlights(api, "?name=calm"))["fights"] == []
        # The authors of marks are known too, to callers who may see them.
        lives = (await api.ask("GET", f"{TIMELINE}/objects?type=configmaps&name=fought")).expect(200)["items"]
        assert lives[0]["authors"][-2:] == ["admin with one", "admin with two"]
        assert len(lives[0]["authors"]) == len(lives[0]["marks"])
        await allow(api, {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]})
        query = "?namespace=default"
        assert (await highlights(api, query, token=ALICE))["fights"] == []
        lives = (await api.ask("GET", f"{TIMELINE}/objects{query}", token=ALICE)).expect(200)["items"]
        assert lives and not any("authors" in life for life in lives)


async def test_objects_that_fail_are_found_as_they_were() -> None:
    async with served() as api:
        for name in ("web", "db"):
            await api.create(
                "pods", {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "c"}]}}
            )
        status = {"status": {"phase": "Failed", "reason": "Evicted"}}
        await patch(api, f"{api.path('pods', name='db')}/status", status)
        api.clock.advance(60)
        failed = api.clock.now()
        api.clock.advance(60)
        found = await highlights(api, "?status=false")
        assert [(one["name"], one["phase"]) for one in found["failing"]] == [("db", "Evicted")]
        assert found["failingTotal"] == 1
        # Many that fail in the same way do not hide one that fails in another.
        for name, reason in (("job", "DeadlineExceeded"), ("one", "Evicted"), ("two", "Evicted")):
            spec = {"containers": [{"name": "c", "image": "c"}]}
            await api.create("pods", {"metadata": {"name": name}, "spec": spec})
            status = {"status": {"phase": "Failed", "reason": reason}}
            await patch(api, f"{api.path('pods', name=name)}/status", status)
        found = await highlights(api, "?status=false")
        assert [one["name"] for one in found["failing"]] == ["two", "job", "one", "db"]
        for name in ("db", "job", "one", "two"):
            await api.delete("pods", name)
        assert (await highlights(api))["failing"] == []
        found = await highlights(api, f"?to={rfc3339(failed)}")
        assert [one["name"] for one in found["failing"]] == ["db"]
