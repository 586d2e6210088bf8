"""What a command becomes: `Attempt.decide`, from the current object to the proposed events. It reads down.

    read the current object, convert it to the version of the command
    patch it, or apply a configuration; find who owns which fields
    mutating admission
    prepare and validate
    validating admission
    decide what is stored, convert that to the storage version, propose the events

It is a coroutine that waits only for admission webhooks and conversion webhooks. What a command becomes depends on the
definitions, the current object, the command and the answers of webhooks. There is no clock and no randomness: time, uid
and random letters are in the context of the command, so that a command decided again on the same state gives the same
bytes. The order of the steps decides which error a client gets first. An attempt stores nothing and replies to nobody,
and changes no command, so that it can be repeated: it works on copies.

An `Attempt` is valid for one state of the object. `Outdated` ends it when the object or the definitions have changed
while it waited; the actor begins another one. `NeedsThread` ends it when the work takes too long for the event loop;
the next one runs in a worker thread.

Objects here have no kind, apiVersion or resourceVersion: the version is added when the offset is known. Objects of
custom kinds are in the version of the command, except for deletes.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from random import Random
from typing import ClassVar, Final, TypeVar

import msgspec
import trio
from msgspec.structs import replace

from rewound.actors.admission.calls import AdmissionCalls
from rewound.actors.admission.chain import EMPTY, Admission, Chain, Retry, working_copy
from rewound.actors.admission.plugin import Admitted, AsyncPlugin
from rewound.actors.admission.request import CREATE, DELETE, UPDATE, AdmissionRequest
from rewound.actors.conversion.converter import Converter
from rewound.actors.errors import (
    AlreadyExists,
    BadRequest,
    ConversionFailed,
    Forbidden,
    Invalid,
    NoSuchResource,
    NotOfItsKind,
    RequestError,
    ShuttingDown,
)
from rewound.actors.golang.quoting import quoted_start
from rewound.actors.kinds.catalog import StoredType
from rewound.actors.kinds.declaration.definition import Definition, Subresource, Versions
from rewound.actors.kinds.declaration.meta import metadata_rules, metadata_update_rules
from rewound.actors.kinds.validation import (
    FieldError,
    FieldErrors,
    TooManyErrors,
    collect_with,
    name_is_path_segment,
)
from rewound.actors.kinds.values.times import seconds_text
from rewound.actors.messages import COLLECTION, Create, Delete, Object, Patch, Replace, Submit
from rewound.actors.patch.managed_fields.field_view import FieldView, FieldViews
from rewound.actors.patch.managed_fields.ownership import Creation, owned_after
from rewound.actors.patch.managed_fields.scale_owners import scale_owners
from rewound.actors.profile import DOCUMENTED, Rules
from rewound.actors.resource.applying import apply_object
from rewound.actors.resource.current import (
    AS_STORED,
    ONLY_METADATA,
    Current,
    CurrentObjects,
    Key,
    check_sent_version,
    check_uid,
    check_unchanged_version,
    check_version,
    check_version_precondition,
    refuse_version,
)
from rewound.actors.resource.deletion import decide_delete, grace_seconds, is_pending
from rewound.actors.resource.object_size import UNLIMITED, ObjectSizes
from rewound.actors.resource.patching import patch_object
from rewound.actors.resource.proposing import (
    Body,
    Decided,
    Decision,
    Keep,
    Proposer,
    Remove,
    Store,
    is_unchanged,
)
from rewound.actors.resource.write import WaitingWrites, Write
from rewound.actors.runtime.large_work import LargeWork, in_event_loop
from rewound.actors.runtime.write_context import LETTERS
from rewound.actors.store.committer import Commits
from rewound.actors.store.proposal import Proposal
from rewound.actors.versions.features import RETRY_GENERATE_NAME
from rewound.journal.log import Journal
from rewound.journal.view import View

logger = logging.getLogger(__name__)

T = TypeVar("T")

LONGEST_GENERATED_BASE: Final = 58  # 63 characters less the five random ones
# How long the actor decides commands without a checkpoint, in seconds of processor time: a busy machine must not divide
# batches, each of which costs a commit. A batch of ordinary writes takes less.
LONGEST_STEP: Final = 0.010


class ActorContext(msgspec.Struct, frozen=True):
    """What the actors of all types share."""

    journal: Journal
    committer: Commits
    admission: Admission
    calls: AdmissionCalls
    large_work: LargeWork
    nursery: trio.Nursery  # of writes that no task waits for
    converter: Converter | None = None  # None: no custom kind has a conversion webhook
    sizes: ObjectSizes = UNLIMITED
    longest_step: float = LONGEST_STEP
    # By type: submits writes of other types that go before the proposals of a commit, and returns what submits those
    # that follow. Only for commits that are not shared with other nodes.
    beside: dict[str, Callable[[Sequence[Proposal]], Callable[[], None]]] = msgspec.field(
        default_factory=dict
    )


class Outdated(Retry):
    """The object of an attempt, or its definitions, have changed while it waited.

    `after_call`: it had called a webhook, or was decided in the worker thread: that work is lost.
    """

    def __init__(self, *, after_call: bool = True) -> None:
        self.after_call = after_call


class Decider:
    """What the attempts at commands of one resource type look up: definitions, admission chains, field views.

    A change of the definitions makes another one. The worker thread has its own, because of the caches.
    """

    def __init__(
        self,
        stored_type: StoredType,
        context: ActorContext,
        current: CurrentObjects,
        waiting: WaitingWrites,
        type_id: int,
        *,
        in_thread: bool = False,
    ) -> None:
        self.definitions = {one.api_version: one for one in stored_type.definitions}  # served versions
        self.storage = stored_type.storage
        self.versions = self.storage.storage.versions
        self.current = current
        self.find = partial(current.find, in_thread=in_thread)
        self.proposer = Proposer(type_id, self.storage, context.sizes)
        self.waiting = waiting
        self.calls = context.calls
        self.converter = context.converter
        self.in_thread = in_thread
        self.is_outdated = False  # the definitions have changed
        self._admission = context.admission.for_threads() if in_thread else context.admission
        self._chains: dict[tuple[str, str, str], Chain] = {}
        self._views: dict[str, FieldViews] = {}
        self._field_views: dict[tuple[str, str], tuple[FieldViews, FieldView]] = {}
        self._creations: dict[str, Creation] = {}

    def chain(self, definition: Definition, operation: str, subresource: str) -> Chain:
        address = definition.api_version, operation, subresource
        chain = self._chains.get(address)
        if chain is None:
            chain = self._chains[address] = self._admission.chain(definition, operation, subresource)
        return chain

    def views(self, version: str) -> FieldViews:
        """For a command in this version. Objects of a custom kind are in it, all others in their storage version."""
        working = version if self.versions is not None else ""
        views = self._views.get(working)
        if views is None:
            views = self._views[working] = FieldViews(self.definitions, working)
        return views

    def field_view(self, version: str, subresource: str) -> tuple[FieldViews, FieldView]:
        """The view of a version and subresource, with the others of that version."""
        found = self._field_views.get((version, subresource))
        if found is None:
            views = self.views(version)
            found = self._field_views[version, subresource] = views, views(version, subresource)
        return found

    def creation(self, version: str) -> Creation:
        found = self._creations.get(version)
        if found is None:
            found = self._creations[version] = Creation(*self.field_view(version, ""))
        return found


class Attempt:
    """One attempt to decide a command, on one state of its object."""

    def __init__(
        self, write: Write, decider: Decider, view: View | None, previous: Attempt | None = None
    ) -> None:
        """`view`: None when the write has waited, so that each read has a transaction of its own.

        `previous`: the attempt before, if this one is a retry.
        """
        self.write = write
        self.command = write.command
        self.decider = decider
        self.request: AdmissionRequest | None = None  # None if no plugin is concerned
        self.wasted_call = False  # it has called a webhook, and was outdated then
        # The result.
        self.decided: Decided | None = None
        self.proposals: list[Proposal] = []
        self.body: Body = b""  # of the response
        self._view = None if decider.in_thread else view
        self._definition = decider.storage  # until `decide`
        self._chain: Chain = EMPTY  # with a request, that of the request
        self._written: int | Proposal = 0  # the event that wrote the object on which the command is decided
        # Of the object; that of a create is known when its name is found to be free.
        self._key: Key | None = None
        self.warnings: tuple[str, ...] = ()  # for the client, in addition to those of admission
        self._sent_empty: frozenset[str] = frozenset()  # for the request
        # If a plugin annotates while it validates: the object before preparation, to prepare it again.
        self._admitted: Object | None = None
        self._prepare: Callable[[Object], Object] | None = None
        self._to_store: Object | None = None  # the prepared object of an update
        if previous is None:
            self._is_first, self._takes_turn, self._is_repeated = True, False, False
            self._form = AS_STORED
            self._earlier_warnings: tuple[str, ...] = ()  # by admission in earlier attempts
        else:
            self._form = previous._form
            # After a wasted call it waits for the turn of its write before it calls again.
            self._is_first, self._takes_turn = False, previous.wasted_call
            self._is_repeated = previous._is_repeated or previous.wasted_call
            self._earlier_warnings = (
                previous._earlier_warnings if previous.request is None else previous.request.warnings
            )

    async def decide(self) -> None:
        """Decide the command and propose its events. Raises RequestError, Outdated or NeedsThread."""
        command, decider = self.command, self.decider
        definition = decider.definitions.get(command.version)
        if definition is None:
            raise NoSuchResource  # the version was removed while the command waited
        self._definition = definition
        match command:
            case Create():
                decided = await self._create(command)
            case Replace():
                decided = await self._replace(command)
            case Patch():
                decided = await self._patch(command)
            case Submit():
                decided = await self._submit(command)
            case Delete():
                decided = await self._delete(command)
        versions, decision = decider.versions, decided.decision
        if versions is not None and isinstance(decision, Store) and not isinstance(command, Delete):
            stored = await self.convert(versions, decision.object, command.version, versions.storage)
            stored = versions.in_stored_form(stored, command.version, applied=decided.verb == "apply")
            decided = decided._replace(stored=stored)
        self.decided = decided
        self.body = decider.proposer.propose(decided, command, self.proposals)

    async def _create(self, command: Create, verb: str = "create") -> Decided:
        definition, new = self._definition, working_copy(command.object)
        metadata = new["metadata"]
        if definition.schema.dropped_empty_lists:
            self._sent_empty = definition.schema.drop_empty_lists(new)
        if definition.create_refusal:
            raise Forbidden(definition.resource, metadata.get("name", ""), definition.create_refusal)
        if "ownerReferences" in metadata:
            self.warnings = drop_duplicate_owner_references(metadata, SENT)
        if definition.strategy.default_times is not None:
            definition.strategy.default_times(new, seconds_text(command.context.time))
        if verb != "apply":
            drop_system_metadata(metadata, self._definition.rules)
            creation, context = self.decider.creation(command.version), command.context
            entries = creation.known_entries(new, context.manager, context.time)
            if entries is None:
                entries = await creation.find_entries(new, context.manager, context.time, self.convert)
            self._set_managed_fields(new, entries)
        await self._mutate(CREATE, "", metadata.get("name", ""), new, None)
        if self.request is not None and self.request.object is not None:
            new = self.request.object  # as plugins changed it
        attempts = MOST_GENERATED if RETRY_GENERATE_NAME in definition.features and _needs_name(new) else 1
        while True:
            copy = new if attempts == 1 else working_copy(new)
            if self.request is not None:
                self.request.object = copy
            prepared = await self._prepare_and_validate(copy, partial(prepare_create, definition, command))
            name = prepared["metadata"].get("name")
            current = self.decider.find(self._view, command.namespace, name) if name else None
            if current is None:
                break
            attempts -= 1
            if not attempts:
                self.warnings = self._all_warnings("", prepared, None)
                raise _already_exists(definition, prepared["metadata"], current)
            command = with_next_suffix(command)
        if definition.strategy.canonicalize is not None:
            definition.strategy.canonicalize(prepared)
        # The name must stay free, should the attempt wait again.
        self._key = command.namespace, prepared["metadata"]["name"]
        warnings = self._all_warnings("", prepared, None)
        return Decided(Store(prepared), None, verb, True, warnings)

    async def _replace(self, command: Replace) -> Decided:
        definition, sent = self._definition, command.object["metadata"]
        current = await self._read_current(command.namespace, command.name)
        check_uid(definition, command, sent.get("uid"), current)
        if current is not None:
            return await self._update(current, command, "update")
        if not definition.strategy.allow_create_on_update or command.subresource:
            raise definition.not_found(command.name)
        if not command.may_create:
            raise may_not_create(definition, command)
        check_sent_version(definition, sent)
        new = command.object
        if not command.dry_run:
            new = {**new, "metadata": {key: value for key, value in sent.items() if key != "resourceVersion"}}
        create = Create(command.version, command.namespace, new, command.context, command.dry_run)
        return await self._create(create, "update")

    async def _patch(self, command: Patch) -> Decided:
        definition = self._definition
        current = await self._read_current(command.namespace, command.name)
        if command.format == "apply":
            return await self._apply(current, command)
        if current is None:
            raise definition.not_found(command.name)
        viewed = definition.definition_at(command.subresource)
        patched = patch_object(viewed, current, command, in_thread=self.decider.in_thread)
        try:
            owners = _owners_after_apply(definition, current, command)
            decided = await self._update(current, _as_replace(command, patched.object), "patch", owners)
        except RequestError as error:
            refused = definition.rules.unknown_and_invalid == "400" and not definition.is_custom
            if refused and patched.problems and isinstance(error, Invalid):
                raise BadRequest(f"{error}; besides: {', '.join(patched.problems)}") from None
            self.warnings = (*patched.warnings, *self.warnings)
            raise
        if not patched.warnings:
            return decided
        return decided._replace(warnings=(*patched.warnings, *decided.warnings))

    async def _apply(self, current: Current | None, command: Patch) -> Decided:
        definition, decider = self._definition, self.decider
        if current is None and command.subresource:
            raise definition.not_found(command.name)
        if current is None and not command.may_create:
            raise may_not_create(definition, command)
        views = decider.views(command.version)
        wanted = await apply_object(
            views, definition, current, command, self.convert, in_thread=decider.in_thread
        )
        if current is not None:
            return await self._update(current, _as_replace(command, wanted), "apply")
        create = Create(command.version, command.namespace, wanted, command.context, command.dry_run)
        return await self._create(create, "apply")

    async def _update(
        self, current: Current, command: Replace, verb: str, owners: list[Object] | None = None
    ) -> Decided:
        """`owners`: managedFields after an apply of the scale, which found them."""
        definition, new = self._definition, working_copy(command.object)
        if definition.schema.dropped_empty_lists:
            self._sent_empty = definition.schema.drop_empty_lists(new)
        if self._is_repeated:
            check_unchanged_version(definition, current, command)
        viewed = definition.definition_at(command.subresource)
        if verb == "update" and "ownerReferences" in new["metadata"]:
            self.warnings = drop_duplicate_owner_references(new["metadata"], SENT)
        if definition.strategy.default_times is not None and viewed is definition:
            definition.strategy.default_times(new, seconds_text(command.context.time))
        if verb != "apply" and viewed is definition:
            context = command.context
            views, view = self.decider.field_view(command.version, command.subresource)
            time = seconds_text(context.time)
            entries = await owned_after(views, view, current.object, new, context.manager, time, self.convert)
            self._set_managed_fields(new, entries)
        await self._mutate(UPDATE, command.subresource, command.name, new, current.object)
        sent_warnings = self.warnings

        def prepare(admitted: Object) -> Object:
            self.warnings = sent_warnings
            if "ownerReferences" in admitted["metadata"]:
                self.warnings += drop_duplicate_owner_references(admitted["metadata"], AFTER_ADMISSION)
            # A patch of an object that had no version yet has none either, even if the version is known by now.
            unversioned = verb != "update" and current.proposal is not None
            prepared, warnings = prepare_replace(
                definition, current, command, admitted, unversioned=unversioned
            )
            if warnings:
                self.warnings += warnings
            of_scale = scale_owners(definition, command.subresource)
            if of_scale is not None:
                manager = command.context.manager
                owned = owners or of_scale.after_update(current.object, prepared, manager)
                self._set_managed_fields(prepared, owned)
            self._to_store = prepared
            return _reviewed(definition, command, admitted, prepared)

        reviewed = await self._prepare_and_validate(new, prepare)
        assert self._to_store is not None
        decision = decide_replace(definition, current, self._to_store)
        return Decided(
            decision, current, verb, False, self._all_warnings(command.subresource, reviewed, current.object)
        )

    async def _submit(self, command: Submit) -> Decided:
        """Admission has reviewed the sent object before."""
        current = await self._read_current(command.namespace, command.name)
        decision = decide_submit(self._definition, current, command, working_copy(command.object))
        return Decided(decision, current, "create", created=True)

    async def _delete(self, command: Delete) -> Decided:
        definition = self._definition
        current = self._find(command.namespace, command.name)
        if current is None:
            raise definition.not_found(command.name)
        self._written = current.written
        if is_pending(definition, current, command):
            return Decided(Keep(), current, command.verb)
        # A custom object stays in the version in which it is stored, so that no deletion depends on a webhook.
        old, version = current.object, current.api_version
        await self._mutate(DELETE, "", command.name, None, old, version)
        if self.request is None:
            self._chain.count_validated()
        else:
            self.request.object = None
            await self._chain.validate(self.request, self)
        return Decided(decide_delete(definition, current, command), current, command.verb)

    # What several of these steps share.

    def _find(self, namespace: str, name: str) -> Current | None:
        current, command = self.decider.find(self._view, namespace, name, self._form), self.command
        if current is not None and current.is_mended and not isinstance(command, Delete):
            metadata = current.object["metadata"]
            metadata["uid"] = metadata.get("uid") or command.context.uid
        if current is None or self._form != ONLY_METADATA or not isinstance(command, Replace):
            return current
        # Nothing of the stored object can be read, so the update is compared with what it brings itself.
        old = {**command.object, "metadata": current.object["metadata"]}
        return replace(current, object=working_copy(old))

    def mends(self) -> bool:
        """Whether the next attempt reads the object in another form, after this one has failed.

        It does so if an older or a foreign writer stored the object in a form that its kind does not have, or without
        what every object of its kind has had since.
        """
        command = self.command
        if isinstance(command, Create):
            return False
        problem = self.decider.current.misfit(command.namespace, command.name)
        if self._form == ONLY_METADATA:
            raise NotOfItsKind(self._definition.resource, command.name, problem)
        if not problem and self._form != AS_STORED:
            return False
        if problem and self._form == AS_STORED:
            resource, where = self._definition.resource, f"{command.namespace}/{command.name}".lstrip("/")
            logger.warning("%s %s is changed without the parts that do not fit: %s", resource, where, problem)
        self._form += 1
        return True

    async def _read_current(self, namespace: str, name: str) -> Current | None:
        """The current object, that of a custom kind in the version of the command. Raises ConversionFailed."""
        decider, version = self.decider, self.command.version
        current = self._find(namespace, name)
        if current is None:
            return None
        self._written = current.written
        if decider.versions is None or current.api_version == version:
            return current
        shown = await self.convert(decider.versions, current.object, current.api_version, version)
        return replace(current, object=shown, stored=current.object)

    def _set_managed_fields(self, new: Object, entries: list[Object]) -> None:
        metadata, schema = new["metadata"], self.decider.storage.schema
        if schema.always_present_lists:
            schema.null_empty_lists(new)
        if entries:
            metadata["managedFields"] = entries
        elif "managedFields" in metadata:
            del metadata["managedFields"]

    def _all_warnings(self, subresource: str, new: Object, old: Object | None) -> tuple[str, ...]:
        """The warnings so far, and those of the kind, unless a controller writes, which would not read them."""
        warnings = self._definition.warnings_at(subresource) if self.command.context.warns else None
        return self.warnings if warnings is None else (*self.warnings, *warnings(new, old))

    async def _mutate(
        self,
        operation: str,
        subresource: str,
        name: str,
        new: Object | None,
        old: Object | None,
        old_version: str = "",
    ) -> None:
        """Mutating admission. `request` has its result, or is None if no plugin is concerned."""
        chain = self._chain = self.decider.chain(self._definition, operation, subresource)
        if self._is_first and chain.admits_all(self.command.namespace):
            return
        request = self.request = self._admission_request(operation, subresource, name, new, old, old_version)
        await chain.admit(request, self)

    async def _prepare_and_validate(self, new: Object, prepare: Callable[[Object], Object]) -> Object:
        """Prepare what is stored, and have plugins validate the object that `prepare` returns, which this returns."""
        request = self.request
        if request is None:
            reviewed = prepare(new)
            self._chain.count_validated()
            return reviewed
        if request.object is not None:
            new = request.object
        if self._chain.annotates:
            self._admitted, self._prepare, new = new, prepare, working_copy(new)
        request.object = prepare(new)
        try:
            await self._chain.validate(request, self)
        except RequestError:
            if request.object is not None:
                self.warnings = self._all_warnings(request.subresource, request.object, request.old)
            raise
        assert request.object is not None
        return request.object

    def _admission_request(
        self,
        operation: str,
        subresource: str,
        name: str,
        new: Object | None,
        old: Object | None,
        old_version: str,
    ) -> AdmissionRequest:
        command, context = self.command, self.command.context
        request = AdmissionRequest(
            operation,
            self._definition,
            command.namespace,
            name,
            subresource,
            new,
            old,
            context.user,
            command.dry_run,
            context,
        )
        if old is not None:
            request.written, request.old_version = self._written, old_version
            request.is_patch = isinstance(command, Patch)
            if isinstance(command, Delete):
                request.delete_options, request.evicts = command.options, command.evicts
                request.in_collection = command.verb == COLLECTION
        request.sent_empty = self._sent_empty
        request.warnings = self._earlier_warnings
        request.in_thread = self.decider.in_thread
        return request

    # Waiting for webhooks.

    restarts_in_thread: ClassVar[bool] = True

    async def ask(self, plugin: AsyncPlugin, request: AdmissionRequest) -> Admitted:
        return await self._wait_for(partial(self.decider.calls.call, plugin, request))

    def answered(self, request: AdmissionRequest, admitted: Admitted) -> None:
        self._check_unchanged()
        if not admitted.annotations:
            return
        if self._prepare is None:
            assert request.object is not None
            request.object = _annotated(request.object, admitted.annotations)
        else:
            assert self._admitted is not None
            self._admitted = _annotated(self._admitted, admitted.annotations)
            request.object = self._prepare(working_copy(self._admitted))

    async def convert(self, versions: Versions, one: Object, source: str, target: str) -> Object:
        """An object in another version. Raises ConversionFailed."""
        if versions.webhook is None or source == target:
            return versions.convert(one, source, target)
        if self.decider.converter is None:
            raise ShuttingDown
        convert = partial(self.decider.converter.convert_one, versions, one, source, target)
        try:
            converted = await self._wait_for(convert)
        except ConversionFailed:
            self._check_unchanged()
            raise
        self._check_unchanged()
        return converted

    async def _wait_for(self, call: Callable[[], Awaitable[T]]) -> T:
        """The result of a call, while the actor handles other commands. Raises Outdated."""
        decider, waiting = self.decider, self.decider.waiting
        if decider.in_thread:
            return await in_event_loop(call)
        if self._takes_turn or not self.write.has_left:
            retry, self._takes_turn, self._view = self._takes_turn, False, None
            waited = await waiting.leave(self.write, retry=retry)
            if waited or self.is_outdated():
                raise Outdated(after_call=False)
        result = await call()
        await waiting.resume()
        return result

    def _check_unchanged(self) -> None:
        """Call this after the attempt has waited. Raises Outdated, or what a plugin that checks again refuses with."""
        if self.is_outdated():
            raise Outdated
        if self.request is not None:
            for check in self._chain.repeated:
                check(self.request)

    def is_outdated(self) -> bool:
        """Whether the object or the definitions have changed since the attempt read them."""
        if self.decider.is_outdated:
            return True
        command, key = self.command, self._key
        if key is None:
            if isinstance(command, Create):
                return False  # whether its name is free is checked at the end
            key = command.namespace, command.name
        if command.dry_run and isinstance(self._written, int):
            return False  # it stores nothing
        return not self.decider.current.is_written_by(self._written, *key)

    async def decide_in_thread(self, large_work: LargeWork, in_loop: Decider) -> None:
        """Decide a large command in the worker thread, while the actor handles other commands. Raises Outdated.

        `in_loop` is the decider of the event loop.
        """
        waiting = self.decider.waiting
        if self._takes_turn or not self.write.has_left:
            await waiting.leave(self.write, retry=self._takes_turn)
        await large_work.run_command(self.command.context.user, self.decide())
        await waiting.resume()
        if self.is_outdated():
            raise Outdated
        request = self.request
        if request is not None and self._chain.repeated:
            # Those of this attempt are for a thread.
            chain = in_loop.chain(self._definition, request.operation, request.subresource)
            for check in chain.repeated:
                check(request)

    def release(self) -> None:
        """Give back what admission plugins reserved, because nothing is stored. In the event loop."""
        if self.request is not None:
            self.request.complete(False)


def _annotated(document: Object, added: tuple[tuple[str, str], ...]) -> Object:
    metadata = document["metadata"]
    annotations = dict(sorted({**metadata.get("annotations", {}), **dict(added)}.items()))
    return {**document, "metadata": {**metadata, "annotations": annotations}}


# The rules of creates and updates, in the order in which attempts call them. Pure: they change only working copies.


def drop_system_metadata(metadata: Object, rules: Rules = DOCUMENTED) -> None:
    """Drop metadata that only the server may set."""
    if not _SYSTEM_METADATA.isdisjoint(metadata):
        generation = metadata.get("generation")
        for system in _SYSTEM_METADATA:
            metadata.pop(system, None)
        if generation and rules.sent_generation == "kept":
            metadata["generation"] = generation


MOST_GENERATED: Final = 8  # names that a create with generateName tries

_SYSTEM_METADATA: Final = frozenset(
    {"selfLink", "generation", "deletionTimestamp", "deletionGracePeriodSeconds"}
)


def prepare_create(definition: Definition, command: Create, new: Object) -> Object:
    """The object to store: `new`, a working copy, with what the server and the strategy of the kind set.

    Raises Invalid.
    """
    metadata, strategy = new["metadata"], definition.strategy
    base = metadata.get("generateName", "")
    if base and not metadata.get("name"):
        metadata["name"] = base[:LONGEST_GENERATED_BASE] + command.context.suffix
    if "resourceVersion" in metadata and not command.dry_run:  # v1.25 checks it when it stores
        refuse_version(metadata)
    drop_system_metadata(metadata, definition.rules)
    if definition.namespaced:
        metadata["namespace"] = command.namespace
    metadata["uid"] = command.context.uid
    metadata["creationTimestamp"] = seconds_text(command.context.time)
    if strategy.stamp is not None:
        strategy.stamp(new, None, metadata["creationTimestamp"])
    if strategy.prepare_for_create is not None:
        strategy.prepare_for_create(new)
    errors = FieldErrors(definition.features)
    try:  # like `collect`, with two calls less for each create
        if not strategy.validates_metadata:
            validate_metadata_create(errors, metadata, definition)
        strategy.validate_create(errors, new)
    except TooManyErrors:
        pass
    if errors.found:
        raise _invalid(definition, metadata.get("name", ""), errors.found)
    return new


def _needs_name(new: Object) -> bool:
    return bool(new["metadata"].get("generateName")) and not new["metadata"].get("name")


def with_next_suffix(command: Create) -> Create:
    """The same command with another suffix for generateName, which follows from the one before and the uid."""
    context = command.context
    source = Random(context.uid + context.suffix)
    return command._replace(
        context=context._replace(suffix="".join(source.choices(LETTERS, k=len(context.suffix))))
    )


def validate_metadata_create(errors: FieldErrors, metadata: Object, definition: Definition) -> None:
    """For kinds whose strategy does not validate it."""
    metadata_rules(
        errors,
        metadata,
        namespaced=definition.namespaced,
        check_name=definition.check_name,
        known_finalizers=definition.deletion.only_known_finalizers,
    )


def _already_exists(definition: Definition, metadata: Object, current: Current) -> AlreadyExists:
    generated = bool(metadata.get("generateName"))
    terminating = "deletionTimestamp" in current.object["metadata"]
    return AlreadyExists(definition.resource, metadata["name"], generated=generated, terminating=terminating)


def may_not_create(definition: Definition, command: Replace | Patch) -> Forbidden:
    """The error for a replace or apply that would create without the right to create."""
    why = f"User {quoted_start(command.context.user)} cannot create this object"
    return Forbidden(definition.resource, command.name, why)


def _owners_after_apply(definition: Definition, current: Current, command: Patch) -> list[Object] | None:
    """managedFields after an apply of the scale; None after other patches. Raises ApplyConflict."""
    of_scale = scale_owners(definition, command.subresource) if command.merges_apply else None
    if of_scale is None:
        return None
    return of_scale.after_apply(current.object, command.patch, command.context.manager, force=command.force)


def _as_replace(command: Patch, new: Object) -> Replace:
    return Replace(
        command.version,
        command.namespace,
        command.name,
        new,
        command.context,
        command.subresource,
        command.dry_run,
    )


_ADVICE: Final = (
    "API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; "
    "please fix your requests; duplicate UID(s) observed: {uids}"
)
SENT: Final = f".metadata.ownerReferences contains duplicate entries; {_ADVICE}"
AFTER_ADMISSION: Final = (
    f".metadata.ownerReferences contains duplicate entries after mutating admission happens; {_ADVICE}"
)


def drop_duplicate_owner_references(metadata: Object, warning: str) -> tuple[str, ...]:
    """Returns the warning if there were duplicates."""
    owners = metadata.get("ownerReferences")
    if not owners or len(owners) == 1 or len({owner["uid"] for owner in owners}) == len(owners):
        return ()
    kept: dict[str, list[Object]] = {}
    left: list[Object] = []
    duplicates: list[str] = []
    for owner in owners:
        same = kept.setdefault(owner["uid"], [])
        if owner in same:
            duplicates.append(owner["uid"])
        else:
            same.append(owner)
            left.append(owner)
    if not duplicates:
        return ()
    metadata["ownerReferences"] = left
    return (warning.format(uids=", ".join(duplicates)),)


def prepare_replace(
    definition: Definition, current: Current, command: Replace, new: Object, *, unversioned: bool = False
) -> tuple[Object, tuple[str, ...]]:
    """The object to store, and warnings: `new`, a working copy, or the current object changed by a subresource.

    `unversioned`: it may lack a version, because that of the current object was unknown when it was patched.
    Other forms of the object, such as its scale, may lack one too: they change the current object.
    Raises Conflict or Invalid.
    """
    old, version = current.object, new["metadata"].pop("resourceVersion", "")
    subresource = definition.subresource(command.subresource)
    viewed = subresource is not None and subresource.update_object is not None
    if version or not (unversioned or viewed):
        check_version(definition, command.name, version, current)
    if subresource is not None and subresource.update_object is not None:
        _validate_sent(subresource, new)
        new = working_copy(subresource.update_object(new, working_copy(old)))
        subresource = None
    _inherit_metadata(new["metadata"], old["metadata"])
    stamp = definition.strategy.stamp if subresource is None else subresource.stamp
    if stamp is not None:
        stamp(new, old, seconds_text(command.context.time))
    errors = FieldErrors(definition.features)
    with suppress(TooManyErrors):
        _prepare_and_validate_update(errors, definition, new, old, subresource)
    if errors.found:
        error = _invalid(definition, new["metadata"].get("name", command.name), errors.found)
        error.warnings = errors.warnings
        raise error
    return new, errors.warnings


def _validate_sent(subresource: Subresource, sent: Object) -> None:
    """Validate an object of a subresource that has its own kind."""
    view = subresource.view
    if view is not None and (errors := collect_with(view.features, view.strategy.validate_create, sent)):
        raise _invalid(view, sent["metadata"].get("name", ""), errors)


def _inherit_metadata(metadata: Object, old: Object) -> None:
    """Copy the metadata that no update may change; validation checks the rest."""
    metadata.pop("selfLink", None)
    metadata["uid"] = metadata.get("uid") or old["uid"]
    metadata["creationTimestamp"] = old["creationTimestamp"]
    for key in ("generation", "deletionTimestamp", "namespace"):
        if key in old:
            metadata[key] = old[key]
        elif key == "generation":
            metadata.pop(key, None)
    if "deletionGracePeriodSeconds" in old:
        metadata.setdefault("deletionGracePeriodSeconds", old["deletionGracePeriodSeconds"])


def _prepare_and_validate_update(
    errors: FieldErrors, definition: Definition, new: Object, old: Object, subresource: Subresource | None
) -> None:
    if subresource is not None:
        if subresource.prepare is not None:
            subresource.prepare(new, old)
        validate_metadata_update(errors, new["metadata"], old["metadata"], definition)
        subresource.validate(errors, new, old)
    else:
        if definition.strategy.prepare_for_update is not None:
            definition.strategy.prepare_for_update(new, old)
        validate_metadata_update(errors, new["metadata"], old["metadata"], definition)
        definition.strategy.validate_update(errors, new, old)


def validate_metadata_update(
    errors: FieldErrors, metadata: Object, old: Object, definition: Definition
) -> None:
    metadata_rules(
        errors,
        metadata,
        namespaced=definition.namespaced,
        check_name=name_is_path_segment,
        known_finalizers=False,
    )
    if not errors.found:
        errors.valid_metadata = metadata
    metadata_update_rules(errors, metadata, old, known_finalizers=False)


def _reviewed(definition: Definition, command: Replace, sent: Object, prepared: Object) -> Object:
    """The object that validating plugins see: what is stored, in the form that the subresource has."""
    viewed = definition.definition_at(command.subresource)
    if viewed is definition or viewed.storage.conversion is None:
        return sent
    return viewed.storage.conversion.from_storage(prepared)


def decide_replace(definition: Definition, current: Current, prepared: Object) -> Decision:
    old = current.object
    if definition.strategy.canonicalize is not None:
        definition.strategy.canonicalize(prepared)
    terminating = "deletionTimestamp" in old["metadata"]
    if terminating and not definition.has_finalizers(prepared) and not grace_seconds(old["metadata"]):
        return Remove(returned=prepared)
    # An object that is stored in another version than the present storage version is written in that one.
    versions = definition.storage.versions
    in_storage_version = versions is None or current.api_version == versions.storage
    if in_storage_version and not current.is_mended and is_unchanged(prepared, old):
        return Keep()
    return Store(prepared)


def decide_submit(
    definition: Definition, current: Current | None, command: Submit, document: Object
) -> Store:
    """Raises Invalid for the sent `document` even if there is no object: its errors come before NotFound."""
    subresource = definition.subresource(command.subresource)
    assert subresource is not None and subresource.submit is not None
    metadata = document["metadata"]
    _validate_sent(subresource, document)
    if current is None:
        raise definition.not_found(command.name)
    check_uid(definition, command, metadata.get("uid"), current)
    check_version_precondition(definition, command.name, metadata.get("resourceVersion"), current.version)
    return Store(subresource.submit(document, working_copy(current.object), command.context.time))


def _invalid(definition: Definition, name: str, errors: list[FieldError]) -> Invalid:
    return Invalid(definition.error_group, definition.kind, name, [error.cause() for error in errors])
