"""A server whose journal depends only on its seed and the requests that it gets.

Uids and generated names come from the seed, and time stands still unless it is moved. One request is sent at a time,
and `quiet` waits until the server has done everything that follows from it. The order of trio's tasks depends on the
seed that Hypothesis gives to trio, so such a server runs inside a test of Hypothesis.

It has no socket and no certificates: requests are ASGI messages, and the bearer token of a request is the name of its
user. The data folder is a copy of one that such a server has written before, so a start takes a tenth of a second.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import httpx
import msgspec
import trio
from trio.testing import active_thread_count, wait_all_tasks_blocked, wait_all_threads_completed

from rewound.actors.access.authentication.authenticate import Authenticated
from rewound.actors.identity import MASTERS, User
from rewound.actors.kinds.built_in import built_in
from rewound.actors.names import NAMES
from rewound.actors.runtime.turns import endless_turns
from rewound.gateway.connections.asgi.scopes import Message
from rewound.gateway.settings.checks import SettingsError
from rewound.gateway.settings.settings import Settings
from rewound.gateway.store import Store
from rewound.server.application import Application
from rewound.server.flags.parser import parse_flags
from rewound.testing.controlled import WITH_CONTROLS
from rewound.testing.fixture.in_process import AsgiRequest, asgi_scope

BEGIN: Final = 1_767_225_600_000_000  # microseconds: the first of January 2026
_SEED: Final = "initial objects"  # no number: a run's objects must not get their uids again
_NEVER: Final = 3600.0  # seconds of real time until the event loop looks again; whatever happens wakes it
_OWN_FLAGS: Final = (
    "--secure-port=0",
    "--insecure-port=8080",
    "--journal-retention=0",
    "--enable-journal-page=false",
)


class StillClock:
    """A wall clock and the deadlines of the event loop, which move only in `advance`."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.deadlines = _Deadlines(self)

    def now(self) -> int:
        """Microseconds since 1970."""
        return BEGIN + round(self.seconds * 1_000_000)


class _Deadlines(trio.abc.Clock):
    def __init__(self, clock: StillClock) -> None:
        self._clock = clock

    def start_clock(self) -> None:
        pass

    def current_time(self) -> float:
        return self._clock.seconds

    def deadline_to_sleep_time(self, deadline: float) -> float:
        return 0.0 if deadline <= self._clock.seconds else _NEVER


async def quiet() -> None:
    """Return when every other task waits for a client or for time, and no thread of the server works."""
    await wait_all_tasks_blocked()
    while active_thread_count():
        await wait_all_threads_completed()
        await wait_all_tasks_blocked()


class Exchange(AsgiRequest):
    """One request and what the server has sent of its response so far."""

    def __init__(self, request: httpx.Request) -> None:
        super().__init__(request.read())
        self.request = request
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.body = bytearray()
        self.ended = False

    async def run(self, application: Application) -> None:
        try:
            await application(asgi_scope(self.request, "http", 8080), self.receive, self._send)
        except OSError:
            pass  # the response broke off
        self.ended = True

    def close(self) -> None:
        """Disconnect the client."""
        self.closed.set()

    async def _send(self, message: Message) -> None:
        if self.closed.is_set():
            raise OSError("the client has disconnected")
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], list(message["headers"])
        else:
            self.body += message["body"]


class RepeatableServer:
    """A running server; see the module."""

    def __init__(
        self, application: Application, clock: StillClock, nursery: trio.Nursery, store: Store
    ) -> None:
        self._application = application
        self._nursery = nursery
        self.clock = clock
        self.store = store

    async def send(self, request: httpx.Request) -> Exchange:
        """Send a request; returns when the server is idle again."""
        exchange = Exchange(request)
        self._nursery.start_soon(exchange.run, self._application)
        await quiet()
        return exchange

    async def advance(self, seconds: float) -> None:
        """Move time, and stop at each deadline on the way: earlier timers fire first."""
        end = self.clock.seconds + seconds
        while self.clock.seconds < end:
            next_deadline = trio.lowlevel.current_statistics().seconds_to_next_deadline
            step = max(next_deadline, seconds / 100)
            self.clock.seconds = min(end, self.clock.seconds + step)
            await quiet()


class _UserTokens:
    """Authenticates a bearer token as the user of that name, in the group of administrators."""

    def authenticate(self, token: bytes, audiences: tuple[str, ...]) -> Authenticated:
        return Authenticated(User(token.decode(), groups=(MASTERS,)).with_authenticated_group())


class Template:
    """A data folder with the initial objects, of which every run gets a copy, and the settings of its servers."""

    def __init__(self, folder: Path, dialect: str, flags: Sequence[str]) -> None:
        """Raises SettingsError for flags that are wrong, or that these servers set themselves."""
        self.folder = folder
        self._settings = _settings(folder, dialect, flags)
        self._catalog = built_in(
            NAMES[dialect], self._settings.release, self._settings.enablement, self._settings.rules
        )

    def make(self) -> None:
        clock = StillClock()

        async def start() -> None:
            async with self.running(self.folder, _SEED, clock):
                pass

        trio.run(start, clock=clock.deadlines)

    def copy(self, folder: Path) -> None:
        shutil.copytree(self.folder, folder)

    @asynccontextmanager
    async def running(
        self, folder: Path, seed: int | str, clock: StillClock
    ) -> AsyncIterator[RepeatableServer]:
        """Serve a copy in this event loop, whose clock is `clock.deadlines`."""
        opened: list[Store] = []
        extensions = msgspec.structs.replace(
            WITH_CONTROLS,
            token_methods=(_UserTokens(),),
            random=random.Random(seed),
            catalog=self._catalog,
        )
        settings = replace(self._settings, data_dir=folder)
        application = Application(settings, clock, extensions, opened_store=opened.append)
        with endless_turns():
            async with application.running(), trio.open_nursery() as nursery:
                await quiet()
                yield RepeatableServer(application, clock, nursery, opened[0])
                nursery.cancel_scope.cancel()


def _settings(folder: Path, dialect: str, flags: Sequence[str]) -> Settings:
    own = [f"--data-dir={folder}", f"--dialect={dialect}", *_OWN_FLAGS]
    wanted, _ = parse_flags(own)
    settings, _ = parse_flags([*own, *flags])
    for field in ("data_dir", "dialect", "secure_port", "insecure_port", "journal_retention"):
        if getattr(settings, field) != getattr(wanted, field):
            raise SettingsError(
                f"--{field.replace('_', '-')}", "explore sets it for its servers; leave it out of the flags"
            )
    return settings


def user_headers(name: str) -> dict[str, Any]:
    """The headers of a request of this user, with a field manager of the same name."""
    return {"authorization": f"Bearer {name}", "user-agent": name}
