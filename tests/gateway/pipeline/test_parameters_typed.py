"""Integer and boolean parameters of a query."""

import pytest

from rewound.actors.errors import BadRequest
from rewound.gateway.pipeline.parameters import parse
from tests.cases import cases


@cases(
    ("text", "value"),
    [("5", 5), ("-1", -1), ("%2B7", 7), ("007", 7), ("9223372036854775807", (1 << 63) - 1)],
)
def test_integer_parameter_is_parsed(text: str, value: int) -> None:
    assert parse(f"limit={text}").integer("limit") == value


def test_absent_integer_is_none() -> None:
    assert parse("a=1").integer("limit") is None


@cases(
    "query",
    [
        "limit",
        "limit=",
        "limit=abc",
        "limit=1.5",
        "limit=1_0",
        "limit=0x1",
        "limit=%201",
        "limit=9223372036854775808",
    ],
)
def test_value_that_is_no_integer_is_refused(query: str) -> None:
    with pytest.raises(BadRequest, match=r'^limit: Invalid value: ".*": must be a 64-bit integer$'):
        parse(query).integer("limit")


def test_digits_of_other_scripts_are_refused() -> None:
    with pytest.raises(BadRequest):
        parse("limit=%D9%A1").integer("limit")


def test_refusal_does_not_repeat_a_huge_value() -> None:
    with pytest.raises(BadRequest) as caught:
        parse("limit=" + "9" * 100_000).integer("limit")
    assert len(str(caught.value)) < 200


@cases("query", ["watch", "watch=", "watch=1", "watch=true", "watch=no", "watch=f"])
def test_values_that_mean_true(query: str) -> None:
    assert parse(query).boolean("watch")


@cases("query", ["", "Watch=1", "watch=0", "watch=false", "watch=False"])
def test_values_that_mean_false(query: str) -> None:
    assert not parse(query).boolean("watch")
