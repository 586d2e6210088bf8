"""Errors of times have the texts of Go; nonstandard forms that Go accepts are accepted."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from rewound.actors.kinds.values.times import NotATime, parse_time
from tests.cases import cases

SECONDS = "2006-01-02T15:04:05Z07:00"
MICROS = "2006-01-02T15:04:05.000000Z07:00"


@cases(
    ("text", "rest", "element"),
    [
        ("", "", "2006"),
        ("yesterday", "yesterday", "2006"),
        ("20-02-03T05:00:00.123456Z", "2-03T05:00:00.123456Z", "2006"),
        ("2020-01-02", "", "T"),
        ("2020-2-03T05:00:00.123456Z", "2-03T05:00:00.123456Z", "01"),
        ("2020-02-03 05:00:00.123456Z", " 05:00:00.123456Z", "T"),
        ("2020-02-03T05:00:00Z", "Z", ".000000"),
        ("2020-02-03T05:00:00.123Z", ".123Z", ".000000"),
        ("2020-02-03T05:00:00.1234567Z", "7Z", "Z07:00"),
        ("2020-02-03T05:00:00.123456", "", "Z07:00"),
        ("2020-02-03T05:00:00.123456+2", "+2", "Z07:00"),
        ("2020-02-03T05:00:00.123456+0200", "+0200", "Z07:00"),
        ('2020"', '"', "-"),
    ],
)
def test_unparsable_times_have_the_error_texts_of_go(text: str, rest: str, element: str) -> None:
    with pytest.raises(NotATime) as caught:
        parse_time(text, MICROS)
    quoted, left = (one.replace('"', '\\"') for one in (text, rest))
    assert str(caught.value) == (
        f'parsing time "{quoted}" as "{MICROS}": cannot parse "{left}" as "{element}"'
    )


@cases(
    ("text", "why"),
    [
        ("2020-13-02T00:00:00Z", "month out of range"),
        ("2020-00-02T00:00:00Z", "month out of range"),
        ("2020-02-30T00:00:00Z", "day out of range"),
        ("2020-02-00T00:00:00Z", "day out of range"),
        ("2021-02-29T00:00:00Z", "day out of range"),
        ("2020-02-03T25:00:00Z", "hour out of range"),
        ("2020-02-03T05:61:00Z", "minute out of range"),
        ("2020-02-03T05:00:61Z", "second out of range"),
        ("2020-02-03T05:00:00+25:00", "time zone offset hour out of range"),
        ("2020-02-03T05:00:00+01:61", "time zone offset minute out of range"),
        ("2020-02-03T05:00:00Zx", 'extra text: "x"'),
        ("0000-02-03T05:00:00Z", "year out of range"),  # Go accepts it
    ],
)
def test_times_out_of_range_or_with_extra_text_are_refused(text: str, why: str) -> None:
    with pytest.raises(NotATime) as caught:
        parse_time(text, SECONDS)
    assert str(caught.value) == f'parsing time "{text}": {why}'


def test_nonstandard_forms_that_go_accepts() -> None:
    moment = datetime(2020, 2, 3, 5, 0, 0, 500_000, tzinfo=UTC)
    assert parse_time("2020-02-03T5:00:00,5Z", SECONDS) == moment
    assert parse_time("2020-02-03T07:00:00.500000000+02:00", SECONDS) == moment
    assert parse_time("2020-02-03T5:00:00.500000Z", MICROS) == moment
    assert parse_time("2020-02-04T05:00:00.5+24:00", SECONDS) == moment


def test_error_texts_quote_bytes_that_are_not_ascii_as_go_does() -> None:
    with pytest.raises(NotATime) as caught:
        parse_time("2020-02-03T05:00:00é\n", SECONDS)
    assert str(caught.value) == (
        r'parsing time "2020-02-03T05:00:00\xc3\xa9\x0a" as "2006-01-02T15:04:05Z07:00": '
        r'cannot parse "\xc3\xa9\x0a" as "Z07:00"'
    )
