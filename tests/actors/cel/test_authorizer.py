"""Expressions ask authorizers; a check that nobody has decided ends the evaluation, and is decided once."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.access.authorize import Decision, Verdict
from rewound.actors.cel.authorizer import Authorizer, Check, Decisions, ResourceCheck, Undecided
from rewound.actors.cel.checker import Checked, check
from rewound.actors.cel.language import Language, language_of
from rewound.actors.cel.parser import parse
from rewound.actors.cel.program import Evaluation, compile_program
from rewound.actors.cel.syntax import Expression
from rewound.actors.cel.types import DYN, Environment, Type
from rewound.actors.cel.values import EvaluationError, EvaluationStopped
from rewound.actors.identity import User
from rewound.actors.names import KUBERNETES
from rewound.actors.versions.features import choose_release
from tests.actors.cel.budgets import CountingBudget
from tests.cases import cases

NEWEST = language_of(KUBERNETES, choose_release("1.36").features)
JANE = User("jane", groups=("a",))
TYPES = {
    "authorizer": Type(Authorizer.type_name),
    "authorizer.requestResource": Type(ResourceCheck.type_name),
    "any": DYN,
}


def evaluate(source: str, decisions: Decisions, language: Language = NEWEST) -> Evaluation | str:
    expression = parse(source, language)
    assert isinstance(expression, Expression), str(expression)
    checked = check(expression, Environment(TYPES, {}, language))
    if not isinstance(checked, Checked):
        return str(checked)
    asking = Authorizer(JANE, decisions)
    values = (asking, asking.request_resource("apps", "deployments", "", "a", "web"), 1)
    return compile_program(expression, checked, tuple(TYPES)).evaluate(values, CountingBudget())


def decide(source: str, decision: Decision) -> tuple[Any, list[Check], int]:
    """Evaluate an expression; every check is decided alike. Returns the result, the checks, and the cost."""
    decisions, asked = Decisions(), []
    while True:
        try:
            found = evaluate(source, decisions)
        except Undecided as missing:
            asked.append(missing.check)
            decisions[missing.check] = decision
            continue
        assert isinstance(found, Evaluation), found
        failed = isinstance(found.result, EvaluationError | EvaluationStopped)
        return found.result.message if failed else found.result, asked, found.cost


ALLOWED = Decision(Verdict.ALLOW, "because")
REFUSED = Decision(Verdict.NO_OPINION, "not you", "timed out")


@cases(
    "source, asked",
    [
        (
            "authorizer.group('apps').resource('deployments').namespace('a').name('b').check('get').allowed()",
            Check(JANE, "get", "apps", "*", "deployments", "", "a", "b"),
        ),
        (
            "authorizer.group('').resource('pods').subresource('log').check('get').allowed()",
            Check(JANE, "get", "", "*", "pods", "log"),
        ),
        (
            "authorizer.path('/healthz').check('get').allowed()",
            Check(JANE, "get", path="/healthz", is_resource=False),
        ),
        (
            "authorizer.requestResource.subresource('scale').check('custom').allowed()",
            Check(JANE, "custom", "apps", "*", "deployments", "scale", "a", "web"),
        ),
        (
            "authorizer.serviceAccount('a', 'b.c').group('').resource('pods').check('list').allowed()",
            Check(
                User(
                    "system:serviceaccount:a:b.c", "", ("system:serviceaccounts", "system:serviceaccounts:a")
                ),
                "list",
                "",
                "*",
                "pods",
            ),
        ),
        (
            "authorizer.group('').resource('pods').fieldSelector('a=b').labelSelector('c').check('list').allowed()",
            Check(JANE, "list", "", "*", "pods", field_selector="a=b", label_selector="c"),
        ),
    ],
)
def test_a_check_reaches_the_authorizer(source: str, asked: Check) -> None:
    assert decide(source, ALLOWED)[:2] == (True, [asked])
    assert decide(source, REFUSED)[:2] == (False, [asked])


def test_a_decision_has_a_reason_and_an_error() -> None:
    checked = "authorizer.path('/a').check('get')"
    whole = f"[{checked}.reason(), {checked}.error(), string({checked}.errored())]"
    assert decide(f"{whole} == ['because', '', 'false']", ALLOWED)[0] == (
        "operation cancelled: actual cost limit exceeded"
    )
    assert decide(f"{checked}.reason() + {checked}.error()", REFUSED)[0] == "not youtimed out"
    assert decide(f"{checked}.errored() && {checked}.error() != ''", REFUSED)[:1] == (True,)
    assert decide(f"{checked}.errored() || {checked}.error() != ''", ALLOWED)[:1] == (False,)


def test_one_check_is_decided_once_and_costs_as_much_as_in_kubernetes() -> None:
    source = "authorizer.path('/a').check('get').allowed() && authorizer.path('/a').check('get').allowed()"
    result, asked, cost = decide(source, ALLOWED)
    assert (result, len(asked), cost) == (True, 1, 2 * (350_000 + 3))
    assert decide("authorizer.requestResource.labelSelector('a=b').check('x').allowed()", ALLOWED)[2] == (
        350_000 + 1 + 1 + (10 + 1 + 100)
    )


@cases(
    "source, message",
    [
        ("authorizer.path(' ').check('get').allowed()", "path must not be empty"),
        ("authorizer.group('').resource('').check('get').allowed()", "resource must not be empty"),
        (
            "authorizer.serviceAccount('a', 'B').path('/').check('get').allowed()",
            "Invalid service account name",
        ),
        (
            "authorizer.serviceAccount('a.b', 'b').path('/').check('get').allowed()",
            "Invalid service account namespace",
        ),
        ("authorizer == authorizer", "no such overload"),
        ("any.check('get').allowed()", "no such overload: check(int, string)"),
    ],
)
def test_errors(source: str, message: str) -> None:
    assert decide(source, ALLOWED)[:2] == (message, [])


def test_an_undecided_check_is_no_error_that_an_operator_absorbs() -> None:
    with pytest.raises(Undecided):
        evaluate("authorizer.path('/a').check('get').allowed() || true", Decisions())


@cases(
    "version, source, known",
    [
        ("1.26", "authorizer.group('a').resource('b').check('c').allowed()", False),
        ("1.27", "authorizer.group('a').resource('b').check('c').allowed()", True),
        ("1.27", "authorizer.path('/').check('c').errored()", False),
        ("1.28", "authorizer.path('/').check('c').errored()", True),
        ("1.31", "authorizer.requestResource.fieldSelector('a=b').check('c').allowed()", False),
        ("1.32", "authorizer.requestResource.fieldSelector('a=b').check('c').allowed()", True),
    ],
)
def test_new_expressions_may_use_what_their_version_has(version: str, source: str, known: bool) -> None:
    language = language_of(KUBERNETES, choose_release(version).features)
    if known:
        with pytest.raises(Undecided):
            evaluate(source, Decisions(), language)
    else:
        assert "undeclared reference" in str(evaluate(source, Decisions(), language))


def test_checks_of_policies_cost_little_before_1_32() -> None:
    language = language_of(KUBERNETES, choose_release("1.30").features, library_costs=False)
    asked = Check(JANE, "get", path="/a", is_resource=False)
    found = evaluate("authorizer.path('/a').check('get').allowed()", Decisions({asked: ALLOWED}), language)
    assert isinstance(found, Evaluation) and found.cost == 4
