"""A flight recorder whose API server is lost serves what it has, says so, and goes on when the server is back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from trio.testing import MockClock

from rewound.client.credentials import Credential, FixedCredential
from rewound.client.errors import ClientError
from rewound.client.target import Target
from rewound.recording.record.recorder import WrongFolder
from tests.actors.object_store import memory_folder
from tests.gateway.api import served
from tests.recording.flight.flying import flying
from tests.recording.record.recording import CountingSession, events_of, opened, texts
from tests.recording.record.test_resuming import put

KINDS = ("configmaps",)


@pytest.fixture
def folder() -> Iterator[Path]:
    with memory_folder() as found:
        yield found / "out"


def lost() -> CountingSession:
    """A session to a port on which nobody listens."""
    return CountingSession(Target("http://127.0.0.1:9", FixedCredential(Credential()), "a test"))


async def test_recording_goes_on_after_a_restart(folder: Path, autojump_clock: MockClock) -> None:
    async with served() as api:
        async with flying(api, folder, kinds=KINDS) as flight:
            await flight.begun()
            await put(api, "a", "1")
            await flight.caught_up()
        await put(api, "a", "2")
        async with flying(api, folder, kinds=KINDS) as flight:
            await flight.begun()
            await put(api, "a", "3")
            await flight.caught_up()
            assert [how for _, how in flight.session.sent if how != "get"] == ["watch"]  # from where it ended
        async with opened(folder) as journal:
            own = [one for one in events_of(journal, "configmaps") if one.namespace == "default"]
        assert texts(own) == [("create", "1"), ("update", "2"), ("update", "3")]


async def test_recording_is_served_without_its_server(folder: Path, autojump_clock: MockClock) -> None:
    async with served() as api:
        async with flying(api, folder, kinds=KINDS) as flight:
            await flight.begun()
            await put(api, "a", "1")
            await flight.caught_up()
        async with flying(api, folder, session=lost(), kinds=KINDS) as flight:
            await flight.caught_up()
            found = (await flight.api.ask("GET", flight.api.path("configmaps", name="a"))).expect(200)
            assert found["data"] == {"text": "1"}
            document = await flight.document()
            assert not document["recording"] and "http://127.0.0.1:9" in document["problem"]
            assert (await flight.api.ask("GET", "/readyz")).status == 200


async def test_new_folder_needs_its_server(folder: Path, autojump_clock: MockClock) -> None:
    async with served() as api:
        with pytest.RaisesGroup(ClientError, flatten_subgroups=True, allow_unwrapped=True):
            async with flying(api, folder, session=lost()):
                pytest.fail("it serves nothing")
        assert not folder.exists()


async def test_folder_of_other_flags_is_refused(folder: Path, autojump_clock: MockClock) -> None:
    async with served() as api:
        async with flying(api, folder, kinds=KINDS) as flight:
            await flight.begun()
        with pytest.RaisesGroup(WrongFolder, flatten_subgroups=True, allow_unwrapped=True):
            async with flying(api, folder, kinds=KINDS, with_secrets=True) as flight:
                await flight.caught_up()
