"""JSON syntax errors name the invalid character, in the words that clients know."""

from __future__ import annotations

import pytest

from rewound.actors.kinds.schema.json_tree import _IN_LIST, NotJson, _container, parse_tree
from tests.cases import cases

END = "unexpected end of JSON input"


@cases(
    "text",
    ["", " ", "{", '{"a"', '{"a":', '{"a":1', "[1,", "[", '"abc', '"\\', '"\\u12', "nul", "-", '{"a":{ '],
)
def test_truncated_json(text: str) -> None:
    with pytest.raises(NotJson) as raised:
        parse_tree(text.encode())
    assert raised.value.reason == END


@cases(
    ("text", "character", "context"),
    [
        ("x", "x", "looking for beginning of value"),
        ("[1,]", "]", "looking for beginning of value"),
        ("{a:1}", "a", "looking for beginning of object key string"),
        ("{'a':1}", r"\'", "looking for beginning of object key string"),
        ('{"a":1,}', "}", "looking for beginning of object key string"),
        ('{"a" 1}', "1", "after object key"),
        ('{"a":[1] "b"}', '"', "after object key:value pair"),
        ('{"a]}":[{} {}]}', "{", "after array element"),
        ('{"a":1}x', "x", "after top-level value"),
        ('"a\nb"', r"\n", "in string literal"),
        (r'"\\\x"', "x", "in string escape code"),
        (r'"\u12x4"', "x", r"in \u hexadecimal character escape"),
        ("nope", "o", "in literal null (expecting 'u')"),
        ("-x", "x", "in numeric literal"),
    ],
)
def test_error_names_the_invalid_character(text: str, character: str, context: str) -> None:
    with pytest.raises(NotJson) as raised:
        parse_tree(text.encode())
    assert raised.value.reason == f"invalid character '{character}' {context}"


def test_error_has_the_offset() -> None:
    with pytest.raises(NotJson, match=r"^invalid character 'x' after array element at offset 3$"):
        parse_tree(b"[1 x]")


def test_error_after_many_quotes_is_found_in_one_pass() -> None:
    """A search from each of the quotes of a string that does not end would take minutes."""
    assert _container('{"a": [' + '"\\' * 500_000) == _IN_LIST
