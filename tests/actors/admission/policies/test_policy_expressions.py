"""Expressions of policies on a request: their values, variables, costs and the texts of failures."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.admission.policies.expressions import (
    BUDGET,
    Failed,
    OutOfBudget,
    PolicyCompiler,
    RequestValues,
    Scope,
    Work,
)
from rewound.actors.admission.request import CREATE, AdmissionRequest
from rewound.actors.admission.webhooks.review import Reviews
from rewound.actors.kinds.built_in import built_in
from rewound.actors.names import KUBERNETES
from rewound.actors.runtime.time_limit import NeedsThread, run_limited
from rewound.actors.versions.features import choose_release
from tests.actors.admission.admitted import CONTEXT

RELEASE = choose_release("1.36")
MAPS = next(one for one in built_in(KUBERNETES, RELEASE).definitions if one.plural == "configmaps")
MAP = {"metadata": {"name": "a", "labels": {"n": "1"}}, "data": {"x": "y"}}


def scope(compiler: PolicyCompiler, new: Any = MAP, budget: int = BUDGET, params: Any = None) -> Scope:
    request = AdmissionRequest(CREATE, MAPS, "default", "a", "", new, None, "user", False, CONTEXT)
    values = RequestValues(Reviews(KUBERNETES), request, MAPS)
    return Scope(values, Work(), budget=budget, variables=compiler.variables, params=params)


def compiler() -> PolicyCompiler:
    return PolicyCompiler(KUBERNETES, RELEASE.features, has_params=True, variables=True)


def result(text: str, params: Any = None, **variables: str) -> Any:
    made = compiler()
    for name, expression in variables.items():
        made.declare(name, expression)
    return scope(made, params=params).evaluate(made.compile(text))


@pytest.mark.parametrize(
    "text",
    [
        "object.kind == 'ConfigMap' && object.apiVersion == 'v1' && object.data.x == 'y'",
        "oldObject == null && params == null && namespaceObject == null",
        "request.resource.resource == 'configmaps' && request.operation == 'CREATE' && !request.dryRun",
        "request.name == 'a' && request.namespace == 'default' && request.userInfo.username == 'user'",
        "!has(request.subResource) && request.options.kind == 'CreateOptions'",
        "object.data == {'x': 'y'} && {'x': 'y'} == object.data && object.metadata.name in ['a', 'b']",
        "object.metadata.labels.all(name, object.metadata.labels[name] == '1')",
    ],
)
def test_names_have_the_values_of_the_request(text: str) -> None:
    assert result(text) is True


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("object.spec.replicas > 1", "no such key: spec"),
        ("params.list[3] == 1", "index out of bounds: 3"),
        ("request.subResource == ''", "no such key: subResource"),
    ],
)
def test_failures_name_the_expression(text: str, message: str) -> None:
    assert result(text, {"list": [1]}) == Failed(f"expression '{text}' resulted in error: {message}")


def test_what_does_not_compile_fails() -> None:
    assert result("object.").message.startswith("compilation error: compilation failed: ERROR: <input>:1:8:")
    made = compiler()
    assert scope(made).evaluate(made.compile("1", "bool")) == Failed(
        "compilation error: must evaluate to bool but got int"
    )


def test_variables_use_earlier_ones_and_are_typed() -> None:
    assert result("variables.b == 3", a="1", b="variables.a + 2") is True
    assert "undefined field 'a'" in result("variables.a", b="1").message
    assert "no matching overload" in result("variables.a == 'x'", a="1").message


def test_a_variable_that_fails_fails_those_that_use_it() -> None:
    failed = result("variables.a == 1", a="object.x")
    assert failed.message.endswith('composited variable "a" fails to evaluate: no such key: x')
    assert result("true || variables.a == 1", a="object.x") is True


def test_variables_are_evaluated_once_and_only_if_used() -> None:
    made = compiler()
    made.declare("all", "params.list.map(one, one + 1)")
    first, plain = made.compile("variables.all.size() == 100"), made.compile("true")
    one = scope(made, params={"list": list(range(100))})
    one.evaluate(plain)
    before = one.left
    one.evaluate(first)
    with_variable = before - one.left
    one.evaluate(first)
    assert before - one.left - with_variable < with_variable / 20


def test_the_budget_ends_a_list_of_expressions() -> None:
    made = compiler()
    with pytest.raises(OutOfBudget, match="validation failed due to running out of cost budget"):
        scope(made, budget=1).evaluate(made.compile("object.data.x == 'y'"))


def test_expressions_that_take_long_need_a_thread_and_end_at_the_limit() -> None:
    made = compiler()
    hostile = made.compile("params.all(a, params.all(b, params.all(c, params.all(d, true))))")
    given = scope(made, params=dict.fromkeys(map(str, range(100))))
    with pytest.raises(NeedsThread):
        given.evaluate(hostile)
    failed = run_limited(given.evaluate, hostile)
    assert failed.message.endswith("operation cancelled: actual cost limit exceeded")


def test_many_cheap_expressions_need_a_thread_together() -> None:
    made = compiler()
    cheap = made.compile("params.all(a, a != 'x')")
    given = scope(made, params=dict.fromkeys(map(str, range(100))))
    with pytest.raises(NeedsThread):
        list(map(given.evaluate, [cheap] * 100))


def test_functions_of_kubernetes_cost_one_before_costs_were_strict() -> None:
    """The gate StrictCostEnforcementForVAP; since 1.32 it is always on."""
    text = f"'{'a' * 200}'.find('b+') == ''"

    def cost(version: str, gates: str = "") -> int:
        made = PolicyCompiler(KUBERNETES, choose_release(version, gates).features)
        evaluated = scope(made)
        assert run_limited(evaluated.evaluate, made.compile(text)) is True
        return BUDGET - evaluated.left

    assert cost("1.30") < cost("1.30", "StrictCostEnforcementForVAP=true") == cost("1.32")
