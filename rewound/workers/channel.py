"""Messages between two processes of one server, over a connected Unix socket: calls, their replies, and notices.

Both ends are alike: each calls what the other handles.

    frame   length:4 kind:1 number:4 rest        length counts what follows it; number is that of the call
            CALL     name length:1 name body     the other end replies with REPLY or FAILED
            REPLY    body
            FAILED   text                        the handler raised: a bug, which that process has logged
            CANCEL   -                           the caller no longer waits: the task of the handler is cancelled
            NOTICE   name length:1 name body     without a reply; handled in order, before the next frame is read

A body is bytes, mostly msgpack. Frames that are queued in one pass of the event loop are sent together. The two
processes may run different releases while one of them is restarted: a call that the other end does not know fails, a
notice that it does not know is ignored. The first notice has the number of these messages (`VERSION`): a new one is
needed only if what an end sends has another meaning to the release before, and each release understands the one before.

The queue for an end that does not read needs no bound of its own: each caller waits for its reply, the seats of flow
control bound the number of callers, and a repeated notice is queued once (`notify_once`).
"""

from __future__ import annotations

import logging
import struct
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Final, Protocol

import trio

from rewound.actors.runtime.mailbox import Reply

logger = logging.getLogger(__name__)

HandleCall = Callable[[bytes], Awaitable[bytes]]
# Handles a call without a task: starts it, and calls the second argument with the reply, now or later. Returns a
# function that cancels the call.
BeginCall = Callable[[bytes, Callable[[bytes], None]], Callable[[], None]]
HandleNotice = Callable[[bytes], None]

_HEAD: Final = struct.Struct(">IBI")
_KIND_AND_NUMBER: Final = 5  # bytes of a head that `length` counts
CALL, REPLY, FAILED, CANCEL, NOTICE = range(5)
VERSION: Final = 1
_READ: Final = 1 << 18
# A longer frame is invalid: the largest body of a request is far below.
_LONGEST: Final = 1 << 30


def greeting() -> bytes:
    """The body of the first notice."""
    return b"%d" % VERSION


def refusal(body: bytes) -> str:
    """Why two processes cannot work together, of which one sent this greeting; empty if they can.

    Releases up to 0.11 sent none, and have version 1.
    """
    found = int(body) if body.isdigit() else 1
    if abs(found - VERSION) <= 1:
        return ""
    return (
        f"the processes of this server run releases that are too far apart (messages {found} and {VERSION}), because "
        "it was upgraded while it ran: restart the whole server"
    )


class ChannelClosed(Exception):
    """The other process has ended or closed the channel. It may or may not have handled the call."""


class CallFailed(Exception):
    """The handler of a call raised; the log of the other process says why."""


class Notifies(Protocol):
    def notify(self, name: str, body: bytes = b"") -> None: ...


class Channel:
    """One end of a channel. `run` receives and sends until the other end closes; calls may begin before `run`."""

    def __init__(
        self,
        stream: trio.SocketStream,
        calls: Mapping[str, HandleCall] | None = None,
        notices: Mapping[str, HandleNotice] | None = None,
    ) -> None:
        self._stream = stream
        self.calls = dict(calls or {})
        self.notices = dict(notices or {})
        self._queued: list[bytes] = []
        self._queued_once: set[str] = set()  # notices among them
        self._sending = trio.lowlevel.ParkingLot()
        self._sends = False  # a part of what was queued is being sent
        self._sent = trio.lowlevel.ParkingLot()
        self._replied = trio.lowlevel.ParkingLot()
        self._number = 0
        self._replies: dict[int, Reply[bytes]] = {}
        self._handling: dict[int, Callable[[], None]] = {}  # cancels a call of the other end
        self.begins: dict[str, BeginCall] = {}  # calls that need no task
        self.closed = False

    async def call(self, name: str, body: bytes) -> bytes:
        """Call the other end; returns its reply. Raises ChannelClosed or CallFailed."""
        if self.closed:
            raise ChannelClosed
        self._number = number = (self._number + 1) & 0xFFFFFFFF
        reply: Reply[bytes] = Reply()
        self._replies[number] = reply
        self._queue(CALL, number, _named(name, body))
        try:
            return await reply.wait()
        except trio.Cancelled:
            self._queue(CANCEL, number, b"")
            raise
        finally:
            del self._replies[number]
            if not self._replies:
                self._replied.unpark_all()

    def notify(self, name: str, body: bytes = b"") -> None:
        """Send a notice, unless the channel is closed."""
        self._queue(NOTICE, 0, _named(name, body))

    def notify_once(self, name: str) -> None:
        """Send a notice without a body, unless the same one is queued already: the other end may not read."""
        if name not in self._queued_once:
            self._queued_once.add(name)
            self.notify(name)

    @property
    def waiting(self) -> int:
        """Calls of this end that have no reply yet."""
        return len(self._replies)

    @property
    def running(self) -> int:
        """Calls of the other end that are being handled."""
        return len(self._handling)

    async def run(self) -> None:
        """Receive and send until the other end closes, or `close`; then every call that waits raises ChannelClosed."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._send)
                try:
                    await self._receive(nursery)
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    pass
                nursery.cancel_scope.cancel()
        finally:
            self.close()

    def close(self) -> None:
        """Close this end. Queued frames that were not sent are lost."""
        self.closed = True
        self._queued.clear()
        self._stream.socket.close()
        for reply in list(self._replies.values()):
            reply.fail(ChannelClosed())
        self._sending.unpark_all()
        self._sent.unpark_all()

    async def drained(self) -> None:
        """Wait until everything that was queued has been given to the socket, or the channel is closed."""
        while (self._queued or self._sends) and not self.closed:
            await self._sent.park()

    async def replied(self) -> None:
        """Wait until no call of this end waits for a reply."""
        while self._replies:
            await self._replied.park()

    def _queue(self, kind: int, number: int, rest: bytes) -> None:
        if self.closed:
            return
        self._queued.append(_HEAD.pack(len(rest) + _KIND_AND_NUMBER, kind, number) + rest)
        if self._sending:
            self._sending.unpark_all()

    async def _send(self) -> None:
        while not self.closed:
            if not self._queued:
                await self._sending.park()
                continue
            queued, self._queued = self._queued, []
            self._queued_once.clear()
            self._sends = True
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await self._stream.send_all(b"".join(queued))
            self._sends = False
            self._sent.unpark_all()

    async def _receive(self, nursery: trio.Nursery) -> None:
        buffer = bytearray()
        while received := await self._stream.receive_some(_READ):
            buffer += received
            position, end = 0, len(buffer)
            while end - position >= _HEAD.size:
                length, kind, number = _HEAD.unpack_from(buffer, position)
                if not _KIND_AND_NUMBER <= length <= _LONGEST:
                    raise trio.BrokenResourceError(f"a frame of {length} bytes")
                following = position + 4 + length
                if following > end:
                    break
                rest = bytes(memoryview(buffer)[position + _HEAD.size : following])
                self._take(kind, number, rest, nursery)
                position = following
            del buffer[:position]

    def _take(self, kind: int, number: int, rest: bytes, nursery: trio.Nursery) -> None:
        if kind == CALL:
            name, body = _unnamed(rest)
            begin = self.begins.get(name)
            if begin is not None:
                self._begin(begin, name, number, body)
                return
            scope = trio.CancelScope()
            self._handling[number] = scope.cancel
            nursery.start_soon(self._handle, name, number, body, scope)
        elif kind in (REPLY, FAILED):
            reply = self._replies.get(number)
            if reply is not None and kind == REPLY:
                reply.succeed(rest)
            elif reply is not None:
                reply.fail(CallFailed(rest.decode(errors="replace")))
        elif kind == CANCEL:
            if (cancel := self._handling.get(number)) is not None:
                cancel()
        elif kind == NOTICE:
            _handle_notice(self.notices, *_unnamed(rest))

    def _begin(self, begin: BeginCall, name: str, number: int, body: bytes) -> None:
        def reply(result: bytes) -> None:
            self._handling.pop(number, None)
            self._queue(REPLY, number, result)

        self._handling[number] = _nothing  # until `begin` returns: it may have replied by then
        try:
            cancel = begin(body, reply)
        except Exception as error:
            del self._handling[number]
            self._fail(name, number, error)
            return
        if number in self._handling:
            self._handling[number] = cancel

    def _fail(self, name: str, number: int, error: Exception) -> None:
        logger.error("the call %s of another process failed", name, exc_info=error)
        self._queue(FAILED, number, f"{type(error).__name__}: {error}".encode(errors="replace"))

    async def _handle(self, name: str, number: int, body: bytes, scope: trio.CancelScope) -> None:
        try:
            with scope:
                handle = self.calls.get(name)
                if handle is None:
                    self._queue(FAILED, number, f"this process handles no call {name}".encode())
                    return
                self._queue(REPLY, number, await handle(body))
        except Exception as error:
            self._fail(name, number, error)
        finally:
            del self._handling[number]


class LocalChannel:
    """Sends notices of a process to itself: `run` handles them in order, after the code that sent them."""

    def __init__(self) -> None:
        self.notices: dict[str, HandleNotice] = {}
        self._queued: deque[tuple[str, bytes]] = deque()
        self._arrived = trio.lowlevel.ParkingLot()

    def notify(self, name: str, body: bytes = b"") -> None:
        self._queued.append((name, body))
        self._arrived.unpark_all()

    async def run(self) -> None:
        while True:
            if self._queued:
                _handle_notice(self.notices, *self._queued.popleft())
                await trio.lowlevel.checkpoint()
            else:
                await self._arrived.park()


def _handle_notice(notices: Mapping[str, HandleNotice], name: str, body: bytes) -> None:
    handle = notices.get(name)
    if handle is None:
        return
    try:
        handle(body)
    except Exception:
        logger.exception("the notice %s could not be handled", name)


def _nothing() -> None:
    return None


def _named(name: str, body: bytes) -> bytes:
    encoded = name.encode()
    return bytes((len(encoded),)) + encoded + body


def _unnamed(rest: bytes) -> tuple[str, bytes]:
    after = 1 + rest[0]
    return rest[1:after].decode(), rest[after:]
