"""A standby of a leader whose journal has poisoned objects of every kind, or events that cannot be read, serves the
rest, also after a restart.
"""

from __future__ import annotations

from pathlib import Path

import trio

from rewound.actors.names import KUBERNETES
from rewound.actors.store.proposal import Proposal
from tests.cluster.standby.pairs import has_everything, standby_of
from tests.gateway.api import Api, config_map, served
from tests.gateway.watch.watching import watching
from tests.robustness.poison import Poison, facts, poisons, write
from tests.robustness.test_objects_without_json import unreadable
from tests.robustness.test_poisoned_objects import (
    NAMESPACE,
    SETTINGS,
    TABLE,
    check_health,
    check_lists,
    is_json,
    path_of,
)
from tests.robustness.unreadable_events import FORMS, VERSIONS, name_of, spoiled

HEAD = b'{"metadata":{"name":"m","namespace":"default","uid":"u","resourceVersion":""}'
# No JSON, although they have a version.
ENDS = (b"", b',"a":"\xff"}', b',"a":NaN}', b"}]", b',"a":' + b"[" * 5000 + b"]" * 5000 + b"}")
LIVE = [Poison("", "configmaps", "default", f"m-{number}", HEAD + end) for number, end in enumerate(ENDS)]


def folder_in(path: Path) -> Path:
    folder = path / "leader"
    folder.mkdir(exist_ok=True)
    return folder


async def poisoned_journal(folder: Path, count: int, seed: int) -> list[Poison]:
    async with served(folder, **SETTINGS) as api:
        assert api.store is not None
        found = [one for one in poisons(api.store.registry.current, KUBERNETES, count, seed) if is_json(one)]
    found += unreadable()
    write(folder / "data" / "journal", found, "kubernetes")
    return found


async def check_gets(standby: Api, leader: Api, found: list[Poison]) -> list[str]:
    """The objects of which the standby does not respond as its leader."""
    assert leader.store is not None
    failures = []
    for one in found:
        stored = leader.store.registry.current.stored_type(one.type_name)
        if stored is None or not stored.served or "get" not in stored.served[0].verbs:
            continue
        path = path_of(stored.served[0], one.namespace, one.name)
        for accept in ("application/json", TABLE):
            here, there = [
                await api.ask("GET", path, headers={"accept": accept}) for api in (standby, leader)
            ]
            if (here.status, here.body) != (there.status, there.body):
                failures.append(
                    f"{one.case or one.name} {accept}: {here.status}, {there.status} of the leader"
                )
    return failures


async def test_standby_serves_what_its_leader_serves(tmp_path: Path) -> None:
    found = await poisoned_journal(folder_in(tmp_path), 3, 21)
    async with served(folder_in(tmp_path), **SETTINGS) as leader:
        for _ in range(2):
            async with standby_of(leader, tmp_path / "standby") as standby:
                await is_ready(standby, leader)
                await check_health(standby)
                assert not await check_lists(standby)
                assert not await check_gets(standby, leader, found)


async def test_standby_that_runs_gets_poisoned_objects(tmp_path: Path) -> None:
    async with (
        served(folder_in(tmp_path), **SETTINGS) as leader,
        standby_of(leader, tmp_path / "standby") as standby,
    ):
        await is_ready(standby, leader)
        listed = await standby.list("configmaps")
        async with watching(standby, f"{NAMESPACE}/configmaps") as watch:
            assert leader.store is not None
            await write_live(leader, LIVE)
            await leader.create("configmaps", config_map("healthy"))
            await has_everything(standby, leader)
            events = await watch.take(len(listed["items"]) + 1)
            assert events[-1]["object"]["metadata"]["name"] == "healthy"
        names = [item["metadata"]["name"] for item in (await standby.list("configmaps"))["items"]]
        assert "healthy" in names and "m-0" not in names
        await check_health(standby)


async def write_live(api: Api, found: list[Poison]) -> None:
    """Store the bytes as they are, which no client of the API can."""
    assert api.store is not None
    store = api.store

    def proposals() -> list[Proposal]:
        return [
            Proposal(
                type_id=store.journal.type_id(one.type_name),
                verb="create",
                namespace=one.namespace,
                name=one.name,
                previous=0,
                removed=False,
                time=api.clock.now(),
                user="foreign",
                manager="foreign",
                facts=facts(one),
                body=one.body,
            )
            for one in found
        ]

    await store.committer.commit_at_once(proposals)


async def is_ready(standby: Api, leader: Api) -> None:
    await has_everything(standby, leader)
    with trio.fail_after(60):
        while (await standby.ask("GET", "/readyz")).status != 200:
            await trio.sleep(0.01)


async def test_standby_of_a_leader_with_events_that_cannot_be_read(tmp_path: Path) -> None:
    async with (
        spoiled(folder_in(tmp_path), **SETTINGS) as leader,
        standby_of(leader, tmp_path / "standby") as standby,
    ):
        await has_everything(standby, leader)
        for form in ("sound", *FORMS):
            assert (await standby.get("configmaps", name_of(form)))["data"] == {"color": VERSIONS[2]}
        await leader.create("configmaps", config_map("healthy"))
        await has_everything(standby, leader)
        assert (await standby.get("configmaps", "healthy"))["metadata"]["name"] == "healthy"
