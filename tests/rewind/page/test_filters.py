"""Filters of the timeline: kinds as on the command line, exclusions, and what events changed."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from rewound.actors.rewind.timeline import Found, Hit
from rewound.rewind.page.about import About
from tests.gateway.api import ALICE, Api, config_map, served
from tests.rewind.page.test_timeline import EVENTS, MERGE, TIMELINE, ask, named
from tests.rewind.test_at import allow

PATCHED = {"data": {"color": "red"}}


async def some_writes(api: Api) -> str:
    """Write some objects; returns the version of the first event."""
    first = str(int(await api.head()) + 1)
    await api.create("namespaces", {"metadata": {"name": "other"}})
    await api.create("configmaps", config_map("web-1", color="blue"), fieldManager="maker")
    await api.create("configmaps", config_map("web-2"), "other")
    await api.create("secrets", {"metadata": {"name": "key"}, "stringData": {"a": "hunter2"}})
    (await api.ask("PATCH", api.path("configmaps", name="web-1"), PATCHED, headers=MERGE)).expect(200)
    more = {"stringData": {"b": "hunter3"}}
    (await api.ask("PATCH", api.path("secrets", name="key"), more, headers=MERGE)).expect(200)
    return first


FILTERS = (
    ("type=cm", {"web-1", "web-2"}),
    ("type=ConfigMap&type=ns", {"web-1", "web-2", "other"}),
    ("type=configmap&namespace=other", {"web-2"}),
    ("type=!configmaps&type=!ns&namespace=!other", {"key"}),
    ("type=cm&namespace=!oth*", {"web-1"}),
    ("type=cm&name=!web-1", {"web-2"}),
    ("name=web-*&name=key&name=!*-2", {"web-1", "web-2", "key"}),
    ("name=web-*&name=key&name=!web-2&verb=!create", {"web-1", "key"}),
    ("manager=maker", {"web-1"}),
    ("name=web-*&manager=!mak*&verb=create", {"web-2"}),
    ("type=cm&user=adm*", {"web-1", "web-2"}),
    ("type=cm&user=!adm*", set()),
)
REFUSED = (
    ("type=confgmap", 'type: "confgmap" is not a kind that you may list: did you mean "configmaps"?'),
    ("type=!confgmaps", 'type: "confgmaps" is not a kind that you may list: did you mean "configmaps"?'),
    ("type=qqqqqqqq", 'type: "qqqqqqqq" is not a kind that you may list'),
    ("namespace=team-*", 'namespace: Invalid value: "team-*": must be a whole name; only those to leave out'),
    ("name=!", 'name: Invalid value: "!": say what to leave out'),
    ("user=" + "&user=".join(map(str, range(21))), "user: at most 20 of them"),
)


async def test_filters_select_events() -> None:
    async with served() as api:
        first = await some_writes(api)
        known = {"web-1", "web-2", "other", "key"}
        for query, expected in FILTERS:
            events = await ask(api, f"{EVENTS}?from={first}&{query}")
            assert known.intersection(named(events)) == expected, query
            if "type=!" not in query:  # else there are others
                assert bool((await ask(api, f"{TIMELINE}?{query}"))["rows"]) == bool(expected), query


async def test_wrong_filters_are_refused() -> None:
    async with served() as api:
        for query, message in REFUSED:
            for path in (TIMELINE, EVENTS):
                assert message in (await api.ask("GET", f"{path}?{query}")).expect(400)["message"]


async def test_suggests_only_kinds_that_the_caller_may_list() -> None:
    async with served() as api:
        refused = await api.ask("GET", f"{TIMELINE}?type=confgmap", token=ALICE)
        assert refused.expect(400)["message"] == 'type: "confgmap" is not a kind that you may list'


async def test_leaving_out_users_that_are_not_shown_leaves_out_nothing() -> None:
    async with served() as api:
        first = await some_writes(api)
        await allow(api, {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]})
        path = f"{EVENTS}?from={first}&namespace=default"
        found = await api.ask("GET", f"{path}&user=!admin&manager=!maker", token=ALICE)
        assert set(named(found.expect(200))) == {"web-1"}
        found = await api.ask("GET", f"{path}&manager=maker", token=ALICE)
        assert named(found.expect(200)) == []


async def test_events_say_what_they_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served() as api:
        first = await some_writes(api)
        await api.delete("configmaps", "web-2", "other")
        path = f"{EVENTS}?summary=true&from={first}&type=cm&type=secrets"
        found = await ask(api, path)
        by_write = {(item["verb"], item["name"]): item.get("summary") for item in found["items"]}
        assert by_write["patch", "web-1"] == {
            "changes": [{"field": "data.color", "old": "blue", "new": "red"}],
            "more": 0,
            "statusOnly": False,
        }
        assert by_write["patch", "key"]["changes"] == [{"field": "data.b", "new": "***"}]
        assert by_write["create", "web-1"]["text"] == "1 key"
        assert by_write["delete", "web-2"] is None
        assert "aHVudGVy" not in str(found)
        # Pages of large objects end early.
        monkeypatch.setattr("rewound.rewind.page.events.MAX_BYTES", 1)
        page = await ask(api, path)
        items, pages = page["items"], 1
        while token := page["metadata"].get("continue"):
            page = await ask(api, f"{path}&continue={token}")
            items, pages = items + page["items"], pages + 1
        assert items == found["items"]
        assert pages >= len(items) / 2


async def test_types_have_the_names_of_the_command_line() -> None:
    async with served() as api:
        found = await ask(api, f"{TIMELINE}/types")
        (described,) = [item for item in found["items"] if item["type"] == "configmaps"]
        assert (described["singular"], described["shortNames"]) == ("configmap", ["cm"])
        about = found["about"]
        assert about["server"].startswith("http://127.0.0.1:")
        assert (about["dialect"], about.keys()) == (
            "cluster",
            {"title", "server", "dialect", "kubernetes", "release"},
        )


def test_what_the_page_is_about(tmp_path: Path) -> None:
    folder = tmp_path / "shop" / "rewound-data"
    folder.mkdir(parents=True)
    plain = About(folder, "https://127.0.0.1:6443", "cluster", "v1.25.16", None).document()
    assert plain["title"] == "shop"
    for path in ("rewound-fixture-ab_3xy9z", "rewound-fixture-ab_3xy9z/data"):
        made_up = About(tmp_path / path, "https://127.0.0.1:6443", "cluster", "v1.25.16", None)
        assert made_up.document()["title"] == "127.0.0.1:6443"
    (folder / "recording.json").write_bytes(
        orjson.dumps({"server": "https://prod.example:6443", "exactFrom": 17})
    )
    recorded = About(folder, "https://127.0.0.1:6443", "cluster", "v1.25.16", None).document()
    assert recorded["title"] == "prod.example"
    assert recorded["recorded"] == {"server": "https://prod.example:6443", "exactFrom": "17"}
    exported = tmp_path / "incident.journal.gz"
    exported.touch()
    replayed = About(folder, "", "cluster", "v1.25.16", exported).document()
    assert (replayed["title"], replayed["replay"]) == ("incident", {"of": "incident"})
    (folder / "recording.json").write_bytes(b"[]")
    assert "recorded" not in About(folder, "", "cluster", "v1.25.16", folder / "journal").document()


@pytest.mark.parametrize(
    "query", [{"q": "blue", "verb": "create"}, {"verb": "create"}], ids=["words", "verb"]
)
async def test_contents_of_events_are_not_kept_unless_they_are_wanted(
    monkeypatch: pytest.MonkeyPatch, query: dict[str, str]
) -> None:
    """Thousands of events may be found, of a megabyte each."""
    hits: list[Hit] = []
    before = Found.__new__

    def keep(cls: type[Found], found: list[Hit], following: int, size: int) -> Found:
        hits.extend(found)
        return before(cls, found, following, size)

    monkeypatch.setattr(Found, "__new__", keep)
    async with served() as api:
        await api.create("configmaps", config_map("web", color="blue"))
        for path in (TIMELINE, f"{TIMELINE}/objects", EVENTS):
            hits.clear()
            await ask(api, path, type="configmaps", **query)
            assert hits, path
            assert not any(hit.event is not None and hit.event.body for hit in hits), path
        hits.clear()
        (item,) = (await ask(api, EVENTS, type="configmaps", contents="true", **query))["items"]
        assert item["object"]["data"] == {"color": "blue"}
