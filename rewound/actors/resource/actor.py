"""The actor of one resource type: takes commands in order, decides them, and submits proposals to the committer.

Each command is a coroutine (`_write`). The actor runs it without a task up to where it first waits, for a webhook,
a conversion or the worker thread; most never do. The task of the caller runs the rest, while the actor goes on with
other commands. A write that has waited begins anew if its object has moved meanwhile.

Invariant: the actor decides a command on the newest state, committed or pending. `_pending` has the proposals that
are not durable yet; a reply that depends on one waits for it. When a commit fails, the actor discards all pending
proposals and reads the journal again; so does a restart after a crash.

Where other nodes write too (`Commits.is_shared`), each write is submitted for itself and fails alone. One that
another node has overtaken begins anew, in the task of its caller like a write that has waited.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from time import perf_counter, thread_time
from typing import Any, TypeVar
from weakref import WeakSet

import trio

from rewound.actors.admission.calls import AdmissionCalls
from rewound.actors.admission.chain import Admission
from rewound.actors.admission.request import AdmissionRequest
from rewound.actors.conversion.converter import Converts
from rewound.actors.errors import NoSuchResource, RequestError, ShuttingDown, WriteTimedOut
from rewound.actors.kinds.catalog import StoredType
from rewound.actors.messages import Command, Create, Outcome
from rewound.actors.resource.current import CurrentObjects, Key
from rewound.actors.resource.decide import Attempt, Decider, Moved, Outside
from rewound.actors.resource.object_size import UNLIMITED, ObjectSizes
from rewound.actors.resource.proposing import Proposer
from rewound.actors.resource.rules import Decided
from rewound.actors.resource.turns import ObjectTurns
from rewound.actors.resource.write import CallbackWrite, CommitCallback, Write, leave_actor
from rewound.actors.runtime.large_work import LargeWork, in_event_loop
from rewound.actors.runtime.mailbox import Mailbox, MailboxStatistics
from rewound.actors.runtime.time_limit import NeedsThread
from rewound.actors.runtime.write_context import LeaderContext
from rewound.actors.store.committer import Commits, Condition, Overtaken
from rewound.actors.store.proposal import Proposal
from rewound.journal.log import Journal
from rewound.journal.view import View

T = TypeVar("T")

logger = logging.getLogger(__name__)

# A command waits for at most one earlier fsync; at a few thousand writes a second this is about a second of work, and
# beyond that a client had better retry later.
MAILBOX_CAPACITY = 4096
# How long the actor decides commands without a checkpoint, in seconds of processor time: a busy machine must not divide
# batches, each of which costs a commit. A batch of ordinary writes takes less.
LONGEST_STEP = 0.010


@dataclass(frozen=True, slots=True)
class ActorContext:
    """What the actors of all types share."""

    journal: Journal
    committer: Commits
    admission: Admission
    calls: AdmissionCalls
    large_work: LargeWork
    nursery: trio.Nursery  # of writes that no task waits for
    converter: Converts | None = None  # None: no custom kind has a conversion webhook
    sizes: ObjectSizes = UNLIMITED
    longest_step: float = LONGEST_STEP


class ResourceActor:
    def __init__(self, stored_type: StoredType, context: ActorContext) -> None:
        self._journal = journal = context.journal
        self._committer = context.committer
        self._is_shared = context.committer.is_shared
        self._admission = context.admission
        self._large_work = context.large_work
        self._nursery = context.nursery
        self._asked = Outside(self, context.calls, context.converter)
        self._sizes = context.sizes
        self._pending: dict[Key, Proposal] = {}  # the last proposal of each object
        self._longest_step = context.longest_step
        # Not set from a crash until the proposals of before are durable or failed.
        self._ready = trio.Event()
        self._ready.set()
        self._crash: Exception | None = None  # met by another task, for `run` to raise
        self.type_id = journal.type_id(stored_type.storage.type_name)
        assert self.type_id, f"{stored_type.storage.type_name} was never registered"
        self.update_definitions(stored_type)
        self._mailbox: Mailbox[Write] = Mailbox(MAILBOX_CAPACITY)
        # Writes that go on in the tasks of their callers. Weak: a caller may never wait for the reply.
        self._outside: WeakSet[Write] = WeakSet()
        self._turns = ObjectTurns()

    @property
    def name(self) -> str:
        return self._storage.type_name

    def update_definitions(self, stored_type: StoredType) -> None:
        """Use these definitions from the next command on, including commands that wait in the mailbox."""
        definitions = {one.api_version: one for one in stored_type.definitions}
        self._definitions, self._storage = definitions, stored_type.storage
        versions = self._storage.storage.versions
        self._current = CurrentObjects(self._journal, self.type_id, self._pending, versions)
        self._decider = Decider(definitions, self._storage, self._admission, self._current.find, self._asked)
        self._large_decider: Decider | None = None  # made for the first large command
        self._proposer = Proposer(self.type_id, self._storage, self._sizes)
        self._retired = False

    def _decider_in_thread(self) -> Decider:
        """Another one for the worker thread, which remembers what it finds for itself."""
        if self._large_decider is None:
            find, admission = self._current.find_in_thread, self._admission.for_threads()
            self._large_decider = Decider(
                self._definitions, self._storage, admission, find, self._asked, in_thread=True
            )
        return self._large_decider

    def retire(self) -> None:
        """Refuse all waiting commands with NoSuchResource; `run` returns when all commits are complete."""
        self._retired = True
        for write in [*self._outside, *self._mailbox.take()]:
            write.refuse(NoSuchResource())
        self._mailbox.wake()

    def ask(self, command: Command) -> Coroutine[Any, Any, Outcome]:
        """Send a command; the coroutine waits for the reply."""
        write = Write(command)
        self._mailbox.send_nowait(write)
        return write.wait()

    def tell(self, command: Command, done: Callable[[Outcome | BaseException], None]) -> CallbackWrite:
        """Send a command without a task that waits: `done` gets the outcome, or the error."""
        write = CallbackWrite(command, self._nursery, done)
        self._mailbox.send_nowait(write)
        return write

    def write_now(self, command: Command, done: Callable[[Outcome | BaseException], None]) -> bool:
        """Decide a command of the server and submit it, before the mailbox.

        So it is in one commit with what its caller has just submitted, unless admission has to wait for a webhook or
        the object is large. Calls `done` when it is durable or failed. False, and no call, if the actor has crashed
        and not started again.
        """
        if not self._ready.is_set():
            return False
        try:
            self.handle([CallbackWrite(command, self._nursery, done)])
        except Exception as crash:
            self._end_run(crash)
            raise
        return True

    def _end_run(self, crash: Exception) -> None:
        """Have `run` raise a crash that another task met: the supervisor starts the actor again."""
        self._not_ready()
        self._crash = crash
        self._mailbox.wake()

    async def run(self) -> None:
        """Handle commands until the actor is retired and idle."""
        self._not_ready()
        self._crash = None
        await self._wait_for_pending_commits()
        self._ready.set()
        try:
            await self._handle_commands()
        except trio.Cancelled:
            for write in list(self._outside):
                write.refuse(ShuttingDown())
            raise
        finally:
            self._not_ready()

    def _not_ready(self) -> None:
        if self._ready.is_set():
            self._ready = trio.Event()

    async def _come_back(self) -> None:
        """Before a write that has waited is decided any further. No checkpoint, unless there is a reason to wait.

        It may be cancelled, the actor may have crashed, and the committer may be about to change the state.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        while True:
            if not self._ready.is_set():
                await self._ready.wait()
            elif (pause := self._committer.pause) is not None:
                await pause.wait()
            else:
                return

    async def _handle_commands(self) -> None:
        while True:
            if self._crash is not None:
                raise self._crash
            if self._retired and not self._mailbox and not self._outside:
                if not self._pending:
                    self._mailbox.close(NoSuchResource)
                    return
                await self._wait_for_pending_commits()
                continue
            writes = await self._mailbox.drain()
            while (pause := self._committer.pause) is not None:
                await pause.wait()
            if not self._ready.is_set():  # it has crashed meanwhile
                self._mailbox.put_first(writes)
                continue
            try:
                rest = self.handle(writes)
            except BaseException as crash:
                for write in writes:
                    write.refuse(crash)  # unless it has a reply already
                raise
            if rest:
                self._mailbox.put_first(rest)
                await trio.lowlevel.checkpoint()

    async def _wait_for_pending_commits(self) -> None:
        """After a crash: wait until all submitted proposals are durable or failed, then read the journal again."""
        if self._pending:
            done = trio.Event()
            self._committer.submit([], lambda _: done.set())
            await done.wait()
            self._pending.clear()

    def statistics(self) -> MailboxStatistics:
        return self._mailbox.statistics()

    def handle(self, writes: list[Write]) -> list[Write]:
        """Decide a batch and submit it; returns the writes for which there was no time.

        Every other one gets a reply, even if others fail.
        """
        proposals: list[Proposal] = []
        waiting: list[Write] = []
        try:
            decided = self._decide_all(writes, proposals, waiting)
            self._submit(proposals, waiting)
        except Exception as crash:
            for write in waiting:
                write.complete(crash)
            raise
        return writes[decided:]

    def _decide_all(self, writes: list[Write], proposals: list[Proposal], waiting: list[Write]) -> int:
        """Append proposals, and the writes that wait for a commit; complete the others.

        Returns how many were decided until the time of one step had passed.
        """
        # The clock of processor time is a system call: it is read again only when as much time has passed at all.
        earliest_end = perf_counter() + self._longest_step
        end = thread_time() + self._longest_step if len(writes) > 1 else inf
        with self._journal.read() as view:
            for index, write in enumerate(writes):
                if index and perf_counter() > earliest_end and thread_time() > end:
                    return index
                if self._begin(view, write, proposals):
                    if self._is_shared:
                        self._submit_alone(write, proposals)
                        proposals.clear()
                    elif self._pending:  # what it proposed, or what it may depend on
                        waiting.append(write)
                    else:
                        write.complete(None)
        return len(writes)

    def _begin(self, view: View, write: Write, proposals: list[Proposal]) -> bool:
        """Run a write without a task, up to where it waits; False if it goes on in the task of its caller."""
        steps = self._write(write, view)
        try:
            steps.send(None)
        except StopIteration as end:
            proposals += end.value
            return True
        self._outside.add(write)
        write.continue_in_caller(steps, self._finish)
        return False

    def _finish(self, write: Write, proposals: list[Proposal]) -> None:
        """Submit a write that was decided in the task of its caller."""
        try:
            if self._is_shared:
                self._submit_alone(write, proposals)
            elif self._pending:
                self._submit(proposals, [write])
            else:
                write.complete(None)
        except Exception as crash:
            self._end_run(crash)
            write.complete(crash)

    def _submit_alone(self, write: Write, proposals: list[Proposal]) -> None:
        """Submit a write where other nodes write too; `proposals` is not kept."""
        if not self._pending:
            write.complete(None)
            return
        own = tuple(proposals)
        leading, request = isinstance(write.command.context, LeaderContext), write.request
        condition = Condition(leading=leading)
        if own and request is not None and request.companion is not None:
            condition = Condition(own[0].namespace, request.counted_at, leading)
        self._committer.submit(own, partial(self._ended_alone, own, write), condition)

    def _ended_alone(self, proposals: tuple[Proposal, ...], write: Write, failure: Exception | None) -> None:
        self._discard(proposals)
        if not isinstance(failure, Overtaken):
            write.complete(failure)
            return
        if write.request is not None:
            write.request.complete(False)
            write.request = None
        write.decided, write.body, write.error = None, b"", None
        if write.is_abandoned or self._retired:
            write.refuse(NoSuchResource() if self._retired else ShuttingDown())
            return
        write.has_left = True
        self._outside.add(write)
        write.continue_in_caller(self._write(write, None, overtaken=True), self._finish)

    def _submit(self, proposals: list[Proposal], writes: list[Write]) -> None:
        if not writes:
            return
        self._committer.submit(proposals, CommitCallback(self._committed, proposals, writes))
        # What belongs into the same commit, without a checkpoint in between.
        for companion in {one.request.companion for one in writes if one.request is not None}:
            if companion is not None:
                try:
                    companion()
                except Exception:  # a bug of its actor, which starts again; these writes are submitted
                    logger.exception("the companion of a write failed: %r", companion)

    async def _write(self, write: Write, view: View | None, *, overtaken: bool = False) -> list[Proposal]:
        """The steps of one write: decide the command, and again when its object has moved. Returns its events.

        The result, or the error, is in the write; the caller submits the events without a checkpoint in between.
        """
        attempt: Attempt | None = None
        try:
            if overtaken or self._turns.is_closed(write):
                await self._leave(write, stale=overtaken)
                view = None
            in_thread = write.command.context.large
            while True:
                decider = self._decider_in_thread() if in_thread else self._decider
                attempt = Attempt(write, decider, view, attempt)
                view = None  # of the batch, which ends when the write waits
                try:
                    decide = self._decide_in_thread if in_thread else self._decide
                    decided, proposals = await decide(attempt)
                    break
                except Moved as moved:
                    attempt.release()
                    attempt.was_in_vain = moved.meanwhile
                    await self._come_back()
                except NeedsThread:
                    attempt.release()
                    in_thread = True
            self._take_result(write, attempt, decided, proposals)
            return proposals
        except Exception as error:
            if attempt is not None:
                attempt.release()
                add_warnings(error, attempt.request)
            write.error = error
            return []
        except BaseException:  # the caller has gone, or the time of the write is over
            if attempt is not None:
                attempt.release()
            raise
        finally:
            if write.has_left:
                self._outside.discard(write)
                self._turns.leave(write)
                if self._retired:
                    self._mailbox.wake()

    async def _decide(self, attempt: Attempt) -> tuple[Decided, list[Proposal]]:
        """What a command becomes, and its events."""
        proposals: list[Proposal] = []
        decided = await attempt.decider.decide(attempt)
        attempt.body = self._proposer.propose(decided, attempt.command, proposals)
        return decided, proposals

    async def _decide_in_thread(self, attempt: Attempt) -> tuple[Decided, list[Proposal]]:
        """Decide a large command in the worker thread, while the actor goes on with other commands."""
        if attempt.takes_turn or not attempt.write.has_left:
            await self._leave(attempt.write, stale=attempt.takes_turn)
        decided = await self._large_work.run_command(attempt.command.context.user, self._decide(attempt))
        await self._come_back()
        if self.has_moved(attempt):
            raise Moved
        self._decider.repeat_checks(attempt)
        return decided

    def _take_result(
        self, write: Write, attempt: Attempt, decided: Decided, proposals: list[Proposal]
    ) -> None:
        request = attempt.request
        if request is not None:
            if request.warnings:
                decided = decided._replace(warnings=(*decided.warnings, *request.warnings))
            if proposals and request.callbacks:
                write.request = request  # complete when they are durable or failed
            else:
                request.complete(False)
        write.decided, write.body = decided, attempt.body
        for proposal in proposals:
            self._pending[proposal.namespace, proposal.name] = proposal

    async def _leave(self, write: Write, *, stale: bool = False) -> bool:
        """Go on in the task of the caller, and there in turn with other writers of the object.

        `stale`: an attempt was in vain, because the object has moved. Returns whether the write had to wait for its
        turn. ShuttingDown, WriteTimedOut, Overloaded.
        """
        if not write.has_left:
            if write.is_abandoned:
                raise ShuttingDown
            if write.command.context.deadline <= trio.current_time():
                raise WriteTimedOut(requested=True)
            write.has_left = True
            await leave_actor()
        waited = await self._turns.enter(write, stale=stale)
        await self._come_back()
        return waited

    async def wait_for(self, attempt: Attempt, answer: Callable[[], Awaitable[T]]) -> T:
        """An answer from outside, while the actor goes on with other commands."""
        if attempt.decider.in_thread:
            return await in_event_loop(answer)
        if attempt.takes_turn or not attempt.write.has_left:
            stale, attempt.takes_turn, attempt.view = attempt.takes_turn, False, None
            waited = await self._leave(attempt.write, stale=stale)
            if waited or self.has_moved(attempt):
                raise Moved(meanwhile=False)
        result = await answer()
        await self._come_back()
        return result

    def has_moved(self, attempt: Attempt) -> bool:
        if attempt.decider is not self._decider and attempt.decider is not self._large_decider:
            return True  # other definitions
        command, key = attempt.command, attempt.key
        if key is None:
            if isinstance(command, Create):
                return False  # whether its name is free is checked at the end
            key = command.namespace, command.name
        if command.dry_run and isinstance(attempt.written, int):
            return False  # it stores nothing
        return not self._current.is_written_by(attempt.written, *key)

    def _committed(self, proposals: list[Proposal], failure: Exception | None) -> None:
        """Drop the proposals of a completed commit from `_pending`, or all if it failed."""
        # Usually there are no others, which one comparison finds out for the whole batch.
        if failure is not None or [*self._pending.values()] == proposals:
            self._pending.clear()
            return
        self._discard(proposals)

    def _discard(self, proposals: Sequence[Proposal]) -> None:
        for proposal in proposals:
            key = proposal.namespace, proposal.name
            if self._pending.get(key) is proposal:
                del self._pending[key]


def add_warnings(error: Exception, request: AdmissionRequest | None) -> None:
    """A refused write has the warnings of admission too."""
    if request is not None and request.warnings and isinstance(error, RequestError):
        error.warnings = (*request.warnings, *error.warnings)
