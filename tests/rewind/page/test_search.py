"""Full-text search over the whole journal (`q`), and events without status updates: an index finds them, rights
apply.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from rewound.actors.rewind import index_file, search
from rewound.actors.rewind import timeline as timeline_module
from rewound.actors.rewind.moments import rfc3339
from rewound.recording.replay.player import Moment
from rewound.recording.replay.replay import Plan
from rewound.rewind.page import index as page_index
from tests.actors.object_store import Document
from tests.gateway.api import ADMIN, ALICE, Api, config_map, served
from tests.gateway.journal_commands import put, write_history
from tests.recording.replay.replaying import replayed
from tests.rewind.page.test_timeline import EVENTS, HOUR, MERGE, TIMELINE, ask
from tests.rewind.test_at import allow


async def patch(api: Api, name: str, data: Document, **query: Any) -> None:
    (
        await api.ask("PATCH", api.path("configmaps", name=name), {"data": data}, headers=MERGE, **query)
    ).expect(200)


async def found(api: Api, **query: Any) -> list[str]:
    """The results, newest first; the timeline must count as many."""
    items = (await ask(api, EVENTS, **query))["items"]
    span = {"from": rfc3339(api.clock.now() - HOUR), "to": rfc3339(api.clock.now() + HOUR)}
    rows = (await ask(api, TIMELINE, **{**span, **query}))["rows"]
    assert sum(row["total"] for row in rows) == len(items)
    assert sum(
        sum(row["cells"][at + 1 : at + 4]) for row in rows for at in range(0, len(row["cells"]), 4)
    ) == len(items)
    return [f"{item['change']} {item['name']}" for item in items]


async def test_finds_names_kinds_fields_values_and_authors() -> None:
    async with served() as api:
        await api.create(
            "configmaps", config_map("web", color="blue", greeting="Grüße aus Köln"), fieldManager="maker"
        )
        await patch(api, "web", {"color": "crimson", "size": "17"})
        await patch(api, "web", {"color": None}, fieldManager="remover")
        await api.create("configmaps", config_map("other", color="teal"))
        await api.delete("configmaps", "other")
        for text, expected in (
            ("crimson", ["updated web", "updated web"]),
            ("CRIM", ["updated web", "updated web"]),
            ("crimson 17", ["updated web"]),
            ("blue", ["updated web", "created web"]),
            ("data.size", ["updated web"]),
            ('"data color"', ["created other", "updated web", "updated web", "created web"]),
            ('"color data"', []),
            ('"crimso"', []),
            ("grüße", ["created web"]),
            ("configmap other", ["deleted other", "created other"]),
            ("cm", []),
            ("remover", ["updated web"]),
            ("admin web", ["updated web", "updated web", "created web"]),
            ("crimson teal", []),
        ):
            assert await found(api, q=text, type="configmaps") == expected, text


async def test_combines_with_filters_and_pages() -> None:
    async with served() as api:
        await api.create("namespaces", {"metadata": {"name": "other"}})
        for number in range(5):
            await api.create("configmaps", config_map(f"web-{number}", color="indigo"))
            api.clock.advance(1)
        middle = api.clock.now()
        await api.create("configmaps", config_map("db", color="indigo"), "other")
        await patch(api, "web-0", {"color": "olive"})
        assert await found(api, q="indigo", namespace="other") == ["created db"]
        assert await found(api, q="indigo", namespace="!other", verb="create", name="web-*") == [
            f"created web-{number}" for number in (4, 3, 2, 1, 0)
        ]
        assert await found(api, q="indigo", name="!web-*") == ["created db"]
        assert await found(api, q="indigo", user="admin", name="web-3") == ["created web-3"]
        assert (
            await found(api, q="indigo", user="nobody") == await found(api, q="indigo", type="secrets") == []
        )
        later = (await ask(api, EVENTS, q="indigo", **{"from": rfc3339(middle)}))["items"]
        assert [item["name"] for item in later] == ["web-0", "db"]
        for order, names in (
            ("descending", ["web-0", "db", "web-4", "web-3", "web-2", "web-1", "web-0"]),
            ("ascending", ["web-0", "web-1", "web-2", "web-3", "web-4", "db", "web-0"]),
        ):
            pages, following = [], {}
            while following is not None:
                page = await ask(api, EVENTS, q="indigo", limit=3, order=order, **following)
                pages.append([item["name"] for item in page["items"]])
                token = page["metadata"].get("continue")
                following = {"continue": token} if token else None
            assert pages == [names[:3], names[3:6], names[6:]]


async def test_finds_only_what_the_caller_may_see() -> None:
    async with served() as api:
        await api.create("namespaces", {"metadata": {"name": "other"}})
        await api.create("configmaps", config_map("web", color="indigo"), fieldManager="painter")
        await api.create("configmaps", config_map("far", color="indigo"), "other")
        secret = {"metadata": {"name": "key"}, "stringData": {"indigo": "plaintext"}}
        await api.create("secrets", secret)
        assert await found(api, q="plaintext") == await found(api, q="cGxhaW50ZXh0") == []
        assert await found(api, q="indigo") == ["created key", "created far", "created web"]
        mine = {"token": ALICE, "namespace": "default"}
        assert await found(api, q="indigo", **mine) == []
        rule = {"apiGroups": [""], "resources": ["configmaps", "secrets"], "verbs": ["list"]}
        await allow(api, rule)
        assert await found(api, q="indigo", token=ALICE) == []
        assert await found(api, q="indigo", **mine) == ["created web"]
        assert await found(api, q="painter", **mine) == await found(api, q="admin", **mine) == []
        assert await found(api, q="painter", token=ADMIN) == ["created web"]
        history = {"apiGroups": [""], "resources": ["configmaps/history"], "verbs": ["get"]}
        await allow(api, history, "historian")
        assert await found(api, q="painter indigo", **mine) == ["created web"]
        await allow(api, {"apiGroups": [""], "resources": ["secrets"], "verbs": ["rewind"]}, "rewinder")
        # Authors of Secrets stay hidden, and those of ConfigMaps do not.
        assert await found(api, q="indigo", **mine) == ["created key", "created web"]
        assert await found(api, q="admin", **mine) == ["created web"]


HOSTILE = {
    'web" OR "a': 200,
    "text : web": 200,
    "{text who} : web": 200,
    "scope : t1": 200,
    "NEAR(a b, 10) AND NOT -x ^y": 200,
    '"': 400,
    '""" ""': 400,
    "*": 400,
    "-*()+^:{}": 400,
    "web\0web": 200,
    "\0": 400,
    "\N{GRINNING FACE}": 400,
    "漢字 ʰ ² ①": 200,
    "'; DROP TABLE coverage; --": 200,
    " ".join("abcdefghijklmnopqrstu"): 400,
    "w" * 10_000: 400,
    '"' * 500: 400,
    "a" * 512: 200,
}


async def test_hostile_texts() -> None:
    async with served() as api:
        await api.create("configmaps", config_map("web"))
        for text, status in HOSTILE.items():
            for path in (EVENTS, TIMELINE):
                response = await api.ask("GET", path, q=text)
                assert response.status == status, response.text
                if status == 400:
                    assert response.document["message"].startswith("q: ")


async def test_scope_words_are_not_found() -> None:
    async with served() as api:
        await api.create("configmaps", config_map("web"))
        assert await found(api, q="n64656661756c74") == []


async def test_updates_without_those_of_status() -> None:
    async with served() as api:
        pod = {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "a", "image": "i"}]}}
        await api.create("pods", pod)
        path = api.path("pods", name="web")
        for phase in ("Running", "Failed"):
            (await api.ask("PATCH", f"{path}/status", {"status": {"phase": phase}}, headers=MERGE)).expect(
                200
            )
        (await api.ask("PATCH", path, {"metadata": {"labels": {"a": "b"}}}, headers=MERGE)).expect(200)
        pods = {"type": "pods"}
        assert await found(api, **pods) == ["updated web"] * 3 + ["created web"]
        assert await found(api, **pods, status="false") == ["updated web", "created web"]
        assert await found(api, **pods, status="true", q="failed") == ["updated web"]
        assert await found(api, **pods, status="false", q="failed") == []
        assert await found(api, **pods, status="false", name="web") == ["updated web", "created web"]
        (await api.ask("PATCH", f"{path}/status", {"status": {"phase": "Running"}}, headers=MERGE)).expect(
            200
        )
        assert await found(api, **pods, status="false") == ["updated web", "created web"]
        assert await found(api, **pods, status="false", q="web", verb="patch") == ["updated web"]


async def test_waits_for_an_event_with_the_text() -> None:
    async with served() as api:
        head = int(await api.head())
        pages: list[Document] = []

        async def follow() -> None:
            pages.append(
                await ask(api, EVENTS, order="ascending", wait=30, q="crimson", **{"from": head + 1})
            )

        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow)
            for color in ("blue", "teal", "crimson"):
                await api.create("configmaps", config_map(color, color=color))
        assert [item["name"] for item in pages[0]["items"]] == ["crimson"]


def index_of(api: Api) -> Path:
    return Path(api.settings.journal) / index_file.FILE


@pytest.mark.parametrize(
    "damage", ["missing", "cut", "overwritten", "of another version", "of another journal"]
)
async def test_an_index_that_cannot_be_used_is_made_again(damage: str) -> None:
    async with served() as api:
        await api.create("configmaps", config_map("web", color="indigo"))
        assert await found(api, q="indigo") == ["created web"]
        await api.finish()
        path = index_of(api)
        assert path.stat().st_mode & 0o077 == 0
        assert not path.with_name(f"{path.name}-wal").exists()
        if damage == "missing":
            path.unlink()
        elif damage == "cut":
            path.write_bytes(path.read_bytes()[:5000])
        elif damage == "overwritten":
            path.write_bytes(b"\xff" * path.stat().st_size)
        else:
            with sqlite3.connect(path) as connection:
                name = "format" if damage == "of another version" else "journal"
                connection.execute("UPDATE meta SET value = x'00' WHERE name = ?", (name,))
            connection.close()
        await api.start(prepared=True)
        assert await found(api, q="indigo") == ["created web"]


async def test_index_of_the_previous_server_is_continued(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served() as api:
        await api.create("configmaps", config_map("web", color="indigo"))
        assert await found(api, q="indigo") == ["created web"]
        await api.finish()
        await api.start(prepared=True)
        stored: list[index_file.Batch] = []
        add = index_file.IndexFile.add

        def counted(self: index_file.IndexFile, batch: index_file.Batch) -> bool:
            stored.append(batch)
            return add(self, batch)

        monkeypatch.setattr(index_file.IndexFile, "add", counted)
        before = int(await api.head())
        await api.create("configmaps", config_map("db", color="indigo"))
        assert await found(api, q="indigo") == ["created db", "created web"]
        assert min(batch.words[0][0] for batch in stored) > before - 20


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The few hundred events of a new server count as many here: requests wait for only a few of them."""
    for name, value in (("BLOCK", 16), ("BATCH", 8), ("PARTITION", 32)):
        for module in (index_file, search, timeline_module):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(page_index, "FIRST_LOOK", 0)


@pytest.mark.usefixtures("small_parts")
async def test_the_first_answers_have_the_newest_events() -> None:
    async with served() as api:
        await api.create("configmaps", config_map("web", color="indigo"))
        day = {"from": rfc3339(api.clock.now() - 24 * HOUR), "to": rfc3339(api.clock.now() + HOUR)}
        timeline = await ask(api, TIMELINE, **day)
        head = int(await api.head())
        assert 1 < int(timeline["reading"]["from"]) < head
        assert int(timeline["newest"]["version"]) == head
        first = sum(row["total"] for row in timeline["rows"])
        assert 0 < first <= head - int(timeline["reading"]["from"]) + 1
        with trio.fail_after(60):
            while "reading" in timeline:
                timeline = await ask(api, TIMELINE, **day)
        assert sum(row["total"] for row in timeline["rows"]) > first


@pytest.mark.usefixtures("small_parts")
async def test_who_sees_no_type_learns_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(index: page_index.PageIndex) -> None:
        """Older events are not read between requests."""

    monkeypatch.setattr(page_index.PageIndex, "_read_older", nothing)
    async with served() as api:
        for path in (TIMELINE, f"{TIMELINE}/objects"):
            assert "reading" not in await ask(api, path, token=ALICE)
            assert "reading" in await ask(api, path)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("order", ["ascending", "descending"])
async def test_no_event_is_missing_while_older_ones_are_read(order: str) -> None:
    async with served() as api:
        head, versions, following = int(await api.head()), list[int](), {"continue": ""}
        while following:
            page = await ask(api, EVENTS, order=order, limit=7, **following)
            versions += [int(item["version"]) for item in page["items"]]
            token = page["metadata"].get("continue")
            following = {"continue": token} if token else {}
        assert versions == sorted(set(versions), reverse=order == "descending")
        everything = [int(item["version"]) for item in (await ask(api, EVENTS, limit=1000))["items"]]
        assert sorted(versions) == sorted(everything)
        assert max(versions) == head


@pytest.mark.usefixtures("small_parts")
async def test_says_which_events_have_words() -> None:
    async with served() as api:
        await api.create("configmaps", config_map("web", color="indigo"))
        page = await ask(api, EVENTS, q="indigo")
        assert [item["name"] for item in page["items"]] == ["web"]
        head = await api.head()
        assert page["indexed"]["upto"] == page["indexed"]["newest"] == head
        assert 1 < int(page["indexed"]["from"]) < int(head)
        with trio.fail_after(60):
            while "indexed" in page:
                page = await ask(api, EVENTS, q="namespace default", type="namespaces", verb="cr*")
        assert [item["name"] for item in page["items"]] == ["default"]


async def test_another_process_may_be_indexing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_index, "_MOMENT", 0)
    async with served() as api:
        assert await found(api, q="indigo") == []
        assert api.store is not None
        other = index_file.IndexFile(api.store.journal)
        with trio.fail_after(60):
            while not other.claim(0):
                await trio.sleep(0.01)  # the server has just written words
        await api.create("configmaps", config_map("web", color="indigo"))
        page = await ask(api, EVENTS, q="indigo")
        assert page["items"] == []
        assert int(page["indexed"]["upto"]) < int(page["indexed"]["newest"])
        other.release()
        assert await found(api, q="indigo") == ["created web"]
        other.close()


async def test_an_index_that_is_found_damaged_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    damaged = [True]
    partitions = index_file._partitions

    def broken(*arguments: Any) -> list[int]:
        if damaged and damaged.pop():
            error = sqlite3.DatabaseError("database disk image is malformed")
            error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise error
        return partitions(*arguments)

    monkeypatch.setattr(index_file, "_partitions", broken)
    async with served() as api:
        await api.create("configmaps", config_map("web", color="indigo"))
        response = await api.ask("GET", EVENTS, q="indigo")
        assert (response.status, "malformed" in response.text) == (503, True)
        assert not index_of(api).exists()
        assert await found(api, q="indigo") == ["created web"]
        assert index_of(api).exists()


async def test_a_folder_that_is_not_writable_gets_no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_file.os, "access", lambda path, mode: False)
    places = []
    mkdtemp = tempfile.mkdtemp

    def made(prefix: str) -> str:
        places.append(mkdtemp(prefix=prefix))
        return places[-1]

    monkeypatch.setattr(index_file, "tempfile", SimpleNamespace(mkdtemp=made))
    async with served() as api:
        await api.create("configmaps", config_map("web", color="indigo"))
        assert await found(api, q="indigo") == ["created web"]
        assert not index_of(api).exists()
        assert [path.name for path in Path(places[0]).iterdir() if path.suffix == ".sqlite"] == [
            index_file.FILE
        ]
    assert not Path(places[0]).exists()


def _without_fts5(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: index_file.IndexFile) -> None:
        raise sqlite3.OperationalError("no such module: fts5")

    monkeypatch.setattr(index_file.IndexFile, "_connect", refused)


def _without_sqlite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_file, "sqlite3", None)


@pytest.mark.parametrize(
    ("without", "message"),
    [(_without_fts5, "has no FTS5: install"), (_without_sqlite, "has no sqlite3 module: install")],
)
async def test_timelines_work_without_an_index(
    without: Callable[[pytest.MonkeyPatch], None], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch)
    async with served() as api:
        await api.create("configmaps", config_map("web"))
        response = await api.ask("GET", EVENTS, q="web")
        assert (response.status, message in response.document["message"]) == (503, True)
        assert await found(api, type="configmaps", name="web") == ["created web"]


async def test_a_replay_finds_texts_and_leaves_its_folder_as_it_is(tmp_path: Path) -> None:
    write_history(tmp_path, [put("a", {"color": color}, user="admin") for color in ("red", "indigo", "red")])
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    async with replayed(tmp_path, Plan(at=Moment(1, 0))) as replay:
        versions = []
        for _ in range(3):
            items = (await ask(replay.api, EVENTS, q="indigo"))["items"]
            versions.append([item["version"] for item in items])
            await replay.move(action="step")
        assert versions == [[], ["2"], ["3", "2"]]
        await replay.move(action="goto", at="2")
        assert [item["version"] for item in (await ask(replay.api, EVENTS, q="indigo"))["items"]] == ["2"]
    after = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    assert {path for path in after if "lock" not in path.name} == {
        path for path in before if "lock" not in path.name
    }
