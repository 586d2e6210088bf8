"""The expressions of a validating policy, compiled, and what they decide on a request with one parameter."""

from __future__ import annotations

from time import perf_counter
from typing import Final, NamedTuple

from rewound.actors.access.authorize import join_errors
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
from rewound.actors.admission.policies.review import Review
from rewound.actors.cel.costs import LIMIT
from rewound.actors.cel.values import type_name
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.messages import Object
from rewound.actors.names import Names

LONGEST_MESSAGE: Final = 5 * 1024  # bytes, of a messageExpression
LONGEST_ANNOTATION: Final = 10 * 1024


class Validation(NamedTuple):
    rule: Expression
    message: Expression | None  # its messageExpression
    plain: str  # the message without one
    reason: str


class ValidatingExpressions(NamedTuple):
    variables: dict[str, Expression]
    conditions: tuple[Expression, ...]
    validations: tuple[Validation, ...]
    annotations: tuple[tuple[str, Expression], ...]  # with their keys
    most_for_messages: int  # the highest possible cost of messageExpressions; 0 without any

    def run(
        self, review: Review, definition: Definition, params: Object | None, *, fails_closed: bool
    ) -> Result:
        """What they decide on a request. Raises MustWait, NeedsThread and ConversionFailed."""
        return PolicyRun(self, review, definition, params, fails_closed=fails_closed).result()


def compile_policy(names: Names, features: frozenset[str], spec: Object) -> ValidatingExpressions:
    compiler = PolicyCompiler(names, features, has_params=spec.get("paramKind") is not None, variables=True)
    for one in spec.get("variables") or ():
        compiler.declare(one["name"], one["expression"])
    compiled = compiler.compile
    conditions = tuple(compiled(one["expression"], "bool") for one in spec.get("matchConditions") or ())
    validations = tuple(_validation(compiler, one) for one in spec.get("validations") or ())
    messages = sum(one.message is not None for one in validations)
    return ValidatingExpressions(
        compiler.variables,
        conditions,
        validations,
        tuple(
            (one["key"], compiled(one["valueExpression"], "string", "null_type"))
            for one in spec.get("auditAnnotations") or ()
        ),
        LIMIT * (messages + len(compiler.variables)) if messages else 0,
    )


def _validation(compiler: PolicyCompiler, stored: Object) -> Validation:
    text, message = stored["expression"], stored.get("messageExpression")
    return Validation(
        compiler.compile(text, "bool"),
        compiler.compile(message, "string", authorizer=False) if message else None,
        (stored.get("message") or "").strip() or f"failed expression: {text.strip()}",
        stored.get("reason") or "Invalid",
    )


class Failure(NamedTuple):
    """A validation that is not true: it refuses the write, unless `is_ignored` says that failurePolicy ignores it."""

    place: int  # among the validations
    message: str
    reason: str  # "" if the expression failed
    is_ignored: bool
    seconds: float


class Result(NamedTuple):
    failures: list[Failure]
    annotations: list[tuple[str, str]]  # for the audit event
    problems: list[str]  # of annotations, which refuse the write
    unmet: Conditions | None = None  # match conditions that are not all true


NOTHING: Final = Result([], [], [])


class PolicyRun:
    """Evaluates a policy on a request, with one parameter."""

    __slots__ = ("_compiled", "_definition", "_fails_closed", "_params", "_review")

    def __init__(
        self,
        compiled: ValidatingExpressions,
        review: Review,
        definition: Definition,
        params: Object | None,
        *,
        fails_closed: bool,
    ) -> None:
        self._compiled, self._review, self._definition = compiled, review, definition
        self._params, self._fails_closed = params, fails_closed

    def result(self) -> Result:
        """Raises MustWait, NeedsThread and ConversionFailed."""
        compiled = self._compiled
        if compiled.conditions:
            values = self._review.values(self._definition, for_conditions=True)
            found = evaluate_conditions(self._scope(values, CONDITIONS_BUDGET), compiled.conditions)
            if not found.are_true:
                return self._unmatched(found)
        try:
            failures = self._validate()
            if not compiled.annotations:
                return Result(failures, [], []) if failures else NOTHING
            return Result(failures, *self._annotate())
        except OutOfBudget as error:
            return self._failed(str(error))

    def _scope(self, values: RequestValues, budget: int) -> Scope:
        return Scope(values, self._review.work, budget, self._compiled.variables, self._params)

    def _failed(self, message: str) -> Result:
        return Result([Failure(0, message, "", not self._fails_closed, 0.0)], [], [])

    def _unmatched(self, found: Conditions) -> Result:
        """The result if match conditions are not all true."""
        if found.are_false or not self._fails_closed:
            return NOTHING._replace(unmet=found)
        return self._failed(join_errors(found.problems))._replace(unmet=found)

    def _validate(self) -> list[Failure]:
        validations, most = self._compiled.validations, self._compiled.most_for_messages
        scope = self._scope(self._review.values(self._definition), BUDGET)
        found: list[tuple[object, float]] = []
        are_true, began = True, perf_counter()
        for one in validations:
            value = scope.evaluate(one.rule)
            now = perf_counter()
            found.append((value, now - began))
            are_true, began = are_true and value is True, now
        # If all are true, messages matter only if they could use up the budget.
        if are_true and most <= scope.left:
            return []
        texts = self._messages(scope.left) if most else {}
        failures: list[Failure] = []
        for index, (one, (value, seconds)) in enumerate(zip(validations, found, strict=True)):
            if isinstance(value, Failed):
                failures.append(Failure(index, value.message, "", not self._fails_closed, seconds))
            elif isinstance(texts, str):
                text = f"failed messageExpression: {texts}"
                failures.append(Failure(index, text, "", not self._fails_closed, seconds))
            elif value is not True:
                text = texts.get(index) or one.plain
                failures.append(Failure(index, text, one.reason, False, seconds))
        return failures

    def _messages(self, budget: int) -> dict[int, str] | str:
        """The usable values of messageExpressions by the index of their validation, or why there are none."""
        texts: dict[int, str] = {}
        scope = self._scope(self._review.without_authorizer(self._definition), budget)
        try:
            for index, one in enumerate(self._compiled.validations):
                value = scope.evaluate(one.message) if one.message is not None else None
                text = value.strip() if isinstance(value, str) else ""
                if text and "\n" not in text and len(text.encode(errors="replace")) <= LONGEST_MESSAGE:
                    texts[index] = text
        except OutOfBudget as error:
            return str(error)
        return texts

    def _annotate(self) -> tuple[list[tuple[str, str]], list[str]]:
        scope = self._scope(self._review.without_authorizer(self._definition), BUDGET)
        annotations: list[tuple[str, str]] = []
        problems: list[str] = []
        for key, one in self._compiled.annotations:
            value = scope.evaluate(one)
            if isinstance(value, str):
                if text := value.strip():
                    annotations.append((key, _shortened(text)))
            elif isinstance(value, Failed):
                if self._fails_closed:
                    problems.append(value.message)
            elif value is not None:
                problems.append(
                    f"valueExpression '{one.text}' resulted in unsupported return type: {type_name(value)}. "
                    "Return type must be either string or null."
                )
        return annotations, problems


def _shortened(text: str) -> str:
    raw = text.encode(errors="replace")
    return text if len(raw) <= LONGEST_ANNOTATION else raw[:LONGEST_ANNOTATION].decode(errors="ignore")
