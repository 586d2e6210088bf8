"""A command with its reply, which is sent when everything that the command depends on is durable.

The actor gives a decided write its result, and completes the writes of a batch together when they are committed;
it completes one that has nothing to wait for at once. Bodies are encoded on completion, because the offsets are only
known then. Invariant: every write is completed once, even if the commit fails.

A write that has to wait before it can be decided, for a webhook, a conversion or the worker thread, continues in the
task that sent it: that task waits for the reply anyway, and when the task is cancelled, so is the write
(`WaitingWrites`).

A write that waits is decided on one state of its object. If another write changes the object meanwhile, it has to be
decided again on the newest state. The first attempt of every write begins at once: most objects have one writer. The
first write that has to be decided again opens a line for its object. From then on the writes of that object wait in
that line, in the order in which they came, while the first one has its turn. So N writers need about N rounds and 2 N
calls. If all retried each time, it would be N rounds and N * N / 2 calls, and the one with the slowest webhook might
never succeed.

A turn ends when its write is decided. After `TURN_SECONDS` the next write begins as well, so that a webhook that hangs
delays nobody for long, not even if it writes to the same object. Writes that wait for nothing take no turn, until they
have changed the object `MAX_OVERTAKEN` times during one turn. Writes that name a resourceVersion never wait: by the
time of their turn they would always conflict. Dry runs change nothing, and wait for nobody.
"""

from __future__ import annotations

import logging
from bisect import insort
from collections.abc import Callable, Coroutine, Generator
from types import coroutine
from typing import Any, Final
from weakref import WeakSet

import trio
from trio.lowlevel import Abort, current_task, reschedule, wait_task_rescheduled

from rewound.actors.admission.request import AdmissionRequest
from rewound.actors.errors import Overloaded, RequestError, ShuttingDown, WriteTimedOut
from rewound.actors.messages import (
    LONGEST_WRITE,
    Command,
    Create,
    Delete,
    Deleted,
    Outcome,
    Patch,
    Replace,
    Submit,
    Written,
)
from rewound.actors.resource.current import Key
from rewound.actors.resource.proposing import Body, Decided, Remove
from rewound.actors.runtime.mailbox import Reply
from rewound.actors.store.committer import Commits
from rewound.actors.store.document import at_version
from rewound.actors.store.proposal import Proposal, offset_of

logger = logging.getLogger(__name__)

# Far longer than most webhooks take, far shorter than a client waits.
TURN_SECONDS: Final = 1.0
MAX_OVERTAKEN: Final = 3
# As many as a mailbox holds: each takes some kilobytes.
MAX_WAITING: Final = 4096

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


class WaitingWrites:
    """The writes of one actor that continue in the tasks of their callers, and when they may."""

    def __init__(self, committer: Commits) -> None:
        self._committer = committer
        self.turns = ObjectTurns()
        self._writes: WeakSet[Write] = WeakSet()  # weak: a caller may never wait for the reply
        self.is_blocked = False
        self._unblocked = trio.Event()

    def __bool__(self) -> bool:
        return bool(self._writes)

    def block(self) -> None:
        """Let no write continue: the actor has crashed, or has not read its state yet."""
        self.is_blocked = True

    def unblock(self) -> None:
        self.is_blocked = False
        self._unblocked.set()
        self._unblocked = trio.Event()

    def add(self, write: Write) -> None:
        write.has_left = True
        self._writes.add(write)

    def remove(self, write: Write) -> None:
        """A write is decided or refused: if it had its turn, the next one has it."""
        self._writes.discard(write)
        self.turns.end(write)

    def refuse_all(self, error: type[RequestError]) -> None:
        for write in list(self._writes):
            write.refuse(error())

    async def leave(self, write: Write, *, retry: bool = False) -> bool:
        """Continue in the task of the caller, and there in turn with other writers of the object.

        `retry`: an earlier attempt waited for an answer, and its object has changed meanwhile. Returns whether the
        write had to wait for its turn. Raises ShuttingDown, WriteTimedOut or Overloaded.
        """
        if not write.has_left:
            if write.is_abandoned:
                raise ShuttingDown
            if write.command.context.deadline <= trio.current_time():
                raise WriteTimedOut(requested=True)
            self.add(write)
            await leave_actor()
        waited = await self.turns.take(write, retry=retry)
        await self.resume()
        return waited

    async def resume(self) -> None:
        """Call this before a write that has waited is decided further. No checkpoint, unless it has to wait.

        The write may be cancelled, the actor may have crashed, and the committer may be about to change the state.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        while True:
            if self.is_blocked:
                await self._unblocked.wait()
            elif (pause := self._committer.pause) is not None:
                await pause.wait()
            else:
                return


class _Place:
    """The place of a write in a line."""

    __slots__ = ("moved", "ticket", "write")

    def __init__(self, write: Write) -> None:
        self.write = write
        self.ticket = write.ticket
        self.moved = trio.Event()  # the write has its turn, or is the next one


class _Line:
    """The writes of one object: the one that has its turn, and those that wait."""

    __slots__ = ("first", "key", "overtaken", "places", "until")

    def __init__(self, key: Key, first: Write) -> None:
        self.key = key
        self.places: list[_Place] = []  # by their tickets
        self.give_turn(first)

    def give_turn(self, write: Write) -> None:
        self.first = write
        self.until = trio.current_time() + TURN_SECONDS
        self.overtaken = 0  # how often the object changed during the turn


class ObjectTurns:
    """The lines of all objects of one resource type."""

    def __init__(self) -> None:
        self._lines: dict[Key, _Line] = {}
        self._closed: set[Key] = set()  # of lines that were overtaken so often that all writes wait in them
        self._waiting = 0
        self._tickets = 0

    def must_wait(self, write: Write) -> bool:
        """Whether a write has to wait for its turn before it is decided at all."""
        if not self._closed or write.command.context.caller is None:
            return False
        return _key(write.command) in self._closed

    async def take(self, write: Write, *, retry: bool = False) -> bool:
        """Wait for the turn of a write that is about to wait for an answer, if its object has a line.

        `retry`: it is decided again because its object has changed. Returns whether it had to wait. Raises Overloaded.
        """
        if not write.ticket:
            self._tickets += 1
            write.ticket = self._tickets
        key = _key(write.command) if retry or self._lines else None
        if key is None:
            return False
        line = self._lines.get(key)
        if line is None:
            if retry:
                self._lines[key] = _Line(key, write)
            return False
        if line.first is write:
            line.overtaken += retry
            if line.overtaken >= MAX_OVERTAKEN:
                self._closed.add(key)
            return False
        if not line.places and trio.current_time() >= line.until:
            self._closed.discard(key)
            line.give_turn(write)
            return False
        await self._wait(line, write)
        return True

    def end(self, write: Write) -> None:
        """Give the turn to the next write, if this one has it."""
        if self._lines and (key := _key(write.command)) is not None:
            line = self._lines.get(key)
            if line is not None and line.first is write:
                self._pass_turn(line)

    async def _wait(self, line: _Line, write: Write) -> None:
        if self._waiting >= MAX_WAITING:
            raise Overloaded
        self._waiting += 1
        place = _Place(write)
        insort(line.places, place, key=_ticket)
        try:
            while line.first is not write:
                if line.places[0] is not place:
                    await place.moved.wait()
                else:
                    with trio.move_on_at(line.until):
                        await place.moved.wait()
                    if line.first is not write and trio.current_time() >= line.until:
                        self._pass_turn(line)
                place.moved = trio.Event()
        finally:
            self._waiting -= 1
            if place in line.places:  # its caller has gone, or its time is over
                line.places.remove(place)
                if line.places:
                    line.places[0].moved.set()

    def _pass_turn(self, line: _Line) -> None:
        self._closed.discard(line.key)
        if not line.places:
            del self._lines[line.key]
            return
        following = line.places.pop(0)
        line.give_turn(following.write)
        following.moved.set()
        if line.places:
            line.places[0].moved.set()


def _ticket(place: _Place) -> int:
    return place.ticket


def _key(command: Command) -> Key | None:
    """The object for which a write may have to wait; None if it never waits."""
    if isinstance(command, Create | Submit) or command.dry_run or _names_version(command):
        return None
    return command.namespace, command.name


def _names_version(command: Replace | Patch | Delete) -> bool:
    """Whether a command has the resourceVersion of its object as a precondition. Some JSON patches have, too."""
    match command:
        case Delete():
            return command.options.resource_version is not None
        case Replace():
            sent: Any = command.object
        case Patch():
            sent = command.patch
    metadata = sent.get("metadata") if isinstance(sent, dict) else None
    version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
    return version not in (None, "", "0")
