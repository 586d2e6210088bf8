"""The `Pipe` of a watch over ASGI: a bounded buffer that its own task sends message by message.

ASGI's `send` may wait, and a sweep must not. So `transmit` puts events into the buffer, either all of the data or
nothing: an event is never split, which keeps the messages of a WebSocket whole. While the server waits for its client
the buffer stays full, and the watch leaves the sweep, as it does for a full socket.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from rewound.gateway.connections.limits import TICK
from rewound.gateway.message import Finished, Stream
from rewound.gateway.watch.broadcast import one_by_one
from rewound.gateway.watch.framing import Framing
from rewound.gateway.watch.member import CLOSE_TIMEOUT

# Bytes waiting for the client above which the watch leaves the sweep; the last frame may exceed it.
_BUFFER: Final = 64 * 1024

SendEvents = Callable[[bytes], Awaitable[None]]  # whole frames of one or more events
Measure = Callable[[bytes], int]


async def run_watch(
    stream: Stream, framing: Framing, pipe: AsgiPipe, wait_disconnected: Callable[[], Awaitable[None]]
) -> Finished:
    """Run a watch until everything has been sent. Raises OSError if the client disconnects or does not read."""
    finished: Finished | Exception = ConnectionResetError("the client disconnected")

    async def listen() -> None:
        await wait_disconnected()
        pipe.disconnect()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(listen)
        nursery.start_soon(pipe.run)
        try:
            finished = await stream.run(pipe, framing)
            await pipe.finish()
        except Exception as error:
            finished = error
        nursery.cancel_scope.cancel()
    if isinstance(finished, Exception):
        raise finished
    return finished


class AsgiPipe:
    __slots__ = (
        "_buffer",
        "_changed",
        "_disconnected",
        "_filled",
        "_measure",
        "_send",
        "_size",
        "_timer",
        "payload",
    )

    def __init__(self, send: SendEvents, measure: Measure = len) -> None:
        """`measure` returns the payload size of whole frames."""
        self._send = send
        self._measure = measure
        self._buffer: deque[bytes] = deque()
        self._size = 0
        self._filled = trio.Event()
        self._changed = trio.Event()  # set when there is room, or on an interruption
        self._disconnected = False
        self._timer = trio.CancelScope()
        self.payload = 0  # bytes taken, reported to an observer

    # Its tasks.

    async def run(self) -> None:
        """Send what is in the buffer, and enforce the deadline, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._keep_deadline)
            while True:
                await self._filled.wait()
                self._filled = trio.Event()
                while self._buffer:
                    data = b"".join(self._buffer)
                    self._buffer.clear()
                    try:
                        await self._send(data)
                    except OSError:  # some servers raise it when the client has disconnected
                        self.disconnect()
                    del data
                    self._size = sum(map(len, self._buffer))
                    self._wake()

    async def _keep_deadline(self) -> None:
        while True:
            with self._timer:
                await trio.sleep_forever()
            self._timer = trio.CancelScope(deadline=trio.current_time() + TICK / 4)
            self._wake()

    def disconnect(self) -> None:
        self._disconnected = True
        self._wake()

    async def finish(self) -> None:
        """Wait until everything has been sent. Raises OSError if the client does not read it in time."""
        with trio.move_on_after(CLOSE_TIMEOUT):
            while self._size and not self._disconnected:
                await self._changed.wait()
        if self._size:
            raise ConnectionResetError("the client did not read to the end of a watch")

    # The `Pipe` of a watch.

    @property
    def deadline(self) -> float:
        return self._timer.deadline

    @deadline.setter
    def deadline(self, moment: float) -> None:
        self._timer.deadline = moment

    @property
    def has_unsent(self) -> bool:
        """Always False: what is in the buffer is sent even after the end of the watch."""
        return False

    def transmit(self, data: bytes | memoryview) -> int:
        if self._disconnected:
            raise ConnectionResetError("the client disconnected")
        if self._size >= _BUFFER:
            return 0
        self._buffer.append(bytes(data))  # no copy: all watches of a group share the bytes
        self._size += len(data)
        self.payload += self._measure(self._buffer[-1])
        self._filled.set()
        return len(data)

    broadcast = staticmethod(one_by_one)

    async def flush(self) -> None:
        if self._size < _BUFFER and not self._disconnected:
            await trio.lowlevel.checkpoint()
            return
        if not self._disconnected:
            await self._changed.wait()
        if self._disconnected:
            raise ConnectionResetError("the client disconnected")

    async def receive(self) -> bytes:
        """Return b"" when the client disconnects; it sends nothing else. Raises ClosedResourceError if interrupted."""
        if not self._disconnected:
            await self._changed.wait()
        if self._disconnected:
            return b""
        raise trio.ClosedResourceError

    def interrupt(self) -> None:
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()
