"""How plain, quoted and tagged scalars are resolved."""

from typing import Any

import pytest

from rewound.gateway.wire.yaml import YamlError, load
from tests.cases import cases


def value_of(text: str) -> Any:
    return load(f"a: {text}\n".encode()).value["a"]


@cases("text", ["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"])
def test_words_for_true(text: str) -> None:
    assert value_of(text) is True


@cases("text", ["n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"])
def test_words_for_false(text: str) -> None:
    assert value_of(text) is False


@cases("text", ["", "~", "null", "Null", "NULL", "!!null null", "!!null ''"])
def test_words_for_null(text: str) -> None:
    assert value_of(text) is None


@cases(
    ("text", "value"),
    [
        ("0", 0),
        ("-0", 0),
        ("12", 12),
        ("+12", 12),
        ("-12", -12),
        ("1_000", 1000),
        ("0x1F", 31),
        ("-0XfF", -255),
        ("0b101", 5),
        ("017", 15),
        ("0o17", 15),
        ("-010", -8),
        ("9223372036854775807", (1 << 63) - 1),
        ("-9223372036854775808", -(1 << 63)),
        ("18446744073709551615", (1 << 64) - 1),
        ("08", 8),
        ("1.0", 1),
        ("1e3", 1000),
        ('!!int "7"', 7),
        ("!!float 7", 7),
    ],
)
def test_integers_in_all_notations(text: str, value: int) -> None:
    read = value_of(text)
    assert (read, type(read)) == (value, int)


@cases(
    ("text", "value"),
    [
        (".5", 0.5),
        ("-.5", -0.5),
        ("1.5e-3", 0.0015),
        ("1_0.5", 10.5),
        ("18446744073709551616", 2.0**64),
        ("1e300", 1e300),
    ],
)
def test_floats_in_all_notations(text: str, value: float) -> None:
    read = value_of(text)
    assert (read, type(read)) == (value, float)


@cases(
    "text",
    [
        "12:30:45",
        "2020-01-01",
        "2020-01-01T10:00:00Z",
        "0x",
        "0b2",
        "0o8",
        "1e",
        ".",
        "+",
        "._5",
        ".5_0",
        "1.2.3",
        "yEs",
        "tRUE",
        "nULL",
        "_1",
        "12e4567",
        "1 2",
        "=",
        "<<",
    ],
)
def test_scalars_that_stay_text(text: str) -> None:
    assert value_of(text) == text


@cases("text", ["'12'", '"yes"', "'~'", "!!str 12", "! 12"])
def test_quoted_and_tagged_scalars_stay_text(text: str) -> None:
    assert value_of(text) == text.strip("'\"").removeprefix("!!str ").removeprefix("! ")


def test_block_scalars_are_text() -> None:
    assert load(b"a: |\n  1\n  2\nb: >-\n  1\n  2\n").value == {"a": "1\n2\n", "b": "1 2"}


def test_binary_tag_decodes_base64() -> None:
    assert value_of("!!binary aGVsbG8=") == "hello"
    assert load(b"a: !!binary |\n  aGVs\n  bG8=\n").value == {"a": "hello"}


def test_timestamp_is_text() -> None:
    assert value_of("!!timestamp 2020-01-01") == "2020-01-01"


@cases(
    ("text", "problem"),
    [
        ("!!int x", "cannot decode `x` as a !!int"),
        ("!!int 1.5", "cannot decode `1.5` as a !!int"),
        ("!!bool 1", "cannot decode `1` as a !!bool"),
        ("!!float yes", "cannot decode `yes` as a !!float"),
        ("!!null x", "cannot decode `x` as a !!null"),
        ("!!timestamp x", "cannot decode `x` as a !!timestamp"),
        ("!!timestamp 2020-13-01", "cannot decode `2020-13-01` as a !!timestamp"),
        ("!!binary a", "!!binary value contains invalid base64 data"),
        ("!!binary /w==", "!!binary value is not UTF-8 text"),
    ],
)
def test_tags_that_do_not_fit_are_refused(text: str, problem: str) -> None:
    with pytest.raises(YamlError) as caught:
        value_of(text)
    assert f"line 1, column 4: {problem}" in str(caught.value)


@cases(
    ("text", "key"),
    [
        ("1", "1"),
        ("0x10", "16"),
        ("1.5", "1.5"),
        ("yes", "true"),
        ("off", "false"),
        ("'1'", "1"),
        ("y", "true"),
    ],
)
def test_keys_become_text(text: str, key: str) -> None:
    assert load(f"{text}: v\n".encode()).value == {key: "v"}


@cases("text", ["~: v", "? [a]\n: v", "? {a: b}\n: v", "? &x [a]\n: v"])
def test_keys_that_are_no_scalars_are_refused(text: str) -> None:
    with pytest.raises(YamlError, match="a map key must"):
        load(text.encode())
