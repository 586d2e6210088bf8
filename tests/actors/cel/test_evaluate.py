"""Expressions have the same values and errors as with cel-go in v1.25."""

from __future__ import annotations

import pytest

from rewound.actors.cel.values import CannotCompile
from tests.actors.cel.budgets import CountingBudget, Enough
from tests.actors.cel.evaluating import OBJECT, evaluate, outcome, program, variables
from tests.cases import cases

TRUE = [
    "self.i == 7 && self.f == 1.5 && self.b",
    "1 + 2 * 3 == 7 && -7 / 2 == -3 && -7 % 2 == -1 && 7 % -2 == 1",
    "1u + 2u == 3u && 5u % 3u == 2u",
    "1.0 / 0.0 > 1e300 && !(0.0 / 0.0 == 0.0 / 0.0)",
    "size(self.s) == 11 && self.s.size() == 11 && size(b'\\303\\251') == 2",
    "self.s.startsWith('hé') && self.s.endsWith('ld') && self.s.contains('llo w')",
    "'a' < 'b' && b'a' < b'b' && false < true && duration('1s') < duration('1m')",
    "dyn(1) == 1.0 && dyn(1u) == 1 && dyn(1) < 1.5 && dyn(2u) > 1.5",
    "dyn(null) == null && null == null && !(dyn(1) == null)",
    "[1, 2] + [3] == [1, 2, 3] && ([1] + self.list)[1] == 3",
    "{'a': [1], 'b': [2]}.b[0] == 2 && 'a' in {'a': 1} && {1: 'x'}[1] == 'x'",
    "self.list.all(x, x > 0) && self.list.exists(x, x == 2) && self.list.exists_one(x, x == 3)",
    "self.list.map(x, x * 2) == [6, 2, 4] && self.list.filter(x, x > 1) == [3, 2]",
    "self.list.map(x, x > 1, string(x)) == ['3', '2']",
    "self.map.all(k, self.map[k] > 0) && self.map.exists(k, k == 'two') && self.map.one == 1",
    "self.list.all(x, x != 1 || self.texts[x] == 'bb')",
    "self.list.exists(x, self.list[x] == 2)",  # an index out of range is absorbed
    "(self.i > 3 ? self.list : [1])[0] == 3",
    "self.i == 0 ? 1 / 0 == 1 : true",
    "false && 1 / 0 == 1 || true",
    "1 / 0 == 1 || true",
    "!(1 / 0 == 1 && false)",
    "self.j in [1, 2] == false",  # an error is in no list of constants
    "dyn(self.i) in [7.0, 8.0] && dyn(self.i) in [7u]",
    "has(self.i) && !has(self.j) && has(self.map.one) && !has(self.map.three)",
    "self.a__dot__b == 1 && self.__in__ == 2",
    "type(self.i) == int && type(self.keyed) == list && type(self.map) == map && type(int) == type",
    "type(null) == null_type && type(self.time) == google.protobuf.Timestamp",
    "string(1.0) == '1' && string(1e6) == '1e+06' && string(0.00001) == '1e-05' && string(123456.5) == '123456.5'",
    "int('-12') == -12 && int(3.9) == 3 && uint(3) == 3u && double('1.5') == 1.5 && bool('T')",
    "int(duration('1s')) == 1000000000 && int(timestamp('1970-01-01T00:01:00Z')) == 60",
    "bytes('é') == b'\\303\\251' && string(b'abc') == 'abc'",
    "string(duration('1h0.5s')) == '3600.5s' && duration('-1.5h').getMinutes() == -90",
    "string(timestamp('2021-01-01T00:00:00.120+01:30')) == '2021-01-01T00:00:00.12+01:30'",
    "timestamp('2021-01-01T00:00:00Z') - timestamp('2020-12-31T00:00:00Z') == duration('24h')",
    "self.time + duration('1h') > self.time && self.time.getHours() == 2 && self.time.getMilliseconds() == 789",
    "self.time.getHours('+02:00') == 4 && self.time.getHours('-00:30') == 1 && self.date.getDayOfWeek() == 3",
    "timestamp('2021-07-01T12:00:00Z').getHours('Europe/Berlin') == 14",
    "self.date.getFullYear() == 2021 && self.date.getMonth() == 1 && self.date.getDate() == 3",
    "self.date.getDayOfMonth() == 2 && self.date.getDayOfYear() == 33",
    "self.wait.getHours() == 1 && self.wait == duration('90m') && self.data == b'hello'",
    "dyn(self.nulls[1]) == null && type(self.nulls[1]) == null_type && self.nulls.exists(x, dyn(x) == null)",
    "self.keyed == self.keyed && self.keyed[0] != self.keyed[1] && self.map == self.map",
    "google.protobuf.Int64Value{value: 3} == 3 && google.protobuf.Duration{seconds: 60} == duration('1m')",
    "google.protobuf.Struct{fields: {'a': 1}}.a == 1.0 && google.protobuf.Value{} == null",
    "google.protobuf.ListValue{values: [1u]}[0] == 1.0 && google.protobuf.FloatValue{value: 0.1} != 0.1",
    "self.any == '50%' && self.any != 5",
    "[self.i, 2][0] == 7 && {'k': self.i}['k'] == 7",
]

ERRORS = {
    "9223372036854775807 + self.i == 0": "integer overflow",
    "-9223372036854775808 - self.i == 0": "integer overflow",
    "self.i * 9223372036854775807 == 0": "integer overflow",
    "-9223372036854775808 / (self.i - 8) == 0": "integer overflow",
    "-9223372036854775808 % (self.i - 8) == 0": "integer overflow",
    "1u - 2u == 0u": "unsigned integer overflow",
    "1 / (self.i - 7) == 0": "division by zero",
    "1 % (self.i - 7) == 0": "modulus by zero",
    "self.j == 1": "no such key: j",
    "self.map.three == 1": "no such key: three",
    "self.map['x'] == 1": "no such key: x",
    "self.list[3] == 1": "index out of bounds: 3",
    "[1, 2][2] == 1": "index '2' out of range in list size '2'",
    "([1] + [2])[5] == 1": "index '4' out of range in list size '1'",
    "dyn(self.list)['a'] == 1": "unsupported index: a",
    "self.any < 1": "no such overload",
    "self.any + 1 == 2": "no such overload",
    "-self.any == 1": "no such overload",
    "-dyn(self.b) == 1": "no such overload",
    "dyn(self.b) + 1 == 1": "no such overload: _+_",
    "dyn(self.list) < 1": "no such overload: _<_",
    "dyn(self.i).contains('a')": "no such overload: contains",
    "dyn(self.i).charAt(1) == 'a'": "no such overload: charAt(int, int)",
    "dyn(self.list).sum() == 6 && dyn(self.i).sum() == 1": "no such overload: sum(int)",
    "dyn(self.i).all(x, x)": "got 'types.Int', expected iterable type",
    "self.list.all(x, dyn(x))": "no such overload",
    "dyn(self.i) ? true : false": "no such overload",
    "int(self.s) == 1": "type conversion error from 'string' to 'int'",
    "int(self.f * 1e300) == 1": "integer overflow",
    "uint(self.i - 8) == 1u": "unsigned integer overflow",
    "duration(self.s) == duration('1s')": "type conversion error from 'string' to 'google.protobuf.Duration'",
    "string(dyn(self.list)) == ''": "type conversion error from 'list' to 'string'",
    "string(self.data + b'\\377') == ''": "invalid UTF-8 in bytes, cannot convert to string",
    "self.time.getHours('Nowhere/Else') == 1": "unknown time zone Nowhere/Else",
    "self.time.getHours('x:00') == 1": 'strconv.Atoi: parsing "x": invalid syntax',
    "timestamp('9999-12-31T23:59:59Z') + duration('1s') == self.time": "timestamp overflow",
    "google.protobuf.Int32Value{value: 2147483648} == 1": "field type conversion error for "
    "google.protobuf.Int32Value.value value type: integer overflow",
    "duration == self.wait": "no such attribute: id: 1, names: [duration]",
    "0.0 / 0.0 < 1.0": "NaN values cannot be ordered",
    "self.s.charAt(12) == ''": "index out of range: 12",
    "self.s.substring(3, 1) == ''": "invalid substring range. start: 3, end: 1",
    "self.texts.join() == ''": "internal error: interface conversion: interface {} is []interface {}, not []string",
    "has(self.plain)": "invalid object type, expected either Properties or AdditionalProperties with Allows=true and "
    "non-empty Schema",
}

REFUSED = {
    "int('x') == 1": "type conversion error from 'string' to 'int'",
    "self.wait == duration('1d')": "type conversion error from 'string' to 'google.protobuf.Duration'",
    "self.s.matches('(')": "error parsing regexp: missing closing ): `(`",
    "self.s.find('[a') == ''": "error parsing regexp: missing closing ]: `[a`",
    "self.s.findAll('a**') == []": "error parsing regexp: invalid nested repetition operator: `**`",
    "self.s.matches('(?<n>a)')": "error parsing regexp: invalid or unsupported Perl syntax: `(?<`",
    "self.s.matches('a{1001}')": "error parsing regexp: invalid repeat count: `{1001}`",
    "self.s.matches('a\\\\')": "error parsing regexp: trailing backslash at end of expression: ``",
    "self.s.matches('*')": "error parsing regexp: missing argument to repetition operator: `*`",
}


@cases("rule", TRUE)
def test_expression_is_true(rule: str) -> None:
    assert outcome(rule) is True


@cases(("rule", "message"), ERRORS.items())
def test_error_is_the_one_of_cel_go(rule: str, message: str) -> None:
    assert outcome(rule) == message


@cases(("rule", "message"), REFUSED.items())
def test_invalid_constant_is_refused_when_the_program_is_made(rule: str, message: str) -> None:
    with pytest.raises(CannotCompile) as refused:
        program(rule)
    assert str(refused.value) == message


@cases(
    ("change", "rule", "message"),
    [
        ({"i": 1.0}, "self.i == 1", "invalid data, expected int, got float64"),
        ({"i": 2**63}, "has(self.i)", "invalid data, expected int, got float64"),
        ({"s": 1}, "self.s == ''", "invalid data, expected string, got int64"),
        ({"b": []}, "self.b", "invalid data, expected bool, got []interface {}"),
        ({"texts": [None]}, "self.texts[0] == ''", "invalid data, got null for schema with nullable=false"),
        ({"list": [1, "x"]}, "self.list.all(x, x == 1)", "invalid data, expected int, got string"),
        (
            {"any": 1.5},
            "self.any == 1",
            "invalid data, expected XIntOrString value to be either a string or integer",
        ),
        (
            {"data": "a+b="},
            "self.data == b''",
            "Invalid byte formatted string a+b=: illegal base64 data at input byte 1",
        ),
        (
            {"data": "abc"},
            "self.data == b''",
            "Invalid byte formatted string abc: illegal base64 data at input byte 0",
        ),
        ({"wait": "soon"}, "has(self.wait)", "Invalid duration soon: unable to parse soon as duration"),
    ],
)
def test_value_that_is_not_of_its_schema_is_an_error(
    change: dict[str, object], rule: str, message: str
) -> None:
    assert outcome(rule, {**OBJECT, **change}) == message


def test_null_property_counts_as_absent() -> None:
    assert outcome("!has(self.s)", {"s": None}) is True
    assert outcome("self.s == ''", {"s": None}) == "no such key: s"


def test_integer_is_read_as_a_number_where_one_is_declared() -> None:
    assert outcome("self.f == 2.0", {"f": 2}) is True


def test_old_object_is_oldself() -> None:
    result, _ = program("self.i > oldSelf.i").evaluate(variables({"i": 2}, {"i": 1}), CountingBudget())
    assert result is True


def test_first_error_of_a_loop_is_the_result_unless_an_item_decides() -> None:
    assert outcome("self.list.all(x, 10 / (x - 2) > 0)", {"list": [2, 3]}) == "division by zero"
    assert outcome("self.list.all(x, 10 / (x - 2) > 0)", {"list": [2, 3, 1]}) is False


def test_pause_is_called_in_long_loops_and_may_end_them() -> None:
    new = {"list": list(range(1000))}
    rule = program("self.list.all(x, self.list.all(y, x + y >= 0))")
    with pytest.raises(Enough):
        rule.evaluate(variables(new), CountingBudget(most=0))
    evaluate("self.list.size() == 1000", new)


@pytest.mark.parametrize(
    "rule",
    [
        "self.s.replace('a', self.any).size() > 0",
        "self.s.split('').map(x, self.any).map(x, x).join(self.any) == ''",
        "self.list.map(x, self.s.split('')).size() > 0",
    ],
)
def test_texts_that_multiply_end_the_evaluation_and_not_the_server(rule: str) -> None:
    new = {"s": "a" * 20_000, "any": "b" * 20_000, "list": [1] * 100}
    assert outcome(rule, new) == "internal error: the values that it makes take too much memory"


def test_loop_that_compiles_expressions_of_the_object_pauses_at_each_item() -> None:
    budget = CountingBudget()
    rule = program("self.texts.all(x, self.s.matches(x))")
    result, _ = rule.evaluate(variables({"s": "abc", "texts": ["a", "b", "c"]}), budget)
    assert result is True
    assert budget.pauses == 3
