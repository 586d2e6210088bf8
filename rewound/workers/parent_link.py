"""A child's connection to its parent: the child says once that it is ready; when the parent ends, the child stops.

parent -> child     SERVE     accept clients: all processes are ready, so that the first clients are spread over them
                    DRAIN     serve no more clients; the writer process goes on for the others
                    SIGTERM   stop
"""

from __future__ import annotations

import signal
import socket
from contextlib import suppress

import trio

READY = b"ready\n"
SERVE = b"serve\n"
DRAIN = b"drain\n"


class ParentLink:
    def __init__(self, connection: socket.socket) -> None:
        self._socket = trio.socket.from_stdlib_socket(connection)
        self.serve = trio.Event()
        self.drain = trio.Event()  # set before `stop`
        self.stop = trio.Event()

    async def report_ready(self) -> None:
        with suppress(OSError):  # the parent has ended: `follow` stops this process
            await self._socket.send(READY)

    async def follow(self) -> None:
        """Set `drain` and `stop` when the parent asks for it, or has ended."""
        async with trio.open_nursery() as nursery:

            async def with_signal() -> None:
                with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
                    await anext(signals)
                nursery.cancel_scope.cancel()

            nursery.start_soon(with_signal)
            await self._parent_ended()
            nursery.cancel_scope.cancel()
        self.drain.set()
        self.stop.set()

    async def _parent_ended(self) -> None:
        try:
            received = b""
            while more := await self._socket.recv(64):
                *messages, received = (received + more).split(b"\n")
                for message in messages:
                    (self.drain if message + b"\n" == DRAIN else self.serve).set()
        except OSError:
            pass
