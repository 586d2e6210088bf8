"""What a command becomes: `Decider.decide`, from the current object to the decision.

    read the current object, convert it to the version of the command
    patch it, or apply a configuration; find who owns which fields
    mutating admission
    prepare and validate (`rules.py`)
    validating admission
    decide what is stored (`rules.py`), convert that to the storage version

It is a coroutine that waits only for answers from outside: of admission webhooks, of conversion webhooks. What a
command becomes is a function of (definitions, current object, command, answers). It stores nothing and replies to
nobody, and no function changes a command, so that it can be decided again: they work on copies.

An `Attempt` is valid for one state of the object. `Moved` ends it when the object or the definitions have changed while
it waited; the actor begins anew then. `NeedsThread` ends it when the work takes too long for the event loop; the actor
has a worker thread run the same coroutine.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeVar

from rewound.actors.admission.calls import AdmissionCalls
from rewound.actors.admission.chain import EMPTY, Admission, BeginAnew, Chain
from rewound.actors.admission.plugin import Admitted, AsyncPlugin
from rewound.actors.admission.request import CREATE, DELETE, UPDATE, AdmissionRequest, annotated, working_copy
from rewound.actors.conversion.converter import Converts
from rewound.actors.errors import (
    BadRequest,
    ConversionFailed,
    Forbidden,
    Invalid,
    NoSuchResource,
    RequestError,
    ShuttingDown,
)
from rewound.actors.kinds.declaration.definition import Definition, Versions
from rewound.actors.kinds.values.times import seconds_text
from rewound.actors.messages import COLLECTION, Create, Delete, Object, Patch, Replace, Submit
from rewound.actors.patch.managed_fields.field_view import FieldView, FieldViews
from rewound.actors.patch.managed_fields.ownership import Creation, owned_after
from rewound.actors.patch.managed_fields.scale_owners import (
    owned_by_scale,
    owners_after_apply,
    owners_after_update,
)
from rewound.actors.resource.applying import apply_object
from rewound.actors.resource.patching import patch_object
from rewound.actors.resource.proposing import Body
from rewound.actors.resource.rules import (
    Current,
    Decided,
    Keep,
    Store,
    check_sent_version,
    check_uid,
    check_unchanged_version,
    decide_create,
    decide_delete,
    decide_replace,
    decide_submit,
    drop_system_metadata,
    generate_name,
    is_pending,
    may_not_create,
    prepare_create,
    prepare_replace,
)
from rewound.actors.resource.write import Write
from rewound.actors.store.addressing import not_found
from rewound.actors.store.document import null_empty_lists
from rewound.actors.store.proposal import Proposal
from rewound.journal.view import View

Find = Callable[[View | None, str, str], Current | None]  # (view, namespace, name) -> the current object
T = TypeVar("T")


class Moved(BeginAnew):
    """The object of a write, or its definitions, have changed while it waited.

    `meanwhile`: after it had asked for something, so that it was in vain.
    """

    def __init__(self, *, meanwhile: bool = True) -> None:
        self.meanwhile = meanwhile


class Waits(Protocol):
    """How attempts wait: an actor."""

    async def wait_for(self, attempt: Attempt, answer: Callable[[], Awaitable[T]]) -> T:
        """An answer from outside, for which the actor does not wait."""

    def has_moved(self, attempt: Attempt) -> bool:
        """Whether the object or the definitions are others than when the attempt read them."""


class Outside(NamedTuple):
    """What attempts ask outside."""

    waits: Waits
    calls: AdmissionCalls
    converter: Converts | None  # None: no custom kind has a conversion webhook


class Attempt:
    """One attempt to decide a command. What few attempts have is in the class: every write creates one."""

    definition: Definition
    # Of the object; that of a create is known when its name is found to be free.
    key: tuple[str, str] | None = None
    is_first: bool = True
    was_in_vain: bool = False  # the object moved after it had asked for something
    is_stale: bool = False  # an earlier one was in vain
    takes_turn: bool = False  # the one before was in vain: before it asks, it waits for the turn of its write
    warned: tuple[str, ...] = ()  # warnings of admission in earlier attempts
    request: AdmissionRequest | None = None  # None if no plugin is concerned
    chain: Chain = EMPTY  # with a request, that of the request
    written: int | Proposal = 0  # the event that wrote the object on which the command is decided
    warnings: tuple[str, ...] = ()  # for the client, besides those of admission
    sent_empty: frozenset[str] = frozenset()  # for the request
    # Of a chain with a plugin that annotates while it validates: the object before preparation, to prepare it again.
    _admitted: Object | None = None
    _prepare: Callable[[Object], Object] | None = None
    to_store: Object | None = None  # the prepared object
    body: Body = b""  # of the response

    def __init__(
        self,
        write: Write,
        decider: Decider,
        view: View | None,
        previous: Attempt | None = None,
    ) -> None:
        """`view`: None when the write has waited, so that each read has a transaction of its own.

        `previous`: the attempt before, if this one begins anew.
        """
        self.write = write
        self.command = write.command
        self.decider = decider
        self.view = None if decider.in_thread else view
        if previous is not None:
            self.is_first, self.takes_turn = False, previous.was_in_vain
            self.is_stale = previous.is_stale or previous.was_in_vain
            self.warned = previous.warned if previous.request is None else previous.request.warnings

    async def ask(self, plugin: AsyncPlugin, request: AdmissionRequest) -> Admitted:
        outside = self.decider.outside
        return await outside.waits.wait_for(self, partial(outside.calls.call, plugin, request))

    def answered(self, request: AdmissionRequest, admitted: Admitted) -> None:
        self.continue_or_begin_anew()
        if not admitted.annotations:
            return
        if self._prepare is None:
            assert request.object is not None
            request.object = annotated(request.object, admitted.annotations)
        else:
            assert self._admitted is not None
            self._admitted = annotated(self._admitted, admitted.annotations)
            request.object = self._prepare(working_copy(self._admitted))

    async def convert(self, versions: Versions, one: Object, source: str, target: str) -> Object:
        """An object in another version. ConversionFailed."""
        if versions.webhook is None or source == target:
            return versions.convert(one, source, target)
        outside = self.decider.outside
        if outside.converter is None:
            raise ShuttingDown
        convert = partial(outside.converter.convert_one, versions, one, source, target)
        try:
            converted = await outside.waits.wait_for(self, convert)
        except ConversionFailed:
            self.continue_or_begin_anew()
            raise
        self.continue_or_begin_anew()
        return converted

    def continue_or_begin_anew(self) -> None:
        """After the attempt has waited. Moved, or what a plugin refuses by now that checks again."""
        if self.decider.outside.waits.has_moved(self):
            raise Moved
        if self.request is not None:
            for check in self.chain.repeated:
                check(self.request)

    async def prepare_and_validate(self, new: Object, prepare: Callable[[Object], Object]) -> Object:
        """Prepare what is stored, and have plugins validate the object that `prepare` returns, which this returns."""
        request = self.request
        if request is None:
            reviewed = prepare(new)
            self.chain.count_validated()
            return reviewed
        if self.chain.annotates:
            self._admitted, self._prepare, new = new, prepare, working_copy(new)
        request.object = prepare(new)
        await self.chain.validate(request, self)
        assert request.object is not None
        return request.object

    def release(self) -> None:
        """Nothing follows: give back what admission plugins reserved. In the event loop."""
        if self.request is not None:
            self.request.complete(False)


class Decider:
    """Decides the commands of one resource type."""

    def __init__(
        self,
        definitions: dict[str, Definition],
        storage: Definition,
        admission: Admission,
        find: Find,
        outside: Outside,
        *,
        in_thread: bool = False,
    ) -> None:
        self._find = find
        self._definitions = definitions  # by served version
        self._storage = storage
        self._admission = admission
        self.outside = outside
        self.in_thread = in_thread
        self._versions = storage.storage.versions
        self._chains: dict[tuple[str, str, str], Chain] = {}
        self._all_views: dict[str, FieldViews] = {}
        self._found_views: dict[tuple[str, str], tuple[FieldViews, FieldView]] = {}
        self._creations: dict[str, Creation] = {}  # by version

    async def decide(self, attempt: Attempt) -> Decided:
        """RequestError, Moved, NeedsThread."""
        command = attempt.command
        definition = self._definitions.get(command.version)
        if definition is None:
            raise NoSuchResource  # the version was removed while the command waited
        attempt.definition = definition
        match command:
            case Create():
                decided = await self._create(attempt, command)
            case Replace():
                decided = await self._replace(attempt, command)
            case Patch():
                decided = await self._patch(attempt, command)
            case Submit():
                decided = await self._submit(attempt, command)
            case Delete():
                return await self._delete(attempt, command)
        decision, versions = decided.decision, self._versions
        if versions is not None and isinstance(decision, Store):
            stored = await attempt.convert(versions, decision.object, command.version, versions.storage)
            applied = decided.verb == "apply"
            stored = versions.in_stored_form(stored, command.version, applied=applied)
            decided = decided._replace(stored=stored)
        return decided

    async def _create(self, attempt: Attempt, command: Create, verb: str = "create") -> Decided:
        definition, new, context = attempt.definition, working_copy(command.object), command.context
        metadata = new["metadata"]
        if definition.schema.told_lists:
            attempt.sent_empty = definition.schema.take_told(new)
        if definition.create_refusal:
            raise Forbidden(definition.resource, metadata.get("name", ""), definition.create_refusal)
        if "ownerReferences" in metadata:
            attempt.warnings = drop_duplicate_owner_references(metadata, SENT)
        if verb != "apply":
            drop_system_metadata(metadata)
            creation = self._creations.get(command.version) or self._find_creation(command.version)
            entries = creation.known_entries(new, context.manager, context.time)
            if entries is None:
                entries = await creation.find_entries(new, context.manager, context.time, attempt.convert)
            self._put_managers(new, entries)
        request = self._request(attempt, CREATE, "", metadata.get("name", ""), new, None)
        if request is not None:
            await attempt.chain.admit(request, attempt)
            if request.object is not None:
                new = request.object

        def prepare(admitted: Object) -> Object:
            generate_name(admitted["metadata"], context.suffix)
            prepare_create(definition, command, admitted)
            return admitted

        prepared = await attempt.prepare_and_validate(new, prepare)
        name = prepared["metadata"].get("name")
        # Only whether there is one counts.
        current = self._find(attempt.view, command.namespace, name) if name else None
        decision = decide_create(definition, current, prepared)
        # The name must stay free, should the attempt wait again.
        attempt.key = command.namespace, prepared["metadata"]["name"]
        warnings = attempt.warnings
        if more := definition.strategy.warnings(prepared, None):
            warnings = (*warnings, *more)
        return Decided(decision, None, verb, True, warnings)

    async def _replace(self, attempt: Attempt, command: Replace) -> Decided:
        current = await self._current(attempt, command.namespace, command.name)
        if current is None:
            return await self._create_by_replace(attempt, command)
        check_uid(attempt.definition, command, current)
        return await self._update(attempt, current, command, "update")

    async def _create_by_replace(self, attempt: Attempt, command: Replace) -> Decided:
        definition = attempt.definition
        check_uid(definition, command, None)
        if not definition.strategy.allow_create_on_update or command.subresource:
            raise not_found(definition, command.name)
        if not command.may_create:
            raise may_not_create(definition, command)
        check_sent_version(command.object["metadata"])
        new = command.object
        if not command.dry_run:
            metadata = {key: value for key, value in new["metadata"].items() if key != "resourceVersion"}
            new = {**new, "metadata": metadata}
        create = Create(command.version, command.namespace, new, command.context, command.dry_run)
        return await self._create(attempt, create, "update")

    async def _patch(self, attempt: Attempt, command: Patch) -> Decided:
        definition = attempt.definition
        current = await self._current(attempt, command.namespace, command.name)
        if command.format == "apply":
            return await self._apply(attempt, current, command)
        if current is None:
            raise not_found(definition, command.name)
        viewed = definition.definition_at(command.subresource)
        patched = patch_object(viewed, current, command, in_thread=self.in_thread)
        try:
            owners = _owners_after_apply(definition, current, command)
            replaced = _as_replace(command, patched.object)
            decided = await self._update(attempt, current, replaced, "patch", owners)
        except RequestError as error:
            refused = definition.rules.unknown_and_invalid == "400" and not definition.is_custom
            if refused and patched.problems and isinstance(error, Invalid):
                raise BadRequest(f"{error}; besides: {', '.join(patched.problems)}") from None
            error.warnings = (*patched.warnings, *error.warnings)
            raise
        if not patched.warnings:
            return decided
        return decided._replace(warnings=(*patched.warnings, *decided.warnings))

    async def _apply(self, attempt: Attempt, current: Current | None, command: Patch) -> Decided:
        definition = attempt.definition
        if current is None and command.subresource:
            raise not_found(definition, command.name)
        if current is None and not command.may_create:
            raise may_not_create(definition, command)
        views = self._views(command.version)
        wanted = await apply_object(
            views, definition, current, command, attempt.convert, in_thread=self.in_thread
        )
        if current is None:
            create = Create(command.version, command.namespace, wanted, command.context, command.dry_run)
            return await self._create(attempt, create, "apply")
        return await self._update(attempt, current, _as_replace(command, wanted), "apply")

    async def _update(
        self,
        attempt: Attempt,
        current: Current,
        command: Replace,
        verb: str,
        owners: list[Object] | None = None,
    ) -> Decided:
        """`owners`: managedFields after an apply of the scale, which found them."""
        definition, new = attempt.definition, working_copy(command.object)
        if definition.schema.told_lists:
            attempt.sent_empty = definition.schema.take_told(new)
        if attempt.is_stale:
            check_unchanged_version(definition, current, command)
        viewed = definition.definition_at(command.subresource)
        if verb == "update" and "ownerReferences" in new["metadata"]:
            attempt.warnings = drop_duplicate_owner_references(new["metadata"], SENT)
        if verb != "apply" and viewed is definition:
            await self._set_managers(attempt, command, new, current.object)
        request = self._request(attempt, UPDATE, command.subresource, command.name, new, current.object)
        if request is not None:
            await attempt.chain.admit(request, attempt)
            if request.object is not None:
                new = request.object

        sent_warnings = attempt.warnings

        def prepare(admitted: Object) -> Object:
            if "ownerReferences" in admitted["metadata"]:
                more = drop_duplicate_owner_references(admitted["metadata"], AFTER_ADMISSION)
                attempt.warnings = sent_warnings + more
            # A patch of an object that had no version yet has none either, even if the version is known by now.
            unversioned = verb != "update" and current.proposal is not None
            prepared = prepare_replace(definition, current, command, admitted, unversioned=unversioned)
            if owned_by_scale(definition, command.subresource):
                version, manager = definition.api_version, command.context.manager
                owned = owners or owners_after_update(current.object, prepared, version, manager)
                self._put_managers(prepared, owned)
            attempt.to_store = prepared
            return _reviewed(definition, command, admitted, prepared)

        reviewed = await attempt.prepare_and_validate(new, prepare)
        assert attempt.to_store is not None
        decision = decide_replace(definition, current, attempt.to_store)
        warnings = attempt.warnings
        if more := viewed.strategy.warnings(reviewed, current.object):
            warnings = (*warnings, *more)
        return Decided(decision, current, verb, False, warnings)

    async def _submit(self, attempt: Attempt, command: Submit) -> Decided:
        """Admission has reviewed the sent object before."""
        current = await self._current(attempt, command.namespace, command.name)
        decision = decide_submit(attempt.definition, current, command, working_copy(command.object))
        return Decided(decision, current, "create", created=True)

    async def _delete(self, attempt: Attempt, command: Delete) -> Decided:
        definition = attempt.definition
        current = self._find(attempt.view, command.namespace, command.name)
        if current is None:
            raise not_found(definition, command.name)
        attempt.written = current.written
        if is_pending(definition, current, command):
            return Decided(Keep(), current, command.verb)
        # A custom object stays in the version in which it is stored, so that no deletion depends on a webhook.
        old, version = current.object, current.api_version
        request = self._request(attempt, DELETE, "", command.name, None, old, version)
        if request is None:
            attempt.chain.count_validated()
        else:
            await attempt.chain.admit(request, attempt)
            request.object = None
            await attempt.chain.validate(request, attempt)
        return Decided(decide_delete(definition, current, command), current, command.verb)

    async def _current(self, attempt: Attempt, namespace: str, name: str) -> Current | None:
        """The current object, that of a custom kind in the version of the command. ConversionFailed."""
        current, version = self._find(attempt.view, namespace, name), attempt.command.version
        if current is None:
            return None
        attempt.written = current.written
        if self._versions is None or current.api_version == version:
            return current
        shown = await attempt.convert(self._versions, current.object, current.api_version, version)
        return replace(current, object=shown, stored=current.object)

    def _request(
        self,
        attempt: Attempt,
        operation: str,
        subresource: str,
        name: str,
        new: Object | None,
        old: Object | None,
        old_version: str = "",
    ) -> AdmissionRequest | None:
        """The admission request of an attempt; None if no plugin is concerned."""
        command, context = attempt.command, attempt.command.context
        chain = self.chain(attempt.definition, operation, subresource)
        if not chain:
            return None
        attempt.chain = chain
        if attempt.is_first and chain.admits_all(command.namespace):
            return None
        request = attempt.request = AdmissionRequest(
            operation,
            attempt.definition,
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
            request.written, request.old_version = attempt.written, old_version
            if isinstance(command, Delete):
                request.delete_options, request.evicts = command.options, command.evicts
                request.in_collection = command.verb == COLLECTION
        if attempt.sent_empty:
            request.sent_empty = attempt.sent_empty
        request.warnings = attempt.warned
        request.in_thread = self.in_thread
        return request

    def chain(self, definition: Definition, operation: str, subresource: str) -> Chain:
        address = definition.api_version, operation, subresource
        chain = self._chains.get(address)
        if chain is None:
            chain = self._chains[address] = self._admission.chain(definition, operation, subresource)
        return chain

    def repeat_checks(self, attempt: Attempt) -> None:
        """Run the checks again whose outcome may have changed while a thread decided the command."""
        request = attempt.request
        if request is not None and attempt.chain.repeated:
            # Not those of the attempt, which are for a thread.
            for check in self.chain(attempt.definition, request.operation, request.subresource).repeated:
                check(request)

    def _views(self, version: str) -> FieldViews:
        """For a command in this version. Objects of a custom kind are in it, all others in their storage version."""
        working = version if self._versions is not None else ""
        views = self._all_views.get(working)
        if views is None:
            views = self._all_views[working] = FieldViews(self._definitions, working)
        return views

    async def _set_managers(self, attempt: Attempt, command: Replace, new: Object, before: Object) -> None:
        """Set metadata.managedFields as it is after this update."""
        context, key = command.context, (command.version, command.subresource)
        views, view = self._found_views.get(key) or self._find_views(*key)
        time = seconds_text(context.time)
        owned = await owned_after(views, view, before, new, context.manager, time, attempt.convert)
        self._put_managers(new, owned)

    def _put_managers(self, new: Object, entries: list[Object]) -> None:
        metadata = new["metadata"]
        if self._storage.schema.shown_lists:
            null_empty_lists(self._storage.schema, new)
        if entries:
            metadata["managedFields"] = entries
        elif "managedFields" in metadata:
            del metadata["managedFields"]

    def _find_views(self, version: str, subresource: str) -> tuple[FieldViews, FieldView]:
        views = self._views(version)
        found = self._found_views[version, subresource] = views, views(version, subresource)
        return found

    def _find_creation(self, version: str) -> Creation:
        found = self._creations[version] = Creation(*self._find_views(version, ""))
        return found


def _reviewed(definition: Definition, command: Replace, sent: Object, prepared: Object) -> Object:
    """The object that validating plugins see: what is stored, in the form that the subresource has."""
    viewed = definition.definition_at(command.subresource)
    if viewed is definition or viewed.storage.conversion is None:
        return sent
    return viewed.storage.conversion.from_storage(prepared)


def _owners_after_apply(definition: Definition, current: Current, command: Patch) -> list[Object] | None:
    """managedFields after an apply of the scale; None after other patches. ApplyConflict."""
    if not command.merges_apply or not owned_by_scale(definition, command.subresource):
        return None
    manager = command.context.manager
    return owners_after_apply(
        current.object, command.patch, definition.api_version, manager, force=command.force
    )


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
