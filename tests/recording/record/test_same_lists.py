"""A recording of a server in the kubernetes dialect gives the same lists as the server, at every version."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from rewound.journal.log import Journal
from rewound.recording.record.recorder import load_positions
from tests.actors.object_store import Document, memory_folder
from tests.gateway.api import Api, config_map, served
from tests.recording.record.recording import recording
from tests.recording.replay.replaying import replayed
from tests.settling import settled

LISTED = (
    "configmaps",
    "secrets",
    "namespaces",
    "serviceaccounts",
    "deployments",
    "clusterroles",
    "flowschemas",
)


@pytest.fixture
def folder() -> Iterator[Path]:
    with memory_folder() as found:
        yield found


def deployment(name: str, replicas: int) -> Document:
    template = {"metadata": {"labels": {"a": name}}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
    return {
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"a": name}}, "template": template},
    }


async def write(api: Api, count: int, chance: random.Random) -> None:
    """Creates, updates and deletes of a few objects of three kinds."""
    live: set[tuple[str, str]] = set()
    for number in range(count):
        plural = chance.choice(("configmaps", "secrets", "deployments"))
        name = f"object-{chance.randrange(12)}"
        body = {
            "configmaps": config_map(name, text=str(number)),
            "secrets": {"metadata": {"name": name}, "stringData": {"a": str(number)}},
            "deployments": deployment(name, number),
        }[plural]
        if (plural, name) not in live:
            await api.create(plural, body)
            live.add((plural, name))
        elif chance.random() < 0.25:
            await api.delete(plural, name)
            live.discard((plural, name))
        else:
            await api.replace(plural, body)


async def test_same_lists_at_every_hundredth_version(folder: Path, autojump_clock: MockClock) -> None:
    chance = random.Random(14)
    async with served(dialect="kubernetes", kubernetes_version="1.25") as api:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(write, api, 40, chance)  # while the kinds are listed
            async with recording(api, folder / "data", with_secrets=True) as (recorder, session):
                await write_more(api, chance)
        head = int(await api.head())
        positions = load_positions(folder / "data")
        assert positions is not None and positions.exact_from
        first = positions.exact_from
        versions = [*range(first, head, 100), head]
        assert len(versions) > 3
        expected = {
            (plural, version): await api.list(plural, None, at=version)
            for plural in LISTED
            for version in versions
        }
        assert recorder.writer.renumbered == 0
        sent = [one for one in session.sent if one[1] != "get"]
        assert len(sent) == len(set(sent))  # no list and no watch twice
    async with replayed(folder / "data") as replay:
        for version in versions:
            await replay.move(action="goto", at=str(version))
            for plural in LISTED:
                assert await replay.api.list(plural, None) == expected[plural, version], (plural, version)
        for (plural, version), document in expected.items():
            assert await replay.api.list(plural, None, at=version) == document, (plural, version)


async def write_more(api: Api, chance: random.Random) -> None:
    for name in ("team-a", "team-b"):
        await api.create("namespaces", {"metadata": {"name": name}})
    for number in range(300):
        name = f"n{number % 7}"
        write_one = api.create if number < 7 else api.replace
        await write_one("configmaps", config_map(name, x=str(number)), "team-a")
    await api.delete("namespaces", "team-b")
    with trio.fail_after(600):  # of the virtual clock
        while (await api.ask("GET", api.path("namespaces", None, "team-b"))).status != 404:
            await settled()


async def test_recorded_journal_is_sound(folder: Path, autojump_clock: MockClock) -> None:
    async with served(dialect="kubernetes") as api:
        async with recording(api, folder):
            await api.create("configmaps", config_map("a", text="1"))
            await api.replace("configmaps", config_map("a", text="2"))
            await api.delete("configmaps", "a")
        journal = Journal.open(folder / "journal", readonly=True)
        with journal.read() as view:
            events = list(view.history(journal.type_id("configmaps"), "default", "a"))
        assert [(one.verb, one.user, one.manager, one.removed) for one in events] == [
            ("create", "recorded", "test", False),
            ("update", "recorded", "test", False),
            ("delete", "recorded", "", True),
        ]
        assert [str(one.offset) for one in events] == [
            one["version"] for one in reversed((await history(api, "a"))["items"])
        ]
        journal.close()


async def history(api: Api, name: str) -> Document:
    path = f"/apis/rewound.cluster.io/v1/namespaces/default/configmaps/{name}/history"
    return (await api.ask("GET", path)).expect(200)
