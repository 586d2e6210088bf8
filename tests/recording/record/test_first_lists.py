"""First lists arrive in pages, wait on disk in no order, and are recorded in the order of their versions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
import trio

from rewound.recording.record import follower
from rewound.recording.record.changes import Change, removal
from rewound.recording.record.first_lists import FirstLists
from rewound.recording.record.kinds import RecordedKind
from rewound.recording.record.recorder import Recorder, RecordOptions
from tests.recording.record.recording import events_of, opened
from tests.recording.record.test_hostile_servers import DOCUMENTS, config_map, run_recorder, server_of

MAPS = "/api/v1/configmaps"
KIND = RecordedKind("configmaps", "", "v1", "configmaps", "ConfigMap", True)
EXPIRED = {"kind": "Status", "code": 410, "reason": "Expired", "message": "the continue token is too old"}
Query = dict[str, str]


def change(name: str, version: str, **given: Any) -> Change:
    return Change(KIND, "default", name, "u", version, False, b"{}", b"f", 5, **given)


def test_order_is_that_of_versions(tmp_path: Path) -> None:
    lists = FirstLists(tmp_path)
    given = [
        change("c", "30", listed=True),
        change("a", "9"),
        change("x", "x1", reason="because"),
        change("b", "20"),
    ]
    gone = removal(KIND, "default", "b", "30", 7, last="20")
    for one in [gone, *given]:
        lists.add(one)
    assert list(tmp_path.iterdir()) == []  # nothing is left after a kill
    assert (len(lists), lists.newest) == (5, 30)
    heads, found = [0], list[Change]()
    for one in lists.in_order(lambda: heads[-1]):
        found.append(one)
        heads.append(one.number or heads[-1] + 1)
    # What has no version goes into a gap, but not before the object that it removes.
    assert [(one.name, one.removed) for one in found] == [
        ("x", False),
        ("a", False),
        ("b", False),
        ("b", True),
        ("c", False),
    ]
    assert found[0] == given[2] and found[3] == gone and found[4] == given[0]
    lists.close()


class Pages:
    """Pages of ConfigMaps by a server whose objects may change between two."""

    def __init__(self, *lists: list[str], refused: int = -1) -> None:
        self.lists = lists
        self.refused = refused  # the number of the request that gets a 410
        self.queries: list[Query] = []
        self.attempt = -1

    async def __call__(self, query: Query) -> dict[str, Any]:
        self.queries.append(query)
        if len(self.queries) - 1 == self.refused:
            return EXPIRED
        start = int(query.get("continue", 0))
        self.attempt += not start
        names = self.lists[min(self.attempt, len(self.lists) - 1)]
        end = start + int(query["limit"])
        items = [config_map(name=one, uid=one, resourceVersion=str(900 - ord(one))) for one in names]
        token = {"continue": str(end)} if end < len(names) else {}
        return {"metadata": {"resourceVersion": "1000", **token}, "items": items[start:end]}


async def names_in(folder: Path) -> list[str]:
    async with opened(folder) as journal:
        with journal.read() as view:
            return [name for _, name, _ in view.rows(journal.type_id("configmaps"))]


async def test_expired_page_begins_again_and_forgets_what_has_gone_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: object
) -> None:
    monkeypatch.setattr(follower, "FIRST_PAGE", 2)
    pages = Pages(["a", "b", "c", "d"], ["b", "c", "e"], refused=1)
    await run_recorder({MAPS: pages}, tmp_path / "out")
    assert await names_in(tmp_path / "out") == ["b", "c", "e"]
    assert [one["limit"] for one in pages.queries] == ["2", "10", "20"]  # fewer pages, to be sooner


async def test_recorder_that_ends_between_two_pages_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: object
) -> None:
    """The folder then has no part of the list."""
    monkeypatch.setattr(follower, "FIRST_PAGE", 2)
    folder, pages, reached = tmp_path / "out", Pages(["a", "b", "c"], ["b", "c", "d"]), trio.Event()

    async def stuck(query: Query) -> dict[str, Any]:
        if "continue" in query:
            reached.set()
            await trio.sleep_forever()
        return await pages(query)

    async with server_of({**DOCUMENTS, MAPS: stuck}) as session, trio.open_nursery() as nursery:
        nursery.start_soon(Recorder(session, folder, RecordOptions(), lambda: 1_000_000).run)
        await reached.wait()
        nursery.cancel_scope.cancel()
    assert await names_in(folder) == []
    await run_recorder({MAPS: pages}, folder)
    async with opened(folder) as journal:
        found = [(one.name, one.verb, one.offset) for one in events_of(journal, "configmaps")]
    assert sorted(found) == [(one, "create", 900 - ord(one)) for one in "bcd"]


async def test_pages_are_as_large_as_their_objects_allow(tmp_path: Path, autojump_clock: object) -> None:
    asked: list[int] = []

    async def large(query: Query) -> dict[str, Any]:
        asked.append(int(query["limit"]))
        start, count = int(query.get("continue", 0)), int(query["limit"])
        end = min(start + count, 300)
        items = [
            {
                **config_map(name=f"n{one}", uid=str(one), resourceVersion=str(one + 1)),
                "data": {"a": "x" * 100_000},
            }
            for one in range(start, end)
        ]
        token = {"continue": str(end)} if end < 300 else {}
        return {"metadata": {"resourceVersion": "1000", **token}, "items": items}

    recorder = await run_recorder({MAPS: large}, tmp_path / "out")
    assert recorder.progress().objects == 300
    assert asked[0] == follower.FIRST_PAGE
    assert all(15 <= one <= 21 for one in asked[1:]), asked


async def test_unchanged_objects_of_a_repeated_list_are_not_held(
    tmp_path: Path, autojump_clock: object
) -> None:
    """After an expired version only the differences are."""
    pages = Pages(["a", "b", "c"], ["b", "c", "d"])
    folder = tmp_path / "out"
    await run_recorder({MAPS: pages}, folder)
    gone = {"type": "ERROR", "object": {"kind": "Status", "code": 410}}

    async def expired(query: Query) -> Any:
        return [orjson.dumps(gone) + b"\n"] if query.get("resourceVersion") == "1000" else []

    async with server_of({**DOCUMENTS, MAPS: pages, "watch": expired}) as session:
        recorder = Recorder(session, folder, RecordOptions(), lambda: 1_000_000)
        with trio.move_on_after(10):
            await recorder.run()
    assert recorder.writer.events == 2
    async with opened(folder) as journal:
        found = [(one.name, one.verb) for one in events_of(journal, "configmaps")][-2:]
    assert sorted(found) == [("a", "delete"), ("d", "create")]
