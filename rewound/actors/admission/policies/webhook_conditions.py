"""The match conditions of webhooks: expressions about a request, all of which must be true for a webhook to be called.

They are evaluated after rules and selectors, so that webhooks without conditions cost nothing more. One that is false
excludes the webhook, whatever the others are; if none is and some have no value, failurePolicy decides: Ignore excludes
the webhook, Fail refuses the write. The conditions of a webhook are compiled when a write first needs them, and have
one budget together.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import trio

from rewound.actors.access.authorize import join_errors
from rewound.actors.admission.context import PluginContext
from rewound.actors.admission.policies.params import MustWait
from rewound.actors.admission.request import AdmissionRequest
from rewound.actors.admission.timings import ConditionTimings
from rewound.actors.admission.webhooks.candidates import Match
from rewound.actors.admission.webhooks.hook import Conditions
from rewound.actors.admission.webhooks.matching import ConditionsMet
from rewound.actors.admission.webhooks.review import reviewed_name
from rewound.actors.conversion.converter import Converter
from rewound.actors.errors import ConversionFailed, Forbidden, WebhookFailed
from rewound.actors.runtime.background_import import imported as load_module
from rewound.actors.runtime.threads import run_in_thread
from rewound.actors.runtime.time_limit import NeedsThread, need_thread, run_limited
from rewound.actors.versions.features import STRICT_CONDITION_COSTS

if TYPE_CHECKING:
    from rewound.actors.admission.policies.expressions import Conditions as Found
    from rewound.actors.admission.policies.review import Review, Reviewer

# Characters of the expressions of a webhook that are compiled in the event loop: some milliseconds.
SMALL: Final = 1000
_CEL: Final = "rewound.actors.admission.policies.review"
_EXCLUDED: Final = {"admit": "admit", "validating": "validate"}  # types as Kubernetes names them there


def conditions_met(
    context: PluginContext, type_: str, timings: ConditionTimings, converter: Converter
) -> ConditionsMet:
    """Return the check of match conditions for webhooks of one type: admit or validating, as in metrics."""
    return ConditionMatcher(context, type_, timings, converter).are_met


class ConditionMatcher:
    def __init__(
        self, context: PluginContext, type_: str, timings: ConditionTimings, converter: Converter
    ) -> None:
        self._context = context
        self._type, self._timings = type_, timings
        self._converter = converter
        self._reviewer: Reviewer | None = None
        # One: more threads would only take turns with the interpreter lock.
        self._thread = trio.CapacityLimiter(1)

    async def are_met(self, match: Match, request: AdmissionRequest) -> bool:
        """Whether a webhook is to be called. Raises Forbidden if that is unknown and it fails closed."""
        hook = match.hook
        if hook.conditions is None:
            return True
        if self._reviewer is None:
            self._reviewer = await self._new_reviewer()
        review = self._reviewer.review(request, is_prepared=self._type != "admit")
        try:
            found = await self._found(partial(self._evaluate, hook.conditions, match, review))
        except ConversionFailed as error:
            raise WebhookFailed(str(error)) from None
        if found.are_true:
            return True
        labels = hook.name, "webhook", self._type, request.operation
        self._timings.evaluated(labels, found.failed, found.seconds)
        if not found.are_false and hook.fails_closed:
            name = reviewed_name(request, request.object)
            raise Forbidden(request.definition.resource, name, join_errors(found.problems))
        self._timings.excluded((hook.name, "webhook", _EXCLUDED[self._type], request.operation))
        return False

    async def _new_reviewer(self) -> Reviewer:
        await load_module(_CEL)
        from rewound.actors.admission.policies.review import Reviewer

        context = self._context
        return Reviewer(context.names, context.features, context.journal, self._converter, context.authorizer)

    async def _found(self, evaluate: partial[Found]) -> Found:
        while True:
            try:
                try:
                    return evaluate()
                except NeedsThread:
                    return await run_in_thread(partial(run_limited, evaluate), limiter=self._thread)
            except MustWait as missing:
                await missing.fetch()

    def _evaluate(self, conditions: Conditions, match: Match, review: Review) -> Found:
        """Raises NeedsThread, MustWait and ConversionFailed. Any thread may call it."""
        from rewound.actors.admission.policies.expressions import (
            CONDITIONS_BUDGET,
            Scope,
            evaluate_conditions,
        )

        values = review.values(match.definition, for_conditions=True)
        scope = Scope(values, review.work, CONDITIONS_BUDGET)
        return evaluate_conditions(scope, self._compiled(conditions))

    def _compiled(self, conditions: Conditions) -> tuple[Any, ...]:
        from rewound.actors.admission.policies.expressions import PolicyCompiler

        if conditions.compiled is None:
            if sum(map(len, conditions.expressions)) > SMALL:
                need_thread()
            compiler = PolicyCompiler(
                self._context.names, self._context.features, strict_costs=STRICT_CONDITION_COSTS
            )
            conditions.compiled = tuple(compiler.compile(text, "bool") for text in conditions.expressions)
        return conditions.compiled
