"""The parent of a server with several processes: opens the sockets, starts the children, and replaces those that end.

It serves no requests itself. The writer process starts first; workers wait for it. All accept from the same sockets,
which stay open as long as the parent lives: while processes are replaced, the kernel queues new connections and
refuses none. When a server starts, no process accepts before all are ready: otherwise waiting clients would all connect
to the first one, and stay there.

    a worker ends       another one takes its place; its clients connect again, and watches resume
    the writer ends     likewise; workers hold back new writes until the next one runs
    SIGHUP              a new writer process, then new workers one by one; each old one stops when the new one is ready
    SIGTERM, Ctrl-C     all complete their requests; when the workers have ended, the writer process stops

A process that keeps ending is restarted after growing pauses. If one cannot start when the server starts, the server
ends with its exit code, and that process has reported why.
"""

from __future__ import annotations

import logging
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import trio

from rewound.gateway.connections.config import server_config
from rewound.gateway.connections.listen import Listener, open_shared_listeners
from rewound.gateway.settings.settings import Addresses, Settings
from rewound.server.api_server import listening_addresses
from rewound.workers.parent_link import DRAIN, READY, SERVE
from rewound.workers.roles import WORKER, WRITER, Role, addresses_of, page_in, socket_in
from rewound.workers.shared_page import WRITER_INDEX, SharedPage

logger = logging.getLogger(__name__)

Announce = Callable[[Addresses], None]
Command = Callable[[Role], list[str]]  # the command line of a child

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 10.0
# After a process has run this long, pauses start with the shortest again.
RECOVERED_AFTER = 30.0


class Child:
    """One process, from its start to its end."""

    def __init__(self, process: trio.Process, link: trio.SocketStream, on_end: Callable[[], object]) -> None:
        self.process = process
        self.on_end = on_end
        self._link = link
        self.planned = False  # the parent asked it to stop
        self.is_ready = False
        self.started = trio.Event()  # ready, or ended before that
        self.ended = trio.Event()

    async def follow(self) -> None:
        async with self._link:
            try:
                self.is_ready = bool(await self._link.receive_some(len(READY)))
            except trio.BrokenResourceError:
                pass
            if self.is_ready:
                self.started.set()
            await self.process.wait()
        self.on_end()
        self.ended.set()
        self.started.set()

    async def serve(self) -> None:
        """Have it accept clients."""
        await self._send(SERVE)

    async def drain(self) -> None:
        """Have it stop serving clients."""
        await self._send(DRAIN)

    async def _send(self, message: bytes) -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError, trio.BusyResourceError):
            await self._link.send_all(message)

    def stop(self) -> None:
        self.planned = True
        if self.process.returncode is None:
            self.process.terminate()

    @property
    def ending(self) -> str:
        code = self.process.returncode or 0
        return f"with exit code {code}" if code >= 0 else f"by {signal.Signals(-code).name}"


class Sockets:
    """The sockets that stay open while processes come and go, and the folder in which they find each other."""

    def __init__(self, settings: Settings, closing: ExitStack) -> None:
        self.folder = Path(closing.enter_context(tempfile.TemporaryDirectory(prefix="rewound-")))
        SharedPage.create(page_in(self.folder))
        self.writer = closing.enter_context(socket.socket(socket.AF_UNIX))
        self.writer.bind(str(socket_in(self.folder)))
        self.writer.listen(128)
        secure, plain = settings.secure_binds, settings.insecure_binds
        self.clients: list[Listener] = open_shared_listeners(server_config(settings), secure, plain)
        for listener in self.clients:
            closing.callback(listener.sock.close)
        self.addresses = listening_addresses(settings, self.clients)

    @classmethod
    @contextmanager
    def open(cls, settings: Settings) -> Iterator[Sockets]:
        with ExitStack() as closing:
            yield cls(settings, closing)

    def role(self, name: str, index: int, workers: int, link: socket.socket, living: tuple[int, ...]) -> Role:
        """The role of one child."""
        return Role(
            name,
            index,
            workers,
            str(self.folder),
            link.fileno(),
            addresses_of(self.addresses),
            writer=self.writer.fileno() if name == WRITER else None,
            secure=tuple(one.sock.fileno() for one in self.clients if one.secure),
            plain=tuple(one.sock.fileno() for one in self.clients if not one.secure),
            living=living if name == WRITER else (),
        )


class Parent:
    def __init__(self, settings: Settings, command: Command) -> None:
        self._settings = settings
        self._command = command
        self._places = [
            (WORKER if index != WRITER_INDEX else WRITER, index) for index in range(settings.workers)
        ]
        self._children: dict[tuple[str, int], Child] = {}  # the newest of each place
        self._alive: dict[Child, str] = {}  # all, by the names of their roles
        self._stopping = self._replacing = False
        self._all_ready = trio.Event()  # each place has had a process that was ready
        self._sockets: Sockets
        self._following: trio.Nursery
        self._keeping: trio.Nursery
        self._serving = trio.CancelScope()
        self._exit_code = 0

    async def run(self, announce: Announce) -> int:
        """Serve until SIGTERM or SIGINT; returns the exit code. Raises CannotListen."""
        with Sockets.open(self._settings) as self._sockets:
            async with trio.open_nursery() as self._following, trio.open_nursery() as self._keeping:
                self._keeping.start_soon(self._handle_signals)
                with self._serving:
                    await self._keeping.start(self._keep, self._places[0])
                    async with trio.open_nursery() as starting:
                        for place in self._places[1:]:
                            starting.start_soon(self._keeping.start, self._keep, place)
                    self._all_ready.set()
                    for child in list(self._children.values()):
                        await child.serve()
                    announce(self._sockets.addresses)
                    await trio.sleep_forever()
                await self._stop_all()
                self._keeping.cancel_scope.cancel()
        return self._exit_code

    async def _keep(self, place: tuple[str, int], task_status: trio.TaskStatus[None]) -> None:
        """Run the process of a place, and another one whenever it ends."""
        pause, begun = FIRST_PAUSE, False
        while not self._stopping:
            child = self._children[place] = await self._start(place)
            started = trio.current_time()
            await child.started.wait()
            if child.is_ready and self._all_ready.is_set():
                await child.serve()
            if not begun and not child.is_ready:
                self._exit_code = child.process.returncode or 1
                self._serving.cancel()
            if not begun:
                task_status.started()
                begun = True
            while (newest := self._children[place]) is not child or not child.ended.is_set():
                child = newest
                await child.ended.wait()
            if self._stopping or child.planned:
                continue
            logger.error("the %s ended %s; another one takes its place", _named(place), child.ending)
            if trio.current_time() - started >= RECOVERED_AFTER:
                pause = FIRST_PAUSE
            await trio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _start(self, place: tuple[str, int]) -> Child:
        name, index = place
        ours, theirs = socket.socketpair()
        with theirs:
            living = tuple(child.process.pid for child, role in self._alive.items() if role == WORKER)
            role = self._sockets.role(name, index, self._settings.workers, theirs, living)
            process = await trio.lowlevel.open_process(
                self._command(role),
                stdin=subprocess.DEVNULL,
                pass_fds=role.descriptors,
                start_new_session=True,  # Ctrl-C reaches the parent alone, which stops all in order
            )
        link = trio.SocketStream(trio.socket.from_stdlib_socket(ours))
        child = Child(process, link, lambda: self._alive.pop(child))
        self._alive[child] = name
        if self._stopping:
            child.stop()
        self._following.start_soon(self._follow, child)
        return child

    async def _follow(self, child: Child) -> None:
        with trio.CancelScope(shield=True):
            await child.follow()

    async def _handle_signals(self) -> None:
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            async for number in signals:
                if number == signal.SIGHUP:
                    self._keeping.start_soon(self._replace_all)
                else:
                    logger.info(
                        "stopping because of %s: requests of all processes complete",
                        signal.Signals(number).name,
                    )
                    self._serving.cancel()

    async def _replace_all(self) -> None:
        """Replace every process while the server goes on. Does nothing while it starts or replaces them already."""
        if self._replacing:
            return
        self._replacing = True
        try:
            await self._all_ready.wait()
            await self._replace_in_turn()
        finally:
            self._replacing = False

    async def _replace_in_turn(self) -> None:
        writer = self._children[self._places[0]]
        writer.stop()
        await writer.ended.wait()  # `_keep` starts the next one
        for place in self._places[1:]:
            fresh, old = await self._start(place), self._children[place]
            await fresh.started.wait()
            if not fresh.is_ready:
                logger.error(
                    "the new %s ended %s before it was ready; the old one goes on",
                    _named(place),
                    fresh.ending,
                )
                continue
            self._children[place] = fresh
            await fresh.serve()
            old.stop()
            await old.ended.wait()

    async def _stop_all(self) -> None:
        self._stopping = True
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async with trio.open_nursery() as nursery:

                async def kill_on_signal() -> None:
                    await anext(signals)
                    for child in self._alive:
                        child.process.kill()

                nursery.start_soon(kill_on_signal)
                for child in [one for one, role in self._alive.items() if role == WRITER]:
                    await child.drain()
                for name in (WORKER, WRITER):
                    while ending := [child for child, role in self._alive.items() if role == name]:
                        for child in ending:
                            child.stop()
                        await ending[0].ended.wait()
                nursery.cancel_scope.cancel()


def _named(place: tuple[str, int]) -> str:
    name, index = place
    return "writer process" if name == WRITER else f"worker {index}"
