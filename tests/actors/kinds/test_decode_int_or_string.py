"""IntOrString: numbers and strings are stored as sent, anything else is refused."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from rewound.actors.kinds.schema.decoder import NotDecodable, Schema
from rewound.actors.kinds.schema.fields import INT_OR_STRING, Field, Struct
from tests.cases import cases

SCHEMA = Schema(
    Struct("x.v1.X", Field("plain", INT_OR_STRING, 1), Field("maybe", INT_OR_STRING, 2, pointer=True)),
    "v1",
    "X",
)


@cases(
    ("document", "expected"),
    [
        ({}, {"plain": 0}),
        ({"plain": 80, "maybe": "http"}, {"plain": 80, "maybe": "http"}),
        ({"plain": "25%", "maybe": 0}, {"plain": "25%", "maybe": 0}),
        ({"plain": "", "maybe": ""}, {"plain": "", "maybe": ""}),
        ({"plain": None, "maybe": None}, {"plain": 0}),
    ],
)
def test_both_decoders_keep_numbers_and_strings(document: Any, expected: Any) -> None:
    raw = orjson.dumps(document)
    assert SCHEMA.decode_json(raw).object == expected
    assert SCHEMA.decode_exactly(raw).object == expected
    assert SCHEMA.decode_object(document).object == expected


@cases("value", [True, 1.5, 2**31, [], {}])
def test_other_values_are_refused(value: Any) -> None:
    with pytest.raises(NotDecodable, match="of type int32"):
        SCHEMA.decode_json(orjson.dumps({"plain": value}))
