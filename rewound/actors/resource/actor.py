"""The actor of one resource type: takes commands in order, decides them, and submits proposals to the committer.

Each command is a coroutine (`_write`). The actor runs it without a task up to where it first waits, for a webhook,
a conversion or the worker thread; most never wait. The task of the caller runs the rest (`write`), while the actor
handles other commands. A write that has waited is decided again if its object has changed meanwhile.

If the commands take longer than a step, the users of those that are left take turns (`Backlog`).

Invariant: the actor decides a command on the newest state, committed or pending. `_pending` has the proposals that
are not durable yet; a reply that depends on one waits for it. When a commit fails, the actor discards all pending
proposals and reads the journal again; so does a restart after a crash.

Where other nodes write too (`Commits.is_shared`), each write is submitted for itself and fails alone. If another node
has changed its object first, it is decided again, in the task of its caller like a write that has waited.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from math import inf
from time import perf_counter, thread_time
from typing import Any

import trio

from rewound.actors.errors import NoSuchResource, RequestError, ShuttingDown
from rewound.actors.kinds.catalog import StoredType
from rewound.actors.kinds.declaration.stored_form import OF_MISFITS
from rewound.actors.kinds.schema.decoder import NotDecodable
from rewound.actors.messages import Command, Outcome
from rewound.actors.resource.backlog import Backlog
from rewound.actors.resource.current import CurrentObjects, Key
from rewound.actors.resource.decide import ActorContext, Attempt, Decider, Outdated
from rewound.actors.resource.write import CallbackWrite, WaitingWrites, Write, complete_all
from rewound.actors.runtime.mailbox import Mailbox, MailboxStatistics
from rewound.actors.runtime.time_limit import NeedsThread
from rewound.actors.runtime.write_context import LeaderContext
from rewound.actors.store.committer import Condition, Overtaken
from rewound.actors.store.proposal import Proposal
from rewound.journal.view import View

logger = logging.getLogger(__name__)

# A command waits for at most one earlier fsync; at a few thousand writes a second this is about a second of work, and
# beyond that a client had better retry later.
MAILBOX_CAPACITY = 4096


class ResourceActor:
    def __init__(self, stored_type: StoredType, context: ActorContext) -> None:
        self._context = context
        self._journal = context.journal
        self._committer = context.committer
        self._is_shared = context.committer.is_shared
        self._longest_step = context.longest_step
        self._pending: dict[Key, Proposal] = {}  # the last proposal of each object
        self._crash: Exception | None = None  # in another task, for `run` to raise
        self._is_retired = False
        self._mailbox: Mailbox[Write] = Mailbox(MAILBOX_CAPACITY)
        self._backlog = Backlog()
        self._waiting = WaitingWrites(context.committer)
        self.type_id = context.journal.type_id(stored_type.storage.type_name)
        assert self.type_id, f"{stored_type.storage.type_name} was never registered"
        self._beside = context.beside.get(stored_type.storage.type_name)
        self._use(stored_type)

    @property
    def name(self) -> str:
        return self._decider.storage.type_name

    def _use(self, stored_type: StoredType) -> None:
        self._stored_type = stored_type
        self._current = CurrentObjects(self._journal, self.type_id, self._pending, stored_type.storage)
        self._decider = self._new_decider()
        self._decider_in_thread: Decider | None = None  # made for the first large command

    def _new_decider(self, *, in_thread: bool = False) -> Decider:
        return Decider(
            self._stored_type,
            self._context,
            self._current,
            self._waiting,
            self.type_id,
            in_thread=in_thread,
        )

    def update_definitions(self, stored_type: StoredType) -> None:
        """Use these definitions for the next command, including commands that wait in the mailbox."""
        self._decider.is_outdated = True
        if self._decider_in_thread is not None:
            self._decider_in_thread.is_outdated = True
        self._use(stored_type)
        self._is_retired = False

    def retire(self) -> None:
        """Refuse all waiting commands with NoSuchResource; `run` returns when all commits are complete."""
        self._is_retired = True
        waiting_in_mailbox = self._mailbox.take()
        self._waiting.refuse_all(NoSuchResource)
        for write in waiting_in_mailbox:
            write.refuse(NoSuchResource())
        self._mailbox.wake()

    def ask(self, command: Command) -> Coroutine[Any, Any, Outcome]:
        """Send a command; the coroutine waits for the reply."""
        write = Write(command)
        self._mailbox.send_nowait(write)
        return write.wait()

    def tell(self, command: Command, done: Callable[[Outcome | BaseException], None]) -> CallbackWrite:
        """Send a command without a task that waits: `done` gets the outcome, or the error."""
        write = CallbackWrite(command, self._context.nursery, done)
        self._mailbox.send_nowait(write)
        return write

    def write_now(self, command: Command, done: Callable[[Outcome | BaseException], None]) -> bool:
        """Decide a command of the server and submit it, before the mailbox.

        So it is in one commit with what its caller has just submitted, unless admission has to wait for a webhook or
        the object is large. Calls `done` when it is durable or failed. Returns False, without a call, if the actor has
        crashed and not started again.
        """
        if self._waiting.is_blocked:
            return False
        try:
            self.handle([CallbackWrite(command, self._context.nursery, done)])
        except Exception as crash:
            self._end_run(crash)
            raise
        return True

    def _end_run(self, crash: Exception) -> None:
        """Make `run` raise a crash of another task: the supervisor starts the actor again."""
        self._waiting.block()
        self._crash = crash
        self._mailbox.wake()

    async def run(self) -> None:
        """Handle commands until the actor is retired and idle."""
        self._waiting.block()
        self._crash = None
        await self._wait_for_pending_commits()
        self._waiting.unblock()
        try:
            await self._handle_commands()
        except trio.Cancelled:
            self._waiting.refuse_all(ShuttingDown)
            raise
        finally:
            self._waiting.block()

    async def _handle_commands(self) -> None:
        while True:
            if self._crash is not None:
                raise self._crash
            if self._is_retired and not self._mailbox and not self._waiting:
                if not self._pending:
                    self._mailbox.close(NoSuchResource)
                    return
                await self._wait_for_pending_commits()
                continue
            writes = await self._mailbox.drain()
            while (pause := self._committer.pause) is not None:
                await pause.wait()
            if self._waiting.is_blocked:  # the actor has crashed meanwhile
                self._mailbox.put_first(writes)
                continue
            try:
                rest = self.handle(writes)
            except BaseException as crash:
                for write in writes:
                    write.refuse(crash)  # unless it has a reply already
                raise
            if not rest:
                self._backlog.clear()
            else:
                self._mailbox.put_first(self._backlog.order(rest))
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
        waiting: list[Write] = []  # for the commit
        rest: list[Write] = []
        # Reading the processor time is a system call: it is read again only when that much wall-clock time has passed.
        began = perf_counter()
        earliest_end = began + self._longest_step
        end = thread_time() + self._longest_step if len(writes) > 1 else inf
        try:
            with self._journal.read() as view:
                for index, write in enumerate(writes):
                    if index:
                        now = perf_counter()
                        if self._backlog:
                            self._backlog.charge(writes[index - 1], now - began)
                            began = now
                        if now > earliest_end and thread_time() > end:
                            rest = writes[index:]
                            break
                    if not self._begin(view, write, proposals):
                        continue
                    if self._is_shared:
                        self._submit_alone(write, proposals)
                        proposals.clear()
                    elif self._pending:  # what it proposed, or what it may depend on
                        waiting.append(write)
                    else:
                        write.complete(None)
            self._submit(proposals, waiting)
        except Exception as crash:
            for write in waiting:
                write.complete(crash)
            raise
        return rest

    def _begin(self, view: View, write: Write, proposals: list[Proposal]) -> bool:
        """Run a write without a task, up to where it waits; False if it continues in the task of its caller."""
        steps = self._write(write, view)
        try:
            steps.send(None)
        except StopIteration as end:
            proposals += end.value
            return True
        write.continue_in_caller(steps, self._finish)
        return False

    async def _write(self, write: Write, view: View | None, *, overtaken: bool = False) -> list[Proposal]:
        """Decide a command, and again when its object has changed meanwhile. Returns the proposed events.

        The result, or the error, is in the write; the caller submits the events without a checkpoint in between.
        `overtaken`: another node has changed the object before the events could be committed.
        """
        attempt: Attempt | None = None
        try:
            if overtaken or self._waiting.turns.must_wait(write):
                await self._waiting.leave(write, retry=overtaken)
                view = None
            in_thread = write.command.context.large
            while True:
                decider = self._decider_for_thread() if in_thread else self._decider
                attempt = Attempt(write, decider, view, attempt)
                view = None  # of the batch, which ends when the write waits
                try:
                    if in_thread:
                        await attempt.decide_in_thread(self._context.large_work, self._decider)
                    else:
                        await attempt.decide()
                    break
                except Outdated as outdated:
                    attempt.release()
                    attempt.wasted_call = outdated.after_call
                    await self._waiting.resume()
                except NeedsThread:
                    attempt.release()
                    in_thread = True
                except (*OF_MISFITS, NotDecodable):  # what an apply merges is decoded with what is stored
                    if not attempt.mends():
                        raise
                    attempt.release()
            self._take_result(write, attempt)
            return attempt.proposals
        except Exception as error:
            if attempt is not None:
                attempt.release()
                add_warnings(error, attempt)
            write.error = error
            return []
        except BaseException:  # the caller has gone, or the time of the write is over
            if attempt is not None:
                attempt.release()
            raise
        finally:
            if write.has_left:
                self._waiting.remove(write)
                if self._is_retired:
                    self._mailbox.wake()

    def _decider_for_thread(self) -> Decider:
        if self._decider_in_thread is None:
            self._decider_in_thread = self._new_decider(in_thread=True)
        return self._decider_in_thread

    def _take_result(self, write: Write, attempt: Attempt) -> None:
        decided, request = attempt.decided, attempt.request
        assert decided is not None
        if request is not None:
            if request.warnings:
                decided = decided._replace(warnings=(*decided.warnings, *request.warnings))
            if attempt.proposals and request.callbacks:
                write.request = request  # complete when they are durable or failed
            else:
                request.complete(False)
        write.decided, write.body = decided, attempt.body
        for proposal in attempt.proposals:
            self._pending[proposal.namespace, proposal.name] = proposal

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

    def _submit(self, proposals: list[Proposal], writes: list[Write]) -> None:
        if not writes:
            return
        companions: set[Callable[[], None]] = set()
        if self._beside is not None:
            try:
                companions.add(self._beside(proposals))
            except Exception:
                logger.exception("a write beside those of %s failed", self.name)
        self._committer.submit(proposals, partial(self._committed, proposals, writes))
        # Writes of other actors that belong to the same commit: no checkpoint in between.
        for write in writes:
            if write.request is not None and write.request.companion is not None:
                companions.add(write.request.companion)
        for companion in companions:
            try:
                companion()
            except Exception:  # a bug of its actor, which starts again; these writes are submitted
                logger.exception("the companion of a write failed: %r", companion)

    def _committed(self, proposals: list[Proposal], writes: list[Write], failure: Exception | None) -> None:
        """Drop the proposals of a completed commit from `_pending`, or all if it failed; then reply."""
        # Usually there are no others, and one comparison shows that for the whole batch.
        if failure is not None or [*self._pending.values()] == proposals:
            self._pending.clear()
        else:
            self._discard(proposals)
        complete_all(writes, failure)

    def _discard(self, proposals: Sequence[Proposal]) -> None:
        for proposal in proposals:
            key = proposal.namespace, proposal.name
            if self._pending.get(key) is proposal:
                del self._pending[key]

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
        self._committer.submit(own, partial(self._committed_alone, own, write), condition)

    def _committed_alone(
        self, proposals: tuple[Proposal, ...], write: Write, failure: Exception | None
    ) -> None:
        self._discard(proposals)
        if not isinstance(failure, Overtaken):
            write.complete(failure)
            return
        if write.request is not None:
            write.request.complete(False)
            write.request = None
        write.decided, write.body, write.error = None, b"", None
        if write.is_abandoned or self._is_retired:
            write.refuse(NoSuchResource() if self._is_retired else ShuttingDown())
            return
        self._waiting.add(write)
        write.continue_in_caller(self._write(write, None, overtaken=True), self._finish)


def add_warnings(error: Exception, attempt: Attempt) -> None:
    """A refused write has the warnings of its kind, then those of admission, then its own."""
    if isinstance(error, RequestError):
        of_admission = () if attempt.request is None else attempt.request.warnings
        error.warnings = (*attempt.warnings, *of_admission, *error.warnings)
