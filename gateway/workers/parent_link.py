"""A child's connection to its parent: the child says once that it is ready; when the parent ends, the child stops."""

from __future__ import annotations

import signal
import socket
from collections.abc import Awaitable, Callable

import trio

READY = b"ready\n"
Ready = Callable[[], Awaitable[None]]  # called once, when a child serves


class ParentLink:
    def __init__(self, descriptor: int) -> None:
        self._socket = trio.socket.from_stdlib_socket(socket.socket(fileno=descriptor))

    async def tell_ready(self) -> None:
        await self._socket.send(READY)

    async def stop_with_parent(self, stop: trio.Event) -> None:
        """Set `stop` when the parent asks for it with SIGTERM, or has ended."""
        async with trio.open_nursery() as nursery:

            async def with_signal() -> None:
                with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
                    await anext(signals)
                nursery.cancel_scope.cancel()

            nursery.start_soon(with_signal)
            await self._parent_ended()
            nursery.cancel_scope.cancel()
        stop.set()

    async def _parent_ended(self) -> None:
        """The parent sends nothing, so that the connection is readable when it is gone."""
        try:
            await self._socket.recv(1)
        except OSError:
            pass
