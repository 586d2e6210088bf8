"""A command with its reply, which is sent when everything that the command depends on is durable.

The actor gives a decided write its result, and completes the writes of a batch together when they are committed;
it completes one that has nothing to wait for at once. Bodies are encoded on completion, because the offsets are only
known then. Invariant: every write is completed once, even if the commit fails.

A write that has to wait before it can be decided continues in the task that sent it: that task waits for the reply
anyway, and when the task is cancelled, so is the write.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Generator
from types import coroutine
from typing import Any

import trio
from trio.lowlevel import Abort, current_task, reschedule, wait_task_rescheduled

from rewound.actors.admission.request import AdmissionRequest
from rewound.actors.errors import WriteTimedOut
from rewound.actors.messages import LONGEST_WRITE, Command, Delete, Deleted, Outcome, Written
from rewound.actors.resource.proposing import Body, Decided, Remove
from rewound.actors.runtime.mailbox import Reply
from rewound.actors.store.document import at_version
from rewound.actors.store.proposal import Proposal, offset_of

logger = logging.getLogger(__name__)

Steps = Coroutine[Any, Any, list[Proposal]]  # of a write, to the events that it proposes
Finish = Callable[["Write", list[Proposal]], None]


class Write(Reply[Outcome]):
    def __init__(self, command: Command) -> None:
        super().__init__()
        self.command = command
        # The result: what was decided and the body of the response, or an error.
        self.decided: Decided | None = None
        self.body: Body = b""
        self.error: Exception | None = None
        self.request: AdmissionRequest | None = None  # until the write is durable, if it has callbacks
        self.ticket = 0  # its place in the line of writes to the same object
        self.has_left = False  # it continues in the task of its caller
        self.is_abandoned = False  # the caller no longer waits for the reply
        self._steps: Steps | None = None  # what the caller's task is to run
        self._finish: Finish | None = None  # called when it has run
        self._scope: trio.CancelScope | None = None  # while the caller's task runs it

    async def wait(self) -> Outcome:
        while not self._is_set:
            if self._steps is not None:
                await self._run_rest()
            else:
                self._task = current_task()
                await wait_task_rescheduled(self._abort)
        if self._error is not None:
            raise self._take_error()
        return self._value

    def continue_in_caller(self, steps: Steps, finish: Finish) -> None:
        """Let the task of the caller run the rest of a write that has to wait, then call `finish`."""
        if self.is_abandoned:
            steps.close()
            return
        self._steps, self._finish = steps, finish
        task = self._task
        if task is not None:
            self._task = None
            reschedule(task)

    async def _run_rest(self) -> None:
        """Decide the write within its time, unless it has been refused before it could begin."""
        steps, finish, self._steps = self._steps, self._finish, None
        if steps is None or finish is None:
            return
        now, deadline = trio.current_time(), self.command.context.deadline
        try:
            with trio.CancelScope(deadline=min(deadline, now + LONGEST_WRITE)) as self._scope:
                finish(self, await _rest_of(steps))
        finally:
            scope, self._scope = self._scope, None
            steps.close()
        if scope.cancelled_caught:
            self.fail(WriteTimedOut(requested=deadline <= trio.current_time()))

    def refuse(self, error: BaseException) -> None:
        """Reply with an error, unless the write has a reply, and end what it waits for."""
        self.fail(error)
        if self._steps is not None:
            steps, self._steps = self._steps, None
            steps.close()
        if self._scope is not None:
            self._scope.cancel()

    def _abort(self, raise_cancel: object) -> Abort:
        self.is_abandoned = True
        return super()._abort(raise_cancel)

    def complete(self, failure: Exception | None) -> None:
        """Reply with the result, or with the failure of the commit."""
        if self.request is not None:
            self.request.complete(failure is None)
        error, self.error = failure or self.error, None
        if error is not None:
            self.fail(error)
            return
        decided, body = self.decided, self.body
        assert decided is not None
        if isinstance(body, Proposal):
            assert body.event is not None
            body = body.event.body
        elif isinstance(body, tuple):
            unversioned, written = body
            body = at_version(unversioned, offset_of(written))
        command = self.command
        if isinstance(command, Delete):
            self.succeed(_deleted(command, decided, body))
        else:
            self.succeed(Written(body, decided.created, decided.warnings))


@coroutine
def leave_actor() -> Generator[None, None, None]:
    """Await this in the steps of a write before it waits: the task of the caller runs the rest."""
    yield


@coroutine
def _rest_of(steps: Steps) -> Generator[Any, Any, list[Proposal]]:
    """Continue a coroutine that was started elsewhere; `await` only works for one that was not."""
    proposals: list[Proposal] = yield from steps
    return proposals


class CallbackWrite(Write):
    """Calls a function with its outcome or error. If it has to wait, it gets a task of its own."""

    def __init__(
        self, command: Command, nursery: trio.Nursery, done: Callable[[Outcome | BaseException], None]
    ) -> None:
        super().__init__(command)
        self._nursery, self._done = nursery, done

    def abandon(self) -> None:
        """Nobody needs the reply any more: cancel the write, unless it is decided."""
        self.is_abandoned = True
        if self._scope is not None:
            self._scope.cancel()

    def continue_in_caller(self, steps: Steps, finish: Finish) -> None:
        super().continue_in_caller(steps, finish)
        self._nursery.start_soon(self._run_rest)

    def _set(self) -> None:
        super()._set()
        self._done(self._value if self._error is None else self._error)


def _deleted(command: Delete, decided: Decided, body: bytes) -> Deleted:
    assert decided.current is not None
    removed = isinstance(decided.decision, Remove)
    uid = decided.current.object["metadata"]["uid"]
    return Deleted(body, command.name, uid, removed, decided.warnings)


def complete_all(writes: list[Write], failure: Exception | None) -> None:
    """Reply to the writes of a commit, even if the reply to one fails."""
    for write in writes:
        try:
            write.complete(failure)
        except Exception as crash:
            logger.exception("the reply to a command failed: %r", type(write.command))
            write.fail(crash)
