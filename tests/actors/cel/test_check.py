"""Types are inferred and invalid expressions refused as by cel-go's checker in v1.25."""

from __future__ import annotations

import pytest

from rewound.actors.cel.checker import Checked, check
from rewound.actors.cel.parser import parse
from rewound.actors.cel.syntax import Expression, Problems
from rewound.actors.cel.types import (
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    Environment,
    MessageType,
    Type,
    list_of,
    map_of,
)
from tests.actors.cel.evaluating import LANGUAGE
from tests.cases import cases

NO_OVERLOAD = "found no matching overload for"
UNDECLARED = "undeclared reference to"
NOWHERE = "(in container '')"
NO_RANGE = "cannot be range of a comprehension (must be list, map, or dynamic)"
UNRESOLVED = "[internal] unexpected failed resolution of"

ITEM = Type("self.items")
SELF = Type("self")
ENVIRONMENT = Environment(
    {"self": SELF, "oldSelf": SELF},
    {
        "self": MessageType(
            "self",
            {
                "n": INT,
                "s": STRING,
                "t": TIMESTAMP,
                "any": DYN,
                "names": list_of(STRING),
                "items": list_of(ITEM),
                "labels": map_of(STRING, STRING),
            },
        ),
        "self.items": MessageType("self.items", {"x": INT}),
    },
    LANGUAGE,
)


def checked(source: str) -> Checked | Problems:
    expression = parse(source, LANGUAGE)
    assert isinstance(expression, Expression), str(expression)
    return check(expression, ENVIRONMENT)


@cases(
    ("source", "result"),
    [
        ("self.n + 1", "int"),
        ("self.items[0].x", "int"),
        ("self.labels.a", "string"),
        ("self.any.b.c", "dyn"),
        ("self.any + 1", "int"),
        ("self.any == 1 || self.any == 'x'", "bool"),
        ("[] + [1]", "list(int)"),
        ("[]", "list(dyn)"),
        ("{}", "map(dyn, dyn)"),
        ("[[], [1]]", "list(list(int))"),
        ("true ? self.any : 1", "dyn"),
        ("self.items.map(i, i.x)", "list(int)"),
        ("self.items.filter(i, i.x > 1)", "list(self.items)"),
        ("self.labels.exists_one(k, self.labels[k] == k)", "bool"),
        ("self.names.map(x, self.names.map(x, x.size()))", "list(list(int))"),
        ("type(self.n)", "type(int)"),
        ("self.t - self.t", "duration"),
        ("self.t - duration('1h')", "timestamp"),
        ("url(self.s).getQuery()", "map(string, list(string))"),
        ("self.names.min()", "string"),
        ("self.s.split(',').join()", "string"),
        ("google.protobuf.Int64Value{value: 1}", "wrapper(int)"),
        ("google.protobuf.Int64Value{value: 1} == 1", "bool"),
        ("google.protobuf.Struct{}", "map(string, dyn)"),
        ("google.protobuf.Timestamp{seconds: 1} == self.t", "bool"),
        ("type(self.t) == google.protobuf.Timestamp", "bool"),
        ("self.items[0] == null", "bool"),
        ("dyn(1) < 1.5", "bool"),
        ("[1].all(x, x < 1.5)", "bool"),  # cel-go does not exclude mixed comparisons inside macros
    ],
)
def test_type_of_a_correct_expression(source: str, result: str) -> None:
    found = checked(source)
    assert isinstance(found, Checked), str(found)
    assert str(found.result) == result


@cases(
    ("source", "messages"),
    [
        ("self.n + 'a'", [f"1:8: {NO_OVERLOAD} '_+_' applied to '(int, string)'"]),
        ("self.n < 1.5", [f"1:8: {NO_OVERLOAD} '_<_' applied to '(int, double)'"]),
        ("self.n.size()", [f"1:12: {NO_OVERLOAD} 'size' applied to 'int.()'"]),
        (
            "matches(self.s, 'a')",
            [f"1:8: {NO_OVERLOAD} 'matches' applied to '(string, string)'"],
        ),
        ("[] + 1", [f"1:4: {NO_OVERLOAD} '_+_' applied to '(list(_var0), int)'"]),
        (
            "self.items == [1]",
            [f"1:12: {NO_OVERLOAD} '_==_' applied to '(list(self.items), list(int))'"],
        ),
        ("null == self.items[0]", [f"1:6: {NO_OVERLOAD} '_==_' applied to '(null, self.items)'"]),
        ("self.nope", ["1:5: undefined field 'nope'"]),
        ("self.nope.more == 1", ["1:5: undefined field 'nope'"]),
        (
            "nope + more()",
            [
                f"1:1: {UNDECLARED} 'nope' {NOWHERE}",
                f"1:12: {UNDECLARED} 'more' {NOWHERE}",
            ],
        ),
        (
            "self.s.more() == 1",
            [
                f"1:12: {UNDECLARED} 'more' {NOWHERE}",
                f"1:15: {NO_OVERLOAD} '_==_' applied to '(<nil>, int)'",
            ],
        ),
        ("self.n.x", ["1:7: type 'primitive:INT64' does not support field selection"]),
        (
            "self.items.x",
            [
                """1:11: type 'list_type:{elem_type:{message_type:"self.items"}}' does not support field selection"""
            ],
        ),
        ("url(self.s).x", [f"1:12: {UNRESOLVED} 'cluster.URL'"]),
        ("[1, 'a', 2u]", ["1:5: expected type 'int' but found 'string'"]),
        ("{'a': 1, 2: 1}", ["1:10: expected type 'string' but found 'int'"]),
        (
            "self.s.all(c, true)",
            [
                "1:5: expression of type 'string' cannot be range of a comprehension (must be list, map, or dynamic)"
            ],
        ),
        ("self.names.all(n, n)", [f"1:15: {NO_OVERLOAD} '_&&_' applied to '(bool, string)'"]),
        ("Foo{a: 1}", [f"1:4: {UNDECLARED} 'Foo' {NOWHERE}"]),
        (
            "self{n: 1}",
            [
                """1:5: 'self(message_type:"self")' is not a type""",
                f"1:7: {UNRESOLVED} ''",
            ],
        ),
        ("int{}", ["1:4: 'int' is not a message type"]),
        (
            "google.protobuf.Duration{seconds: 'a'}",
            ["1:33: expected type of field 'seconds' is 'int' but provided type is 'string'"],
        ),
        ("self.n ==\nnope", [f"1:11: {UNDECLARED} 'nope' {NOWHERE}"]),
        ("self.n ==\n nope", [f"2:2: {UNDECLARED} 'nope' {NOWHERE}"]),
    ],
)
def test_messages_of_a_wrong_expression(source: str, messages: list[str]) -> None:
    problems = checked(source)
    assert isinstance(problems, Problems)
    lines = [line for line in str(problems).split("\n") if line.startswith("ERROR")]
    assert lines == [f"ERROR: <input>:{message}" for message in messages]


def test_calls_refer_to_every_overload_they_can_mean() -> None:
    found = checked("self.any + self.any")
    assert isinstance(found, Checked)
    overloads = found.references[found.expression.root.id].overloads
    assert overloads[:2] == ("add_int64", "add_uint64")
    assert "add_list" in overloads


def test_variables_of_macros_count_as_uses_of_their_name() -> None:
    for source, used in (("self.names.all(oldSelf, oldSelf != '')", True), ("self.any.oldSelf", False)):
        found = checked(source)
        assert isinstance(found, Checked)
        assert found.names("oldSelf") is used


@pytest.mark.parametrize(
    ("first", "more"),
    [
        ("[1].all(v0, ", "[{{v{0}: v{0}}}].all(v{1}, "),
        ("[].all(v0, ", "[].all(v{1}, v{1} == {{v{0}: v{0}}} && "),
    ],
)
def test_types_that_double_with_every_level_are_refused(first: str, more: str) -> None:
    problems = checked(first + "".join(more.format(i, i + 1) for i in range(25)) + "true" + ")" * 26)
    assert str(problems) == "ERROR: <input>:-1:0: types of the expression are too complex"
