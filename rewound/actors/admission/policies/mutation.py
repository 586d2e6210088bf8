"""The expressions of a mutating policy, compiled, and what they make of the object of a request with one parameter."""

from __future__ import annotations

from time import perf_counter
from typing import Any, Final, NamedTuple

from rewound.actors.admission.policies.expressions import (
    BUDGET,
    CONDITIONS_BUDGET,
    Conditions,
    Expression,
    Failed,
    OutOfBudget,
    PolicyCompiler,
    RequestValues,
    Scope,
    evaluate_conditions,
)
from rewound.actors.admission.policies.patches import Refused, apply_configuration, apply_operations
from rewound.actors.admission.policies.review import Review
from rewound.actors.admission.webhooks.documents import Patched, new_document
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.messages import Object
from rewound.actors.names import Names

# The outcomes of a mutation, as metrics name them.
NO_ERROR, COMPILE, INVALID, BUDGET_USED = "no_error", "compile_error", "invalid_error", "out_of_budget"
_PATCHES: Final = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}


class Mutation(NamedTuple):
    expression: Expression
    is_configuration: bool  # otherwise a JSON patch


class MutatingExpressions(NamedTuple):
    variables: dict[str, Expression]
    conditions: tuple[Expression, ...]
    mutations: tuple[Mutation, ...]

    def run(self, review: Review, definition: Definition, params: Object | None) -> PolicyRun:
        return PolicyRun(self, review, definition, params)


def compile_policy(names: Names, features: frozenset[str], spec: Object) -> MutatingExpressions:
    has_params = spec.get("paramKind") is not None
    compiler = PolicyCompiler(names, features, has_params=has_params, variables=True)
    for one in spec.get("variables") or ():
        compiler.declare(one["name"], one["expression"])
    return MutatingExpressions(
        compiler.variables,
        tuple(compiler.compile(one["expression"], "bool") for one in spec.get("matchConditions") or ()),
        tuple(_mutation(compiler, one) for one in spec.get("mutations") or ()),
    )


def _mutation(compiler: PolicyCompiler, stored: Object) -> Mutation:
    kind = stored.get("patchType", "")
    text = (stored.get(_PATCHES.get(kind, "")) or {}).get("expression", "")
    is_configuration = kind == "ApplyConfiguration"
    return Mutation(
        compiler.compile(text, "Object" if is_configuration else "list(JSONPatch)"), is_configuration
    )


class Mutated(NamedTuple):
    """What became of one mutation: a changed object, or an error that the failurePolicy decides about."""

    patched: Patched | None
    problem: str
    error: str  # for metrics
    seconds: float


class PolicyRun:
    """Evaluates a policy on a request, with one parameter."""

    def __init__(
        self, compiled: MutatingExpressions, review: Review, definition: Definition, params: Object | None
    ) -> None:
        self._compiled, self._definition, self._params = compiled, definition, params
        self._work = review.work
        self.mutations = compiled.mutations

    def _scope(self, values: RequestValues, budget: int) -> Scope:
        return Scope(values, self._work, budget, self._compiled.variables, self._params)

    def unmet_conditions(self, review: Review) -> Conditions | None:
        """The match conditions if they are not all true. Raises MustWait and NeedsThread."""
        if not self._compiled.conditions:
            return None
        scope = self._scope(review.values(self._definition, for_conditions=True), CONDITIONS_BUDGET)
        found = evaluate_conditions(scope, self._compiled.conditions)
        return None if found.are_true else found

    def mutate(self, review: Review, mutation: Mutation) -> Mutated:
        """Evaluate and apply one mutation. Raises MustWait and NeedsThread."""
        began = perf_counter()
        try:
            scope = self._scope(review.values(self._definition), BUDGET)
            value = scope.evaluate(mutation.expression)
            if isinstance(value, Failed):
                error = COMPILE if value.message.startswith("compilation") else INVALID
                return Mutated(None, value.message, error, perf_counter() - began)
            patched = self._apply(review, mutation, value)
        except OutOfBudget as error:
            return Mutated(None, str(error), BUDGET_USED, perf_counter() - began)
        except Refused as error:
            return Mutated(None, str(error), INVALID, perf_counter() - began)
        return Mutated(patched, "", NO_ERROR, perf_counter() - began)

    def _apply(self, review: Review, mutation: Mutation, value: Any) -> Patched:
        request, definition = review.in_version(self._definition), self._definition
        document = new_document(request, definition)
        assert document is not None
        apply = apply_configuration if mutation.is_configuration else apply_operations
        patched = apply(request, definition, document, value)
        return patched._replace(object=review.in_own_version(definition, patched.object))
