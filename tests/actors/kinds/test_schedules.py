"""Schedules of cron jobs: crontab fields, names, durations and time zones, and when they are due."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, tzinfo

import pytest
from msgspec.structs import replace

from rewound.actors.kinds.values.schedule import (
    SECOND,
    InvalidSchedule,
    Schedule,
    parse_schedule,
    time_zone_error,
)
from rewound.actors.kinds.values.times import micros_of, seconds_text
from tests.cases import cases

DAY = 86_400 * SECOND
NOON = micros_of("2024-03-01T12:00:00Z")


@cases(
    "text",
    [
        *("* * * * *", "*/5 0/2 1,15 jan-MAR ?", "0 0 31 12 6", "5-10/2 * * * sun", ", * * * *"),
        *("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"),
        *("@every 1h30m", "@every 1.5h", "@every 0", "TZ=UTC * * * * *", "CRON_TZ=UTC @daily"),
    ],
)
def test_valid_schedules_pass(text: str) -> None:
    parse_schedule(text)


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
        parse_schedule(text)
    assert str(refused.value) == why


def test_time_zone_error() -> None:
    assert time_zone_error("UTC") == time_zone_error("Europe/Berlin") == ""
    assert time_zone_error("../etc/passwd") == "time: invalid location name"
    assert time_zone_error("Europe") == "unknown time zone Europe"
    assert time_zone_error("No\0Where") == "unknown time zone No\0Where"


@cases(
    ("text", "after", "moments"),
    [
        ("* * * * *", "2026-01-31T23:58:30Z", "01-31T23:59 02-01T00:00 02-01T00:01"),
        ("*/20 9-17/4 * * *", "2026-03-01T17:30:00Z", "03-01T17:40 03-02T09:00 03-02T09:20"),
        ("0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00"),
        ("30 6 13 * fri", "2026-11-01T00:00:00Z", "11-06T06:30 11-13T06:30 11-20T06:30"),
        ("30 6 */13 * fri", "2026-11-02T00:00:00Z", "11-06T06:30 11-13T06:30 11-14T06:30"),
        ("30 6 * * fri", "2026-12-30T00:00:00Z", "2027-01-01T06:30 2027-01-08T06:30"),
        ("@yearly", "2026-01-01T00:00:00Z", "2027-01-01T00:00"),
        ("@weekly", "2026-01-01T00:00:00Z", "01-04T00:00 01-11T00:00"),
        ("@hourly", "2026-12-31T23:00:00Z", "2027-01-01T00:00 2027-01-01T01:00"),
        ("@every 1h30m", "2026-12-31T23:10:05Z", "2027-01-01T00:40:05 2027-01-01T02:10:05"),
        ("@every 10ms", "2026-01-01T00:00:00Z", "01-01T00:00:01 01-01T00:00:02"),
        # Berlin: the hour from 2 o'clock is skipped in March and repeated in October.
        ("TZ=Europe/Berlin 30 2 * * *", "2026-03-28T00:00:00Z", "03-28T01:30 03-30T00:30"),
        ("TZ=Europe/Berlin 30 2 * * *", "2026-10-24T12:00:00Z", "10-25T00:30 10-25T01:30 10-26T01:30"),
        # Havana's clocks skip from midnight to one o'clock; Lord Howe's go back by half an hour.
        ("TZ=America/Havana 0 0 * * *", "2026-03-07T12:00:00Z", "03-09T04:00 03-10T04:00"),
        ("TZ=Australia/Lord_Howe 45 1 5 4 *", "2026-04-01T00:00:00Z", "04-04T14:45 04-04T15:15"),
    ],
)
def test_moments_at_which_a_schedule_is_due(text: str, after: str, moments: str) -> None:
    schedule = parse_schedule(text)
    moment = micros_of(after)
    for expected in moments.split():
        found = schedule.next(moment)
        assert found is not None and found > moment
        whole = expected if expected.startswith("20") else f"{after[:4]}-{expected}"
        assert seconds_text(found) == (whole if whole.count(":") == 2 else f"{whole}:00") + "Z"
        moment = found


def test_schedule_that_is_never_due() -> None:
    schedule = parse_schedule("0 0 31 2 *")
    assert schedule.next(0) is None
    assert schedule.latest(0, 10**16) is None


def test_zone_of_a_schedule_that_names_none() -> None:
    start = micros_of("2026-01-01T00:00:00Z")
    assert parse_schedule("0 12 * * *").next(start) == micros_of("2026-01-01T12:00:00Z")
    assert parse_schedule("0 12 * * *", "Asia/Tokyo").next(start) == micros_of("2026-01-01T03:00:00Z")
    assert parse_schedule("TZ=Local 0 12 * * *", "Asia/Tokyo").next(start) == micros_of(
        "2026-01-01T12:00:00Z"
    )


@cases("text", ["*/7 3-5 * * 1,3", "0 0 1 1 *", "@every 17m", "TZ=Europe/Berlin 30 2 * * *", "59 23 31 * *"])
def test_latest_moment_is_the_one_that_all_moments_end_with(text: str) -> None:
    schedule = parse_schedule(text)
    start = micros_of("2026-03-20T10:11:12Z")
    for days in (0, 1, 9, 40, 400):
        until, moment, last = start + days * 86_400_000_000, start, None
        while (following := schedule.next(moment)) is not None and following <= until:
            moment = last = following
        assert schedule.latest(start, until) == last


@cases("text", ["* * * * *", "0 0 1 1 *", "CRON_TZ=Asia/Tokyo 0 12 * * *"])
def test_nothing_is_due_after_the_last_year_that_times_have(text: str) -> None:
    assert parse_schedule(text).next(micros_of("9999-12-31T23:59:59Z")) is None


class CountingZone(tzinfo):
    """UTC, which counts how often a search converts a time."""

    def __init__(self) -> None:
        self.conversions = 0

    def utcoffset(self, _: datetime | None) -> timedelta:
        return timedelta(0)

    def dst(self, _: datetime | None) -> timedelta:
        return timedelta(0)

    def fromutc(self, moment: datetime) -> datetime:
        self.conversions += 1
        return moment


def conversions(text: str, search: Callable[[Schedule], int | None]) -> int:
    zone = CountingZone()
    search(replace(parse_schedule(text), zone=zone))
    return zone.conversions


@cases("text", ["0 0 30 2 *", "* * 31 2,4,6,9,11 *", "0 0 30-31 feb ?"])
def test_schedule_of_dates_that_do_not_exist_is_not_searched(text: str) -> None:
    assert parse_schedule(text).next(NOON) is None
    assert conversions(text, lambda schedule: schedule.next(NOON)) == 0


def test_schedule_that_may_be_due_on_a_day_of_the_week_is_searched() -> None:
    assert parse_schedule("0 0 31 2 1").next(NOON) is not None


def test_latest_start_costs_little_more_than_the_next() -> None:
    """A binary search that looks beyond what it has excluded takes 27 times as much."""
    until = NOON + 3 * 365 * DAY
    one = conversions("0 0 29 2 *", lambda schedule: schedule.next(NOON))
    assert conversions("0 0 29 2 *", lambda schedule: schedule.latest(NOON, until)) < 4 * one


def test_interval_with_many_parts_is_refused() -> None:
    with pytest.raises(InvalidSchedule, match="it has more than 1000 characters"):
        parse_schedule("@every " + 501 * "1h")
