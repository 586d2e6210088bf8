"""What a flight recorder records, keeps and leaves out, as its server, its folder and `rewound status` say it."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rewound.cli.main import main
from rewound.recording.flight.status import status_of_folder
from rewound.recording.record.gaps import GONE, UNREACHABLE, Gaps, gaps_in
from rewound.recording.record.recorder import FILE, NOT_SERVED
from tests.actors.object_store import Document, memory_folder
from tests.gateway.api import ADMIN, Api, served
from tests.recording.flight.flying import flying
from tests.recording.record.recording import CountingSession, session_to
from tests.recording.record.test_resuming import put

KINDS = ("configmaps", "leases")
LEASES = "leases.coordination.cluster.io"
GROUP = "/apis/coordination.cluster.io"


class Smaller(CountingSession):
    """A session to a server that no longer serves leases, or cannot read their group."""

    gone, broken = True, False

    async def get_document(self, path: str, **query: str) -> Document:
        if path.startswith(GROUP) and self.broken:
            path = "/apis/missing.example/v1"
        found: Document = await super().get_document(path, **query)
        if path == "/apis" and self.gone:
            found["groups"] = [one for one in found["groups"] if one["name"] != GROUP.removeprefix("/apis/")]
        return found


@pytest.fixture
def folder() -> Iterator[Path]:
    with memory_folder() as found:
        yield found / "out"


async def test_server_says_what_it_records_and_leaves_out(folder: Path, autojump_clock: MockClock) -> None:
    async with served() as api, flying(api, folder, kinds=("configmaps", "secrets")) as flight:
        await flight.begun()
        await put(api, "a", "1")
        await flight.caught_up()
        document = await flight.document()
        assert document["recording"] and document["kinds"] == 2
        assert document["began"] and document["disk"]["since"] and document["lagSeconds"] == 0
        assert {"kinds": [], "why": "all but configmaps, secrets, by --kinds"} in document["leftOut"]
        assert ["secrets"] in [one["kinds"] for one in document["leftOut"]]
        metrics = (await flight.api.ask("GET", "/metrics")).text
        for line in (
            "rewound_flight_kinds 2",
            "rewound_flight_http2_connections 0",
            "rewound_flight_max_bytes 0",
            "rewound_flight_held_changes 0",
        ):
            assert line in metrics


async def test_a_kind_that_is_no_longer_served_is_a_gap_and_ends_nothing(
    folder: Path, autojump_clock: MockClock
) -> None:
    async with served() as api:
        await api.create("leases", {"metadata": {"name": "one"}, "spec": {}})
        async with flying(api, folder, kinds=KINDS) as flight:
            await flight.begun()
            await flight.caught_up()
        session = Smaller(session_to(api).target)
        async with flying(api, folder, session=session, kinds=KINDS) as flight:
            await flight.begun()
            await put(api, "a", "1")
            await flight.caught_up()
            document = await flight.document()
            assert document["recording"] and not document["problem"] and document["kinds"] == 1
            assert {"kinds": [LEASES], "why": NOT_SERVED} in document["leftOut"]
            asked = [path for path, _ in session.sent if "leases" in path]
            assert not asked  # it is not tried again and again
            session.gone = False
            with trio.fail_after(3600):
                while (await flight.document())["kinds"] != 2:
                    await trio.sleep(10)
        (gap,) = (one for one in gaps_in(folder) if one.why == GONE)
        assert gap.kinds == {LEASES} and gap.end


async def test_a_group_that_cannot_be_read_is_lost_until_it_can(
    folder: Path, autojump_clock: MockClock
) -> None:
    async with served() as api:
        await api.create("leases", {"metadata": {"name": "one"}, "spec": {}})
        async with flying(api, folder, kinds=KINDS) as flight:
            await flight.begun()
            await flight.caught_up()
        session = Smaller(session_to(api).target)
        session.gone, session.broken = False, True
        async with flying(api, folder, session=session, kinds=KINDS) as flight:
            await flight.begun()
            assert (await flight.document())["recording"]
            assert any(one.why == UNREACHABLE and one.kinds == {LEASES} for one in gaps_in(folder))
            session.broken = False
            with trio.fail_after(3600):
                while any(not one.end for one in gaps_in(folder)):
                    await trio.sleep(10)


async def test_gap_of_an_earlier_run_ends_when_the_server_is_back(
    folder: Path, autojump_clock: MockClock
) -> None:
    async with served() as api:
        async with flying(api, folder, kinds=("configmaps",)) as flight:
            await flight.begun()
            await flight.caught_up()
        Gaps(folder).begin(UNREACHABLE, api.clock.now(), ["configmaps"])  # then it was killed
        async with flying(api, folder, kinds=("configmaps",)) as flight:
            await flight.begun()
            with trio.fail_after(3600):
                while not (await flight.document())["recording"]:
                    await trio.sleep(1)
    assert not any(not one.end for one in gaps_in(folder))


async def test_folder_says_the_same_while_it_runs_and_after(
    folder: Path,
    autojump_clock: MockClock,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with served() as api:
        async with flying(api, folder, kinds=("configmaps",)) as flight:
            await flight.begun()
            await put(api, "a", "1")
            await flight.caught_up()
            await trio.sleep(30)  # it is written now and then
            command = [sys.executable, "-m", "rewound", "status", "--data-dir", str(folder), "-o", "json"]
            run = partial(subprocess.run, command, capture_output=True, timeout=300)
            ended = await trio.to_thread.run_sync(run)
            found = json.loads(ended.stdout)
            assert found["running"] and found["recording"] and ended.returncode == 0, ended
            own = await flight.document()
            for name in ("server", "kinds", "began", "leftOut", "version", "retention"):
                assert found[name] == own[name], name

            def refuse(*_: object) -> None:
                raise OSError(errno.ENOSPC, "No space left on device")

            monkeypatch.setattr("rewound.recording.flight.flight.save_status", refuse)
            os.utime(folder / "status.json", (0, 0))
            ended = await trio.to_thread.run_sync(run)
            found = json.loads(ended.stdout)
            assert found["running"] and not found["recording"] and ended.returncode == 3
            assert "the recorder has written no status for" in found["problem"]
        found = status_of_folder(folder)
        assert (found["running"], found["recording"], found["problem"]) == (False, False, "no recorder runs")
        assert main(["status", "--data-dir", str(folder)]) == 3
        text = capsys.readouterr().out
        assert "no recorder runs" in text and "by --kinds" in text and url_of(api) in text


async def test_server_is_asked(
    folder: Path, autojump_clock: MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    async with served() as api, flying(api, folder, kinds=("configmaps",)) as flight:
        await flight.begun()
        await flight.caught_up()
        ask = partial(status, "--server", url_of(flight.api), "--token", ADMIN)
        assert await trio.to_thread.run_sync(ask) == 0
        assert "yes, " in capsys.readouterr().out
        assert await trio.to_thread.run_sync(partial(ask, "-o", "json")) == 0
        assert json.loads(capsys.readouterr().out)["kind"] == "Flight"
        wrong = partial(status, "--server", url_of(api), "--token", ADMIN)
        assert await trio.to_thread.run_sync(wrong) == 1
        assert "records no cluster" in capsys.readouterr().err


def url_of(api: Api) -> str:
    assert api.addresses.insecure is not None
    host, port = api.addresses.insecure
    return f"http://{host}:{port}"


def status(*flags: Any) -> int:
    return main(["status", *flags])


def test_several_clusters_have_a_status_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status("--data-dir", str(tmp_path)) == 1
    assert "has no recording" in capsys.readouterr().err
    assert status("prod", "--data-dir", str(tmp_path)) == 2
    assert status("--data-dir", str(tmp_path), "--server", "http://127.0.0.1:9") == 2


async def test_a_version_that_is_not_said_is_the_recorded_one(
    folder: Path, autojump_clock: MockClock
) -> None:
    """A server that is just starting, or a user without rights, is no upgrade."""
    async with served(dialect="kubernetes") as api:
        session = Version(session_to(api).target)
        async with flying(api, folder, session=session, kinds=("configmaps",)) as flight:
            await flight.begun()
            assert (await flight.document())["kubernetes"] == "1.30"
        session = Version(session_to(api).target)
        session.version = ""
        async with flying(api, folder, session=session, kinds=("configmaps",)) as flight:
            await flight.begun()
            assert (await flight.document())["kubernetes"] == "1.30"
            await trio.sleep(300)
            assert (await flight.document())["kubernetes"] == "1.30"
    assert json.loads((folder / FILE).read_bytes())["kubernetes"] == "1.30"


class Version(CountingSession):
    version = "v1.30.0"

    async def get_document(self, path: str, **query: str) -> Document:
        found: Document = await super().get_document(path, **query)
        return found | {"gitVersion": self.version} if path == "/version" else found
