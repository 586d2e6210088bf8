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
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from rewound.actors.access.authorize import join_errors
from rewound.actors.admission.plugin import Admitted, denied_mutation, rule
from rewound.actors.admission.policies.params import ParamProblem, Params
from rewound.actors.admission.policies.plugin import ADMITTED, Decided, PolicyPlugin, Tried, UnmetConditions
from rewound.actors.admission.policies.policy import Binding, Invoked, Policies, Policy
from rewound.actors.admission.request import CONNECT, CREATE, UPDATE, Reinvocation
from rewound.actors.admission.timings import ConditionTimings, MutationChecks
from rewound.actors.errors import ConversionFailed
from rewound.actors.golang.json import dumps
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.rewind.difference import ABSENT, Change, difference
from rewound.actors.versions.features import MUTATION_METRICS

if TYPE_CHECKING:
    from rewound.actors.admission.policies.mutation import MutatingExpressions, PolicyRun
    from rewound.actors.admission.policies.review import Review, Reviewer

MOST_CHANGES: Final = 50  # of an object on which a policy is tried


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


class _Outcome(msgspec.Struct):
    """What a step has found so far."""

    refusals: list[tuple[str, str]] = msgspec.field(default_factory=list)  # texts and reasons
    problems: list[tuple[str, str]] = msgspec.field(default_factory=list)  # bindings and texts of refusals
    warnings: list[str] = msgspec.field(default_factory=list)
    checks: list[tuple[str, str, str, float]] = msgspec.field(default_factory=list)  # for metrics
    unmet: list[UnmetConditions] = msgspec.field(default_factory=list)

    def refuse(
        self, policy: Policy[MutatingExpressions], binding: Binding | None, text: str, reason: str
    ) -> None:
        if not policy.fails_closed:
            return
        named = (
            f"policy '{policy.name}' with binding '{binding.name}'" if binding else f'policy "{policy.name}"'
        )
        self.problems.append((binding.name if binding else "", text))
        self.refusals.append((f"{named} denied request: {text}", reason))


class MutatingAdmissionPolicy(PolicyPlugin["MutatingExpressions"]):
    name = "MutatingAdmissionPolicy"
    mutates = (rule(CREATE, UPDATE, CONNECT, subresources=None),)

    expressions = "rewound.actors.admission.policies.mutation"
    validates_prepared = False

    def __init__(
        self,
        names: Names,
        features: frozenset[str],
        policies: Policies[MutatingExpressions],
        params: Params,
        new_reviewer: Callable[[], Reviewer],
        conditions: ConditionTimings,
    ) -> None:
        super().__init__(names, features, policies, params, new_reviewer, conditions)
        self.checks = MutationChecks() if MUTATION_METRICS in features else None

    def _admit(self, review: Review, invoked: list[Invoked[MutatingExpressions]]) -> Admitted:
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
                state = state._replace(called=state.called | {one.identity})
        self._count_conditions(request, outcome.unmet)
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
        state = state._replace(output=current.request.object)
        due = before.due or (changed and not before.round)
        return Admitted(
            current.request.object if current is not review else None,
            tuple(outcome.warnings),
            reinvocation=before._replace(due=due, policies=state),
        )

    def _try(self, review: Review, invoked: list[Invoked[MutatingExpressions]]) -> Tried:
        (one,), outcome, decided = invoked, _Outcome(), []
        review.work.cost = 0
        for each in self._invocations(one, review, outcome):
            left = self._mutate(each, review, outcome) if self._matches(each, review, outcome) else None
            before, after = review.request.object, left.request.object if left is not None else None
            if before is not None and after is not None and before != after:
                changes = tuple(map(_shown, difference(before, after, most=MOST_CHANGES)))
                decided.append(Decided(each.binding.name, "change", "changes the object", changes))
        decided += [Decided(binding, "deny", text) for binding, text in outcome.problems]
        return Tried(one.policy.name, review.work.cost, tuple(decided))

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
        unmet = self._run(one, review).unmet_conditions(review)
        if unmet is None:
            return True
        outcome.unmet.append((one.policy.name, unmet.failed, unmet.seconds))
        if not unmet.are_false:
            outcome.refuse(one.policy, one.binding, join_errors(unmet.problems), "Invalid")
        return False

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
        return self._compiled(one.policy).run(review, one.definition, one.param)

    def _compile(self, policy: Policy[MutatingExpressions]) -> MutatingExpressions:
        from rewound.actors.admission.policies.mutation import compile_policy

        return compile_policy(self._names, self._features, policy.spec)


def _shown(change: Change) -> str:
    value = change.before if change.after is ABSENT else change.after
    return f"{change.sign} {change.path} {dumps(value).decode()}"
