"""Takes one command through patching, mutating admission, preparation, validation, validating admission and decision.

The actor calls `decide` for each command of a batch. It stores nothing and sends no response: the result is a
`Decided`, or an error that refuses the command, or `Paused` if an asynchronous admission step must come first. No
function changes a command, so that it can be decided again: they work on copies. The state of one attempt is in its
`Attempt`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from actors.admission.chain import Admission
from actors.admission.request import CREATE, DELETE, UPDATE
from actors.errors import BadRequest, Forbidden, Invalid, NoSuchResource
from actors.kinds.declaration.definition import Definition
from actors.kinds.values.times import seconds_text
from actors.messages import Create, Delete, Object, Patch, Replace, Submit
from actors.patch.managed_fields.field_view import FieldView, FieldViews
from actors.patch.managed_fields.ownership import Creation, owned_after
from actors.resource.admitting import CommandAdmission
from actors.resource.applying import apply_object
from actors.resource.attempt import Attempt, Decided, Kept, Paused, Progress, make_decided
from actors.resource.decide import (
    Current,
    Keep,
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
    working_copy,
)
from actors.resource.patching import patch_object
from actors.store.addressing import not_found
from actors.store.document import null_empty_lists
from actors.store.proposal import Proposal
from journal.view import View

Find = Callable[[View | None, str, str], Current | None]  # (view, namespace, name) -> the current object
Written = Callable[[View | None, str, str], int | Proposal]  # the same -> the event that wrote it


class Commands:
    """Decides the commands of one resource type."""

    def __init__(
        self,
        definitions: dict[str, Definition],
        storage: Definition,
        admission: Admission,
        find: Find,
        written: Written,
        *,
        in_thread: bool = False,
    ) -> None:
        self._find = find
        self._written = written
        self._in_thread = in_thread
        self._definitions = definitions  # by served version
        self._storage = storage
        self._admission = CommandAdmission(admission, in_thread=in_thread)
        self._versions = storage.storage.versions
        self._all_views: dict[str, FieldViews] = {}
        self._found_views: dict[tuple[str, str], tuple[FieldViews, FieldView]] = {}
        self._creations: dict[str, Creation] = {}  # by version

    def repeat_checks(self, attempt: Attempt) -> None:
        """Run the checks again whose outcome may have changed while a thread decided the command."""
        self._admission.repeat_checks(attempt)

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
        if current is None or self._versions is None:
            return current
        attempt.written = current.written
        if current.api_version == version:
            return current
        shown = self._versions.convert(current.object, current.api_version, version)
        return replace(current, object=shown, stored=current.object)

    def decide(self, attempt: Attempt) -> Decided:
        definition = self._definitions.get(attempt.command.version)
        if definition is None:
            raise NoSuchResource  # the version was removed while the command waited
        attempt.definition = definition
        if attempt.resumed is not None and self._can_continue(attempt, attempt.resumed):
            return self._continue(attempt, attempt.resumed)
        command = attempt.command
        if type(command) is Create:  # the most frequent one, and cheaper than a pattern
            return self._create(attempt, command)
        match command:
            case Create():
                return self._create(attempt, command)
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
        warnings = drop_duplicate_owner_references(metadata, SENT) if "ownerReferences" in metadata else ()
        if verb != "apply":
            drop_system_metadata(metadata)
            creation = self._creations.get(command.version) or self._find_creation(command.version)
            context = command.context
            self._put_managers(new, creation.entries(new, context.manager, context.time))
        try:
            request = self._admission.run(attempt, CREATE, "", metadata.get("name", ""), new, None)
        except Paused as paused:
            paused.progress.kept = Kept(command, None, verb, warnings)
            raise
        if request is not None and request.object is not None:
            new = request.object
        return self._create_admitted(attempt, command, new, verb, warnings)

    def _create_admitted(
        self,
        attempt: Attempt,
        command: Create,
        new: Object,
        verb: str,
        warnings: tuple[str, ...],
        *,
        prepared: bool = False,
    ) -> Decided:
        """What follows the mutating plugins; `prepared`: only the validating ones and the decision are left."""
        definition = attempt.definition
        metadata = new["metadata"]
        name = metadata.get("name") or generate_name(metadata, command.context.suffix)
        # Only whether there is one counts.
        current = self._find(attempt.view, command.namespace, name) if name else None
        if not prepared:
            prepare_create(definition, command, new)
        try:
            self._admission.validate(attempt, new)
        except Paused as paused:
            paused.progress.kept = Kept(command, None, verb, warnings, new, new)
            raise
        decision = decide_create(definition, current, new)
        if more := definition.strategy.warnings(new, None):
            warnings = (*warnings, *more)
        return make_decided((decision, None, verb, True, warnings))

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
        new = command.object
        if not command.dry_run:
            metadata = {key: value for key, value in new["metadata"].items() if key != "resourceVersion"}
            new = {**new, "metadata": metadata}
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
        except Paused as paused:
            if patched.problems or patched.warnings:
                paused.progress.kept = None  # they are added here
            raise
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
        sent = verb == "update" and "ownerReferences" in new["metadata"]
        warnings = drop_duplicate_owner_references(new["metadata"], SENT) if sent else ()
        if verb != "apply" and viewed is definition:
            self._set_managers(command, new, current.object)
        try:
            new = self._admission.admit(
                attempt, UPDATE, command.subresource, command.name, new, current.object
            )
        except Paused as paused:
            paused.progress.kept = Kept(command, current, verb, warnings)
            raise
        return self._update_admitted(attempt, current, command, new, verb, warnings)

    def _update_admitted(
        self,
        attempt: Attempt,
        current: Current,
        command: Replace,
        new: Object,
        verb: str,
        warnings: tuple[str, ...],
        prepared: Object | None = None,
    ) -> Decided:
        """What follows the mutating plugins; with `prepared`, only the validating ones and the decision are left."""
        definition = attempt.definition
        if prepared is None:
            if "ownerReferences" in new["metadata"]:
                warnings += drop_duplicate_owner_references(new["metadata"], AFTER_ADMISSION)
            # A patch of an object that had no version yet has none either, even if the version is known by now.
            unversioned = verb != "update" and isinstance(attempt.written, Proposal)
            prepared = prepare_replace(definition, current, command, new, unversioned=unversioned)
            new = _reviewed(definition, command, new, prepared)
        try:
            self._admission.validate(attempt, new)
        except Paused as paused:
            paused.progress.kept = Kept(command, current, verb, warnings, new, prepared)
            raise
        decision = decide_replace(definition, current, prepared)
        viewed = definition.definition_at(command.subresource)
        if more := viewed.strategy.warnings(new, current.object):
            warnings = (*warnings, *more)
        return make_decided((decision, current, verb, False, warnings))

    def _can_continue(self, attempt: Attempt, progress: Progress) -> bool:
        """Whether what a paused command kept is what deciding it again would give.

        That is so if definition and object are the same. An object whose version was not known yet is read again. A
        dry run, which stores nothing, goes on with the object that it has read.
        """
        kept, request = progress.kept, progress.request
        if kept is None or isinstance(progress.written, Proposal):
            return False
        chain = self._admission.chain(attempt.definition, request.operation, request.subresource)
        if chain is not progress.chain:
            return False
        command = attempt.command
        # Whether a new object's name is free is checked with the decision.
        return (
            isinstance(command, Create)
            or command.dry_run
            or self._written(attempt.view, command.namespace, command.name) == progress.written
        )

    def _continue(self, attempt: Attempt, progress: Progress) -> Decided:
        """Continue after an asynchronous step with what was kept."""
        kept = progress.kept
        assert kept is not None
        try:
            request = self._admission.resume(attempt, progress)
        except Paused as paused:
            paused.progress.kept = kept
            raise
        new = kept.new if progress.validating else request.object
        assert new is not None
        command, current = kept.command, kept.current
        if isinstance(command, Create):
            is_prepared = progress.validating
            return self._create_admitted(
                attempt, command, new, kept.verb, kept.warnings, prepared=is_prepared
            )
        assert current is not None
        return self._update_admitted(attempt, current, command, new, kept.verb, kept.warnings, kept.prepared)

    def _submit(self, attempt: Attempt, command: Submit) -> Decided:
        """Admission has reviewed the sent object before."""
        current = self._current(attempt, command.namespace, command.name)
        decision = decide_submit(attempt.definition, current, command, working_copy(command.object))
        return Decided(decision, current, "create", created=True)

    def _delete(self, attempt: Attempt, command: Delete) -> Decided:
        definition = attempt.definition
        current = self._find(attempt.view, command.namespace, command.name)
        if current is None:
            raise not_found(definition, command.name)
        attempt.written = current.written
        if is_pending(definition, current, command):
            return Decided(Keep(), current, command.verb)
        # A custom object stays in the version in which it is stored, so that no deletion depends on a webhook.
        self._admission.run(attempt, DELETE, "", command.name, None, current.object, current.api_version)
        self._admission.validate(attempt, None)
        return Decided(decide_delete(definition, current, command), current, command.verb)

    def _set_managers(self, command: Replace, new: Object, before: Object) -> None:
        """Set metadata.managedFields as it is after this update."""
        context, key = command.context, (command.version, command.subresource)
        views, view = self._found_views.get(key) or self._find_views(*key)
        time = seconds_text(context.time)
        self._put_managers(new, owned_after(views, view, before, new, context.manager, time))

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
