"""Small documents that would cause much work, and bytes that are not text, are refused with the reason."""

from typing import Any

import pytest
import yaml

from rewound.actors.errors import TooLarge
from rewound.actors.golang.json import DEEPEST
from rewound.gateway.wire.yaml import YamlError, load
from rewound.gateway.wire.yaml.reader import ALIAS_BUDGET, Builder

LAUGHS = b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
    b"%c: &%c [%s]\n" % (letter, letter, b",".join([b"*%c" % (letter - 1)] * 9)) for letter in b"bcdefghi"
)
LONG_TEXT = b"a: &a " + b"x" * 100_000 + b"\nb: [" + b"*a," * 1000 + b"]"


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b"[" * 100_000, "nested deeper than"),
        (b"{a: " * 100_000, "nested deeper than"),
        (b"- " * 100_000, "nested deeper than"),
        (b"[" * 100_000 + b"]" * 100_000, "nested deeper than"),
        (b"".join(b" " * level + b"a:\n" for level in range(1000)), "nested deeper than"),
        (b"? " * 100_000, "a map key must be a scalar"),
        (LAUGHS, "excessive aliasing"),
        (LONG_TEXT, "excessive aliasing"),
        (b"a: &a {x: 1}\nb: {" + b"<<: *a," * 200_000 + b"}", "excessive aliasing"),
        (b"a: " + b"7" * 1_000_000, "a number of 1000000 characters is out of range"),
        (b"a: -0x" + b"7" * 1_000_000, "is out of range"),
        (b"a: 0." + b"7" * 1_000_000, "is out of range"),
        (b"a: 1e" + b"7" * 1_000_000, "is out of range"),
        (b"7" * 1001 + b": a", "a number of 1001 characters is out of range"),
        (b"a: .inf", ".inf is not a number"),
        (b"a: [-.INF]", "-.INF is not a number"),
        (b".NaN: a", ".NaN is not a number"),
        (b"a: !mine b", "unknown tag !mine"),
        (b"a: !mine {b: c}", "unknown tag !mine"),
        (b"a: !!set {b, c}", "unknown tag !!set"),
        (b"!!python/object/apply:os.getcwd []", "unknown tag !!python/object/apply:os.getcwd"),
        (b"".join(b"%%TAG !a%d! tag:x\n" % n for n in range(50_000)) + b"--- 1", "%TAG directives"),
        (
            b"1\n...\r" + b"".join(b"%%TAG !a%d! tag:x\r" % n for n in range(50_000)) + b"--- 1",
            "%TAG directives",
        ),
        (b"a: b\x00c", "line 1, column 5: control characters are not allowed (U+0000)"),
        (b"a: b\nc: \x1b", "line 2, column 4: control characters are not allowed (U+001B)"),
        (b"a:\n  b: \xff", "line 2, column 6: invalid UTF-8"),
        (b"a: \xed\xa0\x80", "invalid UTF-8"),
        ("a: b".encode("utf-16"), "invalid UTF-8"),
    ],
)
def test_hostile_document_is_refused(raw: bytes, problem: str) -> None:
    with pytest.raises(YamlError) as caught:
        load(raw)
    assert problem in caught.value.message
    assert len(caught.value.message) < 300


@pytest.mark.parametrize(
    "raw", [b"- a\n" * 1000, b"[" + b"a," * 1000 + b"]", b"a: b\n" * 1000, b"[" + b"a: b, " * 1000 + b"]"]
)
def test_parser_stops_at_the_first_value_too_many(raw: bytes) -> None:
    parser, events = yaml.SafeLoader(raw), 0

    def next_event() -> Any:
        nonlocal events
        events += 1
        return parser.get_event()

    with pytest.raises(TooLarge, match=r"the object has more than 20 values .*, at most 20 are allowed"):
        Builder(20).build(next_event)
    assert events < 100


def test_as_many_values_as_allowed_are_read() -> None:
    assert load(b"[" + b"a," * 20 + b"]", 20).value == ["a"] * 20
    assert load(b"a: b\nc: {d: e}", 3).value == {"a": "b", "c": {"d": "e"}}


def test_nesting_up_to_the_limit_is_read() -> None:
    value = load(b"[" * DEEPEST + b"]" * DEEPEST).value
    for _ in range(DEEPEST - 1):
        (value,) = value
    assert value == []


def test_aliases_count_towards_the_nesting_limit() -> None:
    half = DEEPEST // 2
    anchor = b"- &a " + b"[" * half + b"]" * half + b"\n"
    load(anchor + b"- " + b"[" * (DEEPEST - half - 1) + b"*a" + b"]" * (DEEPEST - half - 1) + b"\n")
    with pytest.raises(YamlError, match="nested deeper than"):
        load(anchor + b"- " + b"[" * (DEEPEST - half) + b"*a" + b"]" * (DEEPEST - half) + b"\n")


def test_small_alias_may_be_repeated_often() -> None:
    times = ALIAS_BUDGET // 32
    assert load(b"- &a abc\n" + b"- *a\n" * times).value == ["abc"] * (times + 1)


def test_few_directives_are_accepted() -> None:
    assert load(b"%TAG !a! tag:yaml.org,2002:\n--- !a!str 1\n").value == "1"


def test_directives_inside_text_are_text() -> None:
    assert load(b"a: |\n" + b"  %TAG x\n" * 1000).value == {"a": "%TAG x\n" * 1000}


def test_long_quoted_digits_are_text() -> None:
    assert load(b"a: '" + b"7" * 1_000_000 + b"'").value == {"a": "7" * 1_000_000}
