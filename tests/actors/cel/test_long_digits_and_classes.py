"""Expressions of this server that users' texts are matched with need time in proportion to the text.

Each of these texts would take minutes if every character were the start of another search.
"""

from __future__ import annotations

from rewound.actors.cel.go_regexp import without_names
from rewound.actors.cel.values import parse_double
from rewound.actors.kinds.structural.formats import format_check
from tests.cases import cases

LONG = 500_000


@cases(
    ("text", "valid"),
    [
        ("9" * LONG, False),
        ("9 " * LONG, False),
        ("9" + " " * LONG, False),
        ("x" + "9" * LONG, False),
        ("9" * LONG + " days", False),
        ("x 3 days 4 hours", True),
        ("12x 3days", True),
    ],
)
def test_long_durations(text: str, valid: bool) -> None:
    check = format_check("duration")
    assert check is not None
    assert check(text) is valid


@cases("text", ["9" * LONG + "x", "0x" + "f" * LONG, "0x" + "f" * LONG + "p", "." + "9" * LONG + "e"])
def test_long_numbers(text: str) -> None:
    assert parse_double(text) is None


@cases("source", ["(?" + "[" * LONG, "(?" + "[a" * LONG + "\\", "(?" + "[]" * LONG, "(?<" * LONG])
def test_classes_that_do_not_end(source: str) -> None:
    assert without_names(source) == source


@cases(
    ("source", "written"),
    [
        ("(?P<a>x)(?<b>y)", "(x)(y)"),
        ("[(?<a>](?<a>y)", "[(?<a>](y)"),
        ("[]](?<a>y)", "[]](y)"),
        ("[^]](?<a>y)", "[^]](y)"),
        (r"\[(?<a>y)", r"\[(y)"),
        (r"[\]](?<a>y)", r"[\]](y)"),
        ("[(?<a>y)", "[(?<a>y)"),
    ],
)
def test_names_of_groups(source: str, written: str) -> None:
    assert without_names(source) == written
