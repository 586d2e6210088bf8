"""The actor that owns one resource type: takes commands in order, decides, and hands events to the committer.

Invariant: a command is decided on the newest state there is, committed or pending. `_pending` holds what was
decided but is not yet durable; an answer that depends on it waits for it. When a commit fails, everything
pending is forgotten and the journal is the truth again, which is also what a restart after a crash amounts to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson
import trio

from actors.admission.chain import Admission, Review
from actors.errors import BadRequest, Invalid
from actors.kinds.declaration.definition import Definition
from actors.kinds.values.times import seconds_text
from actors.mailbox import Mailbox, MailboxStatistics, Reply
from actors.messages import Command, Create, Delete, Deleted, Object, Outcome, Patch, Replace, Submit, Written
from actors.patch.managed_fields.field_view import FieldViews
from actors.patch.managed_fields.ownership import owned_after
from actors.resource.answers import Answer, Settlement
from actors.resource.applying import apply_object
from actors.resource.decide import (
    Current,
    Decision,
    Keep,
    Remove,
    Store,
    decide_create,
    decide_delete,
    decide_replace,
    decide_submit,
    disregard_system_metadata,
    generate_name,
    may_not_create,
    refuse_other_uid,
)
from actors.resource.owners import SENT, SETTLED, drop_repeated_owners
from actors.resource.patching import patch_object
from actors.resource.reviewing import review_of
from actors.store.addressing import missing
from actors.store.committer import Committer
from actors.store.document import as_stored, encode, facts_of
from journal.log import Journal
from journal.records import Event
from journal.view import View

# A command waits for at most one fsync in front of it; at a few thousand writes a second this is about a second
# of work, and beyond that a client is better told to come back.
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
        self._definitions = definitions  # by the served version a command names
        self._storage = storage
        self._journal = journal
        self._committer = committer
        self._admission = admission
        self._views = FieldViews(definitions)
        self.type_id = journal.type_id(storage.type_name)
        self._mailbox: Mailbox[Envelope] = Mailbox(MAILBOX_CAPACITY)
        self._pending: dict[Key, _Pending] = {}
        self._reviewed: Review | None = None  # of the command being decided

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
                    envelope.reply.fail(crash)  # of those that have no answer yet
                raise

    async def _forget_undecided(self) -> None:
        """After a crash: once all that was submitted is durable or lost, the journal is the truth again."""
        if self._pending:
            settled = trio.Event()
            self._committer.submit([], lambda _: settled.set())
            await settled.wait()
            self._pending.clear()

    def statistics(self) -> MailboxStatistics:
        return self._mailbox.statistics()

    def handle(self, envelopes: list[Envelope]) -> None:
        """Decide a batch and submit it. Every envelope gets an answer, whatever happens to its neighbours."""
        events: list[Event] = []
        answers: list[Answer] = []
        with self._journal.read() as view:
            for envelope in envelopes:
                answer, depends = self._execute(view, envelope, events)
                if depends:
                    answers.append(answer)
                else:
                    answer.give(None)
        if answers:
            self._committer.submit(events, Settlement(self._settled, events, answers))

    def _execute(self, view: View, envelope: Envelope, events: list[Event]) -> tuple[Answer, bool]:
        """The answer to one command, and whether it has to wait for a commit."""
        before = len(events)
        command = envelope.command
        outcome: Outcome | None = None
        error: Exception | None = None
        try:
            outcome = self._perform(view, command, events)
        except Exception as refused:
            error = refused
        review, self._reviewed = self._reviewed, None
        recorded = len(events) > before
        if review is not None and not recorded:
            review.settle(False)
        answer = Answer(envelope.reply, outcome, error, review if recorded else None)
        return answer, recorded or bool(self._pending)

    def _perform(self, view: View, command: Command, events: list[Event]) -> Outcome:
        definition = self._definitions[command.version]
        match command:
            case Create():
                return self._create(view, definition, command, events)
            case Replace():
                return self._replace(view, definition, command, events)
            case Patch():
                return self._patch(view, definition, command, events)
            case Submit():
                return self._submit(view, definition, command, events)
            case Delete():
                return self._delete(view, definition, command, events)

    def _create(
        self, view: View, definition: Definition, command: Create, events: list[Event], verb: str = "create"
    ) -> Written:
        told = drop_repeated_owners(command.object["metadata"], SENT)
        if verb != "apply":
            disregard_system_metadata(command.object["metadata"])
            self._credit(command, None)
        review = self._review("CREATE", definition, command, command.object)
        self._admission.mutate(review)
        self._admission.complete(review)
        name = generate_name(command)
        current = self._current(view, command.namespace, name) if name else None
        decision = decide_create(definition, current, command, self._validating(review))
        warnings = (*told, *definition.strategy.warnings(decision.object, None))
        return Written(self._apply(decision, None, command, verb, events), created=True, warnings=warnings)

    def _replace(self, view: View, definition: Definition, command: Replace, events: list[Event]) -> Written:
        current = self._current(view, command.namespace, command.name)
        if current is None:
            return self._create_by_replace(view, definition, command, events)
        refuse_other_uid(definition, command, current)
        return self._update(definition, current, command, "update", events)

    def _patch(self, view: View, definition: Definition, command: Patch, events: list[Event]) -> Written:
        current = self._current(view, command.namespace, command.name)
        if command.format == "apply":
            return self._apply_patch(view, definition, current, command, events)
        if current is None:
            raise missing(definition, command.name)
        patched = patch_object(definition.definition_at(command.subresource), current, command)
        replace = Replace(
            command.version,
            command.namespace,
            command.name,
            patched.object,
            command.stamp,
            command.subresource,
            command.dry_run,
        )
        try:
            written = self._update(definition, current, replace, "patch", events)
        except Invalid as error:
            if patched.problems:
                raise BadRequest(f"{error}; besides: {', '.join(patched.problems)}") from None
            raise
        return Written(written.body, warnings=(*patched.warnings, *written.warnings))

    def _apply_patch(
        self,
        view: View,
        definition: Definition,
        current: Current | None,
        command: Patch,
        events: list[Event],
    ) -> Written:
        if current is None and command.subresource:
            raise missing(definition, command.name)
        if current is None and not command.may_create:
            raise may_not_create(definition, command)
        wanted = apply_object(self._views, definition, current, command)
        address = command.version, command.namespace
        if current is None:
            create = Create(*address, wanted, command.stamp, command.dry_run)
            return self._create(view, definition, create, events, "apply")
        replace = Replace(*address, command.name, wanted, command.stamp, command.subresource, command.dry_run)
        return self._update(definition, current, replace, "apply", events)

    def _update(
        self, definition: Definition, current: Current, command: Replace, verb: str, events: list[Event]
    ) -> Written:
        metadata = command.object["metadata"]
        told = drop_repeated_owners(metadata, SENT) if verb == "update" else ()
        if verb != "apply" and definition.definition_at(command.subresource) is definition:
            self._credit(command, current.object)
        review = self._review("UPDATE", definition, command, command.object, current.object)
        self._admission.mutate(review)
        self._admission.complete(review)
        told += drop_repeated_owners(metadata, SETTLED)
        decision = decide_replace(definition, current, command, self._validating(review))
        shown = definition.definition_at(command.subresource)
        warnings = (*told, *shown.strategy.warnings(command.object, current.object))
        return Written(self._apply(decision, current, command, verb, events), warnings=warnings)

    def _credit(self, command: Create | Replace, before: Object | None) -> None:
        """Say in the object who owns what of it once this is written."""
        stamp, metadata = command.stamp, command.object["metadata"]
        subresource = command.subresource if isinstance(command, Replace) else ""
        door = self._views(command.version, subresource)
        time = seconds_text(stamp.time)
        entries = owned_after(self._views, door, before, command.object, stamp.manager, time)
        as_stored(self._storage.schema, command.object)
        metadata.pop("managedFields", None)
        if entries:
            metadata["managedFields"] = entries

    def _create_by_replace(
        self, view: View, definition: Definition, command: Replace, events: list[Event]
    ) -> Written:
        if not definition.strategy.allow_create_on_update or command.subresource:
            raise missing(definition, command.name)
        if not command.may_create:
            raise may_not_create(definition, command)
        command.object["metadata"].pop("resourceVersion", None)
        refuse_other_uid(definition, command, None)
        create = Create(command.version, command.namespace, command.object, command.stamp, command.dry_run)
        return self._create(view, definition, create, events, verb="update")

    def _submit(self, view: View, definition: Definition, command: Submit, events: list[Event]) -> Written:
        current = self._current(view, command.namespace, command.name)
        review = self._review("CREATE", definition, command, command.object)
        self._admission.mutate(review)
        decision = decide_submit(definition, current, command, self._validating(review))
        return Written(self._apply(decision, current, command, "create", events), created=True)

    def _delete(self, view: View, definition: Definition, command: Delete, events: list[Event]) -> Deleted:
        current = self._current(view, command.namespace, command.name)
        review = self._review("DELETE", definition, command, None, current.object if current else None)
        self._admission.mutate(review)
        if current is None:
            raise missing(definition, command.name)
        self._admission.validate(review)
        decision = decide_delete(definition, current, command)
        body = self._apply(decision, current, command, command.verb, events)
        uid = current.object["metadata"]["uid"]
        return Deleted(body, command.name, uid, gone=isinstance(decision, Remove))

    def _apply(
        self, decision: Decision, current: Current | None, command: Command, verb: str, events: list[Event]
    ) -> bytes:
        """Turn a decision into its events, and the bytes that the client is shown."""
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

    def _review(
        self,
        operation: str,
        definition: Definition,
        command: Command,
        new: Object | None,
        old: Object | None = None,
    ) -> Review:
        self._reviewed = review_of(operation, definition, command, new, old)
        return self._reviewed

    def _validating(self, review: Review) -> Callable[[Object, Object | None], None]:
        def admit(_: Object, __: Object | None) -> None:
            self._admission.validate(review)

        return admit

    def _settled(self, events: list[Event], failure: Exception | None) -> None:
        """A commit has ended: what was pending is durable, or never was."""
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
