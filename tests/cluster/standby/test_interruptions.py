"""Connections cut at any byte, changed bytes, killed processes: no event is lost, repeated or altered."""

from __future__ import annotations

import random
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
import trio

from rewound.cli.main import main
from rewound.client.streaming import StreamingSession
from rewound.cluster.standby import follower as following_module
from rewound.cluster.standby.follower import Follower
from rewound.cluster.standby.sinks import StandbySink
from rewound.gateway.settings.settings import Settings
from rewound.journal import stream
from rewound.journal.errors import CannotFollow
from rewound.journal.retention import advance
from rewound.server.failures import explain
from rewound.server.standby import leader_target
from tests.cluster.standby.cutting_proxy import proxied
from tests.cluster.standby.pairs import following, has_everything, standby_of, stored_bytes, url_of
from tests.gateway.api import ADMIN, Api, config_map, names, served
from tests.gateway.journal_commands import run_journal
from tests.gateway.plain_client import PlainClient
from tests.gateway.processes import Server, process


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following_module, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(following_module, "LONGEST_PAUSE", 0.05)


@asynccontextmanager
async def follower_into(folder: Path, url: str) -> AsyncIterator[tuple[Follower, StandbySink]]:
    """A follower without a server."""
    target = leader_target(following(folder, url))
    session, sink = StreamingSession(target), StandbySink(folder / "data" / "journal", target.server)
    try:
        yield Follower(session, sink), sink
    finally:
        await session.aclose()
        sink.close()


async def write(leader: Api, count: int) -> None:
    for number in range(count):
        await leader.create("configmaps", config_map(f"n{number}", text="x" * (number * 37 % 900)))


async def test_connections_cut_off_at_random_bytes(tmp_path: Path) -> None:
    generator = random.Random(44)
    async with served() as leader:
        await write(leader, 40)
        plan = lambda number: (generator.randrange(200, 40_000) if number < 25 else None, None)  # noqa: E731
        async with proxied(leader, plan) as (url, proxy), standby_of(url, tmp_path) as standby:
            while proxy.connections <= 25:
                with trio.fail_after(30):
                    await leader.replace(
                        "configmaps", config_map("n0", text=generator.randbytes(20_000).hex())
                    )
                    await has_everything(standby, leader)
            folders = leader.settings.journal, standby.settings.journal
            await standby.finish()
        await leader.finish()
        there, here = map(stored_bytes, folders)
        assert here == there


async def test_events_that_compress_well_are_stored_in_small_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What counts is their size in memory, not that of what arrives; also within a commit that has not ended."""
    monkeypatch.setattr(following_module, "LONGEST_COMMIT", 1 << 20)
    sizes: list[int] = []
    store = StandbySink.store

    async def noted(self: StandbySink, batch: list[stream.Stored]) -> None:
        sizes.append(sum(len(one.event.body) for one in batch if one.event))
        await store(self, batch)

    monkeypatch.setattr(StandbySink, "store", noted)
    async with served() as leader:
        for number in range(20):
            await leader.create("configmaps", config_map(f"n{number}", text="x" * 400_000))
        async with (
            follower_into(tmp_path, url_of(leader)) as (follower, _),
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(follower.run)
            with trio.fail_after(30):
                await follower.caught_up.wait()
            nursery.cancel_scope.cancel()
    assert sum(sizes) > 20 * 400_000
    assert max(sizes) <= (1 << 20) + 500_000


async def test_whole_commits_before_a_cut_are_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Although events that arrive while it is behind are made durable together."""
    monkeypatch.setattr(stream, "PART_EVENTS", 5)
    async with served() as leader:
        await write(leader, 30)
        async with (
            proxied(leader, lambda number: (60_000 if not number else 0, None)) as (url, proxy),
            follower_into(tmp_path, url) as (follower, sink),
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(follower.run)
            with trio.fail_after(30):
                while proxy.connections < 2:
                    await trio.sleep(0.005)
            assert 0 < sink.head < int(await leader.head())
            assert not follower.caught_up.is_set()
            nursery.cancel_scope.cancel()


async def test_changed_byte_is_found_and_the_rest_is_fetched_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with served() as leader:
        await write(leader, 10)
        plan = lambda number: (None, 9_000 + number if number < 2 else None)  # noqa: E731
        async with proxied(leader, plan) as (url, _), standby_of(url, tmp_path) as standby:
            await has_everything(standby, leader)
            metrics = (await standby.ask("GET", "/metrics")).text
            assert "rewound_standby_damaged_total 2" in metrics
            folders = leader.settings.journal, standby.settings.journal
            await standby.finish()
        await leader.finish()
        there, here = map(stored_bytes, folders)
        assert here == there
    assert "the stream of http://127.0.0.1" in caplog.text and "is damaged at byte" in caplog.text


async def test_bytes_that_are_changed_every_time_end_the_standby(tmp_path: Path) -> None:
    async with (
        served() as leader,
        # In the first frame after the head of the response: no event ever arrives.
        proxied(leader, lambda _: (None, 700)) as (url, proxy),
        follower_into(tmp_path, url) as (follower, _),
    ):
        with trio.fail_after(30), pytest.raises(CannotFollow, match="3 times in a row: find what changes"):
            await follower.run()
        assert proxy.connections == 3


async def test_what_cannot_be_mended_ends_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    async with served() as leader, served(tmp_path / "other") as other:
        async with (
            follower_into(tmp_path, url_of(leader)) as (follower, sink),
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(follower.run)
            with trio.fail_after(30):
                await follower.caught_up.wait()
            nursery.cancel_scope.cancel()
        async with follower_into(tmp_path, url_of(other)) as (follower, _):
            with trio.fail_after(30), pytest.raises(CannotFollow, match="serves another cluster") as found:
                await follower.run()
            assert explain(found.value, Settings()) == str(found.value)
        await leader.create("configmaps", config_map("a"))
        await leader.create("configmaps", config_map("b"))
        assert leader.store is not None
        while not advance(leader.store.journal, leader.store.journal.head).done:
            pass
        async with follower_into(tmp_path, url_of(leader)) as (follower, sink):
            with (
                trio.fail_after(30),
                pytest.raises(CannotFollow, match=r"any more.*everything is copied again"),
            ):
                await follower.run()
        head = sink.head
        # A new folder gets the state, then continues.
        async with standby_of(leader, tmp_path / "new") as standby:
            assert int(await standby.head()) > head
            assert names(await standby.list("configmaps")) == ["a", "b"]


async def test_wrong_address_or_rights_end_a_first_start(tmp_path: Path) -> None:
    async with served() as leader:
        url = url_of(leader)
        settings = following(tmp_path, url, token="unknown")
        session = StreamingSession(leader_target(settings))
        sink = StandbySink(tmp_path / "journal", url)
        with trio.fail_after(30), pytest.raises(Exception, match="does not accept these credentials"):
            await Follower(session, sink).run()
        await session.aclose()
    assert not (tmp_path / "journal").exists()


@pytest.mark.slow
async def test_leader_with_several_processes(tmp_path: Path) -> None:
    (tmp_path / "leader").mkdir()
    async with process(tmp_path / "leader", "--workers", "2") as leader:
        async with standby_of(f"http://127.0.0.1:{leader.port}", tmp_path / "standby") as standby:
            created = [await create(leader, f"n{number}") for number in range(20)]
            await reads(standby, created[-1])
            assert len((await standby.list("configmaps"))["items"]) == 20
            await standby.finish()
            leader.signal(signal.SIGTERM)
            await leader.ended()
        there = stored_bytes(tmp_path / "leader" / "data" / "journal")
        here = stored_bytes(tmp_path / "standby" / "data" / "journal")
        assert here == there[: len(here)] and len(here) >= created[-1]


MAPS = "/api/v1/namespaces/default/configmaps"


async def create(server: Server, name: str) -> int:
    response = await server.client.post(MAPS, json=config_map(name))
    assert response.status_code == 201, response.text
    return int(response.json()["metadata"]["resourceVersion"])


async def reads(standby: Api, version: int) -> None:
    with trio.fail_after(30):
        response = await standby.ask("GET", f"{MAPS}?resourceVersion={version}")
    assert response.status == 200


class Writer:
    """Writes to whichever process serves, and records what was acknowledged."""

    def __init__(self, port: int) -> None:
        self.acknowledged: list[int] = []
        self._client = PlainClient("127.0.0.1", port)

    async def run(self) -> None:
        number = 0
        while True:
            number += 1
            body = orjson.dumps(config_map(f"w{number}"))
            headers = {"authorization": f"Bearer {ADMIN}", "content-type": "application/json"}
            try:
                status, _, text = await self._client.request("POST", MAPS, body, headers)
            except (httpx.HTTPError, OSError):
                await trio.sleep(0.02)
                continue
            if status == 201:
                self.acknowledged.append(int(orjson.loads(text)["metadata"]["resourceVersion"]))

    async def more(self, count: int) -> None:
        wanted = len(self.acknowledged) + count
        with trio.fail_after(60):
            while len(self.acknowledged) < wanted:
                await trio.sleep(0.005)

    async def close(self) -> None:
        self._client.close()


async def head_of(server: Server) -> int:
    document: dict[str, Any] = (await server.client.get("/api/v1/namespaces")).json()
    return int(document["metadata"]["resourceVersion"])


@pytest.mark.slow
async def test_killed_processes_continue_and_a_standby_takes_over(tmp_path: Path) -> None:
    """SIGKILL of the standby, then of the leader, while clients write; then a promotion."""
    old, copy = tmp_path / "leader", tmp_path / "standby"
    for folder in (old, copy):
        folder.mkdir()
    (copy / "leader.token").write_text(ADMIN)
    async with trio.open_nursery() as nursery:
        async with process(old) as leader:
            port = str(leader.port)
            flags = (
                "--follow",
                f"http://127.0.0.1:{port}",
                "--follow-token-file",
                str(copy / "leader.token"),
            )
            writer = Writer(leader.port)
            nursery.start_soon(writer.run)
            async with process(copy, *flags) as standby:
                await writer.more(20)
                standby.signal(signal.SIGKILL)
                await standby.ended()
            await writer.more(20)
            leader.signal(signal.SIGKILL)
            await leader.ended()
        async with process(copy, *flags) as standby:  # without its leader
            assert await head_of(standby) > 0
            async with process(old, "--insecure-port", port) as leader:
                leader.client = standby.client  # not used: its own port is another one
                await writer.more(20)
                nursery.cancel_scope.cancel()
                await_head = max(writer.acknowledged)
                with trio.CancelScope(shield=True):
                    with trio.fail_after(60):
                        while await head_of(standby) < await_head:
                            await trio.sleep(0.05)
                    response = await standby.client.get(f"{MAPS}?resourceVersion={await_head}")
                    assert response.status_code == 200
                    versions = {int(one["metadata"]["resourceVersion"]) for one in response.json()["items"]}
                    assert set(writer.acknowledged) <= versions
                    standby.signal(signal.SIGTERM)
                    await standby.ended()
                    async with httpx.AsyncClient(
                        base_url=f"http://127.0.0.1:{port}",
                        headers={"authorization": f"Bearer {ADMIN}"},
                        verify=False,
                    ) as client:
                        assert (await client.post(MAPS, json=config_map("lost"))).status_code == 201
                    leader.signal(signal.SIGKILL)
                    await leader.ended()
    await writer.close()
    split = stored_bytes(copy / "data" / "journal")
    assert split == stored_bytes(old / "data" / "journal")[: len(split)]
    assert main(["promote", "--data-dir", str(copy / "data")]) == 0
    assert run_journal("verify", copy / "data").lines[-1] == "sound"
    async with process(copy) as promoted:
        assert await create(promoted, "after") > max(writer.acknowledged)
        async with follower_into(old, f"http://127.0.0.1:{promoted.port}") as (follower, _):
            with trio.fail_after(30), pytest.raises(CannotFollow, match="are two histories since"):
                await follower.run()
