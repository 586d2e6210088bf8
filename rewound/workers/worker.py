"""A worker: serves requests from the journal of the writer process, and sends it the writes.

Reads, lists and watches come straight from LMDB. Before each request the worker publishes new commits on its own feed
(`actors.store.tail`), so that it has every write that any client has seen.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import trio

from rewound.actors.errors import OutcomeUnclear, WriterUnavailable
from rewound.actors.runtime.clock import WallClock
from rewound.actors.store.feed import Feed
from rewound.actors.store.tail import Tail
from rewound.gateway.pipeline.services import CatchUp
from rewound.gateway.settings.settings import Settings
from rewound.gateway.store import Store
from rewound.journal.errors import Compacted
from rewound.journal.log import Journal
from rewound.server.api_server import ApiServer
from rewound.server.extensions import NO_EXTENSIONS, Extensions
from rewound.server.open_store import memory_budget, worker_store
from rewound.workers.channel import Channel, ChannelClosed, refusal
from rewound.workers.parent_link import ParentLink
from rewound.workers.quotas import QuotasOfWorker
from rewound.workers.roles import Ready, Role
from rewound.workers.shared import SharedOfWorker
from rewound.workers.shared_page import SharedPage
from rewound.workers.writer import COMMITTED, DAMAGED, HELLO, LEAVING, WRITE

logger = logging.getLogger(__name__)

# How long a write waits for a writer process that is being started.
PATIENCE = 30.0
_CONNECT_AGAIN = 0.05
_WRITER_ENDED = "the process that writes the journal has ended"


class WriterConnection:
    """The channel to the writer process, opened again when that process is replaced."""

    def __init__(self, role: Role) -> None:
        self._path = str(role.socket)
        self._channel: Channel | None = None  # None while there is no writer process that takes calls
        self._connected = trio.Event()
        self.committed = _nothing
        self.shared = SharedOfWorker(self, role.workers)
        self.quotas = QuotasOfWorker(os.getpid())

    async def write(self, message: bytes) -> bytes:
        """Send a command. Raises WriterUnavailable, or OutcomeUnclear if the writer ended before its reply."""
        channel = self.current
        if channel is None:
            with trio.move_on_after(PATIENCE):
                channel = await self.channel()
        if channel is None:
            raise WriterUnavailable
        try:
            return await channel.call(WRITE, message)
        except ChannelClosed:
            raise OutcomeUnclear(_WRITER_ENDED) from None

    def report_damage(self, text: str) -> None:
        if (channel := self.current) is not None:
            channel.notify(DAMAGED, text.encode())

    @property
    def current(self) -> Channel | None:
        """None while the writer process is away."""
        channel = self._channel
        return None if channel is None or channel.closed else channel

    async def channel(self) -> Channel:
        """The channel; waits while the writer process is away."""
        while (channel := self.current) is None:
            await self._connected.wait()
            await trio.lowlevel.checkpoint()  # a channel that has just closed is there until its task runs
        return channel

    async def run(self) -> None:
        """Connect, and connect again whenever the writer process has ended."""
        async with trio.open_nursery() as nursery:
            while True:
                stream = await self._connect()
                left = trio.Event()
                nursery.start_soon(self._serve, stream, left)
                await left.wait()

    async def _connect(self) -> trio.SocketStream:
        while True:
            try:
                return await trio.open_unix_socket(self._path)
            except OSError:
                await trio.sleep(_CONNECT_AGAIN)

    async def _serve(self, stream: trio.SocketStream, left: trio.Event) -> None:
        """Run one channel until it ends; `left` is set when the next one is needed."""
        leaving = trio.Event()
        channel = Channel(stream)

        def leave(_: bytes) -> None:
            self._disconnected(channel)
            leaving.set()
            left.set()

        async def close_when_replied() -> None:
            await leaving.wait()
            await channel.replied()
            channel.close()

        self.shared.connecting(channel)
        channel.notices.update(
            {
                HELLO: lambda body: self._greeted(channel, body),
                COMMITTED: lambda _: self.committed(),
                LEAVING: leave,
                **self.quotas.notices(lambda: channel),
            }
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(close_when_replied)
            await channel.run()
            nursery.cancel_scope.cancel()
        self._disconnected(channel)
        left.set()

    def _greeted(self, channel: Channel, body: bytes) -> None:
        """Use a channel, unless the writer process is of a release that this one does not understand."""
        if why := refusal(body):
            logger.error("%s", why)
        else:
            self._set(channel)

    def _set(self, channel: Channel) -> None:
        self._channel = channel
        self._connected.set()
        self.committed()
        self.shared.connected(channel)
        self.quotas.connected(channel)

    def _disconnected(self, channel: Channel) -> None:
        if self._channel is channel:
            self._channel = None
            self._connected = trio.Event()


def _nothing() -> None:
    return None


@asynccontextmanager
async def _open_store(
    settings: Settings, role: Role, connection: WriterConnection, page: SharedPage, parent: ParentLink
) -> AsyncIterator[tuple[Store, Extensions]]:
    """The store of a worker, and the other services of its server."""
    journal = Journal.open(settings.journal, readonly=True)
    try:
        async with trio.open_nursery() as nursery:
            memory, quotas = memory_budget(settings), connection.quotas
            memory.lease(quotas.holder)
            quotas.report_processes(memory.process.count_others)
            store = worker_store(
                settings, journal, WallClock(), memory, nursery, NO_EXTENSIONS, connection.write
            )
            journal.environment.report_damage = connection.report_damage
            tail = Tail(journal, store.feed, page.newest)
            catch_up = _ending_with_history(tail.catch_up, nursery)
            catch_up()
            deliveries = _Deliveries(store.feed)
            nursery.start_soon(deliveries.run)
            connection.committed = deliveries.after(_ending_with_history(tail.record, nursery))
            try:
                share = page.accept_share(role.index, role.workers, parent.serve)
                extensions = Extensions(
                    binds=role.binds,
                    accept_share=share,
                    catch_up=_before_requests(tail, catch_up),
                    shared=connection.shared.shared,
                    holder=quotas.holder,
                )
                yield store, extensions
            finally:
                connection.committed = _nothing
                nursery.cancel_scope.cancel()
    finally:
        journal.close()


class _Deliveries:
    """Delivers commits to watchers one pass of the event loop after their notice, so that replies are sent first."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._noticed = trio.lowlevel.ParkingLot()

    def after(self, record: Callable[[], None]) -> Callable[[], None]:
        def committed() -> None:
            try:
                record()
            finally:  # also after an error, deliver what was published before it
                self._noticed.unpark_all()

        return committed

    async def run(self) -> None:
        while True:
            await self._noticed.park()
            self._feed.deliver()


def _ending_with_history(catch_up: Callable[[], None], nursery: trio.Nursery) -> Callable[[], None]:
    """Catch up. A worker that is so far behind that events are gone ends, and the parent starts another one."""

    async def end(error: Compacted) -> None:
        raise error

    def catch_up_or_end() -> None:
        try:
            catch_up()
        except Compacted as error:
            nursery.start_soon(end, error)
            raise

    return catch_up_or_end


def _before_requests(tail: Tail, catch_up: Callable[[], None]) -> CatchUp:
    async def publish() -> None:
        catch_up()

    return lambda _: publish() if tail.is_behind else None


async def run_worker(settings: Settings, role: Role, ready: Ready, parent: ParentLink) -> None:
    """Serve clients until the parent asks to stop or has ended, even while this worker starts.

    Without the parent there may never be a writer process to wait for, and this process has the sockets of clients.
    """
    page, connection = SharedPage(role.page), WriterConnection(role)
    stop, serves = parent.stop, False
    async with trio.open_nursery() as connecting:

        async def give_up() -> None:
            await stop.wait()
            if not serves:
                connecting.cancel_scope.cancel()

        connecting.start_soon(give_up)
        connecting.start_soon(connection.run)
        connecting.start_soon(connection.quotas.run)
        await connection.channel()
        opened = _open_store(settings, role, connection, page, parent)
        async with opened as (store, extensions):
            async with trio.open_nursery() as nursery:
                server = ApiServer(settings, store, nursery, extensions)
                await connection.quotas.ordered()
                serves = True  # a stop lets requests complete
                await nursery.start(server.serve)
                server.health.finish_start()
                await ready()
                nursery.start_soon(connection.quotas.leave_with, stop)
                await server.serve_until(stop)
                nursery.cancel_scope.cancel()
            await connection.shared.leave()
        connecting.cancel_scope.cancel()
