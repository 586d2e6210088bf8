"""The output of an HTTP/2 connection: a queue of frames, the connection's window, and the bodies of responses.

Tasks queue frames; `flush` sends the queue in one call, from the reading task after a batch of requests, otherwise
from the server's `Flusher`. The queue never holds more than a burst: bodies wait in their streams and are cut into
DATA frames when the socket and the windows have room, stream by stream in turns; while the socket is full
(`blocked`), nothing is taken from watches. A task waits for the socket only while it is full.

Bodies and watches that wait for the socket or the connection's window alternate. Otherwise a client that reads one
large list after the other would get no events meanwhile.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from math import inf
from typing import Protocol

import trio

from rewound.gateway.connections.transport import Transport
from rewound.gateway.exchange import Exchange
from rewound.http2.frames import (
    DATA,
    DEFAULT_WINDOW,
    END_STREAM,
    FRAME_SIZE,
    HEAD,
    HEAD_SIZE,
)

# Bytes of bodies queued for one flush, and how many of them one stream may use.
BURST = 256 * 1024
# A frame of this much data fills one TLS record.
_FULL_FRAME = FRAME_SIZE - HEAD_SIZE
_STREAM_TURN = 4 * _FULL_FRAME
# Bytes of watches queued before they are sent: what a stalled connection holds for all of its watches.
WATCH_BURST = 64 * 1024
# The same for a peer that is far behind, because thousands of peers may not read.
_SMALL_WATCH_BURST = 8 * 1024
# Bytes of control frames that may wait for a peer that does not read.
_MAX_CONTROL = 64 * 1024
# What `flush_some` sends in one call: a slice that TLS encrypts at once.
_SMALL = 8 * 1024
# How many connections it flushes, and about how many bytes.
_TURN = 256
_TURN_BYTES = 2 << 20
# One watch is woken per this many bytes of the connection's window; otherwise all would wake for what one of them
# uses.
_WAKE_BYTES = 1024

_pack = HEAD.pack

Parcel = tuple[Transport, bytes | memoryview]


class Sender(Protocol):
    """A stream with a response in progress."""

    number: int
    window: int
    head: bytes  # frames that are not queued yet
    body: memoryview | None  # the rest of the body, or of a part of it
    in_parts: bool  # more parts or the end of the stream follow

    def body_queued(self) -> None:
        """Called when the last byte of the body, or of a part of it, has been queued."""

    def progressed(self, size: int) -> None:
        """Called when a part of the body has been queued."""


class Waiter(Protocol):
    def wake(self) -> None: ...


class Output:
    __slots__ = (
        "_completing",
        "_control",
        "_deferring",
        "_nursery",
        "_patience",
        "_ready",
        "_waiting_for_socket",
        "_waking",
        "_watches_turn",
        "blocked",
        "failed",
        "flusher",
        "moved_at",
        "queue",
        "queued",
        "registered",
        "transport",
        "waiting",
        "watches",
        "window",
    )

    def __init__(self, transport: Transport, flusher: Flusher, nursery: trio.Nursery) -> None:
        self.transport = transport
        self.flusher = flusher
        self._nursery = nursery
        self.window = DEFAULT_WINDOW  # window of the connection
        self.queue: list[bytes | memoryview] = []
        self.queued = 0  # bytes in the queue
        self._control = 0  # of these, bytes of control frames queued while the socket was full
        self.blocked = False  # the socket is full, or the connection is broken
        self.failed = False  # the connection is broken: nothing more is sent
        self.watches = 0  # number of streams that are watches
        self.waiting: dict[Waiter, None] = {}  # watches that wait for the socket or the connection's window
        self._ready: dict[int, Sender] = {}  # streams with something to send and an open window
        self._completing: list[Exchange] = []  # observed responses whose last bytes are in the queue
        self.moved_at = 0.0  # when the full socket last accepted bytes
        self._patience = inf  # seconds that the socket may stay full before the connection fails
        self.registered = False  # registered with the flusher
        self._waiting_for_socket = False  # a task waits until the socket is writable
        self._waking = False  # a task wakes watches in turns
        self._watches_turn = False
        self._deferring = False  # bodies wait until watches have had their turn

    # Queueing.

    def control(self, frame: bytes) -> None:
        """Queue a frame that is not subject to flow control."""
        if self.failed:
            return
        if self.blocked:
            self._control += len(frame)
            if self._control > _MAX_CONTROL:
                self.fail()  # the peer causes replies but does not read them
                return
        self.queue.append(frame)
        self.queued += len(frame)

    def respond(self, stream: Sender, head: bytes, body: bytes) -> bool:
        """Queue a response; return True if all of it is queued. The rest follows when the windows allow it."""
        size = len(body)
        if size <= stream.window and size <= self.window and size <= FRAME_SIZE and not self.blocked:
            stream.window -= size
            self.window -= size
            if size:
                head = b"%b%b%b" % (head, _pack(size << 8 | DATA, END_STREAM, stream.number), body)
            self.queue.append(head)
            self.queued += len(head)
            return True
        stream.head, stream.body = head, memoryview(body)
        self._ready[stream.number] = stream
        return False

    def resume(self, stream: Sender) -> None:
        """Continue with the body of a stream whose window has opened."""
        self._ready[stream.number] = stream
        self.flush_later()

    def forget(self, number: int) -> None:
        self._ready.pop(number, None)

    def complete_when_sent(self, exchange: Exchange) -> None:
        """Report a response as complete once everything queued so far has been sent."""
        self._completing.append(exchange)

    def data(self, stream: Sender, data: bytes | memoryview) -> int:
        """Queue data of a stream without a known end; return how many bytes the windows and the socket allowed."""
        view, taken = memoryview(data), 0
        burst = WATCH_BURST
        if len(view) > _SMALL_WATCH_BURST and self.transport.behind():
            burst = _SMALL_WATCH_BURST
        while taken < len(view):
            if self.queued >= burst:
                self.flush()
            if self.blocked:
                break
            # Computed each time, because `flush` may have sent bodies.
            size = min(len(view) - taken, stream.window, self.window, burst - self.queued)
            if size <= 0:
                break
            self._queue_data(stream, view[taken : taken + size], 0)
            taken += size
        if taken:
            self.flush_later()
        return taken

    def _queue_data(self, stream: Sender, part: memoryview, flags: int) -> None:
        """Queue DATA frames; `flags` are those of the last one."""
        queue, number, size = self.queue, stream.number, len(part)
        for start in range(0, size, _FULL_FRAME):
            piece = part[start : start + _FULL_FRAME]
            last = start + _FULL_FRAME >= size
            queue.append(_pack(len(piece) << 8 | DATA, flags if last else 0, number))
            queue.append(piece)
            self.queued += HEAD_SIZE
        stream.window -= size
        self.window -= size
        self.queued += size

    # Sending.

    def flush_later(self) -> None:
        if not self.registered:
            self.registered = True
            self.flusher.add([self])

    def flush(self, *, bodies: bool = True) -> int:
        """Send the queue and a burst of bodies, as far as the socket accepts them; return the bytes queued."""
        self.registered = False
        if self.blocked or self.failed:
            return 0
        transmit = self.transport.transmit
        if self._ready and bodies and not self._deferring:
            self._queue_bodies()
            transmit = self.transport.transmit_burst
        queue = self.queue
        if not queue:
            if self._completing:
                self._complete()  # the socket has accepted the last of them
            return 0
        data = queue[0] if len(queue) == 1 else b"".join(queue)
        queue.clear()
        self.queued = 0
        try:
            taken = transmit(data)
        except (OSError, trio.ClosedResourceError):
            self.fail()
            return 0
        if taken == len(data):
            self._control = 0
            if self._completing:
                self._complete()
            if self._ready and self.window > 0:
                self.flush_later()
        else:
            self.block(data, taken)
        return len(data)

    def block(self, data: bytes | memoryview, taken: int) -> None:
        """Keep the rest of data that the transport accepted only in part, and wait for the socket."""
        now = trio.current_time()
        before = self.moved_at if self._waiting_for_socket else now
        self.moved_at = self.transport.limits.moved_at(before, abs(taken), now)
        rest = memoryview(data)[abs(taken) :]
        if rest:
            self.queue.insert(0, rest)
            self.queued += len(rest)
        self._control = min(self._control, self.queued)
        self.blocked = True
        if not self._waiting_for_socket:
            self._waiting_for_socket = True
            try:
                self._nursery.start_soon(self._wait_for_socket)
            except RuntimeError:  # the connection's nursery is closed: the connection has ended
                self.fail()

    def _queue_bodies(self) -> None:
        """Queue the bodies of the streams in turns, up to a burst."""
        ready = self._ready
        while ready and self.queued < BURST:
            number = next(iter(ready))
            stream = ready.pop(number)
            if stream.head:
                self.queue.append(stream.head)
                self.queued += len(stream.head)
                stream.head = b""
            assert stream.body is not None
            if not stream.body:
                self._end(stream)  # the head has already ended the stream
                continue
            size = min(len(stream.body), stream.window, self.window, _STREAM_TURN)
            if size == len(stream.body):
                self._queue_data(stream, stream.body, 0 if stream.in_parts else END_STREAM)
                self._end(stream)
                continue
            if size > 0:
                self._queue_data(stream, stream.body[:size], 0)
                stream.body = stream.body[size:]
                stream.progressed(size)
            if self.window <= 0:
                ready[number] = stream  # all streams wait for the connection's window
                self.queue_heads()
                return
            if stream.window > 0:
                ready[number] = stream

    def queue_heads(self) -> None:
        """Queue the heads of responses whose bodies wait."""
        for stream in list(self._ready.values()):
            if stream.head:
                self.queue.append(stream.head)
                self.queued += len(stream.head)
                stream.head = b""
            if not stream.body:
                self.forget(stream.number)
                self._end(stream)

    @staticmethod
    def _end(stream: Sender) -> None:
        stream.body = None
        stream.body_queued()

    async def _wait_for_socket(self) -> None:
        """Wait until the socket is writable and send, as long as it is full."""
        transport = self.transport
        try:
            while self.blocked and not self.failed:
                if self._patience < inf:
                    transport.deadline = self.moved_at + self._patience
                unsent = transport.unsent
                await transport.flush()
                now, left = trio.current_time(), transport.unsent
                self.moved_at = transport.limits.moved_at(self.moved_at, unsent - left, now)
                if now >= self.moved_at + self._patience:
                    self.fail()
                elif not left:
                    self.blocked = False
                    self._flush_in_turn()
        except (OSError, trio.ClosedResourceError):
            self.fail()
        self._waiting_for_socket = False
        self.wake_waiting()

    def wake_waiting(self) -> None:
        """Wake watches, because the socket or the connection's window has room again, or the connection is broken."""
        if self.blocked and not self.failed:
            return  # wait until the socket is writable
        self._take_turns()
        if len(self.waiting) > 1 + self.window // _WAKE_BYTES and not self.failed:
            if not self._waking:
                self._waking = True
                self._nursery.start_soon(self._wake_in_turns)
        else:
            self._wake(len(self.waiting))
        if self._ready:
            self.flush_later()

    def _wake(self, count: int) -> None:
        for waiter in list(islice(self.waiting, count)):
            del self.waiting[waiter]
            waiter.wake()

    async def _wake_in_turns(self) -> None:
        """Wake those that have waited longest, as many as the window allows, until it is used up."""
        while self.window > 0 and self.waiting and not self.blocked and not self.failed:
            self._wake(1 + self.window // _WAKE_BYTES)
            await trio.lowlevel.checkpoint()
            await trio.lowlevel.checkpoint()  # by now they have queued what they need
        self._waking = False

    def _flush_in_turn(self) -> None:
        """Send after the socket became writable; if no watches wait, bodies refill the queue first."""
        if self.waiting:
            self.flush(bodies=False)
        if not self.blocked:
            self._take_turns()
            self.flush()

    def _take_turns(self) -> None:
        """Decide whether the bodies or the waiting watches use the socket or the window first."""
        if self.waiting and self._ready and not self._deferring:
            self._watches_turn = not self._watches_turn
            if self._watches_turn:
                self._deferring = True
                self._nursery.start_soon(self._end_deferring)

    async def _end_deferring(self) -> None:
        for _ in range(3):  # until the waiting watches have been woken and have queued what they need
            await trio.lowlevel.checkpoint()
        self._deferring = False
        self.flush()

    def fail(self) -> None:
        """Mark the connection as broken; the reading task notices too, and ends the streams."""
        self.failed = self.blocked = True
        self.queue.clear()
        self.queued = 0
        self._ready.clear()
        for exchange in self._completing:
            exchange.cut_off()
        self._completing.clear()
        self.transport.interrupt()

    def finish(self, patience: float) -> None:
        """Send what is queued, unless the peer accepts nothing for `patience` seconds."""
        self.flush()
        self._patience = patience
        self.transport.deadline = self.moved_at + patience if self.blocked else inf

    def _complete(self) -> None:
        completing, self._completing = self._completing, []
        for exchange in completing:
            exchange.complete()


class Flusher:
    """Sends what tasks have queued on HTTP/2 connections, once per pass of the event loop for all of them.

    Requests that complete together, and events of several watches on one connection, are sent in one write, and with
    TLS in one record. The server runs one; a connection registers with `add` when something is queued.
    """

    __slots__ = ("_pending", "_task")

    def __init__(self) -> None:
        self._pending: deque[Output] = deque()
        self._task: trio.lowlevel.Task | None = None  # set while it waits

    def add(self, outputs: list[Output]) -> None:
        self._pending.extend(outputs)
        if self._task is not None:
            trio.lowlevel.reschedule(self._task)
            self._task = None

    async def run(self) -> None:
        while True:
            if self._pending:
                await trio.lowlevel.checkpoint()
            else:
                self._task = trio.lowlevel.current_task()
                await trio.lowlevel.wait_task_rescheduled(self._abort)
            flush_some(self._pending)

    def _abort(self, _raise_cancel: object) -> trio.lowlevel.Abort:
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED


def send_parcels(outputs: list[Output], parcels: list[Parcel]) -> None:
    """Send a parcel on each output, in one loop per class of transport."""
    kinds = {type(output.transport) for output in outputs}
    if len(kinds) > 1:
        for kind in kinds:
            chosen = [index for index, output in enumerate(outputs) if type(output.transport) is kind]
            send_parcels([outputs[index] for index in chosen], [parcels[index] for index in chosen])
        return
    for index, taken in kinds.pop().send_each(parcels):
        if isinstance(taken, Exception):
            outputs[index].fail()
        else:
            outputs[index].block(parcels[index][1], taken)


def flush_some(pending: deque[Output]) -> None:
    """Flush some of many outputs; those with little to send are sent together."""
    chosen: list[Output] = []
    parcels: list[Parcel] = []
    size = 0
    for _ in range(min(len(pending), _TURN)):
        output = pending.popleft()
        queue = output.queue
        if output.queued > _SMALL or output._ready or output._completing or output.blocked or not queue:
            size += output.flush()
        else:
            size += output.queued
            chosen.append(output)
            parcels.append((output.transport, b"".join(queue) if len(queue) > 1 else queue[0]))
            queue.clear()
            output.queued = output._control = 0
            output.registered = False
        if size > _TURN_BYTES:
            break
    if parcels:
        send_parcels(chosen, parcels)
