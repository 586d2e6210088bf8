"""One server in a thread, shared by tests that write nothing: most of their time would be the start of a server.

    async with shared() as api:
        await api.refuse("POST", PATH, b"{", 400)

Every test starts with only the initial objects. A test that writes objects to the namespace default names their
resources, `shared("configmaps")`: they are deleted after it. After any other write, and after a test that failed, the
server stops, and the next test starts a new one. A test that needs settings, a clock or a restart uses `served`.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, NoReturn

import trio
import trio.testing

from tests.actors.object_store import ManualClock
from tests.gateway.api import Api, served
from tests.gateway.plain_client import PlainClient

STARTS_WITHIN = STOPS_WITHIN = 60.0  # seconds, on a busy machine


class ServerThread:
    """A server that runs in a thread until `stop`; `prepare` runs before the first test uses it."""

    def __init__(self, prepare: Callable[[Api], Awaitable[None]] | None = None, **settings: Any) -> None:
        self._prepare = prepare
        self._settings = settings
        self._started = threading.Event()
        self._stop = trio.Event()
        self._token: trio.lowlevel.TrioToken | None = None
        self._api: Api | None = None
        self.head = ""
        # A server that does not stop must not keep the process from ending.
        self._thread = threading.Thread(target=trio.run, args=(self._run,), name="shared server", daemon=True)
        self._thread.start()
        assert self._started.wait(STARTS_WITHIN), "the shared server does not start"
        _threads.append(self)

    async def _run(self) -> None:
        try:
            async with served(**self._settings) as api:
                if self._prepare is not None:
                    await self._prepare(api)
                self._token = trio.lowlevel.current_trio_token()
                self._api, self.head = api, await api.head()
                self._started.set()
                await self._stop.wait()
        finally:
            self._started.set()

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Api]:
        """A client for the event loop of the test."""
        clock = trio.lowlevel.current_clock()
        assert not isinstance(clock, trio.testing.MockClock), "the server has no such clock"
        used = self._api
        assert used is not None and used.addresses.insecure is not None, "the server did not start"
        client = PlainClient(*used.addresses.insecure)
        api = SharedApi(used.settings, _NoClock(), used.nursery, addresses=used.addresses, _plain=client)
        try:
            yield api
        finally:
            await api.close_idle()

    def stop(self) -> None:
        _threads.remove(self)
        if self._token is not None:
            with suppress(trio.RunFinishedError):  # it failed
                self._token.run_sync_soon(self._stop.set)
        self._thread.join(STOPS_WITHIN)
        assert not self._thread.is_alive(), "the shared server does not stop"


class _NoClock(ManualClock):
    def advance(self, seconds: float) -> NoReturn:
        raise AssertionError("a test that moves the clock needs a server of its own")


class SharedApi(Api):
    async def finish(self) -> NoReturn:
        raise AssertionError("a test that stops its server needs one of its own")

    async def restart(self, **changed: Any) -> NoReturn:
        await self.finish()


_threads: list[ServerThread] = []  # that run
_running: ServerThread | None = None  # that of `shared`


@asynccontextmanager
async def shared(*written: str) -> AsyncIterator[Api]:
    """A server with the default settings of `served`; `written` are the resources that the test writes."""
    global _running
    if _running is None:
        _running = ServerThread()
    server, unchanged = _running, False
    try:
        async with server.connected() as api:
            yield api
            for plural in written:
                await api.delete_collection(plural)
                server.head = await api.head()
            unchanged = await api.head() == server.head
    finally:
        if not unchanged:
            _running = None
            server.stop()


def stop_shared() -> None:
    """Stop the servers at the end of the process."""
    for server in list(_threads):
        server.stop()
