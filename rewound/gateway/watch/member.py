"""One watcher in a group: its connection, the offset it has reached, and the rest of a partly sent frame; no queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import trio

from rewound.actors.access.authentication.authenticate import Authenticated
from rewound.actors.access.authorize import Attributes
from rewound.actors.access.impersonation import WantedIdentity
from rewound.actors.errors import RequestError
from rewound.gateway.message import EndReason, Peer
from rewound.gateway.watch.broadcast import Missed

# Seconds that a client which does not read may delay the end of its own stream. A stopping server waits for it, and
# should end in less than 5 s.
CLOSE_TIMEOUT = 3.0


class Pipe(Protocol):
    """A connection as a watch uses it; `gateway.connections.transport.Transport` implements it."""

    deadline: float  # when the connection interrupts itself, and repeatedly after that

    @property
    def has_unsent(self) -> bool:
        """Whether bytes that `transmit` accepted are still waiting to be sent."""

    def transmit(self, data: bytes | memoryview) -> int:
        """Send what fits, without waiting; return the number of bytes accepted, negated if some are still unsent."""

    @staticmethod
    def broadcast(pipes: Sequence[Any], data: bytes) -> Missed:
        """Send the same bytes to many pipes of this class; return those that did not send all, with their results."""

    async def flush(self) -> None:
        """Wait until everything accepted is sent and more fits, or for an interruption. One task at a time."""

    async def receive(self) -> bytes:
        """The client's next bytes, b"" at the end. Raises ClosedResourceError when interrupted."""

    def interrupt(self) -> None:
        """Wake the tasks that wait on the connection."""


class MemberHub(Protocol):
    """The part of the hub that a member uses."""

    closing: bool


class Limit:
    """How far a held watch may go: up to the change before its first event after `version`.

    Changes that are not events of the watch do not hold it, so that its cursor is never older than necessary.
    """

    __slots__ = ("clear", "held", "version")

    def __init__(self, version: int) -> None:
        self.version = version  # no event after it is sent
        self.clear = version  # the watch has no events after `version` and up to this offset
        self.held = False  # the change after `clear` is an event of the watch

    def move(self, version: int) -> None:
        if version < self.version or version > self.clear:
            self.clear, self.held = version, False
        self.version = version

    def pass_over(self, offset: int) -> None:
        """Note that the watch has been sent everything up to an offset."""
        if offset > self.clear:
            self.clear, self.held = offset, False


class Grant(NamedTuple):
    """By what a watch was allowed."""

    attributes: Attributes
    caller: Authenticated  # who signed in; another user than that of the attributes if it impersonates that
    authorization: bytes | None  # the header, or the token of a WebSocket
    peer: Peer
    impersonated: WantedIdentity | None = None


class Member:
    __slots__ = (
        "_hub",
        "catch_up_done",
        "cursor",
        "end_reason",
        "ended",
        "ends_at",
        "error",
        "first_pending",
        "grant",
        "limit",
        "pipe",
        "rest",
    )

    def __init__(
        self,
        pipe: Pipe,
        ends_at: float,
        hub: MemberHub,
        *,
        first_pending: bool = False,
        grant: Grant | None = None,
    ) -> None:
        self.pipe = pipe
        self.grant = grant  # None: it is not checked again
        self.ends_at = ends_at
        self._hub = hub
        self.cursor = 0  # everything up to this offset has been sent, except `rest`
        self.rest: memoryview | None = None  # rest of the frame at the cursor: shared bytes, not a copy
        self.first_pending = first_pending  # its first event is encoded differently and has not been sent
        self.limit: Limit | None = None  # how far it may go; None: to the newest commit
        self.ended = False  # it has left its group
        self.end_reason: EndReason | None = None  # why its group removed it
        # The error sent to the client with FAILED; None: the default one.
        self.error: RequestError | None = None
        self.catch_up_done: trio.Event | None = None  # set when its catch-up task has ended
        pipe.deadline = ends_at

    def should_end(self) -> bool:
        """Whether the watch should end after the current frame."""
        return self.ended or self._hub.closing or trio.current_time() >= self.ends_at

    def end(self) -> None:
        """End the watch now, whatever timeout the client requested."""
        self.ends_at = self.pipe.deadline = trio.current_time()
        self.pipe.interrupt()

    def check_close_timeout(self) -> None:
        """Raise OSError if the connection has accepted nothing more for CLOSE_TIMEOUT after the end of the watch."""
        now = trio.current_time()
        if self._hub.closing and self.ends_at > now:
            self.ends_at = self.pipe.deadline = now
        if now >= self.ends_at + CLOSE_TIMEOUT:
            raise ConnectionResetError("the client did not read to the end of an event")


async def send_all(member: Member, data: bytes) -> None:
    """Send all bytes, however slow the client is, up to CLOSE_TIMEOUT after the end of the watch."""
    pipe, left = member.pipe, memoryview(data)
    while left or pipe.has_unsent:
        taken = pipe.transmit(left) if left else 0
        left = left[abs(taken) :]
        if left or pipe.has_unsent:
            member.check_close_timeout()
            await pipe.flush()
