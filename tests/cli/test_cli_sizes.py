"""Amounts of memory on the command line."""

from __future__ import annotations

import pytest

from rewound.server.flags.values import parse_size
from tests.cases import cases


@cases(
    ("text", "expected"),
    [
        ("0", 0),
        ("1000", 1000),
        ("512Mi", 512 << 20),
        ("1Gi", 1 << 30),
        ("2G", 2 * 10**9),
        ("1.5Gi", 3 << 29),
        ("9k", 9000),
    ],
)
def test_sizes_are_parsed(text: str, expected: int) -> None:
    assert parse_size(text) == expected


@cases("text", ["", "-1", "Mi", "1 Gi", "1gb", "1e9", "1K", "٥Mi"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not an amount of memory; write it like"):
        parse_size(text)
