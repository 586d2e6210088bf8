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
from rewound.actors.cel.values import CannotCompile, EvaluationError, MapValue
from rewound.actors.names import KUBERNETES
from rewound.actors.versions.features import CEL_MIXED_NUMBERS, CEL_OPTIONALS, choose_release
from tests.actors.cel.budgets import CountingBudget
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
    found = program.evaluate(tuple(variables.values()), CountingBudget()).result
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


@cases(
    "source, version, message",
    [
        (
            "a.?b +",
            "1.36",
            "1:7: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true'",
        ),
        ("a.?b", "1.28", "1:2: unsupported syntax '.?'"),
        ("a[?0]", "1.28", "1:2: unsupported syntax '[?'"),
        ("[?a]", "1.28", "1:2: unsupported syntax '?'"),
        ("{1: 2, ?3: a}", "1.28", "1:8: unsupported syntax '?'"),
        ("A{?b: a}", "1.28", "1:3: unsupported syntax '?'"),
        ("a.?", "1.30", "1:4: Syntax error: missing IDENTIFIER at '<EOF>'"),
        ("a.?", "1.33", "1:4: Syntax error: mismatched input '<EOF>' expecting {IDENTIFIER, ESC_IDENTIFIER}"),
        ("a.?", "1.33", "1:4: unsupported ident kind"),
        (
            "a[]",
            "1.30",
            "1:3: Syntax error: mismatched input ']' expecting {'[', '{', '(', '.', '-', '!', '?', 'true'",
        ),
        (
            "A{+}",
            "1.36",
            "1:3: Syntax error: extraneous input '+' expecting {'}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}",
        ),
        ("a.`b`", "1.30", "1:3: Syntax error: token recognition error at: '`'"),
        ("a.`b`", "1.33", "1:3: unsupported syntax: '`'"),
        ("A{b: 1, `c`: 2}", "1.33", "1:3: unsupported syntax: '`'"),
        ("a.`b!", "1.33", "1:3: Syntax error: token recognition error at: '`b!'"),
        ("..a", "1.25", "1:2: Syntax error: extraneous input '.' expecting IDENTIFIER"),
        ("..a", "1.30", "1:2: Syntax error: no viable alternative at input '..'"),
        ("has(1)", "1.28", "1:4: invalid argument to has() macro"),
        ("has(1)", "1.29", "1:5: invalid argument to has() macro"),
        (r"'\U00110000'", "1.30", "1:1: unable to unescape string"),
        (r"'\ud800'", "1.33", "1:1: invalid unicode code point"),
        (
            "optional.of(1) == 'a'",
            "1.30",
            "1:16: found no matching overload for '_==_' applied to '(optional(int), ",
        ),
        (
            "optional.of(1) == 'a'",
            "1.31",
            "1:16: found no matching overload for '_==_' applied to '(optional_type(int), ",
        ),
        (
            "'%d'.format(['a'])",
            "1.31",
            "1:14: error during formatting: decimal clause can only be used on integers",
        ),
        ("'a'.matches('(?<n>a)')", "1.28", "error parsing regexp: invalid or unsupported Perl syntax: `(?<`"),
    ],
)
def test_texts_of_each_version(source: str, version: str, message: str) -> None:
    try:
        found = result_of(source, language_of(KUBERNETES, choose_release(version).features))
    except CannotCompile as error:
        found = str(error)
    assert message in str(found)


@cases(
    "source, expected",
    [
        (r"'\ud7ff' == '\U0000d7ff' && '\ufffd' != ''", True),
        ("'ab'.matches('^(?<n>a)(?<n>b)$') && x.matches('(?<n>x)')", True),
        ("'ab'.find('(?<n>b)') + x.find('(?P<n>x)')", "bx"),
        ("'[(?<n>'.matches('[[(?<n>]+$')", True),
    ],
)
def test_escapes_and_named_groups(source: str, expected: Any) -> None:
    assert result_of(source, NEWEST, x="x") == expected
