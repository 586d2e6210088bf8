"""Records a served API into a folder, within the event loop of a test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import orjson
import trio

from rewound.client.credentials import Credential, FixedCredential, bearer
from rewound.client.streaming import StreamingSession, refuse_too_long
from rewound.client.target import Target
from rewound.client.websocket import WebSocketSession
from rewound.journal.log import Journal
from rewound.journal.records import Event
from rewound.recording.record.recorder import Recorder, RecordOptions
from tests.gateway.api import ADMIN, Api
from tests.settling import settled


class CountingSession(StreamingSession):
    """Remembers the lists and watches that it sent: path, and `watch` or `list`."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.sent: list[tuple[str, str]] = []
        self.patience = float("inf")  # as below

    def _open_response(
        self, path: str, query: dict[str, str], seconds: float, body: bytes | None = None
    ) -> AbstractAsyncContextManager[Any]:
        how = "watch" if "watch" in query else "list" if "limit" in query else "get"
        self.sent.append((path, how if body is None else "post"))
        # The virtual clock advances while a thread of the server works: no request may time out.
        return super()._open_response(path, query, float("inf"), body)


class CountingWebSocketSession(CountingSession, WebSocketSession):
    """The same with watches over WebSockets."""

    async def read_lines(
        self,
        path: str,
        seconds: float,
        take: Callable[[bytes], Awaitable[None]],
        too_long: Callable[[bytes], Awaitable[None]] = refuse_too_long,
        **query: str,
    ) -> None:
        self.sent.append((path, "watch"))
        await super().read_lines(path, float("inf"), take, too_long, **query)


def session_to(api: Api, token: str = ADMIN, *, websocket: bool = False) -> CountingSession:
    assert api.addresses.insecure is not None
    host, port = api.addresses.insecure
    credentials = FixedCredential(Credential(bearer(token)))
    session = CountingWebSocketSession if websocket else CountingSession
    return session(Target(f"http://{host}:{port}", credentials, "a test"))


@asynccontextmanager
async def recording(
    api: Api, folder: Path, *, token: str = ADMIN, websocket: bool = False, **options: Any
) -> AsyncIterator[tuple[Recorder, CountingSession]]:
    """A recording that has started; at the end of the block it has everything that was written before."""
    api.client.timeout = httpx.Timeout(None)  # for the same reason
    session = session_to(api, token, websocket=websocket)
    recorder = Recorder(session, folder, RecordOptions(**options), api.clock.now)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(recorder.run)
            await recorder.started.wait()
            yield recorder, session
            # Controllers have written everything that follows, and no socket still holds any of it.
            await settled()
            # In virtual time: afterwards, events that may arrive out of order are in the journal.
            await trio.sleep(3)
            await settled()
            nursery.cancel_scope.cancel()
    finally:
        with trio.CancelScope(shield=True):
            await session.aclose()


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Journal]:
    """The journal of a recording that has ended."""
    journal = Journal.open(folder / "journal", readonly=True)
    try:
        yield journal
    finally:
        journal.close()


def events_of(journal: Journal, type_name: str, *, since: int = 0) -> list[Event]:
    with journal.read() as view:
        return [one for one in view.all_events(since) if one.type_id == journal.type_id(type_name)]


def texts(events: list[Event]) -> list[tuple[str, str]]:
    """The operations on ConfigMaps, with the text of each."""
    return [(one.verb, orjson.loads(one.body)["data"]["text"]) for one in events]
