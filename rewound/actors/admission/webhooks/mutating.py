"""MutatingAdmissionWebhook: asks the webhooks that may change an object, one after the other.

They run in the order of their configurations' names and of the lists in them. When one has changed the object, all
mutating plugins run once more. In this second round only webhooks with reinvocationPolicy IfNeeded are asked again,
and of these only those after whose call the object changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from time import perf_counter
from typing import Final

import trio

from rewound.actors.admission.plugin import Admitted, AsyncPlugin, rule
from rewound.actors.admission.request import CONNECT, CREATE, DELETE, UPDATE, AdmissionRequest, Reinvocation
from rewound.actors.admission.timings import INTERNAL, WebhookTimings
from rewound.actors.admission.webhooks.caller import WebhookCaller
from rewound.actors.admission.webhooks.candidates import Match, selects_object
from rewound.actors.admission.webhooks.clients import WebhookClients
from rewound.actors.admission.webhooks.documents import Patched, apply_patch, parse_patch
from rewound.actors.admission.webhooks.matching import ConditionsMet, Configurations
from rewound.actors.admission.webhooks.review import JSON_PATCH
from rewound.actors.conversion.converter import Converter
from rewound.actors.errors import ConversionFailed, RequestError, WebhookFailed
from rewound.actors.golang.json import dumps
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.runtime.threads import run_in_thread
from rewound.actors.runtime.time_limit import run_limited

# Patches up to this size are parsed and applied in the event loop.
SMALL_PATCH: Final = 4096
LONGEST_ANNOTATION: Final = 64 * 1024


class MutatingAdmissionWebhook(AsyncPlugin):
    name = "MutatingAdmissionWebhook"
    mutates = (rule(CREATE, UPDATE, DELETE, CONNECT, subresources=None),)
    runs = True
    calls_webhooks = True

    def __init__(
        self,
        names: Names,
        configurations: Configurations,
        clients: WebhookClients,
        timings: WebhookTimings,
        converter: Converter,
        conditions_met: ConditionsMet,
    ) -> None:
        self._conditions_met = conditions_met
        self._converter = converter
        self._configurations = configurations
        configurations.set_plugin(self)
        self._clients = clients
        # One: more threads would only take turns with the interpreter lock.
        self._thread = trio.CapacityLimiter(1)
        self.timings = timings
        self._caller = WebhookCaller(names, clients, timings, "admit", converter)
        self._mutation_key = f"{names.group('mutation.webhook.admission')}/round_%d_index_%d"
        self._patch_key = f"{names.group('patch.webhook.admission')}/round_%d_index_%d"

    async def run(self) -> None:
        await self._clients.run()

    def concerns(self, request: AdmissionRequest) -> bool:
        return bool(self._configurations.hooks and self._due(request))

    def may_concern(self, request: AdmissionRequest) -> bool:
        return self._configurations.may_match(request)

    def _due(self, request: AdmissionRequest) -> Sequence[Match]:
        found = self._configurations.matching(request)
        before = request.reinvocation
        if not found or before is None or not before.round:
            return found
        again = before.webhooks.since(request.object).again
        return [one for one in found if one.hook.identity in again]

    async def admit(self, request: AdmissionRequest) -> Admitted:
        before = request.reinvocation or Reinvocation()
        due, round_, state = before.due, before.round, before.webhooks
        if round_:
            state = state.since(request.object)
        first, current = state, request
        warnings: list[str] = []
        for match in self._configurations.candidates(request).matches:
            if not selects_object(match.hook, current):
                continue
            try:
                if match.hook.conditions is not None and not await self._conditions_met(match, current):
                    continue
                if round_ and match.hook.identity not in state.again:
                    continue
                changed = await self._ask(match, current, round_, warnings)
            except RequestError as error:
                error.warnings = (*warnings, *error.warnings)
                raise
            if changed is not None:
                # A copy, because no step changes the request: each webhook gets what the one before it has left.
                current = current.with_object(changed)
                due, state = not round_, state.changed()
            if match.hook.reinvoked:
                state = state._replace(called=state.called | {match.hook.identity})
        if state is first and current is request:
            return Admitted(None, tuple(warnings))
        state = state._replace(output=current.object)
        return Admitted(
            current.object, tuple(warnings), reinvocation=before._replace(due=due, webhooks=state)
        )

    async def _ask(
        self, match: Match, request: AdmissionRequest, round_: int, warnings: list[str]
    ) -> Object | None:
        """Ask one webhook; returns what it made of the object, None if that is the same."""
        began = perf_counter()
        changed = False
        try:
            verdict, document = await self._caller.ask(match, request, match.position)
            if verdict is None:
                return None
            warnings += verdict.warnings
            try:
                operations = await self._operations(verdict.patch) if verdict.patch else []
                patched = None
                if operations:
                    patched = await self._patch(match, request, document, operations, len(verdict.patch))
            except RequestError:
                self._caller.refused(match.hook, request, INTERNAL, 0, began)
                raise
            self._caller.passed(match.hook, request, began)
            if patched is None:
                return None
            changed = patched.changed
            warnings += patched.warnings
            self._annotate_patch(match, request, round_, operations)
            return patched.object if changed else None
        finally:
            self._annotate_call(match, request, round_, mutated=changed)

    async def _operations(self, patch: bytes) -> list[Object]:
        if len(patch) <= SMALL_PATCH:
            return parse_patch(patch)
        return await run_in_thread(parse_patch, patch, limiter=self._thread)

    async def _patch(
        self,
        match: Match,
        request: AdmissionRequest,
        document: Object | None,
        operations: list[Object],
        size: int,
    ) -> Patched:
        """The patched object; `size` is that of the patch."""
        if document is None:
            raise WebhookFailed(
                f'admission webhook "{match.hook.name}" attempted to modify the object, '
                "which is not supported for this operation"
            )
        apply = partial(apply_patch, request, match.definition, document, operations)
        copies = any(one.get("op") == "copy" for one in operations)  # a few can make a document large
        in_thread = request.in_thread or copies or size > SMALL_PATCH
        if in_thread:
            patched: Patched = await run_in_thread(run_limited, apply, limiter=self._thread)
        else:
            patched = apply()
        versions = match.definition.storage.versions
        if versions is None or not match.definition.converts_by_webhook:
            return patched
        if request.viewed_in(match.definition) is not match.definition:
            return patched
        source, target = match.definition.api_version, request.definition.api_version
        try:
            converted = await self._converter.convert_one(versions, patched.object, source, target)
        except ConversionFailed as error:
            raise WebhookFailed(str(error)) from None
        return patched._replace(object=converted)

    def _annotate_call(self, match: Match, request: AdmissionRequest, round_: int, *, mutated: bool) -> None:
        """Record a call in the audit event of the request, whatever came of it."""
        annotations = request.context.annotations if request.context is not None else None
        if annotations is not None:
            hook = {"configuration": match.hook.configuration, "webhook": match.hook.name}
            mutation = dumps({**hook, "mutated": mutated}).decode()
            annotations.setdefault(self._mutation_key % (round_, match.position), mutation)

    def _annotate_patch(
        self, match: Match, request: AdmissionRequest, round_: int, operations: list[Object]
    ) -> None:
        """Record a patch that was applied, as Go writes it."""
        annotations = request.context.annotations if request.context is not None else None
        if annotations is None:
            return
        patch = dumps(
            {
                "configuration": match.hook.configuration,
                "webhook": match.hook.name,
                "patch": [dict(sorted(one.items())) for one in operations],
                "patchType": JSON_PATCH,
            }
        )
        if len(patch) <= LONGEST_ANNOTATION:
            annotations.setdefault(self._patch_key % (round_, match.position), patch.decode())
