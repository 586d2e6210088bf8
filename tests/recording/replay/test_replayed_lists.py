"""At every version, a replay shows what the recorded server showed, and it accepts no writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewound.journal.transfer import export
from rewound.recording.replay.player import Moment
from rewound.recording.replay.replay import Plan
from rewound.recording.replay.writable import WritablePlan
from tests.actors.object_store import Document
from tests.api.custom.kinds import GROUP, define, definition, widget
from tests.gateway.api import Api, config_map, names
from tests.recording.replay.replaying import forked, recorded, replayed

PATHS = (
    "/api/v1/configmaps",
    "/api/v1/namespaces",
    "/api/v1/configmaps?labelSelector=even=true",
    "/api/v1/namespaces/default/configmaps?limit=3",
)


async def written(api: Api, count: int) -> list[str]:
    """Creates, updates and deletes; returns the versions after some of them."""
    versions = []
    for number in range(count):
        name = f"c{number % 7}"
        existing = await api.ask("GET", api.path("configmaps", "default", name))
        if existing.status == 200 and number % 5 == 0:
            await api.delete("configmaps", name)
        else:
            body = config_map(name, number=str(number))
            body["metadata"]["labels"] = {"even": str(number % 2 == 0).lower()}
            if existing.status == 200:
                await api.replace("configmaps", body)
            else:
                await api.create("configmaps", body)
        api.clock.advance(1)
        if number % 10 == 0:
            versions.append(await api.head())
    return versions


async def shown(api: Api, at: str = "") -> list[bytes]:
    found = []
    for path in PATHS:
        separator = "&" if "?" in path else "?"
        response = await api.ask("GET", f"{path}{separator}at={at}" if at else path)
        assert response.status == 200, response.text
        found.append(_without_tokens(response.document))
    return found


def _without_tokens(document: Document) -> bytes:
    """Continue tokens contain the time at which they were issued."""
    document["metadata"].pop("continue", None)
    return repr(document).encode()


@pytest.mark.parametrize("exported", [False, True])
async def test_lists_are_those_of_the_recorded_server(tmp_path: Path, exported: bool) -> None:
    async with recorded(tmp_path) as api:
        versions = await written(api, 41)
        expected = {version: await shown(api, version) for version in versions}
    source = tmp_path
    if exported:
        source = tmp_path / "exported"
        _export(tmp_path, source)
    async with replayed(source) as replay:
        for version in [*versions, *reversed(versions)]:
            state = await replay.move(action="goto", at=version)
            assert state["version"] == version
            assert await shown(replay.api) == expected[version], version


def _export(folder: Path, target: Path) -> None:
    from rewound.journal import Journal

    journal = Journal.open(folder / "journal", readonly=True)
    with journal.read() as view, target.open("wb") as stream:
        export(view, stream)
    journal.close()


async def test_default_is_the_end_and_the_folder_is_not_written(tmp_path: Path) -> None:
    async with recorded(tmp_path) as api:
        await api.create("configmaps", config_map("a"))
        expected, head = await api.list("configmaps"), await api.head()
    before = _contents(tmp_path / "journal")
    async with replayed(tmp_path) as replay:
        assert await replay.api.list("configmaps") == expected
        state = await replay.state()
        assert (state["version"], state["end"]["version"], state["playing"]) == (head, head, False)
        await replay.move(action="back", count=3)
        await replay.move(action="step", count=3)
    assert _contents(tmp_path / "journal") == before


def _contents(folder: Path) -> dict[str, bytes]:
    """Without the reader table, in which LMDB records every process that reads."""
    return {
        path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.name not in ("lock.mdb",)
    }


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/v1/namespaces/default/configmaps"),
        ("PUT", "/api/v1/namespaces/default/configmaps/a"),
        ("PATCH", "/api/v1/namespaces/default/configmaps/a"),
        ("DELETE", "/api/v1/namespaces/default/configmaps/a"),
        ("DELETE", "/api/v1/namespaces/default/configmaps"),
        ("POST", "/apis/rewound.cluster.io/v1/namespaces/default/configmaps/a/rollback"),
    ],
)
async def test_writes_are_forbidden(tmp_path: Path, method: str, path: str) -> None:
    async with recorded(tmp_path) as api:
        await api.create("configmaps", config_map("a"))
    async with replayed(tmp_path) as replay:
        content = {"content-type": "application/merge-patch+json"} if method == "PATCH" else {}
        message = await replay.api.refuse(method, path, b"{}", 403, headers=content)
        assert "replays a journal and only reads it; `rewound replay --writable`" in message


async def test_rights_of_the_recording_do_not_count(tmp_path: Path) -> None:
    async with recorded(tmp_path) as api:
        await api.create("configmaps", config_map("a"))
        assert (await api.ask("GET", api.path("configmaps"), token="alice-token")).status == 403
    async with replayed(tmp_path) as replay:
        assert (await replay.api.ask("GET", api.path("configmaps"), token="alice-token")).status == 200
        assert (await replay.api.ask("GET", api.path("configmaps"), token=None)).status == 401
        review = {"spec": {"resourceAttributes": {"verb": "create", "resource": "configmaps"}}}
        path = api.path("selfsubjectaccessreviews")
        assert (await replay.api.ask("POST", path, review)).expect(201)["status"]["allowed"] is False


async def test_custom_kinds_come_and_go_with_their_definitions(tmp_path: Path) -> None:
    path = f"/apis/{GROUP}/v1/namespaces/default/widgets"
    async with recorded(tmp_path) as api:
        before = await api.head()
        await define(api, definition())
        (await api.ask("POST", path, widget("w"))).expect(201)
        expected = (await api.ask("GET", path)).expect(200)
        found = await api.ask("GET", f"/apis/{GROUP}/v1")
    async with replayed(tmp_path, Plan(at=Moment(int(before), 0))) as replay:
        assert (await replay.api.ask("GET", path)).status == 404
        await replay.move(action="goto", at=expected["metadata"]["resourceVersion"])
        assert (await replay.api.ask("GET", path)).expect(200) == expected
        assert (await replay.api.ask("GET", f"/apis/{GROUP}/v1")).body == found.body
        await replay.move(action="goto", at=before)
        assert (await replay.api.ask("GET", path)).status == 404


async def test_groups_of_other_servers_are_not_there(tmp_path: Path) -> None:
    spec = {
        "group": "other.example",
        "version": "v1",
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "service": {"namespace": "default", "name": "other"},
        "insecureSkipTLSVerify": True,
    }
    async with recorded(tmp_path) as api:
        path = api.path("apiservices")
        (await api.ask("POST", path, {"metadata": {"name": "v1.other.example"}, "spec": spec})).expect(201)
        assert (await api.ask("GET", "/apis/other.example/v1/things")).status == 503
    async with replayed(tmp_path) as replay:
        assert (await replay.api.ask("GET", "/apis/other.example/v1/things")).status == 404
        assert "v1.other.example" in names(await replay.api.list("apiservices"))
    async with forked(tmp_path, WritablePlan(Moment(replay.recording.end, 0), replay.recording.end)) as copy:
        assert (await copy.ask("GET", "/apis/other.example/v1/things")).status == 404


async def test_reads_of_history_end_at_the_replayed_moment(tmp_path: Path) -> None:
    async with recorded(tmp_path) as api:
        versions = [(await api.create("configmaps", config_map("a", n="0")))["metadata"]["resourceVersion"]]
        for number in (1, 2):
            stored = await api.replace("configmaps", config_map("a", n=str(number)))
            versions.append(stored["metadata"]["resourceVersion"])
        await api.delete("configmaps", "a")
    async with replayed(tmp_path, Plan(at=Moment(int(versions[1]), 0))) as replay:
        path = "/apis/rewound.cluster.io/v1/namespaces/default/configmaps/a/"
        history = (await replay.api.ask("GET", f"{path}history")).expect(200)
        assert [item["version"] for item in history["items"]] == [versions[1], versions[0]]
        blame = (await replay.api.ask("GET", f"{path}blame")).expect(200)
        assert blame["version"] == versions[1]
        assert (await replay.api.get("configmaps", "a", at=versions[0]))["data"] == {"n": "0"}
        future = await replay.api.ask("GET", api.path("configmaps"), at=versions[2])
        assert future.expect(400)["message"].endswith(f"the newest version of this server is {versions[1]}")


async def test_version_of_the_future_is_too_large(tmp_path: Path, autojump_clock: object) -> None:
    async with recorded(tmp_path) as api:
        await api.create("configmaps", config_map("a"))
        head = await api.head()
    async with replayed(tmp_path) as replay:
        await replay.move(action="back")
        response = await replay.api.ask("GET", api.path("configmaps"), resourceVersion=head)
        assert "Too large resource version" in response.expect(504)["message"]
