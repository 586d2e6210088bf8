"""Takes one command through patching, mutating admission, preparation, validation, validating admission and decision.

The actor calls `decide` for each command of a batch. It stores nothing and sends no response: the result is a
`Decided`, or an error that refuses the command, or `Paused` if an asynchronous admission step must come first. No
function changes a command, so that it can be decided again: they work on copies. The state of one attempt is in its
`Attempt`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import trio

from actors.admission.chain import Admission, Chain
from actors.admission.request import CREATE, DELETE, UPDATE, AdmissionRequest
from actors.errors import BadRequest, Forbidden, Invalid, NoSuchResource
from actors.kinds.declaration.definition import Definition
from actors.kinds.values.times import seconds_text
from actors.messages import Create, Delete, Object, Patch, Replace, Submit
from actors.patch.managed_fields.field_view import FieldViews
from actors.patch.managed_fields.ownership import owned_after
from actors.resource.applying import apply_object
from actors.resource.attempt import Attempt, Decided, Paused, Progress, is_same_event
from actors.resource.checks.owner_references import AFTER_ADMISSION, SENT, drop_duplicate_owner_references
from actors.resource.decide import (
    Current,
    check_uid,
    check_unchanged_version,
    decide_create,
    decide_delete,
    decide_replace,
    decide_submit,
    drop_system_metadata,
    generate_name,
    may_not_create,
    prepare_create,
    prepare_replace,
    working_copy,
)
from actors.resource.patching import patch_object
from actors.store.addressing import not_found
from actors.store.document import null_empty_lists
from actors.store.proposal import Proposal
from journal.view import View

Find = Callable[[View | None, str, str], Current | None]  # (view, namespace, name) -> the current object


class Commands:
    """Decides the commands of one resource type."""

    def __init__(
        self,
        definitions: dict[str, Definition],
        storage: Definition,
        admission: Admission,
        find: Find,
        *,
        in_thread: bool = False,
    ) -> None:
        self._find = find
        self._in_thread = in_thread
        self._definitions = definitions  # by served version
        self._storage = storage
        self._admission = admission
        self._versions = storage.storage.versions
        self._all_views: dict[str, FieldViews] = {}
        self._chains: dict[tuple[str, str, str], Chain] = {}

    def _views(self, version: str) -> FieldViews:
        """For a command in this version. Objects of a custom kind are in it, all others in their storage version."""
        working = version if self._versions is not None else ""
        views = self._all_views.get(working)
        if views is None:
            views = self._all_views[working] = FieldViews(self._definitions, working)
        return views

    def _current(self, attempt: Attempt, namespace: str, name: str) -> Current | None:
        """The current object, that of a custom kind in the version of the command. ConversionNeeded."""
        current, version = self._find(attempt.view, namespace, name), attempt.command.version
        if current is None or self._versions is None or current.api_version == version:
            return current
        shown = self._versions.convert(current.object, current.api_version, version)
        return replace(current, object=shown, stored=current.object)

    def decide(self, attempt: Attempt) -> Decided:
        definition = self._definitions.get(attempt.command.version)
        if definition is None:
            raise NoSuchResource  # the version was removed while the command waited
        attempt.definition = definition
        match attempt.command:
            case Create() as create:
                return self._create(attempt, create)
            case Replace() as replacement:
                return self._replace(attempt, replacement)
            case Patch() as patch:
                return self._patch(attempt, patch)
            case Submit() as submit:
                return self._submit(attempt, submit)
            case Delete() as delete:
                return self._delete(attempt, delete)

    def _create(self, attempt: Attempt, command: Create, verb: str = "create") -> Decided:
        definition, new = attempt.definition, working_copy(command.object)
        metadata = new["metadata"]
        if definition.create_refusal:
            raise Forbidden(definition.resource, metadata.get("name", ""), definition.create_refusal)
        warnings = drop_duplicate_owner_references(metadata, SENT)
        if verb != "apply":
            drop_system_metadata(metadata)
            self._set_managers(command, new, None)
        new = self._admit(attempt, CREATE, metadata.get("name", ""), new, None)
        name = generate_name(new["metadata"], command.context.suffix)
        # Only whether there is one counts.
        current = self._find(attempt.view, command.namespace, name) if name else None
        prepare_create(definition, command, new)
        self._validate(attempt, new)
        decision = decide_create(definition, current, new)
        warnings = (*warnings, *definition.strategy.warnings(decision.object, None))
        return Decided(decision, None, verb, True, warnings)

    def _replace(self, attempt: Attempt, command: Replace) -> Decided:
        current = self._current(attempt, command.namespace, command.name)
        if current is None:
            return self._create_by_replace(attempt, command)
        check_uid(attempt.definition, command, current)
        return self._update(attempt, current, command, "update")

    def _create_by_replace(self, attempt: Attempt, command: Replace) -> Decided:
        definition = attempt.definition
        if not definition.strategy.allow_create_on_update or command.subresource:
            raise not_found(definition, command.name)
        if not command.may_create:
            raise may_not_create(definition, command)
        check_uid(definition, command, None)
        metadata = {
            key: value for key, value in command.object["metadata"].items() if key != "resourceVersion"
        }
        new = {**command.object, "metadata": metadata}
        create = Create(command.version, command.namespace, new, command.context, command.dry_run)
        return self._create(attempt, create, verb="update")

    def _patch(self, attempt: Attempt, command: Patch) -> Decided:
        definition = attempt.definition
        current = self._current(attempt, command.namespace, command.name)
        if command.format == "apply":
            return self._apply(attempt, current, command)
        if current is None:
            raise not_found(definition, command.name)
        viewed = definition.definition_at(command.subresource)
        patched = patch_object(viewed, current, command, in_thread=self._in_thread)
        try:
            decided = self._update(attempt, current, _as_replace(command, patched.object), "patch")
        except Invalid as error:
            if patched.problems and not definition.is_custom:
                raise BadRequest(f"{error}; besides: {', '.join(patched.problems)}") from None
            raise
        if not patched.warnings:
            return decided
        return Decided(decided.decision, current, "patch", warnings=(*patched.warnings, *decided.warnings))

    def _apply(self, attempt: Attempt, current: Current | None, command: Patch) -> Decided:
        definition = attempt.definition
        if current is None and command.subresource:
            raise not_found(definition, command.name)
        if current is None and not command.may_create:
            raise may_not_create(definition, command)
        wanted = apply_object(
            self._views(command.version), definition, current, command, in_thread=self._in_thread
        )
        if current is None:
            create = Create(command.version, command.namespace, wanted, command.context, command.dry_run)
            return self._create(attempt, create, "apply")
        return self._update(attempt, current, _as_replace(command, wanted), "apply")

    def _update(self, attempt: Attempt, current: Current, command: Replace, verb: str) -> Decided:
        definition, new = attempt.definition, working_copy(command.object)
        attempt.written = current.written
        if attempt.resumed is not None:
            check_unchanged_version(definition, current, command)
        viewed = definition.definition_at(command.subresource)
        warnings = drop_duplicate_owner_references(new["metadata"], SENT) if verb == "update" else ()
        if verb != "apply" and viewed is definition:
            self._set_managers(command, new, current.object)
        new = self._admit(attempt, UPDATE, command.name, new, current.object)
        warnings += drop_duplicate_owner_references(new["metadata"], AFTER_ADMISSION)
        # A patch of an object that had no version yet has none either, even if the version is known by now.
        unversioned = verb != "update" and isinstance(attempt.written, Proposal)
        prepared = prepare_replace(definition, current, command, new, unversioned=unversioned)
        self._validate(attempt, new)
        decision = decide_replace(definition, current, prepared)
        warnings = (*warnings, *viewed.strategy.warnings(new, current.object))
        return Decided(decision, current, verb, warnings=warnings)

    def _submit(self, attempt: Attempt, command: Submit) -> Decided:
        current = self._current(attempt, command.namespace, command.name)
        sent = working_copy(command.object)
        document = self._admit(attempt, CREATE, command.name, sent, None)
        decision = decide_submit(attempt.definition, current, command, document)
        self._validate(attempt, document)
        return Decided(decision, current, "create", created=True)

    def _delete(self, attempt: Attempt, command: Delete) -> Decided:
        definition = attempt.definition
        current = self._find(attempt.view, command.namespace, command.name)
        if current is None:
            raise not_found(definition, command.name)
        attempt.written = current.written
        # A custom object stays in the version in which it is stored, so that no deletion depends on a webhook.
        self._run_admission(attempt, DELETE, command.name, None, current.object, current.api_version)
        self._validate(attempt, None)
        return Decided(decide_delete(definition, current, command), current, command.verb)

    def _set_managers(self, command: Create | Replace, new: Object, before: Object | None) -> None:
        """Set metadata.managedFields as it is after this write."""
        context, metadata = command.context, new["metadata"]
        subresource = command.subresource if isinstance(command, Replace) else ""
        views = self._views(command.version)
        view = views(command.version, subresource)
        entries = owned_after(views, view, before, new, context.manager, seconds_text(context.time))
        null_empty_lists(self._storage.schema, new)
        metadata.pop("managedFields", None)
        if entries:
            metadata["managedFields"] = entries

    def _admit(self, attempt: Attempt, operation: str, name: str, new: Object, old: Object | None) -> Object:
        """The object after mutating admission and completion by the server."""
        request = self._run_admission(attempt, operation, name, new, old)
        if request is None or request.object is None:
            return new
        return request.object

    def _run_admission(
        self,
        attempt: Attempt,
        operation: str,
        name: str,
        new: Object | None,
        old: Object | None,
        old_version: str = "",
    ) -> AdmissionRequest | None:
        command = attempt.command
        # A tuple of types, because a union of them would be built with every call.
        subresource = command.subresource if isinstance(command, (Replace, Patch, Submit)) else ""
        chain = self._chain(attempt.definition, operation, subresource)
        if not chain:
            return None
        if attempt.resumed is not None:
            if _is_current(attempt, attempt.resumed, chain):
                return self._resume(attempt, attempt.resumed)
            # Release what the outdated attempt reserved, so that this one can reserve it again.
            self._release(attempt.resumed.request)
        context = command.context
        request = AdmissionRequest(
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
        request.written, request.old_version = attempt.written, old_version
        if isinstance(command, Delete):
            request.delete_options = command.options
        if self._in_thread:
            request.in_thread = True
        attempt.request, attempt.chain = request, chain
        self._run_changes(attempt, request, 0)
        return request

    def _resume(self, attempt: Attempt, progress: Progress) -> AdmissionRequest:
        """Continue after the asynchronous step that has its outcome."""
        request = progress.request
        attempt.request, attempt.chain, attempt.resumed = request, progress.chain, None
        attempt.written = progress.written
        request.object = progress.object
        for check in progress.chain.repeated:
            check(request)
        if progress.validating:
            attempt.first_check = progress.index + 1
            self._keep_admitted(attempt, request)
        else:
            self._run_changes(attempt, request, progress.index + 1)
        return request

    def _release(self, request: AdmissionRequest) -> None:
        """Give back what plugins reserved; they do that in the event loop."""
        if self._in_thread:
            trio.from_thread.run_sync(request.complete, False)
        else:
            request.complete(False)

    def repeat_checks(self, attempt: Attempt) -> None:
        """Run the checks again whose outcome may have changed while a thread decided the command."""
        request = attempt.request
        if request is not None and attempt.chain.repeated:
            # Not those of the attempt, which are for a thread.
            for check in self._chain(attempt.definition, request.operation, request.subresource).repeated:
                check(request)

    def _run_changes(self, attempt: Attempt, request: AdmissionRequest, first: int) -> None:
        chain = attempt.chain
        index = chain.admit(request, first)
        if index is not None:
            raise Paused(Progress(request, chain, index, False, request.object, attempt.written))
        # In a thread, a webhook may be configured between now and the validating steps.
        if chain.asynchronous and (self._in_thread or chain.may_wait(request)):
            self._keep_admitted(attempt, request)

    def _keep_admitted(self, attempt: Attempt, request: AdmissionRequest) -> None:
        """Remember the object before preparation, and let preparation change a copy."""
        attempt.admitted = request.object
        if request.object is not None:
            request.object = working_copy(request.object)

    def _validate(self, attempt: Attempt, prepared: Object | None) -> None:
        request = attempt.request
        if request is not None:
            request.object = prepared
            chain = attempt.chain
            index = chain.validate(request, attempt.first_check)
            if index is not None:
                raise Paused(Progress(request, chain, index, True, attempt.admitted, attempt.written))

    def _chain(self, definition: Definition, operation: str, subresource: str) -> Chain:
        address = definition.api_version, operation, subresource
        chain = self._chains.get(address)
        if chain is None:
            chain = self._chains[address] = self._admission.chain(definition, operation, subresource)
        return chain


def _is_current(attempt: Attempt, progress: Progress, chain: Chain) -> bool:
    """Whether the object and the compiled chain are the same as when the command was paused."""
    return progress.chain is chain and is_same_event(attempt.written, progress.written)


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
