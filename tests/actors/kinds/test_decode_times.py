"""Times are RFC 3339 and are stored in UTC, in whole seconds or with six digits."""

from __future__ import annotations

import pytest

from rewound.actors.kinds.schema.decoder import NotDecodable
from rewound.actors.kinds.values.times import micros_text, seconds_text
from tests.actors.kinds.definitions import Definitions
from tests.cases import cases

SECONDS = [
    ("2020-01-02T03:04:05Z", "2020-01-02T03:04:05Z"),
    ("2020-01-02T03:04:05.999Z", "2020-01-02T03:04:05Z"),
    ("2020-01-02T03:04:05+02:00", "2020-01-02T01:04:05Z"),
    ("2020-02-29T23:00:00-02:00", "2020-03-01T01:00:00Z"),
    ("0001-01-01T00:00:00Z", None),
]
MICROS = [
    ("2020-01-02T03:04:05.000006Z", "2020-01-02T03:04:05.000006Z"),
    ("2020-01-02T03:04:05.000006-01:00", "2020-01-02T04:04:05.000006Z"),
]
BROKEN = [
    "yesterday",
    "",
    "2020-01-02",
    "2020-13-01T00:00:00Z",
    "2021-02-29T00:00:00Z",
    "2020-01-01T24:00:00Z",
]


@cases(("sent", "stored"), SECONDS)
def test_times_are_stored_in_whole_seconds(kinds: Definitions, sent: str, stored: str | None) -> None:
    assert kinds.decode("events", {"firstTimestamp": sent})["firstTimestamp"] == stored


@cases(("sent", "stored"), MICROS)
def test_micro_times_are_stored_with_six_digits(kinds: Definitions, sent: str, stored: str) -> None:
    assert kinds.decode("leases", {"spec": {"renewTime": sent}})["spec"]["renewTime"] == stored


@cases("sent", [*BROKEN, "2020-01-02T03:04:05", "2020-01-02 03:04:05Z", "9999-12-31T23:59:59-01:00"])
def test_invalid_times_are_refused(kinds: Definitions, sent: str) -> None:
    with pytest.raises(NotDecodable, match="parsing time"):
        kinds.decode("events", {"firstTimestamp": sent})


@cases("sent", [*BROKEN, "2020-01-02T03:04:05Z", "2020-01-02T03:04:05.5Z"])
def test_micro_times_need_six_digits(kinds: Definitions, sent: str) -> None:
    with pytest.raises(NotDecodable, match="parsing time"):
        kinds.decode("leases", {"spec": {"renewTime": sent}})


def test_times_of_the_server_have_the_same_format() -> None:
    moment = 1_577_934_245_000_006
    assert seconds_text(moment) == "2020-01-02T03:04:05Z"
    assert micros_text(moment) == "2020-01-02T03:04:05.000006Z"
