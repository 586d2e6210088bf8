"""The actor that owns one resource type: takes commands in order, decides, and hands events to the committer.

Invariant: a command is decided on the newest state there is, committed or pending. `_pending` holds what was
decided but is not yet durable; a reply that depends on it waits for it. When a commit fails, everything
pending is forgotten and the journal is the truth again, which is also what a restart after a crash amounts to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson
import trio

from actors.admission.chain import Admission
from actors.kinds.declaration.definition import Definition
from actors.mailbox import Mailbox, MailboxStatistics, Reply
from actors.messages import Command, Delete, Deleted, Object, Outcome, Written
from actors.resource.commands import Attempt, Commands, Decided
from actors.resource.decide import Current, Decision, Keep, Remove, Store
from actors.resource.replies import CommitCallback, PendingReply
from actors.store.committer import Committer
from actors.store.document import encode, facts_of
from journal.log import Journal
from journal.records import Event
from journal.view import View

# A command waits for at most one fsync in front of it; at a few thousand writes a second this is about a second
# of work, and beyond that a client had better come back later.
MAILBOX_CAPACITY = 4096

Key = tuple[str, str]


@dataclass(slots=True)
class Envelope:
    command: Command
    reply: Reply[Outcome]


@dataclass(frozen=True, slots=True)
class _Pending:
    offset: int
    body: bytes | None  # None: removed


class ResourceActor:
    def __init__(
        self,
        definitions: dict[str, Definition],
        storage: Definition,
        journal: Journal,
        committer: Committer,
        admission: Admission,
    ) -> None:
        self._storage = storage
        self._journal = journal
        self._committer = committer
        self._commands = Commands(definitions, storage, admission, self._current)
        self.type_id = journal.type_id(storage.type_name)
        self._mailbox: Mailbox[Envelope] = Mailbox(MAILBOX_CAPACITY)
        self._pending: dict[Key, _Pending] = {}

    @property
    def name(self) -> str:
        return self._storage.type_name

    async def ask(self, command: Command) -> Outcome:
        envelope = Envelope(command, Reply())
        self._mailbox.send_nowait(envelope)
        return await envelope.reply.wait()

    async def run(self) -> None:
        await self._forget_undecided()
        while True:
            envelopes = await self._mailbox.drain()
            try:
                self.handle(envelopes)
            except BaseException as crash:
                for envelope in envelopes:
                    envelope.reply.fail(crash)  # where it has none yet
                raise

    async def _forget_undecided(self) -> None:
        """After a crash: once all that was submitted is durable or lost, the journal is the truth again."""
        if self._pending:
            done = trio.Event()
            self._committer.submit([], lambda _: done.set())
            await done.wait()
            self._pending.clear()

    def statistics(self) -> MailboxStatistics:
        return self._mailbox.statistics()

    def handle(self, envelopes: list[Envelope]) -> None:
        """Decide a batch and submit it. Every envelope gets a reply, whatever happens to its neighbours."""
        events: list[Event] = []
        replies: list[PendingReply] = []
        with self._journal.read() as view:
            for envelope in envelopes:
                reply, depends = self._execute(view, envelope, events)
                if depends:
                    replies.append(reply)
                else:
                    reply.complete(None)
        if replies:
            self._committer.submit(events, CommitCallback(self._committed, events, replies))

    def _execute(self, view: View, envelope: Envelope, events: list[Event]) -> tuple[PendingReply, bool]:
        """The reply to one command, and whether it has to wait for a commit."""
        before = len(events)
        command = envelope.command
        outcome: Outcome | None = None
        error: Exception | None = None
        attempt = Attempt(command, view)
        try:
            outcome = self._record_decision(command, self._commands.decide(attempt), events)
        except Exception as refused:
            error = refused
        request = attempt.request
        recorded = len(events) > before
        if request is not None and not recorded:
            request.complete(False)
        reply = PendingReply(envelope.reply, outcome, error, request if recorded else None)
        return reply, recorded or bool(self._pending)

    def _record_decision(self, command: Command, decided: Decided, events: list[Event]) -> Outcome:
        current = decided.current
        body = self._apply(decided.decision, current, command, decided.verb, events)
        if isinstance(command, Delete):
            assert current is not None
            gone = isinstance(decided.decision, Remove)
            return Deleted(body, command.name, current.object["metadata"]["uid"], gone=gone)
        return Written(body, decided.created, decided.warnings)

    def _apply(
        self, decision: Decision, current: Current | None, command: Command, verb: str, events: list[Event]
    ) -> bytes:
        """Turn a decision into its events, and the body of the response."""
        stored_version = current.offset if current else 0
        match decision:
            case Keep():
                assert current is not None
                return encode(current.object, current.offset)
            case Store(object=new) if command.dry_run:
                return encode(new, stored_version)
            case Store(object=new):
                self._record(new, current, command, verb, events)
                return events[-1].body
            case Remove(last=dict(last)):
                assert current is not None
                if command.dry_run:
                    return encode(last, stored_version)
                offset = self._record(last, current, command, verb, events)
                shown = events[-1].body
                self._record(last, Current(offset, last), command, verb, events, removed=True)
                return shown
            case Remove(answer=answer):
                assert current is not None
                if not command.dry_run:
                    self._record(current.object, current, command, verb, events, removed=True)
                return encode(answer or current.object, current.offset)

    def _record(
        self,
        stored: Object,
        current: Current | None,
        command: Command,
        verb: str,
        events: list[Event],
        *,
        removed: bool = False,
    ) -> int:
        offset, time = self._committer.reserve(command.stamp.time)
        metadata = stored["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        body = encode(stored, offset)
        events.append(
            Event(
                offset=offset,
                type_id=self.type_id,
                verb=verb,
                namespace=namespace,
                name=name,
                previous=current.offset if current else 0,
                removed=removed,
                time=time,
                user=command.stamp.user,
                manager=command.stamp.manager,
                facts=facts_of(self._storage, stored),
                body=body,
            )
        )
        self._pending[namespace, name] = _Pending(offset, None if removed else body)
        return offset

    def _current(self, view: View, namespace: str, name: str) -> Current | None:
        pending = self._pending.get((namespace, name))
        if pending is not None:
            return _parse(pending.offset, pending.body) if pending.body is not None else None
        row = view.get(self.type_id, namespace, name)
        return _parse(row.offset, row.body) if row is not None else None

    def _committed(self, events: list[Event], failure: Exception | None) -> None:
        """A commit has ended: what was pending is durable, or lost."""
        if failure is not None:
            self._pending.clear()
            return
        for event in events:
            pending = self._pending.get((event.namespace, event.name))
            if pending is not None and pending.offset == event.offset:
                del self._pending[event.namespace, event.name]


def _parse(offset: int, body: bytes) -> Current:
    parsed: dict[str, Any] = orjson.loads(body)
    parsed["metadata"].pop("resourceVersion", None)
    return Current(offset, parsed)
