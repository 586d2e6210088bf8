"""Documents in CBOR, as Kubernetes writes them, and what the reader makes of them."""

from __future__ import annotations

from typing import Any

from rewound.gateway.wire.cbor.reader import read_values
from rewound.gateway.wire.cbor.writer import CborEncoder
from tests.cases import cases

ENCODER = CborEncoder(None)


@cases(
    ("value", "expected"),
    [
        (None, "f6"),
        (True, "f5"),
        (0, "00"),
        (23, "17"),
        (24, "1818"),
        (65535, "19ffff"),
        (2**63 - 1, "1b7fffffffffffffff"),
        (-1, "20"),
        (-(2**63), "3b7fffffffffffffff"),
        (1.5, "f93e00"),
        (100000.0, "fa47c35000"),
        (1.1, "fb3ff199999999999a"),
        ("ü", "42c3bc"),
        ([1, "a"], "82014161"),
        ({"a": {}}, "a14161a0"),
    ],
)
def test_values(value: Any, expected: str) -> None:
    assert ENCODER.value(value).hex() == expected


def test_bytes_have_a_tag() -> None:
    plan = {"data": [True]}
    assert ENCODER.value({"data": {"a": "aGk="}}, plan).hex() == "a14464617461a14161d6426869"


def test_round_trip() -> None:
    value = {"a": [1, -2, 2.5, 1e300, None, True, False, "", "x" * 300], "b": {"c": {"d": []}}, "é": "\x00"}
    assert read_values(ENCODER.value(value), 1000) == value
