"""Quantities have one canonical form; amounts below a billionth are rounded away from zero."""

from __future__ import annotations

import pytest

from actors.kinds.schema.decoder import NotDecodable
from actors.kinds.values.quantity import NotAQuantity, canonical_quantity, nanos_of
from tests.actors.kinds.definitions import Definitions
from tests.cases import cases

CANONICAL = [
    ("0", "0"),
    ("0Mi", "0"),
    ("4", "4"),
    ("+4", "4"),
    ("007", "7"),
    ("-1.5", "-1500m"),
    ("0.5", "500m"),
    (".5", "500m"),
    ("5.", "5"),
    ("1000m", "1"),
    ("1000", "1k"),
    ("1500", "1500"),
    ("100m", "100m"),
    ("1024Mi", "1Gi"),
    ("1536Mi", "1536Mi"),
    ("1.5Gi", "1536Mi"),
    ("0.5Ki", "512"),
    ("1Ki", "1Ki"),
    ("1000Ki", "1000Ki"),
    ("7976152Ki", "7976152Ki"),
    ("1e3", "1e3"),
    ("12E6", "12e6"),
    ("1500e-3", "1500e-3"),
    ("1000e3", "1e6"),
    ("0.0000000001", "1n"),
    ("1E", "1E"),
    ("1000E", "1000E"),
    ("100Ei", str(2**63 - 1)),
]


@cases(("sent", "canonical"), CANONICAL)
def test_quantity_has_one_canonical_form(sent: str, canonical: str) -> None:
    assert canonical_quantity(sent) == canonical
    assert canonical_quantity(canonical) == canonical


@cases("text", ["", "x", "1x", "1 Gi", "1.2.3", "--1", "Gi", "1ki", "1e", "1e9999", "9" * 70, "1_000"])
def test_invalid_quantities_are_refused(text: str) -> None:
    with pytest.raises(NotAQuantity):
        canonical_quantity(text)


def test_amounts_compare_whatever_their_suffix() -> None:
    assert nanos_of("1Gi") == nanos_of("1024Mi") > nanos_of("1G")


def test_quantity_may_be_a_json_number(kinds: Definitions) -> None:
    decoded = kinds["nodes"].schema.decode_json(b'{"status":{"capacity":{"cpu":4,"pods":1.10e2}}}')
    assert decoded.object["status"]["capacity"] == {"cpu": "4", "pods": "110"}
    with pytest.raises(NotDecodable, match="quantities must match"):
        kinds.decode("nodes", {"status": {"capacity": {"cpu": "many"}}})
    with pytest.raises(NotDecodable, match=r"bool into Go struct field NodeStatus\.status\.capacity"):
        kinds.decode("nodes", {"status": {"capacity": {"cpu": True}}})
