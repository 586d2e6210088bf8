"""Records and serves an API of the same test.

async with served() as api, flying(api, folder) as flight:
    await api.create("configmaps", config_map("a"))
    await flight.caught_up()
    await flight.api.list("configmaps")
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import trio

from rewound.gateway.settings.settings import Addresses
from rewound.recording.flight.flight import Beside, Flight, FlightOptions, flight_settings
from rewound.recording.record.recorder import RecordOptions
from tests.actors.object_store import Document
from tests.gateway.api import TOKENS, AnyPort, Api
from tests.recording.record.recording import CountingSession, session_to
from tests.settling import settled


@dataclass
class FlightApi(Api):
    flight: Flight | None = None

    async def _run(self, task_status: trio.TaskStatus[None]) -> None:
        def ready(addresses: Addresses) -> None:
            self.addresses = addresses
            task_status.started()

        assert self.flight is not None
        await self.flight.run(ready, self.stop)
        self.stopped.set()


@dataclass(frozen=True)
class Flying:
    api: FlightApi
    flight: Flight
    session: CountingSession
    options: FlightOptions = field(default_factory=FlightOptions)

    async def document(self) -> Document:
        return (await self.api.ask("GET", "/debug/rewound/flight")).expect(200)

    async def begun(self) -> None:
        """Wait until the first lists are in the journal."""
        with trio.fail_after(600):
            while self.flight.recorder is None or not self.flight.recorder.started.is_set():
                await trio.sleep(0.1)

    async def caught_up(self) -> None:
        """Wait until everything that the server had committed before is in the recording."""
        await settled()
        await trio.sleep(3)  # in virtual time: events may arrive out of order
        await settled()


@asynccontextmanager
async def flying(
    api: Api,
    folder: Path,
    *,
    session: CountingSession | None = None,
    beside: Sequence[Beside] = (),
    options: FlightOptions | None = None,
    access_log: str = "",
    **record: Any,
) -> AsyncIterator[Flying]:
    """Begin to serve; the recording begins a moment later (`begun`)."""
    api.client.timeout = httpx.Timeout(None)  # the virtual clock advances while a thread of the server works
    session = session or session_to(api)
    options = options or FlightOptions(RecordOptions(**record))
    tokens = folder.parent / "tokens.csv"
    tokens.write_text(TOKENS)

    def make_settings(journal: Any) -> AnyPort:
        made = flight_settings(
            journal,
            folder,
            AnyPort,
            for_everyone=options.for_everyone,
            with_secrets=options.record.with_secrets,
            access_log=access_log,
            secure_port=0,
            insecure_port=1,
            token_auth_file=tokens,
        )
        assert isinstance(made, AnyPort)
        return made

    one = Flight(session, folder, options, make_settings, clock=api.clock, beside=beside)
    try:
        async with trio.open_nursery() as nursery:
            settings = AnyPort(
                data_dir=folder, secure_port=0, insecure_port=1, token_auth_file=tokens
            )  # of the client only
            served = FlightApi(settings, api.clock, nursery, flight=one)
            await served.start(prepared=True)
            served.client.timeout = httpx.Timeout(None)
            try:
                yield Flying(served, one, session, options)
            finally:
                with trio.move_on_after(10, shield=True):
                    await served.finish()
    finally:
        with trio.CancelScope(shield=True):
            await session.aclose()
