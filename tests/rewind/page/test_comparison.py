"""The API compares two moments: objects added, removed and changed, among those that the caller may list."""

from __future__ import annotations

import pytest

from rewound.actors.rewind.moments import rfc3339
from tests.gateway.api import ALICE, Api, config_map, served
from tests.rewind.page.test_timeline import MERGE, TIMELINE, ask, named
from tests.rewind.test_at import allow, remove_before, version_of

COMPARISON = f"{TIMELINE}/comparison"


async def changes(api: Api) -> str:
    """Some objects are changed, removed and added after the version that this returns."""
    await api.create("configmaps", config_map("changed", color="blue"))
    await api.create("configmaps", config_map("removed"))
    await api.create("secrets", {"metadata": {"name": "key"}, "stringData": {"a": "hunter2"}})
    before = await api.head()
    api.clock.advance(60)
    for color in ("green", "red"):
        path = api.path("configmaps", name="changed")
        (await api.ask("PATCH", path, {"data": {"color": color}}, headers=MERGE)).expect(200)
    (
        await api.ask("PATCH", api.path("secrets", name="key"), {"stringData": {"a": "x"}}, headers=MERGE)
    ).expect(200)
    await api.delete("configmaps", "removed")
    await api.create("configmaps", config_map("added", color="pink"))
    await api.create("configmaps", config_map("gone"))
    await api.delete("configmaps", "gone")
    return before


async def test_added_removed_and_changed() -> None:
    async with served() as api:
        before = await changes(api)
        path = f"{COMPARISON}?from={before}&type=cm&type=secret&namespace=default"
        found = await ask(api, path)
        assert found["counts"] == {"added": 1, "removed": 1, "changed": 2}
        assert named(found) == ["added", "removed", "changed", "key"]
        added, removed, changed, key = found["items"]
        assert (added["change"], added["summary"]["text"], "from" in added) == ("added", "1 key", False)
        assert (removed["change"], "summary" in removed, "to" in removed) == ("removed", False, False)
        (difference,) = changed["summary"]["changes"]
        assert difference == {"field": "data.color", "old": "blue", "new": "red"}
        assert int(changed["from"]) <= int(before) < int(changed["to"])
        assert key["summary"]["changes"] == [{"field": "data.a", "old": "***", "new": "***"}]
        assert (found["from"]["version"], found["to"]["version"]) == (before, await api.head())
        # With times the result is the same; after the newest version there are no changes.
        by_time = await ask(api, f"{path.replace(before, rfc3339(found['from']['time']), 1)}")
        assert by_time["items"] == found["items"]
        nothing = await ask(api, f"{COMPARISON}?from={await api.head()}")
        assert (nothing["items"], nothing["counts"]["changed"]) == ([], 0)


async def test_pages_and_filters(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served() as api:
        before = await changes(api)
        path = f"{COMPARISON}?from={before}&type=cm"
        assert named(await ask(api, f"{path}&name=changed&name=added")) == ["added", "changed"]
        assert named(await ask(api, f"{path}&name=!rem*&name=!added")) == ["changed"]
        assert named(await ask(api, f"{path}&verb=patch")) == ["changed"]
        for limit, size in ((1, 1 << 20), (10, 0)):  # or large objects
            monkeypatch.setattr("rewound.rewind.page.comparison.MAX_BYTES", size)
            page = await ask(api, f"{path}&limit={limit}")
            names = named(page)
            assert names == ["added"]
            while token := page["metadata"].get("continue"):
                page = await ask(api, f"{path}&limit={limit}&continue={token}")
                names += named(page)
            assert names == ["added", "removed", "changed"]


async def test_compares_what_the_caller_may_list() -> None:
    async with served() as api:
        before = await changes(api)
        nothing = (await api.ask("GET", f"{COMPARISON}?from={before}", token=ALICE)).expect(200)
        assert nothing["items"] == []
        assert "newest" not in nothing
        assert (await api.ask("GET", f"{COMPARISON}?from=999999999", token=ALICE)).status == 200
        await allow(api, {"apiGroups": [""], "resources": ["configmaps", "secrets"], "verbs": ["list"]})
        seen = (await api.ask("GET", f"{COMPARISON}?from={before}&namespace=default", token=ALICE)).expect(
            200
        )
        assert named(seen) == ["added", "removed", "changed"]


async def test_refused_moments() -> None:
    async with served() as api:
        made = await api.create("configmaps", config_map("a"))
        await api.create("configmaps", config_map("b"))
        for query, message in (
            ("", "from: Required value"),
            ("from=5&to=3", "from: must not be after to"),
            ("from=999999999", "from: version 999999999 is in the future"),
            ("from=x", 'from: Invalid value: "x"'),
            ("from=1&continue=x", "continue key is not valid"),
        ):
            refused = (await api.ask("GET", f"{COMPARISON}?{query}")).expect(400)
            assert message in refused["message"]
        await remove_before(api, int(version_of(made)))
        gone = (await api.ask("GET", f"{COMPARISON}?from=1")).expect(410)
        assert "from: that is older than the journal keeps" in gone["message"]
