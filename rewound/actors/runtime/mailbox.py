"""A bounded mailbox, and the one-shot reply that travels with a message.

An actor owns one `Mailbox` and takes all its messages at once (`drain`), because a batch costs one wake-up and one
commit however many messages it has. Senders get their response through a `Reply`, which is only a parked task: a memory
channel per request cost three times as much in the prototype.
"""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

import msgspec
from trio.lowlevel import Abort, Task, current_task, reschedule, wait_task_rescheduled

from rewound.actors.errors import Overloaded

M = TypeVar("M")
A = TypeVar("A")


class Reply(Generic[A]):
    """Set once by the actor, awaited by at most one task. An abandoned reply is dropped."""

    _value: A

    def __init__(self) -> None:
        self._is_set = False
        self._error: BaseException | None = None
        self._task: Task | None = None

    def succeed(self, value: A) -> None:
        if not self._is_set:
            self._value = value
            self._set()

    def fail(self, error: BaseException) -> None:
        if not self._is_set:
            self._error = error
            self._set()

    def _set(self) -> None:
        self._is_set = True
        task = self._task
        if task is not None:
            self._task = None
            reschedule(task)

    async def wait(self) -> A:
        if not self._is_set:
            self._task = current_task()
            await wait_task_rescheduled(self._abort)
        if self._error is not None:
            raise self._take_error()
        return self._value

    def _take_error(self) -> BaseException:
        """Remove and return the error: its frames refer to this reply, which must not refer back (a cycle)."""
        error, self._error = self._error, None
        assert error is not None
        return error

    def _abort(self, _: object) -> Abort:
        """The waiting task was cancelled."""
        self._task = None
        return Abort.SUCCEEDED


class MailboxStatistics(msgspec.Struct, frozen=True):
    waiting: int
    capacity: int
    received: int
    refused: int


class Mailbox(Generic[M]):
    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._messages: deque[M] = deque()
        self._owner: Task | None = None
        self._received = 0
        self._refused = 0
        self._closed: type[Exception] | None = None

    def __len__(self) -> int:
        return len(self._messages)

    def send_nowait(self, message: M) -> None:
        """Append a message. Raises Overloaded if the mailbox is full."""
        if len(self._messages) >= self._capacity:
            self._refused += 1
            raise self._closed or Overloaded
        self._received += 1
        self._messages.append(message)
        if self._owner is not None:
            self.wake()

    def put_first(self, messages: list[M]) -> None:
        """Put back messages that were taken and not handled, before all others."""
        self._messages.extendleft(reversed(messages))

    def wake(self) -> None:
        """Wake the owner from `drain`, even without a message."""
        if self._owner is not None:
            owner, self._owner = self._owner, None
            reschedule(owner)

    def close(self, refusal: type[Exception]) -> None:
        """Raise this error to all later senders. Messages already received stay."""
        self._closed, self._capacity = refusal, 0

    async def drain(self) -> list[M]:
        """Take all received messages, in order; if there are none, wait for a message or for `wake`."""
        if not self._messages:
            self._owner = current_task()
            await wait_task_rescheduled(self._abort)
        return self.take()

    def _abort(self, _: object) -> Abort:
        self._owner = None
        return Abort.SUCCEEDED

    def take(self) -> list[M]:
        """Take all received messages without waiting."""
        taken = list(self._messages)
        self._messages.clear()
        return taken

    def statistics(self) -> MailboxStatistics:
        return MailboxStatistics(len(self._messages), self._capacity, self._received, self._refused)
