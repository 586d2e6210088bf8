"""Quantities keep the text that Kubernetes keeps, or get a canonical form; small amounts are rounded away from zero."""

from __future__ import annotations

import pytest

from rewound.actors.kinds.core.resources import round_up
from rewound.actors.kinds.schema.decoder import NotDecodable
from rewound.actors.quantity import NotAQuantity, canonical_quantity, nanos_of
from tests.actors.kinds.definitions import Definitions
from tests.cases import cases

CANONICAL = [
    ("0", "0"),
    ("0Mi", "0"),
    ("4", "4"),
    ("+4", "+4"),
    ("007", "007"),
    ("-1.5", "-1500m"),
    ("0.5", "500m"),
    (".5", "500m"),
    ("5.", "5."),
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
    ("12E6", "12E6"),
    ("12E7", "120e6"),
    ("1.500", "1.500"),
    ("1.000", "1"),
    ("1.001M", "1.001M"),
    ("0.001M", "1k"),
    ("1.10e2", "1.10e2"),
    ("-512.e0", "-512.e0"),
    ("+5Ki", "+5Ki"),
    ("+8Ki", "8Ki"),
    ("1106.Mi", "1106.Mi"),
    ("1.0Ki", "1Ki"),
    ("007.5e100", "007.5e100"),
    ("1e1000", "10e999"),
    ("1e-1000", "1e-9"),
    ("123456789012345678", "123456789012345678"),
    ("+1234567890123456789", "1234567890123456789"),
    ("123456789012Ki", "123456789012Ki"),
    ("+12345678901Ki", "+12345678901Ki"),
    ("+123456789012Ki", "123456789012Ki"),
    ("-0.0001Ki", "-102400u"),
    ("0.0001Ki", "102400u"),
    ("9" * 70, "9" * 70),
    ("9" * 200 + "Ki", str(2**63 - 1)),
    ("Ki", "0"),
    ("+", "0"),
    (".", "0"),
    ("-e5", "0"),
    ("\u00a01 \u2028", "1"),
    ("1500e-3", "1500e-3"),
    ("1000e3", "1e6"),
    ("0.0000000001", "1n"),
    ("1E", "1E"),
    ("1000E", "1000E"),
    ("100Ei", str(2**63 - 1)),
]


@cases(("sent", "canonical"), CANONICAL)
def test_text_of_a_quantity(sent: str, canonical: str) -> None:
    assert canonical_quantity(sent) == canonical
    assert canonical_quantity(canonical) == canonical


FORMAT = "quantities must match the regular expression"
SUFFIX = "unable to parse quantity's suffix"
NUMBER = "unable to parse numeric part of quantity"


@cases(
    "text, why",
    [
        *((text, FORMAT) for text in ("", " ", "x", "1x", "1 Gi", "1.2.3", "1_000", "1\n", "\t1", "1e1.5")),
        *(
            (text, SUFFIX)
            for text in ("--1", "1ki", "1e", "1e9999", "5+3", "5-", "i", "+E+", "1ee3", "1Ki5", "1K")
        ),
        *((text, NUMBER) for text in ("e-20", ".e-20", "9" * 1001)),
    ],
)
def test_invalid_quantities_are_refused(text: str, why: str) -> None:
    with pytest.raises(NotAQuantity, match=why):
        canonical_quantity(text)


@cases(
    "text, rounded",
    [
        ("1500u", "2m"),
        ("-591u", "-1m"),
        ("1.000001", "1001m"),
        ("1.5e-12", "1e-3"),
        ("1.500", "1.500"),
        ("0", "0"),
    ],
)
def test_amounts_of_resources_are_rounded_to_thousandths(text: str, rounded: str) -> None:
    amounts = {"cpu": canonical_quantity(text)}
    round_up(amounts)
    assert amounts == {"cpu": rounded}


def test_amounts_compare_whatever_their_suffix() -> None:
    assert nanos_of("1Gi") == nanos_of("1024Mi") > nanos_of("1G")


def test_quantity_may_be_a_json_number(kinds: Definitions) -> None:
    decoded = kinds["nodes"].schema.decode_json(b'{"status":{"capacity":{"cpu":4,"pods":1.10e2}}}')
    assert decoded.object["status"]["capacity"] == {"cpu": "4", "pods": "1.10e2"}
    with pytest.raises(NotDecodable, match="quantities must match"):
        kinds.decode("nodes", {"status": {"capacity": {"cpu": "many"}}})
    for value in (True, {}, [1]):
        with pytest.raises(NotDecodable, match="quantities must match"):
            kinds.decode("nodes", {"status": {"capacity": {"cpu": value}}})
