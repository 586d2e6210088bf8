"""Schedules of cron jobs: crontab fields, names, durations and time zones."""

from __future__ import annotations

import pytest

from rewound.actors.kinds.batch import InvalidSchedule, check_schedule, time_zone_error
from tests.cases import cases


@cases(
    "text",
    [
        *("* * * * *", "*/5 0/2 1,15 jan-MAR ?", "0 0 31 12 6", "5-10/2 * * * sun", ", * * * *"),
        *("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"),
        *("@every 1h30m", "@every 1.5h", "@every 0", "TZ=UTC * * * * *", "CRON_TZ=UTC @daily"),
    ],
)
def test_valid_schedules_pass(text: str) -> None:
    check_schedule(text)


@cases(
    ("text", "why"),
    [
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("x", "expected exactly 5 fields, found 1: [x]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("5-2 * * * *", "beginning of range (5) beyond end of range (2): 5-2"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("a * * * *", 'failed to parse int from a: strconv.Atoi: parsing "a": invalid syntax'),
        ("-1 * * * *", 'failed to parse int from : strconv.Atoi: parsing "": invalid syntax'),
        ("@sometimes", "unrecognized descriptor: @sometimes"),
        ("@every 5", 'failed to parse duration @every 5: time: missing unit in duration "5"'),
        ("@every x", 'failed to parse duration @every x: time: invalid duration "x"'),
        ("TZ=No/Where * * * * *", "provided bad location No/Where: unknown time zone No/Where"),
        ("TZ=UTC", "provided bad location UTC: no schedule follows it"),
    ],
)
def test_invalid_schedules_are_refused_with_a_reason(text: str, why: str) -> None:
    with pytest.raises(InvalidSchedule) as refused:
        check_schedule(text)
    assert str(refused.value) == why


def test_time_zone_error() -> None:
    assert time_zone_error("UTC") == time_zone_error("Europe/Berlin") == ""
    assert time_zone_error("../etc/passwd") == "time: invalid location name"
    assert time_zone_error("Europe") == "unknown time zone Europe"
    assert time_zone_error("No\0Where") == "unknown time zone No\0Where"
