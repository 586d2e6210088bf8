"""A watch over HTTP/2: what a group takes for a connection, made of ASGI's send and receive.

The group's sweep leaves bytes in a slot of one piece; a task of the stream sends it on, at the pace of the client's
window. A full slot is a pipe that takes no more, so slow streams fall behind and catch up like slow sockets.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from math import inf
from typing import Any

import trio

from gateway.connections.limits import TICK
from gateway.requests.request import EndReason, Stream
from gateway.watch.broadcast import one_by_one
from gateway.watch.framing import as_it_is

Send = Callable[[Any], Awaitable[None]]
Receive = Callable[[], Awaitable[Any]]

# As much as Hypercorn takes for one stream before it waits for the client's window.
SLOT = 32 << 10


class StreamPipe:
    def __init__(self, send: Send, receive: Receive) -> None:
        self._send = send
        self._receive = receive
        self._slot = b""
        self._filled = trio.Event()
        self._emptied = trio.lowlevel.ParkingLot()
        self._woken = trio.Event()
        self._gone = False
        self.failed = False  # the stream ended by the server's own error
        self.payload = 0  # bytes that Hypercorn took, with the client still there
        self.deadline = inf

    @property
    def has_unsent(self) -> bool:
        return bool(self._slot)

    def transmit(self, data: bytes | memoryview) -> int:
        if self._gone:
            raise ConnectionResetError("the watcher left")
        if self._slot:
            return 0
        self._slot = bytes(data[:SLOT])
        self._filled.set()
        return len(self._slot)

    broadcast = staticmethod(one_by_one)

    async def flush(self) -> None:
        if self._slot and not self._gone:
            # Past the deadline it goes on interrupting once in a while, as a link's watchdog does.
            with trio.move_on_at(max(self.deadline, trio.current_time() + TICK)):
                await self._emptied.park()
        else:
            await trio.lowlevel.checkpoint()
        if self._gone:
            raise ConnectionResetError("the watcher left")

    async def receive(self) -> bytes:
        """Nothing comes on a stream but its end; ClosedResourceError when interrupted."""
        with trio.move_on_at(self.deadline):
            await self._woken.wait()
        if self._gone:
            return b""
        self._woken = trio.Event()
        raise trio.ClosedResourceError

    def interrupt(self) -> None:
        self._woken.set()
        self._emptied.unpark_all()

    async def run(self, stream: Stream) -> bool:
        """Serve a stream; False when the client left before its end."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._pump)
            nursery.start_soon(self._listen)
            try:
                finished = await stream.run(self, as_it_is)
                self.failed = finished.reason is EndReason.FAILED
            except OSError:
                self._gone = True
            nursery.cancel_scope.cancel()
        return not self._gone

    async def _pump(self) -> None:
        while True:
            await self._filled.wait()
            self._filled = trio.Event()
            await self._send({"type": "http.response.body", "body": self._slot, "more_body": True})
            if not self._gone:
                self.payload += len(self._slot)
            self._slot = b""
            self._emptied.unpark_all()

    async def _listen(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            continue
        self._gone = True
        self.interrupt()
