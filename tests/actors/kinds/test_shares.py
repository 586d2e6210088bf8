"""Shares: numbers, percentages, and what a text without either is worth."""

from __future__ import annotations

import pytest

from actors.kinds.declaration.shares import Share, amount, no_more_than_all, share_rules
from actors.kinds.validation.field_errors import collect


@pytest.mark.parametrize(("share", "worth"), [(3, 3), ("25%", 25), ("7", 7), ("x", 0), ("%", 0), ("", 0)])
def test_amounts(share: Share, worth: int) -> None:
    assert amount(share) == worth


@pytest.mark.parametrize("share", [0, 5, "0%", "100%", "250%"])
def test_right_ones(share: Share) -> None:
    assert collect(share_rules, share, "f") == []


@pytest.mark.parametrize(
    ("share", "message"),
    [
        (-1, "Invalid value: -1: must be greater than or equal to 0"),
        (
            "x",
            "Invalid value: \"x\": a valid percent string must be a numeric string followed by an ending '%' "
            "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
        ),
    ],
)
def test_wrong_ones(share: Share, message: str) -> None:
    assert [error.message for error in collect(share_rules, share, "f")] == [message]


def test_no_more_than_all() -> None:
    assert (
        collect(no_more_than_all, "100%", "f")
        == collect(no_more_than_all, 1000, "f")
        == collect(no_more_than_all, "x", "f")
        == []
    )
    assert [error.message for error in collect(no_more_than_all, "101%", "f")] == [
        'Invalid value: "101%": must not be greater than 100%'
    ]
