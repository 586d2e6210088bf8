"""The actor of one resource type: takes commands in order, decides them, and submits proposals to the committer.

Invariant: the actor decides a command on the newest state, committed or pending. `_pending` has the proposals that are
not durable yet; a reply that depends on one waits for it. When a commit fails, the actor discards all pending proposals
and reads the journal again; so does a restart after a crash.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from math import inf
from time import perf_counter, thread_time
from typing import Any

import trio

from actors.access.remote.deadlines import Deadlines
from actors.admission.calls import AdmissionCalls
from actors.admission.chain import Admission
from actors.admission.plugin import Admitted
from actors.admission.request import annotated
from actors.conversion.calls import ConversionCalls
from actors.errors import NoSuchResource, RequestError, ShuttingDown
from actors.kinds.catalog import StoredType
from actors.kinds.declaration.definition import ConversionNeeded
from actors.messages import Command, Outcome
from actors.resource.attempt import Attempt, Paused, Progress, is_same_event
from actors.resource.commands import Commands
from actors.resource.contention import Contention
from actors.resource.converting import ConvertingCommands, attempt_after
from actors.resource.current import CurrentObjects, Key
from actors.resource.decide import working_copy
from actors.resource.large_commands import LargeCommands, LargeOutcome, LargeResult
from actors.resource.object_size import UNLIMITED, ObjectSizes
from actors.resource.proposing import Proposer, decide_and_propose
from actors.resource.replies import CallbackEnvelope, CommitCallback, Envelope, add_warnings
from actors.runtime.large_work import LargeWork
from actors.runtime.mailbox import Mailbox, MailboxStatistics
from actors.runtime.time_limit import NeedsThread
from actors.store.committer import Committer
from actors.store.proposal import Proposal
from journal.log import Journal
from journal.view import View

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
    committer: Committer
    admission: Admission
    calls: AdmissionCalls
    large_work: LargeWork
    conversions: ConversionCalls | None = None  # None: no custom kind has a conversion webhook
    sizes: ObjectSizes = UNLIMITED
    longest_step: float = LONGEST_STEP


class ResourceActor:
    def __init__(self, stored_type: StoredType, context: ActorContext) -> None:
        self._journal = journal = context.journal
        self._committer = context.committer
        self._admission = context.admission
        self._calls = context.calls
        self._large_work = context.large_work
        self._sizes = context.sizes
        self._pending: dict[Key, Proposal] = {}  # the last proposal of each object
        self._longest_step = context.longest_step
        # False from a crash until the proposals of before are durable or failed.
        self._is_ready = True
        self._crash: Exception | None = None  # of `write_now`, which ends `run` as well
        self.type_id = journal.type_id(stored_type.storage.type_name)
        assert self.type_id, f"{stored_type.storage.type_name} was never registered"
        self.update_definitions(stored_type)
        self._mailbox: Mailbox[Envelope] = Mailbox(MAILBOX_CAPACITY)
        # Commands with a running asynchronous admission step or conversion, or that are decided in a thread.
        self._outside: set[Envelope] = set()
        self._converting = ConvertingCommands(context.conversions, self._mailbox, self._outside)
        self._deadlines = Deadlines()  # of commands that have left the actor, and of turns
        self._contention = Contention(self._deadlines, self._return_for_turn, self._left_line)

    @property
    def name(self) -> str:
        return self._storage.type_name

    def update_definitions(self, stored_type: StoredType) -> None:
        """Use these definitions from the next command on, including commands that wait in the mailbox."""
        definitions = {one.api_version: one for one in stored_type.definitions}
        self._definitions, self._storage = definitions, stored_type.storage
        versions = self._storage.storage.versions
        self._current = CurrentObjects(self._journal, self.type_id, self._pending, versions)
        current = self._current
        self._commands = Commands(definitions, self._storage, self._admission, current.find, current.written)
        self._proposer = Proposer(self.type_id, self._storage, self._sizes)
        self._large_commands: LargeCommands | None = None  # created for the first large command
        self._retired = False

    def retire(self) -> None:
        """Refuse all waiting commands with NoSuchResource; `run` returns when all commits are complete."""
        self._retired = True
        for envelope in list(self._outside):  # first: what the mailbox has may be their turn
            envelope.fail(NoSuchResource())
            envelope.cancel()
        for envelope in self._mailbox.take():
            envelope.refuse(NoSuchResource())
        self._mailbox.wake()

    def ask(self, command: Command) -> Coroutine[Any, Any, Outcome]:
        """Send a command; the coroutine waits for the reply."""
        envelope = Envelope(command)
        self._mailbox.send_nowait(envelope)
        return envelope.wait()

    def write_now(self, command: Command, done: Callable[[BaseException | None], None]) -> bool:
        """Decide a command of the server and submit it, before the mailbox.

        So it is in one commit with what its caller has just submitted, unless admission has to wait for a webhook or
        the object is large. Calls `done` when it is durable or failed. False, and no call, if the actor has crashed
        and not started again.
        """
        if not self._is_ready:
            return False
        try:
            self.handle([CallbackEnvelope(command, done)])
        except Exception as crash:
            self._is_ready, self._crash = False, crash
            self._mailbox.wake()
            raise
        return True

    async def run(self) -> None:
        """Handle commands until the actor is retired and idle."""
        self._is_ready, self._crash = False, None
        await self._wait_for_pending_commits()
        self._is_ready = True
        try:
            await self._handle_commands()
        finally:
            self._is_ready = False

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
            envelopes = await self._mailbox.drain()
            while (pause := self._committer.pause) is not None:
                await pause.wait()
            try:
                rest = self.handle(envelopes)
            except BaseException as crash:
                for envelope in envelopes:
                    envelope.refuse(crash)  # unless it has a reply already
                    envelope.cancel()  # it must not be decided after an admission step
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

    def handle(self, envelopes: list[Envelope]) -> list[Envelope]:
        """Decide a batch and submit it; returns the envelopes for which there was no time.

        Every other envelope gets a reply, even if others fail.
        """
        proposals: list[Proposal] = []
        waiting: list[Envelope] = []
        try:
            decided = self._decide_all(envelopes, proposals, waiting)
            if waiting:
                self._committer.submit(proposals, CommitCallback(self._committed, proposals, waiting))
        except Exception as crash:
            for envelope in waiting:
                envelope.complete(crash)
            raise
        _submit_companions(waiting)
        return envelopes[decided:]

    def _decide_all(
        self, envelopes: list[Envelope], proposals: list[Proposal], waiting: list[Envelope]
    ) -> int:
        """Append proposals, and the commands that wait for a commit; complete the others.

        Returns how many commands it decided until the time of one step had passed.
        """
        # The clock of processor time is a system call: it is read again only when as much time has passed at all.
        earliest_end = perf_counter() + self._longest_step
        end = thread_time() + self._longest_step if len(envelopes) > 1 else inf
        with self._journal.read() as view:
            for index, envelope in enumerate(envelopes):
                if index and perf_counter() > earliest_end and thread_time() > end:
                    return index
                if self._execute(view, envelope, proposals):
                    if self._pending:  # what it proposed, or what it may depend on
                        waiting.append(envelope)
                    else:
                        envelope.complete(None)
        return len(envelopes)

    def _execute(self, view: View, envelope: Envelope, proposals: list[Proposal]) -> bool:
        """Decide one command; False if it waits for an asynchronous admission step, a thread or its turn.

        Without a proposal, its admission request is complete.
        """
        before, command = len(proposals), envelope.command
        attempt = Attempt(command, view)
        if envelope.came_back:
            if envelope.abandoned:
                envelope.refuse(ShuttingDown())
                return False
            attempt = envelope.converted or Attempt(command, view, envelope.progress)
        try:
            if self._contention.closed and self._waits_in_closed_line(envelope):
                return False
            if not envelope.came_back:
                if command.context.large:
                    raise NeedsThread
                # Like `decide_and_propose`, without a call.
                decided = attempt.decided = self._commands.decide(attempt)
                body = self._proposer.propose(decided, command, proposals)
            else:
                if envelope.converted is not None:
                    envelope.converted = None
                    definition = self._definitions.get(command.version)
                    attempt = attempt_after(
                        self._current, self._commands, definition, view, envelope, attempt
                    )
                if envelope.outcome is not None:
                    attempt = envelope.outcome.attempt
                    result = self._take_result(view, envelope)
                    decided, body = result.decided, result.body
                    proposals += result.proposals
                elif command.context.large or _was_in_thread(envelope):
                    raise NeedsThread
                else:
                    decided, body = decide_and_propose(self._commands, self._proposer, attempt, proposals)
            for proposal in proposals[before:]:
                self._pending[proposal.namespace, proposal.name] = proposal
        except Paused as paused:
            if self._start_admission_call(envelope, attempt, paused.progress):
                return False
        except NeedsThread:
            if self._start_thread(envelope, attempt):
                return False
        except ConversionNeeded as needed:
            if self._start_conversion(envelope, attempt, needed):
                return False
        except Exception as error:
            add_warnings(error, attempt.request)
            envelope.error = error
        else:
            if attempt.request is not None and attempt.request.warnings:
                decided = decided._replace(warnings=(*decided.warnings, *attempt.request.warnings))
            envelope.decided, envelope.body = decided, body
        if attempt.request is not None or attempt.resumed is not None:
            envelope.take_request(attempt, has_proposal=len(proposals) > before)
        if envelope.ended is not None:
            envelope.end()
        return True

    def _take_result(self, view: View, envelope: Envelope) -> LargeResult:
        """The result of a thread; raises its error, or NeedsThread if object or definitions have changed meanwhile."""
        assert envelope.outcome is not None
        outcome, envelope.outcome = envelope.outcome, None
        result = outcome.result
        if isinstance(result, Exception):
            raise result
        namespace, name = result.decided.key
        unchanged = is_same_event(self._current.written(view, namespace, name), result.written)
        if envelope.command.dry_run and not isinstance(result.written, Proposal):
            unchanged = True  # it stores nothing
        if not unchanged or outcome.commands is not self._large_commands:
            envelope.stale = True
            outcome.attempt.decided = None
            raise NeedsThread
        self._commands.repeat_checks(outcome.attempt)
        return result

    def _may_leave(self, envelope: Envelope) -> bool:
        """Whether a command goes on outside the actor now; otherwise it waits for its turn. RequestError."""
        if envelope.abandoned:
            raise ShuttingDown
        envelope.limit(self._deadlines, self._ended)
        stale, envelope.stale = envelope.stale, False
        if self._contention.must_wait(envelope, stale=stale):
            self._outside.add(envelope)
            return False
        return True

    def _waits_in_closed_line(self, envelope: Envelope) -> bool:
        line = self._contention.closed_line(envelope)
        if line is None:
            return False
        envelope.limit(self._deadlines, self._ended)
        self._contention.wait(line, envelope)
        self._outside.add(envelope)
        return True

    def _ended(self, envelope: Envelope) -> None:
        """A command that has left the actor is decided or refused."""
        self._deadlines.remove(envelope)
        self._contention.ended(envelope)

    def _return_for_turn(self, envelope: Envelope) -> None:
        """A command that waited for its turn is decided on the newest state of its object."""
        self._outside.discard(envelope)
        envelope.came_back = True
        try:
            self._mailbox.put_back(envelope)
        except Exception as error:
            envelope.refuse(error)

    def _left_line(self, envelope: Envelope) -> None:
        """A command was cancelled before it had its turn."""
        self._outside.discard(envelope)
        envelope.refuse(ShuttingDown())
        self._mailbox.wake()

    def _start_thread(self, envelope: Envelope, attempt: Attempt) -> bool:
        """Decide a command in a thread. It returns to the mailbox with the outcome.

        False if that is impossible: the command has its error.
        """
        if attempt.request is not None and attempt.decided is None:
            attempt.request.complete(False)  # admission starts again
        envelope.progress = None
        try:
            if not self._may_leave(envelope):
                attempt.release()
                return True
        except RequestError as error:
            attempt.release()
            envelope.error = error
            return False
        if attempt.decided is not None:
            started = attempt
        else:
            started = Attempt(envelope.command, None, attempt.resumed, conversions=attempt.conversions)
        if self._large_commands is None:
            commands = Commands(
                self._definitions,
                self._storage,
                self._admission.for_threads(),
                self._current.find_in_thread,
                self._current.written,
                in_thread=True,
            )
            self._large_commands = LargeCommands(self._large_work, commands, self._proposer)
        envelope.call = self._large_commands.start(started, partial(self._thread_done, envelope))
        self._outside.add(envelope)
        return True

    def _thread_done(self, envelope: Envelope, outcome: LargeOutcome) -> None:
        self._outside.discard(envelope)
        envelope.call, envelope.outcome, envelope.came_back = None, outcome, True
        try:
            self._mailbox.put_back(envelope)
        except Exception as error:
            envelope.refuse(error)
        self._mailbox.wake()

    def _start_admission_call(self, envelope: Envelope, attempt: Attempt, progress: Progress) -> bool:
        """Start an asynchronous step. The command returns to the mailbox with its outcome.

        False if that is impossible: the command has its error.
        """
        envelope.progress = None
        if attempt.resumed is not None:  # it was valid for an older state of the object
            attempt.resumed.request.complete(False)
            envelope.stale = True
        try:
            if not self._may_leave(envelope):
                progress.request.complete(False)
                return True
            done = partial(self._admission_call_done, envelope, progress)
            envelope.call = self._calls.start(progress.plugin, progress.request, done)
        except RequestError as error:
            progress.request.complete(False)
            envelope.error = error
            return False
        self._outside.add(envelope)
        return True

    def _start_conversion(self, envelope: Envelope, attempt: Attempt, needed: ConversionNeeded) -> bool:
        """Call a conversion webhook. The command returns to the mailbox with the converted object.

        False if that is impossible: the command has its error.
        """
        envelope.progress = None
        try:
            if not self._may_leave(envelope):
                attempt.release()
                return True
            self._converting.start(envelope, attempt, needed)
        except RequestError as error:
            attempt.release()
            envelope.error = error
            return False
        return True

    def _admission_call_done(
        self, envelope: Envelope, progress: Progress, outcome: Admitted | Exception
    ) -> None:
        self._outside.discard(envelope)
        envelope.call, envelope.progress, envelope.came_back = None, progress, True
        try:
            if isinstance(outcome, Exception):
                raise outcome
            if outcome.warnings:
                # A round that is repeated, because the object has changed, mostly has the same ones.
                warnings = dict.fromkeys((*progress.request.warnings, *outcome.warnings))
                progress.request.warnings = tuple(warnings)
            if outcome.reinvocation is not None:
                progress.request.reinvocation = outcome.reinvocation
            if outcome.object is not None and not progress.validating:
                progress.object = working_copy(outcome.object)
            if outcome.annotations and progress.object is not None:
                progress.object = annotated(progress.object, outcome.annotations)
                progress.kept = None
            self._mailbox.put_back(envelope)
        except Exception as error:
            add_warnings(error, progress.request)
            envelope.refuse(error)
        self._mailbox.wake()

    def _committed(self, proposals: list[Proposal], failure: Exception | None) -> None:
        """Drop the proposals of a completed commit from `_pending`, or all if it failed."""
        # Usually there are no others, which one comparison finds out for the whole batch.
        if failure is not None or [*self._pending.values()] == proposals:
            self._pending.clear()
            return
        for proposal in proposals:
            key = proposal.namespace, proposal.name
            if self._pending.get(key) is proposal:
                del self._pending[key]


def _was_in_thread(envelope: Envelope) -> bool:
    """Whether a thread decided the command up to the asynchronous admission step from which it came back."""
    return envelope.progress is not None and envelope.progress.request.in_thread


def _submit_companions(envelopes: list[Envelope]) -> None:
    """Submit what belongs into the same commit as the writes of a batch, without a checkpoint in between."""
    for companion in {one.request.companion for one in envelopes if one.request is not None}:
        if companion is not None:
            try:
                companion()
            except Exception:  # a bug of its actor, which starts again; these writes are submitted
                logger.exception("the companion of a write failed: %r", companion)
