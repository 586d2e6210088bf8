"""The writer process: a server of one process, with actors, controllers and housekeeping, that also writes for workers.

Its own requests use its actors directly. It accepts a channel from each worker. Workers send commands ("write"), and
each commit goes to them as a notice ("committed"). Its newest offset is stored in the shared page right before LMDB
makes it visible: a client that has seen a write, in a reply or a read, finds it in every worker.
A worker whose read finds damage reports it ("damaged"), because writes could spread it. To stop, the process sends the
notice "leaving", after which workers send nothing more; each closes its channel when it has all replies, and connects
again: the next writer process, which inherits the same listening socket, accepts it.

Rejected: a writer process that serves nothing. On two cores, two workers and it were three processes: a create took 414
us of CPU over all of them, where one process takes 163 (docs/decisions/0041-workers.md).
"""

from __future__ import annotations

import os
import socket
from functools import partial

import trio

from rewound.actors.bootstrap.bootstrap import Bootstrap
from rewound.actors.resource.remote import begin
from rewound.actors.runtime.clock import WallClock
from rewound.actors.store.tail import OwnCommits
from rewound.gateway.settings.settings import Settings
from rewound.gateway.store import Store
from rewound.server.api_server import ApiServer
from rewound.server.data_folder import CreatedPaths, warn_of_readable_files
from rewound.server.extensions import NO_EXTENSIONS, Extensions
from rewound.server.open_store import open_store
from rewound.server.run import serving_address
from rewound.server.secure_port import prepare_certificates
from rewound.workers.channel import Channel, greeting
from rewound.workers.parent_link import ParentLink
from rewound.workers.quotas import (
    QuotasOfWorker,
    QuotasOfWriter,
    connect_locally,
    quotas_of_writer,
)
from rewound.workers.roles import Ready, Role
from rewound.workers.shared import SharedOfWriter
from rewound.workers.shared_page import SharedPage

COMMITTED, DAMAGED, LEAVING, HELLO, WRITE = "committed", "damaged", "leaving", "hello", "write"
# How long workers may wait for their last replies when this process stops: as long as requests may take.
GRACE = 60.0


class WriterProcess:
    def __init__(self, store: Store, shared: SharedOfWriter, quotas: QuotasOfWriter) -> None:
        self._store = store
        self._shared = shared
        self._quotas = quotas
        self._channels: set[Channel] = set()
        self._accepting = trio.CancelScope()
        self._gone = trio.lowlevel.ParkingLot()
        store.feed.on_delivery(self._committed)

    def _committed(self) -> None:
        """Wake the workers, whose watchers wait for events, after the replies to the writes."""
        for channel in self._channels:
            channel.notify_once(COMMITTED)

    async def accept(self, listening: socket.socket, channels: trio.Nursery) -> None:
        """Accept workers until `leave`."""
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(listening))
        with self._accepting:
            while True:
                channels.start_soon(self._serve, await listener.accept())

    async def _serve(self, stream: trio.SocketStream) -> None:
        store = self._store
        channel = Channel(stream)
        channel.notices[DAMAGED] = lambda text: store.journal.environment.stop_writes(text.decode())
        channel.begins[WRITE] = partial(begin, store.directory, store.registry)
        channel.notices.update(self._quotas.notices(lambda: channel))
        self._channels.add(channel)
        self._shared.connected(channel)
        channel.notify(HELLO, greeting())
        try:
            await channel.run()
        finally:
            self._channels.discard(channel)
            self._shared.disconnected(channel)
            self._quotas.disconnected(channel)
            store.journal.forget_dead_readers()
            self._gone.unpark_all()

    async def leave(self) -> None:
        """Wait until every worker has its replies and has closed its channel, at most for a while.

        Workers connect again at once: that is for the next writer process to accept.
        """
        self._accepting.cancel()
        await self._shared.leave()
        self._quotas.stop()
        with trio.move_on_after(GRACE):
            for channel in self._channels:
                channel.notify(LEAVING)
            while self._channels:
                await self._gone.park()


async def run_writer(settings: Settings, role: Role, ready: Ready, parent: ParentLink) -> None:
    """Serve clients until the parent asks for a drain, and write for workers until it asks for a stop."""
    drain, stop = parent.drain, parent.stop
    assert role.writer is not None, "the parent opened it"
    created, page = CreatedPaths(settings), SharedPage(role.page)
    listening = socket.socket(fileno=role.writer)
    opened = open_store(settings, WallClock(), created, NO_EXTENSIONS)
    async with opened as store, trio.open_nursery() as nursery:
        # Before anything is committed: workers of the previous writer process may be serving.
        page.store_newest(store.feed.head)
        store.journal.before_commit = page.store_newest
        shared = SharedOfWriter(settings.audit, role.workers)
        await _prepare(settings, role, store, created)
        allocator, quotas = quotas_of_writer(settings, store, role.living), QuotasOfWorker(os.getpid())
        writer = WriterProcess(store, shared, allocator)
        store.memory.lease(quotas.holder)
        quotas.report_processes(store.memory.process.count_others)
        for run in (shared.run, allocator.run, quotas.run, connect_locally(quotas, allocator).run):
            nursery.start_soon(run)
        own = OwnCommits(store.journal, store.feed, page.newest)
        extensions = Extensions(
            binds=role.binds,
            accept_share=page.accept_share(role.index, role.workers, parent.serve),
            catch_up=lambda _: own.missing(),
            shared=shared.shared,
            holder=quotas.holder,
        )
        async with trio.open_nursery() as serving:
            server = ApiServer(settings, store, serving, extensions)
            nursery.start_soon(writer.accept, listening, nursery)
            await quotas.ordered()
            await serving.start(server.serve)
            server.health.finish_start()
            await ready()
            serving.start_soon(quotas.leave_with, drain)
            await server.serve_until(drain)
            serving.cancel_scope.cancel()
        await stop.wait()
        await writer.leave()
        nursery.cancel_scope.cancel()


async def _prepare(settings: Settings, role: Role, store: Store, created: CreatedPaths) -> None:
    """Create what a new data folder needs before a request is served."""
    bootstrap = Bootstrap(
        store.names,
        store.registry.current,
        store.journal,
        store.directory,
        store.write_contexts,
        store.release.features,
        aggregates_roles=settings.controllers.runs("clusterrole-aggregation", store.rules),
    )
    await bootstrap.create_namespaces(settings.service_ranges)
    if settings.secure_binds:
        prepare_certificates(settings, store.names)
    created.keep()
    warn_of_readable_files(settings)
    await bootstrap.create_objects(settings.service_ranges, serving_address(settings, role.listening()))
