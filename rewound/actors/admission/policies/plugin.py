"""What the plugins of validating and of mutating policies have in common: when a step runs, where, and how often.

Most steps stay in the actor. A step runs in a worker thread if its expressions take long, and starts again after
something that it has to wait for (`MustWait`): an object or a parameter that a webhook converts, an authorizer that
asks a webhook, the version of an object that is being committed. So it reports what it has found at its end.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, Generic, NamedTuple, TypeVar

import trio

from rewound.actors.admission.plugin import UNCONCERNED, Admitted, AsyncPlugin
from rewound.actors.admission.policies.params import MustWait, Params
from rewound.actors.admission.policies.policy import C, Invoked, Policies, Policy
from rewound.actors.admission.request import AdmissionRequest
from rewound.actors.admission.timings import ConditionTimings
from rewound.actors.names import Names
from rewound.actors.runtime.background_import import imported as load_module
from rewound.actors.runtime.background_import import is_imported
from rewound.actors.runtime.threads import run_in_thread
from rewound.actors.runtime.time_limit import NeedsThread, need_thread, run_limited

if TYPE_CHECKING:
    from rewound.actors.admission.policies.review import Review, Reviewer

# Larger policies, in bytes, are compiled in a worker thread: some milliseconds.
SMALL_POLICY: Final = 2000
ADMITTED: Final = Admitted()
T = TypeVar("T")


# For metrics: a policy whose match conditions are not all true, how many have no value, and the time for all.
UnmetConditions = tuple[str, int, float]


class Decided(NamedTuple):
    """What a policy with a binding does about a request: deny, warn, audit, change, or allow although it failed."""

    binding: str
    action: str
    message: str
    changes: tuple[str, ...] = ()


class Tried(NamedTuple):
    """What a policy would do about a request, and the cost of its expressions."""

    policy: str
    cost: int
    decisions: tuple[Decided, ...]


class PolicyPlugin(AsyncPlugin, Generic[C]):
    expressions: ClassVar[str]  # the module with `PolicyRun`, which imports CEL when a policy first matches
    validates_prepared: ClassVar[bool]  # the object is complete, and not one that plugins may still change

    def __init__(
        self,
        names: Names,
        features: frozenset[str],
        policies: Policies[C],
        params: Params,
        new_reviewer: Callable[[], Reviewer],
        conditions: ConditionTimings,
    ) -> None:
        """`new_reviewer` imports CEL too."""
        self._names, self._features = names, features
        self._policies, self._params = policies, params
        self._new_reviewer, self._conditions = new_reviewer, conditions
        self._reviewer: Reviewer | None = None
        self._thread = trio.CapacityLimiter(1)
        policies.set_plugin(self)

    def concerns(self, request: AdmissionRequest) -> bool:
        return bool(self._policies.matching(request))

    def may_concern(self, request: AdmissionRequest) -> bool:
        return self._policies.may_match(request)

    def admit_now(self, request: AdmissionRequest) -> Admitted | None:
        invoked = self._policies.invoked(request)
        if not invoked:
            return UNCONCERNED
        if self._reviewer is None and not is_imported(self.expressions, "PolicyRun"):
            need_thread()
        try:
            return self._admit(self._review(request), invoked)
        except MustWait:
            return None

    async def admit(self, request: AdmissionRequest) -> Admitted:
        invoked = self._policies.invoked(request)
        return await self._waiting(self._admit, request, invoked) if invoked else ADMITTED

    async def try_each(self, request: AdmissionRequest) -> list[Tried]:
        """What each policy that matches would do if it were the only one; nothing is counted or annotated."""
        return [await self._waiting(self._try, request, [one]) for one in self._policies.invoked(request)]

    def _admit(self, review: Review, invoked: list[Invoked[C]]) -> Admitted:
        """Evaluate policies. Raises PolicyDenied, NeedsThread and MustWait. Any thread may call it."""
        raise NotImplementedError

    def _try(self, review: Review, invoked: list[Invoked[C]]) -> Tried:
        """Evaluate one policy, and report everything that it decides. Raises NeedsThread and MustWait."""
        raise NotImplementedError

    def _compile(self, policy: Policy[C]) -> C:
        """Compile the expressions of a policy."""
        raise NotImplementedError

    async def _waiting(
        self,
        evaluate: Callable[[Review, list[Invoked[C]]], T],
        request: AdmissionRequest,
        invoked: list[Invoked[C]],
    ) -> T:
        """Evaluate policies in a thread if that takes long, and again after whatever they have to wait for."""
        await load_module(self.expressions)
        review = self._review(request)
        while True:
            try:
                try:
                    return evaluate(review, invoked)
                except NeedsThread:
                    run = partial(run_limited, evaluate, review, invoked)
                    return await run_in_thread(run, limiter=self._thread)
            except MustWait as missing:
                await missing.fetch()

    def _review(self, request: AdmissionRequest) -> Review:
        if self._reviewer is None:
            self._reviewer = self._new_reviewer()
        return self._reviewer.review(request, is_prepared=self.validates_prepared)

    def _count_conditions(self, request: AdmissionRequest, unmet: list[UnmetConditions]) -> None:
        for policy, failed, seconds in unmet:
            # Kubernetes counts those of mutating policies as "validate", too.
            self._conditions.evaluated((policy, "policy", "validate", request.operation), failed, seconds)

    def _compiled(self, policy: Policy[C]) -> C:
        """The expressions of a policy; compiled on first use."""
        if policy.compiled is None:
            if policy.size > SMALL_POLICY:
                need_thread()
            policy.compiled = self._compile(policy)
        return policy.compiled
