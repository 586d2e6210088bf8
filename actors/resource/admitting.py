"""Takes one command through admission: mutating plugins, completion, and later the validating plugins.

`Commands` calls `admit` before it prepares an object and `validate` after it. Both raise `Paused` at an asynchronous
step. When the command comes back with the outcome of that step, it continues behind it, if neither its object nor the
definitions have changed; otherwise admission starts again.
"""

from __future__ import annotations

import trio

from actors.admission.chain import Admission, Chain
from actors.admission.request import AdmissionRequest
from actors.kinds.declaration.definition import Definition
from actors.messages import COLLECTION, Create, Delete, Object
from actors.resource.attempt import Attempt, Paused, Progress, is_same_event
from actors.resource.decide import working_copy


class CommandAdmission:
    """The admission of the commands of one resource type."""

    def __init__(self, admission: Admission, *, in_thread: bool) -> None:
        self._admission = admission
        self._in_thread = in_thread
        self._chains: dict[tuple[str, str, str], Chain] = {}

    def admit(
        self,
        attempt: Attempt,
        operation: str,
        subresource: str,
        name: str,
        new: Object,
        old: Object | None,
    ) -> Object:
        """The object after mutating admission and completion by the server."""
        request = self.run(attempt, operation, subresource, name, new, old)
        if request is None or request.object is None:
            return new
        return request.object

    def run(
        self,
        attempt: Attempt,
        operation: str,
        subresource: str,
        name: str,
        new: Object | None,
        old: Object | None,
        old_version: str = "",
    ) -> AdmissionRequest | None:
        command = attempt.command
        chain = self._chains.get((command.version, operation, subresource))
        if chain is None:
            chain = self.chain(attempt.definition, operation, subresource)
        if not chain.changes and not chain.checks:
            return None
        warned: tuple[str, ...] = ()  # by an outdated attempt
        if attempt.resumed is not None:
            if _is_current(attempt, attempt.resumed, chain):
                return self.resume(attempt, attempt.resumed)
            # Release what the outdated attempt reserved, so that this one can reserve it again.
            self._release(attempt.resumed.request)
            warned = attempt.resumed.request.warnings
        elif chain.admits_all(command.namespace):
            attempt.chain = chain
            return None
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
        if old is not None:
            request.written, request.old_version = attempt.written, old_version
            if isinstance(command, Delete):
                request.delete_options, request.evicts = command.options, command.evicts
                request.in_collection = command.verb == COLLECTION
        if warned:
            request.warnings = warned
        if self._in_thread:
            request.in_thread = True
        attempt.request, attempt.chain = request, chain
        self._run_changes(attempt, request, 0)
        return request

    def resume(self, attempt: Attempt, progress: Progress) -> AdmissionRequest:
        """Continue after the asynchronous step that has its outcome."""
        request = progress.request
        attempt.request, attempt.chain, attempt.resumed = request, progress.chain, None
        attempt.written = progress.written
        kept = progress.kept
        if kept is not None and progress.object is None:
            request.object = kept.new
        else:
            request.object = progress.object
        for check in progress.chain.repeated:
            check(request)
        if progress.validating:
            attempt.first_check = progress.index + 1
            if kept is not None:
                attempt.admitted = progress.object
            else:
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
            for check in self.chain(attempt.definition, request.operation, request.subresource).repeated:
                check(request)

    def _run_changes(self, attempt: Attempt, request: AdmissionRequest, first: int) -> None:
        chain = attempt.chain
        index = chain.admit(request, first)
        if index is not None:
            raise Paused(Progress(request, chain, index, False, request.object, attempt.written))
        # A create that waits goes on with the object that it has prepared, unless a step annotates it.
        if isinstance(attempt.command, Create) and not chain.annotates:
            return
        # In a thread, a webhook may be configured between now and the validating steps.
        if chain.asynchronous and (self._in_thread or chain.may_wait(request)):
            self._keep_admitted(attempt, request)

    def _keep_admitted(self, attempt: Attempt, request: AdmissionRequest) -> None:
        """Remember the object before preparation, and let preparation change a copy."""
        attempt.admitted = request.object
        if request.object is not None:
            request.object = working_copy(request.object)

    def validate(self, attempt: Attempt, prepared: Object | None) -> None:
        request = attempt.request
        if request is not None:
            request.object = prepared
            chain = attempt.chain
            index = chain.validate(request, attempt.first_check)
            if index is not None:
                raise Paused(Progress(request, chain, index, True, attempt.admitted, attempt.written))
        else:
            attempt.chain.count_validated()

    def chain(self, definition: Definition, operation: str, subresource: str) -> Chain:
        address = definition.api_version, operation, subresource
        chain = self._chains.get(address)
        if chain is None:
            chain = self._chains[address] = self._admission.chain(definition, operation, subresource)
        return chain


def _is_current(attempt: Attempt, progress: Progress, chain: Chain) -> bool:
    """Whether the object and the compiled chain are the same as when the command was paused."""
    return progress.chain is chain and is_same_event(attempt.written, progress.written)
