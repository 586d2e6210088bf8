"""A full disk ends no recording: it goes on when there is room, and misses nothing."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rewound.actors.store.document import decode
from rewound.journal.errors import StorageFull
from rewound.recording.record import recorder
from tests.gateway.api import Api, served
from tests.recording.flight.flying import flying


def config_map(name: str, text: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": text}}


@pytest.mark.parametrize("full", ["journal", "positions"])
async def test_recording_goes_on_when_there_is_room(
    autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: str
) -> None:
    folder = tmp_path / "flight"

    def refuse(*_: object) -> None:
        if full == "journal":
            raise StorageFull(folder, "no space left on device")
        raise OSError(errno.ENOSPC, "No space left on device", str(folder))

    async with served() as api, flying(api, folder, kinds=("configmaps",)) as flight:
        await flight.begun()
        await api.create("configmaps", config_map("a", "1"))
        await flight.caught_up()
        with monkeypatch.context() as patched:
            if full == "journal":
                patched.setattr(flight.flight.journal, "write", refuse)
                patched.setattr(flight.flight.journal, "append", refuse)
            else:
                patched.setattr(recorder, "save_positions", refuse)
            for name, text in ("n1", "n2", "a2", "n3", "a3", "n4"):  # the first batch has some of them
                await write(api, name, text)
                await trio.sleep(0.3)
            await until(lambda: "space" in flight.flight.problem)
            await api.create("configmaps", config_map("b", "1"))
            await trio.sleep(100)
            assert not (await flight.document())["recording"]
            assert "free some space there" in flight.flight.problem
            (await flight.api.ask("GET", "/api/v1/namespaces/default/configmaps/a")).expect(200)
        await until(lambda: flight.flight.recorder is not None)
        await flight.begun()
        await flight.caught_up()
        with flight.flight.journal.read() as view:
            written = [(one.name, decode(one.body)["data"]["text"]) for one in view.all_events(0)]
        assert ["".join(one) for one in written[-8:]] == ["a1", "n1", "n2", "a2", "n3", "a3", "n4", "b1"]
        (await flight.api.ask("GET", "/api/v1/namespaces/default/configmaps/b")).expect(200)
        assert (await flight.document())["problem"] == ""


async def write(api: Api, name: str, text: str) -> None:
    if text == "1":
        await api.create("configmaps", config_map(name, text))
        return
    path = f"/api/v1/namespaces/default/configmaps/{name}"
    (await api.ask("PUT", path, config_map(name, text))).expect(200)


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(6000):
        while not condition():
            await trio.sleep(0.1)
