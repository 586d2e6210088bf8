"""The writer process: the store with its actors, controllers and housekeeping, for workers in other processes.

It accepts a channel from each worker. Workers send commands ("write"); each committed batch goes to them as a notice
("committed"). Its newest offset is stored where they all read it right before LMDB makes it visible: whoever has seen
anything of it, in a reply or a read, can expect that every worker knows of it. A worker whose read finds damage says so
("damaged"): writes could spread it. A stop is in good order: the notice "leaving"
tells the workers to send nothing more; each closes its channel when it has all replies, and connects again: the next
writer process, which inherits the same listening socket, accepts it.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from functools import partial

import trio

from rewound.actors.bootstrap.bootstrap import Bootstrap
from rewound.actors.resource.remote import begin
from rewound.actors.runtime.clock import WallClock
from rewound.gateway.composition.data_folder import CreatedPaths, warn_of_readable_files
from rewound.gateway.composition.extensions import NO_EXTENSIONS
from rewound.gateway.composition.open_store import open_store
from rewound.gateway.composition.run import serving_address
from rewound.gateway.composition.secure_port import prepare_certificates
from rewound.gateway.settings.settings import Settings
from rewound.gateway.store import Store
from rewound.gateway.workers.channel import Channel
from rewound.gateway.workers.parent_link import Ready
from rewound.gateway.workers.quotas import QuotasOfWriter, quotas_of_writer
from rewound.gateway.workers.roles import Role
from rewound.gateway.workers.shared import SharedOfWriter
from rewound.gateway.workers.shared_page import SharedPage
from rewound.journal.records import Event

COMMITTED, DAMAGED, LEAVING, HELLO, WRITE = "committed", "damaged", "leaving", "hello", "write"
# How long workers may take to get their last replies when this process stops: as long as requests may take.
GRACE = 60.0


class WriterProcess:
    def __init__(self, store: Store, shared: SharedOfWriter, quotas: QuotasOfWriter) -> None:
        self._store = store
        self._shared = shared
        self._quotas = quotas
        self._channels: set[Channel] = set()
        self._accepting = trio.CancelScope()
        self._gone = trio.lowlevel.ParkingLot()
        store.feed.follow(self._committed)

    def _committed(self, _: Sequence[Event]) -> None:
        """Wake the workers: their watchers wait for events."""
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
        channel.notify(HELLO)
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
        self._quotas.stop()
        with trio.move_on_after(GRACE):
            for channel in self._channels:
                channel.notify(LEAVING)
            while self._channels:
                await self._gone.park()


async def run_writer(settings: Settings, role: Role, ready: Ready, stop: trio.Event) -> None:
    """Run the actors until `stop` is set."""
    assert role.writer is not None, "the parent opened it"
    created, clock = CreatedPaths(settings), WallClock()
    page = SharedPage(role.page)
    listening = socket.socket(fileno=role.writer)
    addresses = role.listening()
    async with open_store(settings, clock, created, NO_EXTENSIONS) as store, trio.open_nursery() as nursery:
        # Before anything is committed: workers of the process before this one may serve.
        page.store_newest(store.feed.head)
        store.journal.before_commit = page.store_newest
        shared = SharedOfWriter(settings, store)
        bootstrap = Bootstrap(
            store.names, store.registry.current, store.journal, store.directory, store.write_contexts
        )
        await bootstrap.create_namespaces()
        if settings.secure_binds:
            prepare_certificates(settings, store.names)
        created.keep()
        warn_of_readable_files(settings)
        await bootstrap.create_objects(settings.service_ranges, serving_address(settings, addresses))
        quotas = quotas_of_writer(settings, store, role.living)
        writer = WriterProcess(store, shared, quotas)
        nursery.start_soon(shared.run)
        nursery.start_soon(quotas.run)
        nursery.start_soon(writer.accept, listening, nursery)
        await ready()
        await stop.wait()
        await writer.leave()
        nursery.cancel_scope.cancel()
