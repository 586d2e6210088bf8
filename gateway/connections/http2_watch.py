"""A watch over HTTP/2: the `Pipe` of a group, on ASGI's send and receive.

The group's sweep stores bytes in a slot; a task of the stream sends them on, as the client's window allows. A pipe
with a full slot takes no more, so slow streams fall behind and catch up like slow sockets.
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

# As much as Hypercorn buffers for one stream before it waits for the client's window.
SLOT = 32 << 10


class StreamPipe:
    def __init__(self, send: Send, receive: Receive) -> None:
        self._send = send
        self._receive = receive
        self._slot = b""
        self._filled = trio.Event()
        self._emptied = trio.lowlevel.ParkingLot()
        self._woken = trio.Event()
        self._disconnected = False
        self.failed = False  # the stream ended with a server error
        self.payload = 0  # bytes that Hypercorn took while the client was connected
        self.deadline = inf

    @property
    def has_unsent(self) -> bool:
        return bool(self._slot)

    def transmit(self, data: bytes | memoryview) -> int:
        if self._disconnected:
            raise ConnectionResetError("the client disconnected")
        if self._slot:
            return 0
        self._slot = bytes(data[:SLOT])
        self._filled.set()
        return len(self._slot)

    broadcast = staticmethod(one_by_one)

    async def flush(self) -> None:
        if self._slot and not self._disconnected:
            # Past the deadline it returns once per tick, as the watchdog interrupts other transports.
            with trio.move_on_at(max(self.deadline, trio.current_time() + TICK)):
                await self._emptied.park()
        else:
            await trio.lowlevel.checkpoint()
        if self._disconnected:
            raise ConnectionResetError("the client disconnected")

    async def receive(self) -> bytes:
        """Return b"" when the client ends the stream, as it sends nothing else. ClosedResourceError if interrupted."""
        with trio.move_on_at(self.deadline):
            await self._woken.wait()
        if self._disconnected:
            return b""
        self._woken = trio.Event()
        raise trio.ClosedResourceError

    def interrupt(self) -> None:
        self._woken.set()
        self._emptied.unpark_all()

    async def run(self, stream: Stream) -> bool:
        """Run a stream; False when the client disconnected before its end."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._pump)
            nursery.start_soon(self._listen)
            try:
                finished = await stream.run(self, as_it_is)
                self.failed = finished.reason is EndReason.FAILED
            except OSError:
                self._disconnected = True
            nursery.cancel_scope.cancel()
        return not self._disconnected

    async def _pump(self) -> None:
        while True:
            await self._filled.wait()
            self._filled = trio.Event()
            await self._send({"type": "http.response.body", "body": self._slot, "more_body": True})
            if not self._disconnected:
                self.payload += len(self._slot)
            self._slot = b""
            self._emptied.unpark_all()

    async def _listen(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            continue
        self._disconnected = True
        self.interrupt()
