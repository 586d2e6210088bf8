"""The server as an ASGI 3 application: another program accepts connections, the lifespan opens and closes the store.

`rewound.asgi` makes one; tests run one in their own event loop:

    application = Application(settings)
    async with application.running():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(application), base_url="http://rewound") as client:
            await client.get("/version")
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import trio
from msgspec.structs import replace

from rewound.actors.runtime.clock import Clock
from rewound.gateway.connections.asgi.scopes import Receive, Scope, Send
from rewound.gateway.connections.asgi.socketless import SocketlessServer
from rewound.gateway.connections.limits import Limits
from rewound.gateway.connections.responder import Handle, Refuse
from rewound.gateway.exchange import RequestObserver
from rewound.gateway.memory.budget import MemoryBudget
from rewound.gateway.settings.settings import Addresses, Settings
from rewound.gateway.store import Store
from rewound.server.extensions import NO_EXTENSIONS, Extensions
from rewound.server.run import run

_NEEDS_TRIO: Final = "the application needs trio as the event loop: start Hypercorn with -k trio"
_NOT_RUNNING: Final = b"the application does not run: the server has to send it lifespan messages\n"

Explain = Callable[[BaseException, Settings | None], str]


def _first_line(error: BaseException, settings: Settings | None) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


class Application:
    """Serves requests while it runs: between the two messages of its lifespan, or inside `running`."""

    def __init__(
        self,
        settings: Settings | Callable[[], Settings],
        clock: Clock | None = None,
        extensions: Extensions = NO_EXTENSIONS,
        explain: Explain = _first_line,
        opened_store: Callable[[Store], None] | None = None,
    ) -> None:
        """`settings` may be a function, called at each start; `explain` describes why a start has failed.

        `opened_store` is called with the store of each start.
        """
        self._settings = settings
        self._clock = clock
        self._extensions = replace(extensions, make_server=self._make_server)
        self._explain = explain
        self._opened_store = opened_store
        self._server: SocketlessServer | None = None
        self._ready = False
        self._read: Settings | None = None  # of the last start

    def _make_server(
        self,
        handle: Handle,
        refuse: Refuse,
        limits: Limits,
        observer: RequestObserver | None,
        memory: MemoryBudget,
    ) -> SocketlessServer:
        self._server = SocketlessServer(handle, refuse, limits, observer, memory)
        return self._server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif self._server is None or not self._ready:
            await _refuse(scope, send)
        else:
            await self._server.requests(scope, receive, send)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Open the store, serve requests inside the block, then shut down gracefully."""
        self._read = None
        self._read = self._settings if isinstance(self._settings, Settings) else self._settings()
        stop = trio.Event()
        async with trio.open_nursery() as nursery:
            await nursery.start(partial(self._run, self._read, stop))
            try:
                yield
            finally:
                stop.set()

    async def _run(self, settings: Settings, stop: trio.Event, task_status: trio.TaskStatus[None]) -> None:
        def announce(_: Addresses) -> None:
            self._ready = True
            task_status.started()

        try:
            await run(settings, announce, stop, self._clock, self._extensions, self._opened_store)
        finally:
            self._ready, self._server = False, None

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()  # lifespan.startup
        if not trio.lowlevel.in_trio_task():
            await send({"type": "lifespan.startup.failed", "message": _NEEDS_TRIO})
            return
        step = "startup"
        try:
            async with self.running():
                step = "shutdown"
                await send({"type": "lifespan.startup.complete"})
                await receive()  # lifespan.shutdown
        except Exception as error:
            await send({"type": f"lifespan.{step}.failed", "message": self._explain(error, self._read)})
        else:
            await send({"type": "lifespan.shutdown.complete"})


async def _refuse(scope: Scope, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1013})
        return
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", b"%d" % len(_NOT_RUNNING)),
    ]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": _NOT_RUNNING, "more_body": False})
