"""The fast parser of patches agrees with the exact one, and reports duplicate members."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewound.actors.kinds.schema.json_tree import NotJson, parse_tree, parse_values, plain
from tests.cases import cases

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=10,
)


@given(VALUES, st.sampled_from([None, (",", ":")]), st.booleans())
def test_fast_parser_agrees_with_the_exact_parser(
    value: Any, separators: tuple[str, str] | None, plain_text: bool
) -> None:
    raw = json.dumps(value, separators=separators, ensure_ascii=plain_text).encode("utf-8", "surrogatepass")
    found, has_duplicates = parse_values(raw)
    assert repr(found) == repr(plain(parse_tree(raw)))
    assert not has_duplicates


@given(st.binary(max_size=20) | st.text('{}[],:"0123456789.-eE truefalsn\\ud8', max_size=12).map(str.encode))
def test_both_parsers_refuse_the_same_documents(raw: bytes) -> None:
    try:
        expected = plain(parse_tree(raw))
    except NotJson:
        with pytest.raises(NotJson):
            parse_values(raw)
    else:
        assert repr(parse_values(raw)[0]) == repr(expected)


@cases(
    ("raw", "value", "has_duplicates"),
    [
        (b'{"a":1,"a":2}', {"a": 2}, True),
        (b'{"b":[{"a":1,"a":1}]}', {"b": [{"a": 1}]}, True),
        (b'{"a":1,"\\u0061":2}', {"a": 2}, True),
        (b'{"a":{"a":1}}', {"a": {"a": 1}}, False),
    ],
)
def test_duplicate_members_are_reported(raw: bytes, value: Any, has_duplicates: bool) -> None:
    assert parse_values(raw) == (value, has_duplicates)
