from __future__ import annotations

import pytest

from rewound.actors.errors import BadRequest
from rewound.actors.selectors import LabelSelector
from tests.cases import cases

NAME_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used "
    "for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
PREFIX_RULE = (
    "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for "
    r"validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
OPERATORS = "in, notin, =, ==, !=, gt, lt"


def refusal(text: str) -> str:
    with pytest.raises(BadRequest) as refused:
        LabelSelector.parse(text)
    return refused.value.message


@cases(
    ("text", "message"),
    [
        ("=x", "found '=', expected: !, identifier, or 'end of string'"),
        (",a", "found ',', expected: !, identifier, or 'end of string'"),
        ("a,,b", "found ',', expected: identifier after ','"),
        ("a,", "found '', expected: identifier after ','"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("a in (b) c", "found 'c', expected: ',' or 'end of string'"),
    ],
)
def test_mistake_between_requirements_is_reported(text: str, message: str) -> None:
    assert refusal(text) == message


@cases(
    ("text", "message"),
    [
        ("a b", f"found 'b', expected: {OPERATORS}"),
        ("a (b)", f"found '(', expected: {OPERATORS}"),
        ("a ! b", f"found '!', expected: {OPERATORS}"),
        ("!", "found '', expected: identifier"),
        ("!!a", "found '!', expected: identifier"),
        ("a==(", "found '(', expected: identifier"),
        ("a=!b", "found '!', expected: identifier"),
        ("a===b", "found '=', expected: identifier"),
        ("a in web", "found 'web' expected: '('"),
        ("a in", "found '' expected: '('"),
        ("a in (", "found '', expected: ',', ')' or identifier"),
        ("a in (=", "found '=', expected: ',', ')' or identifier"),
        ("a in (web", "found '', expected: ',' or ')'"),
        ("a in (web db)", "found 'db', expected: ',' or ')'"),
        ("a in (web,", "found '', expected: ',', or identifier"),
        ("a in (web,(", "found '(', expected: ',', or identifier"),
    ],
)
def test_mistake_inside_a_requirement_is_reported(text: str, message: str) -> None:
    assert refusal(text) == f"unable to parse requirement: {message}"


@cases(
    ("key", "why"),
    [
        ("-a", NAME_RULE),
        ("a_", NAME_RULE),
        ("ä", NAME_RULE),
        ("a/", f"name part must be non-empty; {NAME_RULE}"),
        ("/a", "prefix part must be non-empty"),
        ("A/a", PREFIX_RULE),
        ("a" * 64, "name part must be no more than 63 characters"),
        ("b" * 254 + "/a", "prefix part must be no more than 253 characters"),
        (
            "a/b/c",
            NAME_RULE.replace("name part", "a qualified name")
            + " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
        ),
    ],
)
def test_invalid_key_is_reported(key: str, why: str) -> None:
    assert refusal(f"{key}=x") == f'unable to parse requirement: <nil>: Invalid value: "{key}": {why}'


@cases(
    ("text", "message"),
    [
        ("a=-b", f'values[0][a]: Invalid value: "-b": {VALUE_RULE}'),
        ("a in (b,c/d)", f'values[1][a]: Invalid value: "c/d": {VALUE_RULE}'),
        (
            "a=" + "b" * 64,
            f'values[0][a]: Invalid value: "{"b" * 64}": must be no more than 63 characters',
        ),
        (
            "a in (-,_)",
            f'[values[0][a]: Invalid value: "-": {VALUE_RULE}, '
            f'values[1][a]: Invalid value: "_": {VALUE_RULE}]',
        ),
        (
            "a>b",
            "values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be an integer",
        ),
        (
            "a<9223372036854775808",
            'values[0]: Invalid value: "9223372036854775808": '
            "for 'Gt', 'Lt' operators, the value must be an integer",
        ),
        (
            "a>",
            "values[0]: Invalid value: \"\": for 'Gt', 'Lt' operators, the value must be an integer",
        ),
        ("a>-1", f'values[0][a]: Invalid value: "-1": {VALUE_RULE}'),
    ],
)
def test_invalid_value_is_reported(text: str, message: str) -> None:
    assert refusal(text) == f"unable to parse requirement: {message}"


def test_many_trailing_blanks_are_parsed_in_linear_time() -> None:
    assert not LabelSelector.parse(" " * 1_000_000)
