"""Expressions that construct apply configurations and JSON patches, as Kubernetes 1.36 has them."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.cel import mutations
from rewound.actors.cel.checker import Checked, check
from rewound.actors.cel.language import Language
from rewound.actors.cel.parser import parse
from rewound.actors.cel.program import compile_program
from rewound.actors.cel.syntax import Expression
from rewound.actors.cel.types import Environment
from rewound.actors.cel.values import CannotCompile, EvaluationError
from rewound.actors.versions.features import CEL_OPTIONALS, TYPES_IN_WORDS
from tests.actors.cel.budgets import CountingBudget

LANGUAGE = Language("url", frozenset({CEL_OPTIONALS, TYPES_IN_WORDS}))


def checked(text: str) -> Any:
    parsed = parse(text, LANGUAGE)
    assert isinstance(parsed, Expression)
    return check(parsed, Environment({}, {}, LANGUAGE, mutates=True))


def value(text: str) -> Any:
    found = checked(text)
    assert isinstance(found, Checked), str(found)
    return compile_program(found.expression, found, ()).evaluate((), CountingBudget()).result


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Object{}", "Object"),
        ("Object.spec{a: 1}", "Object.spec"),
        ("Object.spec{a: 1}.a", "dyn"),
        ("[JSONPatch{op: 'add'}]", "list(JSONPatch)"),
        ("JSONPatch{op: 'add'}.op", "string"),
        ("Object.spec", "type(Object.spec)"),
    ],
)
def test_types_by_name(text: str, expected: str) -> None:
    assert str(checked(text).result) == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Objects{}", "undeclared reference to 'Objects' (in container '')"),
        ("JSONPatch{op: 1}", "expected type of field 'op' is 'string' but provided type is 'int'"),
        ("JSONPatch{foo: 1}", "expected type of field 'foo' is '' but provided type is 'int'"),
        ("JSONPatch{op: JSONPatch{}.foo}", "expected type of field 'op' is 'string' but provided type is ''"),
        (
            "true ? Object{} : Object.a{}",
            "found no matching overload for '_?_:_' applied to '(bool, Object, Object.a)'",
        ),
    ],
)
def test_problems(text: str, problem: str) -> None:
    assert problem in str(checked(text))


def test_types_are_no_values() -> None:
    with pytest.raises(CannotCompile, match=r"reference to undefined type: Object\.spec"):
        value("Object.spec")


def test_object() -> None:
    made = value(
        "Object{a: [Object.a{b: 1}], c: {'d': Object.c{}}, ?e: optional.none(), f: optional.of([1.5])}"
    )
    assert mutations.to_object(made, CountingBudget()) == {"a": [{"b": 1}], "c": {"d": {}}, "f": [1.5]}
    assert mutations.type_errors(made, CountingBudget()) == ""


def test_an_object_without_fields_is_a_zero_value() -> None:
    assert value("optional.ofNonZeroValue(Object.spec{?a: Object{}.?a}).hasValue()") is False
    assert value("optional.ofNonZeroValue(Object.spec{a: 0}).hasValue()") is True


def test_names_of_types_follow_fields() -> None:
    made = value("Object{a: [Object.b{}], c: Object.c{d: Object.d{}}}")
    end = ", which matches field name path from root Object type"
    assert mutations.type_errors(made, CountingBudget()).split("\n") == [
        f'unexpected type name "Object.b", expected "Object.a"{end}',
        f'unexpected type name "Object.d", expected "Object.c.d"{end}',
    ]


@pytest.mark.parametrize(
    ("text", "printed", "source"),
    [
        ("null", "NULL_VALUE", "0"),
        ("1u", "1", "0x1"),
        ("b'ab'", "[97 98]", "[]uint8{0x61, 0x62}"),
        ("[1]", "[1]", "[]ref.Val{1}"),
        ("{'a': 'b'}", "map[a:b]", 'map[ref.Val]ref.Val{"a":"b"}'),
        ("duration('1s')", "1s", "1000000000"),
    ],
)
def test_what_json_lacks(text: str, printed: str, source: str) -> None:
    [found] = mutations.to_object(value(f"Object{{a: [{text}]}}"), CountingBudget())["a"]
    assert (found.printed, found.source) == (printed, source)


def test_keys_that_are_no_strings() -> None:
    with pytest.raises(mutations.NotNative):
        mutations.to_object(value("Object{a: {1: 2}}"), CountingBudget())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3.0", 3),
        ("{'a': [1.5]}", {"a": [1.5]}),
        ("b'abc'", "YWJj"),
        ("duration('1s')", "1s"),
        ("null", None),
        ("Object.x{a: 1u, b: b'a'}", {"a": 1, "b": "YQ=="}),
        ("optional.of('x')", "x"),
    ],
)
def test_values_of_operations(text: str, expected: object) -> None:
    found = mutations.to_json(value(f"JSONPatch{{value: {text}}}").fields["value"], CountingBudget())
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Object.x{a: null}", "proto: invalid type: structpb.NullValue"),
        ("JSONPatch{}", "cannot convert to native type: *structpb.Value"),
        ("optional.none()", "optional.none() dereference"),
        ("type(1)", "type conversion not supported for 'type'"),
    ],
)
def test_values_without_json(text: str, problem: str) -> None:
    with pytest.raises(EvaluationError) as raised:
        mutations.to_json(value(f"JSONPatch{{value: {text}}}").fields["value"], CountingBudget())
    assert raised.value.message == problem


def test_fields_are_checked_when_their_types_are_dyn() -> None:
    assert value("JSONPatch{op: dyn(1)}").message == "unexpected type int64 for JSONPatchType 'op' field"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Object{a: {'x': 1}} == Object{a: {'x': 1}}", True),
        ("Object{a: 1} == Object{a: 2}", False),
        ("Object{a: [1]} == Object{a: [1]}", False),
        ("has(Object{a: 1}.a) && !has(Object{}.a) && !has(JSONPatch{}.op)", True),
        ("Object{}.a == null", True),
    ],
)
def test_comparison_and_selection(text: str, expected: bool) -> None:
    assert value(text) is expected
