"""An object that cannot be recorded is left out and marked; every other one is recorded, whatever is wrong with it.

A server over sockets has random objects, some of them poisoned in one of many ways, in lists, pages, initial events and
watches. The recorder is stopped and started again, also from the same version, and into a new folder.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest
import trio

from rewound.client import streaming
from rewound.recording.record import follower, writer
from rewound.recording.record.gaps import FAILING, LEFT_OUT, UNREACHABLE, gaps_in
from rewound.recording.record.left_out import FILE as LEFT_OUT_FILE
from rewound.recording.record.recorder import FILE, Recorder, RecordOptions
from tests.recording.record.recording import events_of, opened
from tests.recording.record.test_hostile_servers import DOCUMENTS, server_of

END = "k8s.io/initial-events-end"
Document = dict[str, Any]
Poison = Callable[[Document], bytes]


def raw(found: Any) -> bytes:
    return orjson.dumps(found)


def nested(levels: int, opening: bytes = b'{"a":', closing: bytes = b"}") -> bytes:
    return opening * levels + b"1" + closing * levels


def in_metadata(value: Any, *path: str) -> Poison:
    """Replace a field of the metadata."""

    def poisoned(good: Document) -> bytes:
        return raw({**good, "metadata": {**good["metadata"], path[0]: value}})

    return poisoned


def with_text(text: bytes, *, last: bool) -> Poison:
    """Put a text where no encoder would: into managedFields, or into the data before the metadata."""

    def poisoned(good: Document) -> bytes:
        metadata = {**good["metadata"], "managedFields": [{"manager": "m", "fieldsV1": "HERE"}]}
        if last:
            return raw({**good, "metadata": metadata}).replace(b'"HERE"', text)
        return raw({"data": {"k": "HERE"}, **good}).replace(b'"HERE"', text)

    return poisoned


def without(field: str) -> Poison:
    def poisoned(good: Document) -> bytes:
        return raw({**good, "metadata": {k: v for k, v in good["metadata"].items() if k != field}})

    return poisoned


TEXTS = [
    nested(650),
    nested(1100),
    nested(9000),
    nested(3000, b"[", b"]"),
    b"1e999",
    b"9" * 400,
    b'"\\ud800"',
    b'"\xff\xfe"',
    b"NaN",
    b'"' + b"x" * 30_000 + b'"',  # more than a line may have, see `small_lines`
]
POISONS: dict[str, Poison] = {
    **{
        f"text {number} {last}": with_text(text, last=last)
        for number, text in enumerate(TEXTS)
        for last in (0, 1)
    },
    **{
        f"{field} {number}": in_metadata(value, field)
        for field in ("name", "namespace", "uid", "labels", "ownerReferences", "managedFields", "annotations")
        for number, value in enumerate((5, [5], {"a": {}}, [{}], True))
    },
    "labels of numbers": in_metadata({"a": 5}, "labels"),
    "owner without uid": in_metadata([{"uid": {}}], "ownerReferences"),
    "entries without fields": in_metadata([{"manager": 5, "time": 5, "fieldsV1": 5}], "managedFields"),
    "times": in_metadata({}, "creationTimestamp"),
    "deleted": in_metadata([], "deletionTimestamp"),
    "finalizers": in_metadata(7, "finalizers"),
    "long name": in_metadata("a" * 600, "name"),
    "zero name": in_metadata("a\0b", "name"),
    "long uid": in_metadata("u" * 900, "uid"),
    "version is a list": in_metadata([1], "resourceVersion"),
    "version is text": in_metadata("v7", "resourceVersion"),
    "version is long": in_metadata("9" * 5000, "resourceVersion"),
    "no name": without("name"),
    "no uid": without("uid"),
    "no version": without("resourceVersion"),
    "no metadata": lambda good: raw({"data": good["data"]}),
    "metadata is a number": lambda good: raw({**good, "metadata": 5}),
    "null": lambda good: b"null",
    "number": lambda good: b"5",
    "list": lambda good: b"[]",
    "another kind": lambda good: raw({**good, "kind": "Secret"}),
    "table": lambda good: raw({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "rows": [{"object": good}]}),
    "kind is a number": lambda good: raw({**good, "kind": 5}),
    "twice the same key": lambda good: raw(good).replace(b'"data":', b'"data":{"z":"1"},"data":'),
    "unknown fields": lambda good: raw({**good, "unknown": [[{}]], "spec": 5}),
}
NAMED = {
    poison
    for name, poison in POISONS.items()
    if name.startswith(("uid", "labels", "owner", "managed"))
    or (name.startswith("text") and name != "text 9 0")
}
# Forms that no list has, because they are no event at all.
LINES = [
    b"no JSON",
    b"[]",
    b"{}",
    b'{"type":5,"object":{}}',
    b'{"type":"ADDED"}',
    b'{"type":"FOO","object":{}}',
    b'"\xff"',
]


class Cluster:
    """Objects, and the events since version 100."""

    def __init__(self, random: Random, *, watch_lists: bool) -> None:
        self.random = random
        self.version = 100
        self.objects: dict[str, bytes] = {}
        self.events: list[tuple[int, bytes]] = []
        self.good: dict[str, int] = {}  # versions of the objects that can be recorded
        self.named = set[str]()  # the others whose name can be read
        self.watch_lists = watch_lists

    def write(self, name: str, poison: Poison | None = None) -> None:
        self.version += 1
        metadata = {
            "name": name,
            "namespace": "default",
            "uid": f"u-{name}",
            "resourceVersion": str(self.version),
        }
        found = {
            "kind": "ConfigMap",
            "apiVersion": "v1",
            "metadata": metadata,
            "data": {"v": str(self.version)},
        }
        kind = "MODIFIED" if name in self.objects else "ADDED"
        self.objects[name] = raw(found) if poison is None else poison(found)
        self.good.pop(name, None)
        self.named.discard(name)
        if poison is None:
            self.good[name] = self.version
        elif poison in NAMED:
            self.named.add(name)
        self._happened(kind, self.objects[name])

    def delete(self, name: str) -> None:
        self.version += 1
        last = self.objects.pop(name)
        self.good.pop(name, None)
        old = last.rpartition(b'"resourceVersion":"')  # an API server sets that of the deletion
        self._happened("DELETED", b"".join((*old[:2], b"%d" % self.version, old[2][old[2].find(b'"') :])))

    def garbage(self) -> None:
        self.version += 1
        self.events.append((self.version, self.random.choice(LINES) + b"\n"))

    def _happened(self, kind: str, found: bytes) -> None:
        self.events.append((self.version, b'{"type":"%b","object":%b}\n' % (kind.encode(), found)))

    def bookmark(self, **annotations: str) -> bytes:
        metadata = {"resourceVersion": str(self.version), "annotations": annotations}
        return raw({"type": "BOOKMARK", "object": {"kind": "ConfigMap", "metadata": metadata}}) + b"\n"

    async def list(self, query: dict[str, str]) -> Any:
        start, limit = int(query.get("continue", "0")), min(int(query["limit"]), 7)
        items = list(self.objects.values())
        metadata: Document = {"resourceVersion": str(self.version)}
        if start + limit < len(items):
            metadata["continue"] = str(start + limit)
        parts = b",".join(items[start : start + limit])
        return [b'{"kind":"ConfigMapList","metadata":%b,"items":[%b]}' % (raw(metadata), parts)]

    async def watch(self, query: dict[str, str]) -> Any:
        if "sendInitialEvents" in query:
            initial = [b'{"type":"ADDED","object":%b}\n' % one for one in self.objects.values()]
            return [*initial, self.bookmark(**{END: "true"})]
        since = query["resourceVersion"]
        assert since.isdecimal(), since
        return [line for version, line in self.events if version > int(since)]

    def documents(self) -> Document:
        version = "v1.36.0" if self.watch_lists else "v1.25.16"
        own = {"/version": {"gitVersion": version}, "/api/v1/configmaps": self.list, "watch": self.watch}
        return {**DOCUMENTS, **own}


async def record(cluster: Cluster, folder: Path, change: Callable[[], None] = lambda: None) -> Recorder:
    """Record until everything has arrived, then after a change."""
    async with server_of(cluster.documents()) as session:
        recorder = Recorder(session, folder, RecordOptions(), lambda: int(trio.current_time() * 1e6) + 1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(recorder.run)
            await recorder.started.wait()
            await trio.sleep(100)
            change()
            await trio.sleep(100)
            nursery.cancel_scope.cancel()
    return recorder


async def check(cluster: Cluster, recorder: Recorder, folder: Path) -> None:
    """Every object that can be recorded is, in its version; each of the others is too, or is marked."""
    async with opened(folder) as journal:
        newest = {one.name: one for one in events_of(journal, "configmaps")}
        for name, version in cluster.good.items():
            event = newest[name]
            assert not event.removed and orjson.loads(event.body)["data"]["v"] == str(version), name
        present = {name for name, one in newest.items() if not one.removed}
    marked = marks_in(folder)
    left_out = {name for name in cluster.objects if name not in cluster.good and name not in present}
    assert not left_out & cluster.named - marked, "marked by their names"
    assert marked or not left_out
    reasons = {one.why for one in gaps_in(folder)}
    assert not reasons & {UNREACHABLE, FAILING}, reasons
    assert (LEFT_OUT in {one.why for one in recorder.gaps.lasting()}) == bool(marked)


def marks_in(folder: Path) -> set[str]:
    """The names of the objects that are marked; empty for what has none."""
    objects = orjson.loads((folder / LEFT_OUT_FILE).read_bytes())["objects"]
    return {one["name"] for of_kind in objects.values() for one in of_kind}


@pytest.fixture
def small_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """One object in 30 kB is above the bound of a line, as one of 32 MiB is."""
    monkeypatch.setattr(streaming, "MAX_LINE", 25_000)
    monkeypatch.setattr(streaming, "BEGINNING", 20_000)
    monkeypatch.setattr(follower, "LARGEST_OBJECT", 25_000)
    # Large ones are read in threads.
    monkeypatch.setattr(follower, "LARGE", 250)
    monkeypatch.setattr(writer, "LARGE", 100)


@pytest.mark.parametrize("watch_lists", [False, True], ids=["lists", "watch lists"])
@pytest.mark.parametrize("seed", range(2))
async def test_all_other_objects_are_recorded(
    seed: int, watch_lists: bool, tmp_path: Path, small_lines: None, autojump_clock: object
) -> None:
    random = Random(seed)
    cluster = Cluster(random, watch_lists=watch_lists)
    poisons = random.sample(sorted(POISONS.items()), len(POISONS))

    def change() -> None:
        for number, (_, poison) in enumerate(poisons):
            how = random.randrange(4)
            own = f"p{number}"
            if how == 0:
                cluster.write(own)
            if how == 1 and own in cluster.objects:
                cluster.delete(own)
            else:
                cluster.write(own, poison)
            cluster.write(f"g{random.randrange(20)}")
            if random.random() < 0.2:
                cluster.garbage()
        cluster.write("last")

    for number, (_, poison) in enumerate(poisons[::2]):
        cluster.write(f"p{number * 2}", poison)
        cluster.write(f"g{number}")
    folder = tmp_path / "out"
    recorder = await record(cluster, folder, change)
    await check(cluster, recorder, folder)
    # The same events again, as after a kill that lost the position.
    positions = orjson.loads((folder / FILE).read_bytes())
    positions["kinds"] = dict.fromkeys(positions["kinds"], "101")
    (folder / FILE).write_bytes(orjson.dumps(positions))
    await check(cluster, await record(cluster, folder, change), folder)
    # A new folder.
    await check(cluster, await record(cluster, tmp_path / "new"), tmp_path / "new")

    # All of them in a version that is fine, or deleted: then nothing is marked.
    def mend() -> None:
        for name in list(cluster.objects):
            if name not in cluster.good:
                # Without its name, nobody knows what was deleted.
                deleted = name in cluster.named and random.random() < 0.5
                (cluster.delete if deleted else cluster.write)(name)

    mend()
    recorder = await record(cluster, tmp_path / "new")
    await check(cluster, recorder, tmp_path / "new")
    assert not marks_in(tmp_path / "new") & cluster.objects.keys()


@pytest.mark.parametrize("number", [0, 1, 4], ids=["650", "1100", "number"])
@pytest.mark.parametrize("listed", [False, True], ids=["watched", "listed"])
async def test_mark_ends_with_a_version_that_can_be_recorded_or_a_deletion(
    number: int, listed: bool, tmp_path: Path, autojump_clock: object
) -> None:
    cluster, folder = Cluster(Random(0), watch_lists=False), tmp_path / "out"
    poison = with_text(TEXTS[number], last=True)

    def poisoned() -> None:
        for name in ("mended", "deleted", "new"):
            cluster.write(name, poison)
        cluster.write("other")

    for name in ("mended", "deleted"):
        cluster.write(name)
    if listed:
        poisoned()
    recorder = await record(cluster, folder, cluster.garbage if listed else poisoned)
    (mark,) = recorder.left_out_objects.documents()
    named = {one["name"]: one["why"] for one in mark["objects"] if one["name"]}
    assert named.keys() == {"mended", "deleted", "new"} and all(named.values())

    def mend() -> None:
        cluster.write("mended")
        cluster.delete("deleted")
        cluster.delete("new")

    recorder = await record(cluster, folder, mend)
    assert not [one for one in recorder.left_out_objects.documents() if one["objects"][0]["name"]]
    async with opened(folder) as journal:
        events = {one.name: one for one in events_of(journal, "configmaps")}
    assert orjson.loads(events["mended"].body)["data"]["v"] == str(cluster.good["mended"])
    assert "new" not in events and not events["other"].removed
    if not listed:  # what was never recorded cannot be deleted
        assert events["deleted"].removed and events["deleted"].verb == "delete"
