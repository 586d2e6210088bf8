"""Numbers and percentages in IntOrString fields, and strings that are neither."""

from __future__ import annotations

import pytest

from rewound.actors.kinds.declaration.workloads import (
    IntOrPercent,
    at_most_100_percent,
    int64_of,
    int_or_percent_rules,
    number_in,
)
from rewound.actors.kinds.validation import collect
from tests.cases import cases


@cases(
    ("share", "amount"),
    [
        (3, 3),
        ("25%", 25),
        ("7", 7),
        ("x", 0),
        ("%", 0),
        ("", 0),
        ("0" * 5000 + "9%", 9),
        ("9" * 5000 + "%", 0),
    ],
)
def test_number_in_returns_the_number_or_zero(share: IntOrPercent, amount: int) -> None:
    assert number_in(share) == amount


@cases(
    ("text", "number"),
    [
        ("7", 7),
        ("-0", 0),
        ("+07", 7),
        (str(2**63 - 1), 2**63 - 1),
        (str(2**63), None),
        (str(-(2**63)), -(2**63)),
        ("9" * 5000, None),
        ("1_0", None),
        ("", None),
    ],
)
def test_int64_of_returns_numbers_of_64_bits(text: str, number: int | None) -> None:
    assert int64_of(text) == number


@cases("share", [0, 5, "0%", "100%", "250%"])
def test_valid_values_are_accepted(share: IntOrPercent) -> None:
    assert collect(int_or_percent_rules, share, "f") == []


@pytest.mark.parametrize(
    ("share", "message"),
    [
        (-1, "Invalid value: -1: must be greater than or equal to 0"),
        (
            "x",
            'Invalid value: intstr.IntOrString{Type:1, IntVal:0, StrVal:"x"}: '
            "a valid percent string must be a numeric string followed by an ending '%' "
            "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
        ),
    ],
)
def test_invalid_values_are_refused(share: IntOrPercent, message: str) -> None:
    assert [error.message for error in collect(int_or_percent_rules, share, "f")] == [message]


def test_percentages_above_100_are_refused() -> None:
    assert (
        collect(at_most_100_percent, "100%", "f")
        == collect(at_most_100_percent, 1000, "f")
        == collect(at_most_100_percent, "x", "f")
        == []
    )
    assert [error.message for error in collect(at_most_100_percent, "101%", "f")] == [
        'Invalid value: intstr.IntOrString{Type:1, IntVal:0, StrVal:"101%"}: must not be greater than 100%'
    ]
