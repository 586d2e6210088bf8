"""ValidatingAdmissionPolicy: refuses, warns of or annotates writes for which an expression of a policy is not true.

All policies that match are evaluated, whatever the first one says; the error names the first refusal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from rewound.actors.admission.plugin import Admitted, denied, rule
from rewound.actors.admission.policies.params import ParamProblem, Params
from rewound.actors.admission.policies.plugin import ADMITTED, Decided, PolicyPlugin, Tried, UnmetConditions
from rewound.actors.admission.policies.policy import Binding, Invoked, Policies, Policy
from rewound.actors.admission.request import CONNECT, CREATE, DELETE, UPDATE
from rewound.actors.admission.timings import ConditionTimings, PolicyChecks
from rewound.actors.errors import ConversionFailed
from rewound.actors.golang.json import dumps
from rewound.actors.names import Names
from rewound.actors.versions.features import ERROR_TYPE_IN_POLICY_METRICS, UNBOUND_POLICIES_IGNORED

if TYPE_CHECKING:
    from rewound.actors.admission.policies.review import Review, Reviewer
    from rewound.actors.admission.policies.validation import Failure, ValidatingExpressions


class _Outcome(msgspec.Struct):
    """What a step has found so far."""

    refusals: list[tuple[str, str]] = msgspec.field(default_factory=list)  # texts and reasons
    warnings: list[str] = msgspec.field(default_factory=list)
    annotations: list[tuple[str, str]] = msgspec.field(default_factory=list)
    checks: list[tuple[str, str, str, str, float]] = msgspec.field(default_factory=list)  # for metrics
    problems: list[tuple[str, str]] = msgspec.field(
        default_factory=list
    )  # bindings that cannot be evaluated, and why
    unmet: list[UnmetConditions] = msgspec.field(default_factory=list)


class ValidatingAdmissionPolicy(PolicyPlugin["ValidatingExpressions"]):
    name = "ValidatingAdmissionPolicy"
    validates = (rule(CREATE, UPDATE, DELETE, CONNECT, subresources=None),)

    expressions = "rewound.actors.admission.policies.validation"
    validates_prepared = True

    def __init__(
        self,
        names: Names,
        features: frozenset[str],
        policies: Policies[ValidatingExpressions],
        params: Params,
        new_reviewer: Callable[[], Reviewer],
        conditions: ConditionTimings,
    ) -> None:
        super().__init__(names, features, policies, params, new_reviewer, conditions)
        self._failure_key = f"{names.group('validation.policy.admission')}/validation_failure"
        self.checks = PolicyChecks(with_error_type=ERROR_TYPE_IN_POLICY_METRICS in features)

    @property
    def counts_policies(self) -> bool:
        return UNBOUND_POLICIES_IGNORED not in self._features

    @property
    def policies_seen(self) -> int:
        return self._policies.seen

    def _admit(self, review: Review, invoked: list[Invoked[ValidatingExpressions]]) -> Admitted:
        outcome = _Outcome()
        for one in invoked:
            self._invoke(one, review, outcome)
        request = review.request
        for key, value in outcome.annotations:
            request.annotate(key, value)
        self._count_conditions(request, outcome.unmet)
        if outcome.checks:
            self.checks.add(outcome.checks)
        if outcome.refusals:
            text, reason = outcome.refusals[0]
            refusal = denied(request, text, reason or "Invalid")
            refusal.warnings = tuple(outcome.warnings)
            raise refusal
        return Admitted(None, tuple(outcome.warnings)) if outcome.warnings else ADMITTED

    def _try(self, review: Review, invoked: list[Invoked[ValidatingExpressions]]) -> Tried:
        (one,), outcome = invoked, _Outcome()
        review.work.cost = 0
        self._invoke(one, review, outcome)
        decided = [Decided(binding, action, text) for _, binding, text, action, _ in outcome.checks]
        decided += [Decided(binding, "deny", text) for binding, text in outcome.problems]
        return Tried(one.policy.name, review.work.cost, tuple(decided))

    def _invoke(self, one: Invoked[ValidatingExpressions], review: Review, outcome: _Outcome) -> None:
        policy, kind = one.policy, None
        try:
            if policy.param_kind is not None:
                kind = self._params.definition(policy.param_kind)
        except ParamProblem as problem:
            _add_problem(outcome, policy, None, f"failed to configure policy: {problem}")
            return
        annotations: dict[str, list[str]] = {}
        run, closed = self._compiled(policy).run, policy.fails_closed
        for binding in one.bindings:
            try:
                params = self._params.of(kind, binding, review.namespace)
                results = [run(review, one.definition, param, fails_closed=closed) for param in params]
            except ParamProblem as problem:
                _add_problem(outcome, policy, binding, f"failed to configure binding: {problem}")
                continue
            except ConversionFailed as error:
                text = f"failed to configure binding: failed to convert object version: {error}"
                _add_problem(outcome, policy, binding, text)
                continue
            for result in results:
                if result.unmet is not None:
                    outcome.unmet.append((policy.name, result.unmet.failed, result.unmet.seconds))
                for failure in result.failures:
                    self._take(outcome, policy, binding, failure)
                for key, value in result.annotations:
                    known = annotations.setdefault(key, [])
                    if value not in known:
                        known.append(value)
                for text in result.problems:
                    outcome.refusals.append((_refusal(policy, binding, text), ""))
                    outcome.checks.append((policy.name, binding.name, text, "deny", 0.0))
        if annotations:
            outcome.annotations += [
                (f"{policy.name}/{key}", ", ".join(values)) for key, values in annotations.items()
            ]

    def _compile(self, policy: Policy[ValidatingExpressions]) -> ValidatingExpressions:
        from rewound.actors.admission.policies.validation import compile_policy

        return compile_policy(self._names, self._features, policy.spec)

    def _take(
        self,
        outcome: _Outcome,
        policy: Policy[ValidatingExpressions],
        binding: Binding,
        failure: Failure,
    ) -> None:
        """Do what the binding wants to be done for a failed validation."""
        message, seconds = failure.message, failure.seconds
        if failure.is_ignored:
            outcome.checks.append((policy.name, binding.name, message, "allow", seconds))
            return
        for action in binding.actions:
            outcome.checks.append((policy.name, binding.name, message, action.lower(), seconds))
            if action == "Deny":
                outcome.refusals.append((_refusal(policy, binding, message), failure.reason))
            elif action == "Audit":
                value = [
                    {
                        "message": message,
                        "policy": policy.name,
                        "binding": binding.name,
                        "expressionIndex": failure.place,
                        "validationActions": list(binding.actions),
                    }
                ]
                outcome.annotations.append((self._failure_key, dumps(value).decode()))
            else:
                outcome.warnings.append(
                    f"Validation failed for ValidatingAdmissionPolicy '{policy.name}' with binding "
                    f"'{binding.name}': {message}"
                )


def _add_problem(
    outcome: _Outcome,
    policy: Policy[ValidatingExpressions],
    binding: Binding | None,
    text: str,
) -> None:
    """Refuse the write because a policy cannot be evaluated, unless its failurePolicy ignores that."""
    if policy.fails_closed:
        outcome.problems.append(("" if binding is None else binding.name, text))
        outcome.refusals.append((_refusal(policy, binding, text), ""))


def _refusal(policy: Policy[ValidatingExpressions], binding: Binding | None, text: str) -> str:
    bound = f" with binding '{binding.name}'" if binding is not None else ""
    return f"ValidatingAdmissionPolicy '{policy.name}'{bound} denied request: {text}"
