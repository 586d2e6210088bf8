"""New and stored expressions may use what their version has; optional values behave as in cel-go."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.cel.checker import Checked, check
from rewound.actors.cel.language import Language, language_of
from rewound.actors.cel.parser import parse
from rewound.actors.cel.program import compile_program
from rewound.actors.cel.syntax import Expression
from rewound.actors.cel.types import DYN, Environment
from rewound.actors.cel.values import EvaluationError, MapValue
from rewound.actors.names import KUBERNETES
from rewound.actors.versions.features import CEL_MIXED_NUMBERS, CEL_OPTIONALS, choose_release
from tests.cases import cases

NEWEST = language_of(KUBERNETES, choose_release("1.36").features)


def result_of(source: str, language: Language = NEWEST, **variables: Any) -> Any:
    """The result of an expression whose variables are all dyn; the text of its error."""
    expression = parse(source, language)
    if not isinstance(expression, Expression):
        return str(expression)
    checked = check(expression, Environment(dict.fromkeys(variables, DYN), {}, language))
    if not isinstance(checked, Checked):
        return str(checked)
    program = compile_program(expression, checked, tuple(variables))
    found = program.evaluate(tuple(variables.values())).result
    return found.message if isinstance(found, EvaluationError) else found


@cases(
    "version, new, stored",
    [("1.27", False, False), ("1.28", False, True), ("1.29", True, True), ("1.36", True, True)],
)
def test_stored_expressions_may_use_more_than_new_ones(version: str, new: bool, stored: bool) -> None:
    features = choose_release(version).features
    for library in (CEL_OPTIONALS, CEL_MIXED_NUMBERS):
        assert (library in language_of(KUBERNETES, features).features) is new
        assert (library in language_of(KUBERNETES, features, stored=True).features) is stored


@cases(
    "source, expected",
    [
        ("m.?a.hasValue()", True),
        ("m.?b.hasValue()", False),
        ("m.?a.value()", 1),
        ("m.?b.value()", "optional.none() dereference"),
        ("m.?a.orValue(5)", 1),
        ("m.?b.orValue(5)", 5),
        ("m.?b.or(m.?a).value()", 1),
        ("m.?b.c.d.hasValue()", False),
        ("m[?'a'].orValue(0) + m[?'b'].orValue(10)", 11),
        ("[1, 2][?1].value()", 2),
        ("[1, 2][?2].hasValue()", False),
        ("optional.of(1) == optional.of(1)", True),
        ("optional.of(1) == optional.none()", False),
        ("optional.none() == optional.none()", True),
        ("optional.ofNonZeroValue('').hasValue()", False),
        ("optional.ofNonZeroValue([]).hasValue()", False),
        ("optional.ofNonZeroValue([0]).hasValue()", True),
        ("[?m.?a, ?m.?b, dyn(3)] == [1, 3]", True),
        ("{?'x': m.?a, ?'y': m.?b} == {'x': 1}", True),
        ("m.?a.optMap(x, x + 1).value()", 2),
        ("m.?b.optMap(x, x + 1).hasValue()", False),
        ("optional.of([]).optMap(v, v + [1] == v).value()", False),
        ("m.?a.optFlatMap(x, m.?b).hasValue()", False),
        ("has(optional.of(m).a)", True),
        ("type(optional.of(1)) == optional_type", True),
    ],
)
def test_optional_values(source: str, expected: Any) -> None:
    found = result_of(source, m=MapValue([("a", 1)]))
    assert (expected in found) if isinstance(found, str) else (found == expected)


def test_the_types_of_optional_values_are_checked() -> None:
    assert "found no matching overload for '_+_' applied to '(optional_type(int), int)'" in result_of(
        "optional.of(1) + 1"
    )
    assert "expected type 'optional_type(int)' but found 'int'" in result_of("[?1]")
    assert "optMap() variable name must be a simple identifier" in result_of("optional.of(1).optMap(1, 2)")


def test_a_chain_of_opt_map_cannot_grow_without_bound() -> None:
    source = "optional.of(1)" + ".optMap(x, x)" * 60
    assert "the expression is too large" in result_of(source)


def test_an_older_language_does_not_know_optional_values() -> None:
    language = language_of(KUBERNETES, choose_release("1.25").features)
    assert "Syntax error" in result_of("m.?a.hasValue()", language, m=None)
    assert "undeclared reference to 'optional'" in result_of("optional.of(1) == optional.of(1)", language)


@pytest.mark.parametrize("version", ["1.25", "1.36"])
def test_numbers_of_different_types_compare_in_later_languages(version: str) -> None:
    found = result_of("1 < 1.5", language_of(KUBERNETES, choose_release(version).features))
    assert found is True if version == "1.36" else "no matching overload" in found


@cases(
    "source, earlier, later",
    [
        ("has(x.a)", "invalid type for field selection.", False),
        ("[1, 2][x]", "index '5' out of range in list size '2'", "index out of bounds: 5"),
        ("bool(x)", "type conversion error from 'int' to 'bool'", "no such overload: bool(int)"),
    ],
)
def test_what_later_versions_of_cel_go_find(source: str, earlier: Any, later: Any) -> None:
    assert result_of(source, language_of(KUBERNETES, choose_release("1.25").features), x=5) == earlier
    assert result_of(source, NEWEST, x=5) == later
