"""The expressions of admission policies, and of match conditions of webhooks, compiled and evaluated on a request.

    # Once for each policy or webhook, in a worker thread if it is long:
    compiler = PolicyCompiler(names, features, has_params=True, variables=True)
    compiler.declare("limit", "params.spec.limit")
    rule = compiler.compile("object.spec.replicas <= variables.limit", "bool")

    # Once for each request and version in which a policy gets its objects:
    values = RequestValues(reviews, request, definition, version)

    # Once for each list of expressions, which share the values of variables and a budget:
    scope = Scope(values, work, budget=BUDGET, variables=compiler.variables, params=param)
    result = scope.evaluate(rule)       a CEL value, or a `Failed` with the text of Kubernetes
    scope.left                          the rest of the budget, for the next scope

`evaluate` raises OutOfBudget when the budget is used up, and NeedsThread on the event loop when the expressions of the
request together take too long for it: call it again in a worker thread (`actors.runtime.time_limit`). `work`, one for
each request, counts that. A single expression ends at cel-go's limit of one evaluation (`actors.cel.costs`).

Variables are evaluated when an expression first uses them, once for each scope, as in Kubernetes. Their costs count
for the budget, but not for the limit of the expression.

The names that expressions may use are `NAMES`. Values are made when an expression first uses them; `object`,
`oldObject` and `params` are JSON without a schema (`actors.cel.json_data`), so that null is a value and a field that
is missing is an error. Without authorizers, expressions that use them fail; with them, `evaluate` raises what their
decisions raise (`actors.cel.authorizer`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final, NamedTuple

from rewound.actors.admission.request import AdmissionRequest
from rewound.actors.admission.webhooks.documents import new_document, old_document
from rewound.actors.admission.webhooks.review import Reviews
from rewound.actors.cel.json_data import from_json
from rewound.actors.cel.program import Evaluation, Program, compile_program
from rewound.actors.cel.values import CannotCompile, EvaluationError, EvaluationStopped, MapLike, printed
from rewound.actors.golang.quoting import quoted
from rewound.actors.kinds.admission_expressions import Compiler
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.runtime.budget import Budget, ThreadBudget
from rewound.actors.runtime.time_limit import need_thread
from rewound.actors.versions.features import STRICT_POLICY_COSTS

NAMES: Final = (
    "object",
    "oldObject",
    "request",
    "namespaceObject",
    "params",
    "authorizer",
    "authorizer.requestResource",
    "variables",
)
BUDGET: Final = 10_000_000  # of the expressions of one binding, or of one custom object
CONDITIONS_BUDGET: Final = 2_500_000  # of the match conditions of one webhook or binding
_CHEAP: Final = 20_000  # some milliseconds
_OUT_OF_BUDGET: Final = (
    "validation failed due to running out of cost budget, no further validation rules will be run"
)


class OutOfBudget(Exception):
    """The expressions of a scope have used up its budget; none of their results count."""

    def __init__(self) -> None:
        super().__init__(_OUT_OF_BUDGET)


class Failed(NamedTuple):
    """An expression that has no value; failurePolicy decides what follows."""

    message: str


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression; one with an `error` fails whenever it is evaluated."""

    text: str
    program: Program | None = None
    error: str = ""
    used: tuple[int, ...] = ()  # positions in NAMES


class PolicyCompiler:
    """Compiles the expressions of one stored policy or webhook. They may use the variables declared before them."""

    def __init__(
        self,
        names: Names,
        features: frozenset[str],
        *,
        has_params: bool = False,
        variables: bool = False,
        strict_costs: str = STRICT_POLICY_COSTS,
    ) -> None:
        """`strict_costs` is the feature with which functions of Kubernetes cost what they cost in custom kinds."""
        self._compiler = Compiler(
            names,
            features,
            has_params=has_params,
            variables=variables,
            stored=True,
            library_costs=strict_costs in features,
        )
        self.variables: dict[str, Expression] = {}

    def declare(self, name: str, text: str) -> None:
        self.variables[name] = self._compile(text, (), name)

    def compile(self, text: str, *results: str, authorizer: bool = True) -> Expression:
        """Compile an expression whose type must be one of `results`: bool, string, null_type ...

        `authorizer`: it may use the authorizer.
        """
        return self._compile(text, results, authorizer=authorizer)

    def _compile(
        self, text: str, results: tuple[str, ...], variable: str = "", *, authorizer: bool = True
    ) -> Expression:
        checked = self._compiler.check(text, results, authorizer=authorizer)
        if variable:
            self._compiler.add_variable(variable, checked)
        if isinstance(checked, str):
            return Expression(text, error=checked)
        try:
            program = compile_program(checked.expression, checked, NAMES)
        except CannotCompile as error:
            return Expression(text, error=f"program instantiation failed: {error}")
        used = tuple(index for index, name in enumerate(NAMES) if checked.names(name))
        return Expression(text, program, used=used)


class Work:
    """The cost of the expressions of one request so far."""

    __slots__ = ("cost",)

    def __init__(self) -> None:
        self.cost = 0


class RequestValues:
    """What expressions see of a request, in the version of a definition; each value is made when it is first used.

    `version` is the resourceVersion of the stored object, which an update has too. `find_namespace` returns the stored
    Namespace of the request, None if it has none.
    """

    __slots__ = (
        "_definition",
        "_find_namespace",
        "_kind",
        "_known",
        "_old_version",
        "_request",
        "_resource",
        "_reviews",
        "_version",
        "authorizers",
    )

    def __init__(
        self,
        reviews: Reviews,
        request: AdmissionRequest,
        definition: Definition,
        version: str = "",
        *,
        is_prepared: bool = True,
        kind: Definition | None = None,
        resource: Definition | None = None,
        find_namespace: Callable[[], Object | None] | None = None,
        authorizers: Callable[[], tuple[Any, Any]] | None = None,
    ) -> None:
        """`is_prepared`: the object is complete, and not one that mutating plugins may still change.

        `kind` and `resource` are those that `request.kind` and `request.resource` name; `authorizers` makes the
        values of `authorizer` and of `authorizer.requestResource`.
        """
        self._reviews, self._request, self._definition = reviews, request, definition
        self._version, self._old_version = version if is_prepared else "", version
        self._kind, self._resource = kind or definition, resource or definition
        self._find_namespace = find_namespace
        self.authorizers = authorizers
        self._known: dict[int, Any] = {}

    def without_authorizer(self) -> RequestValues:
        """The same values, for expressions that may not ask the authorizer."""
        other = copy(self)
        other.authorizers = None
        other._known = {name: value for name, value in self._known.items() if name not in _AUTHORIZERS}
        return other

    def get(self, position: int) -> Any:
        """The value of a name by its position in NAMES."""
        known = self._known
        if position not in known:
            known[position] = _MAKE[position](self)
        return known[position]

    def _object(self) -> Any:
        return from_json(new_document(self._request, self._definition, self._version))

    def _old_object(self) -> Any:
        return from_json(old_document(self._request, self._definition, self._old_version))

    def _review(self) -> Any:
        return from_json(self._reviews.fields(self._kind, self._resource, self._request))

    def _namespace(self) -> Any:
        return from_json(None if self._find_namespace is None else self._find_namespace())

    def _authorizer(self) -> Any:
        return _no_authorizer("authorizer") if self.authorizers is None else self.authorizers()[0]

    def _request_resource(self) -> Any:
        return (
            _no_authorizer("authorizer.requestResource")
            if self.authorizers is None
            else self.authorizers()[1]
        )


_MAKE: Final[dict[int, Callable[[RequestValues], Any]]] = {
    0: RequestValues._object,
    1: RequestValues._old_object,
    2: RequestValues._review,
    3: RequestValues._namespace,
    5: RequestValues._authorizer,
    6: RequestValues._request_resource,
}
_AUTHORIZERS: Final = frozenset((5, 6))
_ERRORS: Final = (EvaluationError, EvaluationStopped)
_PARAMS, _VARIABLES = NAMES.index("params"), NAMES.index("variables")


def _no_authorizer(name: str) -> EvaluationError:
    return EvaluationError(f"no such attribute(s): {name}")


class Scope:
    """Evaluates the expressions of one list on one request: they share the values of variables and a budget."""

    __slots__ = ("_budget", "_expressions", "_params", "_values", "_variables", "_work", "left")

    def __init__(
        self,
        values: RequestValues,
        work: Work,
        budget: int = BUDGET,
        variables: Mapping[str, Expression] | None = None,
        params: Object | None = None,
    ) -> None:
        self._values, self._work, self.left = values, work, budget
        self._params, self._expressions = params, variables
        self._budget = ThreadBudget()  # one for all, because the values of variables stay
        self._variables: _Variables | None = None  # made when an expression first uses it

    def evaluate(self, one: Expression) -> Any:
        """The value of an expression, or why it has none. Raises OutOfBudget and NeedsThread."""
        if one.program is None:
            return Failed(f"compilation error: {one.error}")
        result, cost = self.run(one)
        if self._variables is not None:
            cost += self._variables.take_cost()
        if cost > self.left:
            raise OutOfBudget
        self.left -= cost
        if isinstance(result, _ERRORS):
            return Failed(f"expression '{one.text}' resulted in error: {result.message}")
        return result

    def run(self, one: Expression) -> Evaluation:
        """The result and the cost of an expression that compiles."""
        assert one.program is not None
        given: list[Any] = [None] * len(NAMES)
        for position in one.used:
            if position == _VARIABLES:
                if self._variables is None:
                    self._variables = _Variables(self, self._expressions or {})
                given[position] = self._variables
            else:
                given[position] = (
                    from_json(self._params) if position == _PARAMS else self._values.get(position)
                )
        evaluation = one.program.evaluate(given, self._budget)
        work = self._work
        work.cost += evaluation.cost
        if work.cost > _CHEAP:
            need_thread()
        return evaluation


class Conditions(NamedTuple):
    """What match conditions say of a request: whether it is excluded, or why they cannot say; and for how long."""

    are_false: bool
    problems: tuple[str, ...] = ()
    is_out_of_budget: bool = False
    seconds: float = 0.0

    @property
    def are_true(self) -> bool:
        return not self.are_false and not self.problems

    @property
    def failed(self) -> int:
        """How many have no value."""
        return 0 if self.is_out_of_budget else len(self.problems)


def evaluate_conditions(scope: Scope, conditions: Sequence[Expression]) -> Conditions:
    """One that is false decides, whatever the others are. Raises NeedsThread."""
    began = perf_counter()
    try:
        results = [scope.evaluate(one) for one in conditions]
    except OutOfBudget as error:
        return Conditions(False, (str(error),), is_out_of_budget=True, seconds=perf_counter() - began)
    problems: list[str] = []
    are_false = False
    for result in results:
        if result is False:
            are_false = True
            break
        if isinstance(result, Failed):
            problems.append(result.message)
    return Conditions(are_false, tuple(problems), seconds=perf_counter() - began)


class _Variables(MapLike):
    """The value of `variables`: each is evaluated when an expression first selects it."""

    __slots__ = ("_cost", "_expressions", "_scope", "_values")
    go_name: Final = "*lazy.MapValue"

    def __init__(self, scope: Scope, expressions: Mapping[str, Expression]) -> None:
        self._scope, self._expressions = scope, expressions
        self._values: dict[str, Any] = {}
        self._cost = 0

    def take_cost(self) -> int:
        """The cost of the variables that were evaluated since the last call."""
        cost, self._cost = self._cost, 0
        return cost

    def size(self) -> int:
        return len(self._expressions)

    def keys(self) -> Any:
        return iter(list(self._expressions))

    def find(self, key: Any) -> tuple[bool, Any]:
        one = self._expressions.get(key)
        return (False, None) if one is None else (True, self._value(key, one))

    def get(self, key: Any) -> Any:
        one = self._expressions.get(key)
        if one is None:
            raise EvaluationError(f"no such key: {printed(key)}")
        return self._value(key, one)

    def _value(self, name: str, one: Expression) -> Any:
        if name not in self._values:
            self._values[name] = self._evaluate(name, one)
        value = self._values[name]
        if isinstance(value, EvaluationError):
            raise value.with_traceback(None)
        return value

    def _evaluate(self, name: str, one: Expression) -> Any:
        if one.program is None:
            return EvaluationError(f"composited variable {quoted(name)} fails to compile: {one.error}")
        result, cost = self._scope.run(one)
        self._cost += cost
        if isinstance(result, _ERRORS):
            return EvaluationError(f"composited variable {quoted(name)} fails to evaluate: {result.message}")
        return result

    def equals(self, other: Any, _: Budget) -> bool:
        return self is other
