"""A cluster that is upgraded while it is recorded is served in its new version, and nothing of it is missing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from tests.actors.object_store import Document, memory_folder
from tests.gateway.api import served
from tests.recording.flight.flying import flying
from tests.recording.record.recording import CountingSession, session_to
from tests.recording.record.test_resuming import put


class Upgraded(CountingSession):
    """A session to a server that says this version."""

    version = "v1.30.0"

    async def get_document(self, path: str, **query: str) -> Document:
        found: Document = await super().get_document(path, **query)
        return found | {"gitVersion": self.version} if path == "/version" else found


@pytest.fixture
def folder() -> Iterator[Path]:
    with memory_folder() as found:
        yield found / "out"


async def test_new_version_is_served(folder: Path, autojump_clock: MockClock) -> None:
    async with served(dialect="kubernetes") as api:
        session = Upgraded(session_to(api).target)
        async with flying(api, folder, session=session, kinds=("configmaps",)) as flight:
            await flight.begun()
            assert (await flight.api.ask("GET", "/version")).document["minor"] == "30"
            await put(api, "a", "1")
            session.version = "v1.31.2"
            with trio.fail_after(3600):
                while (await flight.api.ask("GET", "/version")).document["minor"] != "31":
                    await trio.sleep(10)
            await flight.begun()
            version = await put(api, "a", "2")
            await flight.caught_up()
            found = (await flight.api.ask("GET", flight.api.path("configmaps", name="a"))).expect(200)
            assert (found["data"], found["metadata"]["resourceVersion"]) == ({"text": "2"}, version)
            assert not any(one["missing"] for one in (await flight.document())["gaps"])
