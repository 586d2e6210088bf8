"""The actor of one resource type: takes commands in order, decides them, and submits proposals to the committer.

Invariant: the actor decides a command on the newest state, committed or pending. `_pending` has the proposals that are
not durable yet; a reply that depends on one waits for it. When a commit fails, the actor discards all pending proposals
and reads the journal again; so does a restart after a crash.
"""

from __future__ import annotations

from functools import partial

import orjson
import trio

from actors.admission.calls import AdmissionCalls
from actors.admission.chain import Admission
from actors.admission.plugin import Admitted
from actors.errors import STALE, Conflict, NoSuchResource, RequestError, ShuttingDown
from actors.kinds.catalog import StoredType
from actors.mailbox import Mailbox, MailboxStatistics, Reply
from actors.messages import Command, Object, Outcome
from actors.resource.commands import Attempt, Commands, Decided, Paused, Progress
from actors.resource.decide import Current, Keep, Remove, Store, working_copy
from actors.resource.replies import Body, CommitCallback, Envelope, PendingReply
from actors.store.committer import Committer
from actors.store.document import encode, encode_unversioned, facts_of
from actors.store.proposal import Proposal
from journal.log import Journal
from journal.view import View

# A command waits for at most one earlier fsync; at a few thousand writes a second this is about a second of work, and
# beyond that a client had better retry later.
MAILBOX_CAPACITY = 4096
# How often admission starts again because the object has changed meanwhile: as often as Kubernetes retries a patch.
MAX_RETRIES = 5

Key = tuple[str, str]


class ResourceActor:
    def __init__(
        self,
        stored_type: StoredType,
        journal: Journal,
        committer: Committer,
        admission: Admission,
        calls: AdmissionCalls,
    ) -> None:
        self._journal = journal
        self._committer = committer
        self._admission = admission
        self._calls = calls
        self.update_definitions(stored_type)
        self.type_id = journal.type_id(self.name)
        assert self.type_id, f"{self.name} was never registered"
        self._mailbox: Mailbox[Envelope] = Mailbox(MAILBOX_CAPACITY)
        self._awaiting_admission: set[Envelope] = set()  # commands with a running asynchronous admission step
        self._pending: dict[Key, Proposal] = {}  # the last proposal of each object

    @property
    def name(self) -> str:
        return self._storage.type_name

    def update_definitions(self, stored_type: StoredType) -> None:
        """Use these definitions from the next command on, including commands that wait in the mailbox."""
        definitions = {one.api_version: one for one in stored_type.definitions}
        self._storage = stored_type.storage
        self._commands = Commands(definitions, self._storage, self._admission, self._current)
        self._retired = False

    def retire(self) -> None:
        """Refuse all waiting commands with NoSuchResource; `run` returns when all commits are complete."""
        self._retired = True
        for envelope in self._mailbox.take():
            envelope.fail(NoSuchResource())
        for envelope in self._awaiting_admission:
            envelope.reply.fail(NoSuchResource())
            _cancel(envelope)
        self._mailbox.wake()

    async def ask(self, command: Command) -> Outcome:
        envelope = Envelope(command, Reply())
        self._mailbox.send_nowait(envelope)
        try:
            return await envelope.reply.wait()
        except trio.Cancelled:
            _cancel(envelope)
            raise

    async def run(self) -> None:
        """Handle commands until the actor is retired and idle."""
        await self._wait_for_pending_commits()
        while True:
            if self._retired and not self._mailbox and not self._awaiting_admission:
                if not self._pending:
                    self._mailbox.close(NoSuchResource)
                    return
                await self._wait_for_pending_commits()
                continue
            envelopes = await self._mailbox.drain()
            try:
                self.handle(envelopes)
            except BaseException as crash:
                for envelope in envelopes:
                    envelope.fail(crash)  # unless it has a reply already
                    _cancel(
                        envelope
                    )  # its caller has this error: it must not be decided after an admission step
                raise

    async def _wait_for_pending_commits(self) -> None:
        """After a crash: wait until all submitted proposals are durable or failed, then read the journal again."""
        if self._pending:
            done = trio.Event()
            self._committer.submit([], lambda _: done.set())
            await done.wait()
            self._pending.clear()

    def statistics(self) -> MailboxStatistics:
        return self._mailbox.statistics()

    def handle(self, envelopes: list[Envelope]) -> None:
        """Decide a batch and submit it. Every envelope gets a reply, even if others fail."""
        proposals: list[Proposal] = []
        replies: list[PendingReply] = []
        try:
            self._decide_all(envelopes, proposals, replies)
            if replies:
                self._committer.submit(proposals, CommitCallback(self._committed, proposals, replies))
        except Exception as crash:
            for reply in replies:
                reply.complete(crash)
            raise

    def _decide_all(
        self, envelopes: list[Envelope], proposals: list[Proposal], replies: list[PendingReply]
    ) -> None:
        """Append proposals, and replies that wait for a commit; complete the other replies."""
        with self._journal.read() as view:
            for envelope in envelopes:
                before = len(proposals)
                reply = self._execute(view, envelope, proposals)
                if reply is None:
                    continue
                if len(proposals) > before or self._pending:
                    replies.append(reply)
                else:
                    reply.complete(None)

    def _execute(self, view: View, envelope: Envelope, proposals: list[Proposal]) -> PendingReply | None:
        """Decide one command; None if it waits for an asynchronous admission step.

        Without a proposal, its admission request is complete.
        """
        if envelope.abandoned and envelope.progress is not None:
            envelope.fail(ShuttingDown())
            return None
        before, command = len(proposals), envelope.command
        attempt = Attempt(command, view, envelope.progress)
        try:
            decided = self._commands.decide(attempt)
            body = self._propose(decided, command, proposals)
        except Paused as paused:
            return self._start_admission_call(envelope, attempt, paused.progress)
        except Exception as error:
            reply = PendingReply(envelope, None, b"", error)
        else:
            if attempt.request is not None and attempt.request.warnings:
                decided = decided._replace(warnings=(*decided.warnings, *attempt.request.warnings))
            reply = PendingReply(envelope, decided, body, None)
        if attempt.resumed is not None:
            attempt.resumed.request.complete(False)
        if attempt.request is not None:
            if len(proposals) > before:
                reply.request = attempt.request
            else:
                attempt.request.complete(False)
        return reply

    def _start_admission_call(
        self, envelope: Envelope, attempt: Attempt, progress: Progress
    ) -> PendingReply | None:
        """Start an asynchronous step. The command returns to the mailbox with its outcome."""
        envelope.progress = None
        try:
            if envelope.abandoned:
                raise ShuttingDown
            if attempt.resumed is not None:  # it was valid for an older state of the object
                attempt.resumed.request.complete(False)
                envelope.retries += 1
                if envelope.retries > MAX_RETRIES:
                    definition, request = attempt.definition, progress.request
                    raise Conflict(definition.resource, request.name, STALE)
            done = partial(self._admission_call_done, envelope, progress)
            envelope.call = self._calls.start(progress.plugin, progress.request, done)
        except RequestError as error:
            progress.request.complete(False)
            return PendingReply(envelope, None, b"", error)
        self._awaiting_admission.add(envelope)
        return None

    def _admission_call_done(
        self, envelope: Envelope, progress: Progress, outcome: Admitted | Exception
    ) -> None:
        self._awaiting_admission.discard(envelope)
        envelope.call, envelope.progress = None, progress
        try:
            if isinstance(outcome, Exception):
                raise outcome
            progress.request.warnings += outcome.warnings
            if outcome.object is not None and not progress.validating:
                progress.object = working_copy(outcome.object)
            self._mailbox.put_back(envelope)
        except Exception as error:
            envelope.fail(error)
        self._mailbox.wake()

    def _propose(self, decided: Decided, command: Command, proposals: list[Proposal]) -> Body:
        """Turn a decision into proposed events, and the body of the response."""
        current, decision = decided.current, decided.decision
        match decision:
            case Store(object=new):
                if command.dry_run:
                    return _body(new, current)
                return self._record(new, current.written if current else 0, command, decided.verb, proposals)
            case Keep():
                assert current is not None
                return current.proposal or encode(current.object, current.offset)
            case Remove(last=dict(last)):
                assert current is not None
                if command.dry_run:
                    return _body(last, current)
                stored = self._record(last, current.written, command, decided.verb, proposals)
                self._record(last, stored, command, decided.verb, proposals, removed=True)
                return stored
            case Remove(returned=returned):
                assert current is not None
                if not command.dry_run:
                    written = current.written
                    self._record(current.object, written, command, decided.verb, proposals, removed=True)
                return _body(returned or current.object, current)

    def _record(
        self,
        stored: Object,
        previous: int | Proposal,
        command: Command,
        verb: str,
        proposals: list[Proposal],
        *,
        removed: bool = False,
    ) -> Proposal:
        context, metadata = command.context, stored["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        proposal = Proposal(
            self.type_id,
            verb,
            namespace,
            name,
            previous,
            removed,
            context.time,
            context.user,
            context.manager,
            facts_of(self._storage, stored),
            encode_unversioned(stored),
        )
        proposals.append(proposal)
        self._pending[namespace, name] = proposal
        return proposal

    def _current(self, view: View, namespace: str, name: str) -> Current | None:
        pending = self._pending.get((namespace, name))
        if pending is not None:
            return None if pending.removed else Current(0, _parse(pending.body), pending)
        row = view.get(self.type_id, namespace, name)
        return Current(row.offset, _parse(row.body)) if row is not None else None

    def _committed(self, proposals: list[Proposal], failure: Exception | None) -> None:
        """Drop the proposals of a completed commit from `_pending`, or all if it failed."""
        if failure is not None:
            self._pending.clear()
            return
        for proposal in proposals:
            key = proposal.namespace, proposal.name
            if self._pending.get(key) is proposal:
                del self._pending[key]


def _cancel(envelope: Envelope) -> None:
    envelope.abandoned = True
    if envelope.call is not None:
        envelope.call.cancel()


def _body(stored: Object, current: Current | None) -> Body:
    """The body of an object with the version of the current one, or without a version if there is none."""
    if current is None:
        return encode(stored, 0)
    if current.proposal is None:
        return encode(stored, current.offset)
    return encode_unversioned(stored), current.proposal


def _parse(body: bytes) -> Object:
    parsed: Object = orjson.loads(body)
    parsed["metadata"].pop("resourceVersion", None)
    return parsed
