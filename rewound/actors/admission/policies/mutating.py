"""MutatingAdmissionPolicy: changes the objects of writes by the expressions of policies, before webhooks do.

Policies run in the order of their names, for each of their bindings and parameters; each mutation gets what the one
before it has left. Which policies match is decided before the first change. After any change all mutating plugins run
once more; in this second round only policies with reinvocationPolicy IfNeeded run again, after whose run the object
changed. As in Kubernetes, the change of the last policy counts for itself.

An error does not keep later mutations from running; at the end it refuses the write, unless the failurePolicy of its
policy ignores it. Like that of validating policies, a step collects everything and may start again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from rewound.actors.admission.plugin import Admitted, AsyncPlugin, denied_mutation, rule
from rewound.actors.admission.policies.params import MustWait, ParamProblem, Params
from rewound.actors.admission.policies.policy import Binding, Invoked, Policies, Policy
from rewound.actors.admission.request import CONNECT, CREATE, UPDATE, AdmissionRequest, Reinvocation
from rewound.actors.admission.timings import MutationChecks
from rewound.actors.errors import ConversionFailed
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.runtime.background_import import imported as load_module
from rewound.actors.runtime.background_import import is_imported
from rewound.actors.runtime.threads import run_in_thread
from rewound.actors.runtime.time_limit import NeedsThread, need_thread, run_limited
from rewound.actors.versions.features import MUTATION_METRICS

if TYPE_CHECKING:
    from rewound.actors.admission.policies.mutation import MutatingExpressions, PolicyRun
    from rewound.actors.admission.policies.review import Review, Reviewer

_CEL: Final = "rewound.actors.admission.policies.mutation"
# Larger policies, in bytes, are compiled in a worker thread: some milliseconds.
SMALL_POLICY: Final = 2000
ADMITTED: Final = Admitted()


class _Invocation(NamedTuple):
    """A policy with one of its bindings, and one of the parameters of that."""

    policy: Policy[MutatingExpressions]
    binding: Binding
    definition: Definition
    param: Object | None

    @property
    def identity(self) -> Hashable:
        metadata = self.param["metadata"] if self.param is not None else {}
        return self.policy.name, self.binding.name, metadata.get("namespace"), metadata.get("name")


@dataclass(slots=True)
class _Outcome:
    """What a step has found so far."""

    refusals: list[tuple[str, str]] = field(default_factory=list)  # texts and reasons
    warnings: list[str] = field(default_factory=list)
    checks: list[tuple[str, str, str, float]] = field(default_factory=list)  # for metrics

    def refuse(
        self, policy: Policy[MutatingExpressions], binding: Binding | None, text: str, reason: str
    ) -> None:
        if not policy.fails_closed:
            return
        named = (
            f"policy '{policy.name}' with binding '{binding.name}'" if binding else f'policy "{policy.name}"'
        )
        self.refusals.append((f"{named} denied request: {text}", reason))


class MutatingAdmissionPolicy(AsyncPlugin):
    name = "MutatingAdmissionPolicy"
    mutates = (rule(CREATE, UPDATE, CONNECT, subresources=None),)

    def __init__(
        self,
        names: Names,
        features: frozenset[str],
        policies: Policies[MutatingExpressions],
        params: Params,
        new_reviewer: Callable[[], Reviewer],
    ) -> None:
        """`new_reviewer` imports CEL: it is called with the first request that a policy matches."""
        self._names, self._features = names, features
        self._policies, self._params = policies, params
        self._new_reviewer = new_reviewer
        self._reviewer: Reviewer | None = None
        self._thread = trio.CapacityLimiter(1)
        self.checks = MutationChecks() if MUTATION_METRICS in features else None
        policies.set_plugin(self)

    def concerns(self, request: AdmissionRequest) -> bool:
        return bool(self._policies.matching(request))

    def may_concern(self, request: AdmissionRequest) -> bool:
        return self._policies.may_match(request)

    def admit_now(self, request: AdmissionRequest) -> Admitted | None:
        invoked = self._policies.invoked(request)
        if not invoked:
            return ADMITTED
        if not is_imported(_CEL, "PolicyRun"):
            need_thread()
        try:
            return self._admit(self._review(request), invoked)
        except MustWait:
            return None

    async def admit(self, request: AdmissionRequest) -> Admitted:
        invoked = self._policies.invoked(request)
        if not invoked:
            return ADMITTED
        await load_module(_CEL)
        review = self._review(request)
        while True:
            try:
                try:
                    return self._admit(review, invoked)
                except NeedsThread:
                    run = partial(run_limited, self._admit, review, invoked)
                    return await run_in_thread(run, limiter=self._thread)
            except MustWait as missing:
                await missing.fetch()

    def _review(self, request: AdmissionRequest) -> Review:
        if self._reviewer is None:
            self._reviewer = self._new_reviewer()
        return self._reviewer.review(request, is_prepared=False)

    def _admit(self, review: Review, invoked: list[Invoked[MutatingExpressions]]) -> Admitted:
        """Run policies. Raises PolicyDenied, NeedsThread and MustWait. Any thread may call it."""
        request, outcome = review.request, _Outcome()
        before = request.reinvocation or Reinvocation()
        state = before.policies.since(request.object) if before.round else before.policies
        invocations = [one for policy in invoked for one in self._invocations(policy, review, outcome)]
        changed, current = False, review
        for one in invocations:
            if not self._matches(one, current, outcome):
                continue
            if before.round and one.identity not in state.again:
                continue
            left = self._mutate(one, current, outcome)
            if left is not None:
                if left.request.object != current.request.object:
                    state = state.changed()
                changed, current = True, left
            if one.policy.spec.get("reinvocationPolicy") == "IfNeeded":
                state = replace(state, called=state.called | {one.identity})
        if outcome.checks and self.checks is not None:
            self.checks.add_mutations(outcome.checks)
        if outcome.refusals:
            refusal = denied_mutation(request, [text for text, _ in outcome.refusals], outcome.refusals[0][1])
            refusal.warnings = tuple(outcome.warnings)
            raise refusal
        if not invocations:
            return ADMITTED
        if changed:
            state = state.changed()
        state = replace(state, output=current.request.object)
        due = before.due or (changed and not before.round)
        return Admitted(
            current.request.object if current is not review else None,
            tuple(outcome.warnings),
            reinvocation=replace(before, due=due, policies=state),
        )

    def _invocations(
        self, one: Invoked[MutatingExpressions], review: Review, outcome: _Outcome
    ) -> Iterator[_Invocation]:
        policy, kind = one.policy, None
        try:
            if policy.param_kind is not None:
                kind = self._params.definition(policy.param_kind)
        except ParamProblem as problem:
            outcome.refuse(policy, None, f"failed to configure policy: {problem}", "Forbidden")
            return
        for binding in one.bindings:
            try:
                found = self._params.of(kind, binding, review.namespace)
                review.values(one.definition)
            except (ParamProblem, ConversionFailed) as problem:
                outcome.refuse(policy, binding, f"failed to configure binding: {problem}", "Forbidden")
                continue
            for param in found:
                yield _Invocation(policy, binding, one.definition, param)

    def _matches(self, one: _Invocation, review: Review, outcome: _Outcome) -> bool:
        found = self._run(one, review).matches(review)
        if isinstance(found, str):
            outcome.refuse(one.policy, one.binding, found, "Invalid")
            return False
        return found

    def _mutate(self, one: _Invocation, review: Review, outcome: _Outcome) -> Review | None:
        """The review of what the mutations of a policy have left; None if none could be applied."""
        run, left = self._run(one, review), None
        for mutation in run.mutations:
            made = run.mutate(left or review, mutation)
            outcome.checks.append((one.policy.name, one.binding.name, made.error, made.seconds))
            if made.patched is None:
                outcome.refuse(one.policy, one.binding, made.problem, "Invalid")
                continue
            outcome.warnings += made.patched.warnings
            left = (left or review).after(made.patched.object)
        return left

    def _run(self, one: _Invocation, review: Review) -> PolicyRun:
        from rewound.actors.admission.policies.mutation import PolicyRun

        compiled = one.policy.compiled or self._compile(one.policy)
        return PolicyRun(compiled, review, one.definition, one.param)

    def _compile(self, policy: Policy[MutatingExpressions]) -> MutatingExpressions:
        from rewound.actors.admission.policies.mutation import compile_policy

        if policy.size > SMALL_POLICY:
            need_thread()
        compiled = policy.compiled = compile_policy(self._names, self._features, policy.spec)
        return compiled
