"""Documents too deep for orjson are written like others, up to the limit."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest

from rewound.actors.golang.json import DEEPEST, dumps, is_too_deep, unescaped
from tests.cases import cases


def nested(levels: int, leaf: Any = "x") -> Any:
    """Each level has members before and after the next."""
    for level in range(levels):
        leaf = [level, leaf, None] if level % 3 == 2 else {"b": level, "a": leaf, "<": 1.5}
    return leaf


@cases("levels", [1, 199, 200, 201, 253, 254, 255, 256, 399, 400, 401, 500, DEEPEST, DEEPEST + 20])
def test_documents_of_every_depth_have_the_same_format(levels: int) -> None:
    for size in (0, 900, 1900):
        value = nested(levels, "y" * size)
        assert unescaped(value) == json.dumps(value, separators=(",", ":")).encode()
        in_order = json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
        assert unescaped(value, orjson.OPT_SORT_KEYS) == in_order
        assert json.loads(unescaped(value, orjson.OPT_INDENT_2)) == value
        assert b"<" not in dumps(value) and orjson.loads(dumps(value)) == value


def test_several_deep_members() -> None:
    value = {name: nested(number) for number, name in enumerate("abcdefgh", 250)}
    assert unescaped([value, value]) == json.dumps([value, value], separators=(",", ":")).encode()


@cases("value", [nested(DEEPEST + 40), {"a": 2**64}, {"a": {1, 2}}, "\ud800", nested(300, 2**64)])
def test_what_cannot_be_written_is_refused(value: Any) -> None:
    with pytest.raises(TypeError):
        unescaped(value)


@cases("levels, expected", [(1, False), (DEEPEST, False), (DEEPEST + 1, True), (DEEPEST + 20, True)])
def test_depth(levels: int, expected: bool) -> None:
    value = nested(levels)
    assert is_too_deep(value, unescaped(value)) is expected
    assert not is_too_deep([[1]] * (DEEPEST + 2), b"[" * (DEEPEST + 3))
