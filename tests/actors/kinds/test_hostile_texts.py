"""Texts of megabytes in fields with a format are checked in one pass, whatever they contain.

With the earlier regular expressions, none of these checks ended within minutes.
"""

from __future__ import annotations

import base64

import pytest

from rewound.actors.kinds.core.containers import is_latest
from rewound.actors.kinds.schema.fields import BYTES
from rewound.actors.kinds.schema.scalars import read_scalar
from rewound.actors.kinds.values.pem import InvalidPEM, blocks_of, check_request
from rewound.actors.kinds.values.schedule import InvalidSchedule, parse_schedule, time_zone_error
from rewound.actors.kinds.values.times import NotATime, canonical_seconds, duration_error
from rewound.actors.quantity import NotAQuantity, canonical_quantity
from tests.cases import cases

MEGABYTE = 1_000_000
DIGITS = "1" * MEGABYTE


@cases("text", [DIGITS, f"{DIGITS}!", f"1.{DIGITS}Kj", f"1e{DIGITS}"])
def test_long_quantities_are_refused(text: str) -> None:
    with pytest.raises(NotAQuantity):
        canonical_quantity(text)


def test_long_durations_are_refused_with_their_start() -> None:
    assert duration_error("1h" * 500) == ""
    assert 0 < len(duration_error("1h" * (MEGABYTE // 10))) < 2000


def test_long_times_are_refused_with_their_start() -> None:
    with pytest.raises(NotATime) as refused:
        canonical_seconds("2020-01-02T03:04:05." + "1" * MEGABYTE + "x")
    assert len(str(refused.value)) < 4000


def test_blocks_without_an_end_are_skipped() -> None:
    begins = "".join(f"-----BEGIN {index}-----\n" for index in range(60_000))
    block = "-----BEGIN A-----\nYQ==\n-----END A-----\n"
    assert [one.content for one in blocks_of(begins + block + begins)] == [b"a"]
    with pytest.raises(InvalidPEM):
        check_request(base64.b64encode(begins.encode()).decode())


def test_a_block_ends_at_the_first_end_of_its_kind() -> None:
    text = (
        "-----END A-----\n-----BEGIN A-----\nYQ==\n-----BEGIN B-----\n-----END A-----\n"
        "-----BEGIN B-----\nYg==\n-----END B-----\n-----END A-----\n"
    )
    assert [one.kind for one in blocks_of(text)] == ["A", "B"]


@cases(
    ("text", "at"),
    [
        ("A" * MEGABYTE + "!", MEGABYTE),
        ("A" * (MEGABYTE + 1), MEGABYTE),
        ("A" * MEGABYTE + "AA=\r\n\nA", MEGABYTE + 5),
        ("A" * MEGABYTE + "AA==A", MEGABYTE + 4),
        ("A" * MEGABYTE + "AAA=\n=", MEGABYTE + 5),
        ("A" * MEGABYTE + "A=", MEGABYTE + 1),
    ],
    ids=lambda value: str(value)[-6:],
)
def test_invalid_base64_is_located(text: str, at: int) -> None:
    with pytest.raises(ValueError, match=f"illegal base64 data at input byte {at}$"):
        read_scalar(BYTES, text)


def test_long_names_of_zones_and_images_are_not_cached() -> None:
    assert time_zone_error("a" * MEGABYTE).startswith("unknown time zone a")
    assert not is_latest("a" * MEGABYTE)
    with pytest.raises(InvalidSchedule):
        parse_schedule("TZ=" + "a" * MEGABYTE + " * * * * *")
