"""A child's connection to its parent: the child says once that it is ready; when the parent ends, the child stops.

parent -> child     DRAIN     serve no more clients; the writer process goes on for the others
                    SIGTERM   stop
"""

from __future__ import annotations

import signal
import socket

import trio

READY = b"ready\n"
DRAIN = b"drain\n"


class ParentLink:
    def __init__(self, connection: socket.socket) -> None:
        self._socket = trio.socket.from_stdlib_socket(connection)
        self.drain = trio.Event()  # set before `stop`
        self.stop = trio.Event()

    async def tell_ready(self) -> None:
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
            while await self._socket.recv(len(DRAIN)):
                self.drain.set()
        except OSError:
            pass
