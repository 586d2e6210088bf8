"""CronJobs start jobs on schedule: missed starts, policies, history, time zones, and their Events."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from rewound.actors.kinds.values.schedule import parse_schedule, schedule_steps
from rewound.actors.kinds.values.times import micros_of, seconds_text
from rewound.actors.messages import Object
from rewound.actors.runtime.steps import Steps
from rewound.actors.workloads.cronjobs import NoInterval, Schedules, missed_since, next_due
from tests.actors.controllers.control_plane import START
from tests.actors.workloads.bench import Bench, open_bench, pod_template
from tests.cases import cases

CRONS, JOBS = "cronjobs.batch", "jobs.batch"
DAY = 86_400_000_000


def cron_job(phase: str = "Running", schedule: str = "*/10 * * * *", **spec: object) -> Object:
    template = pod_template({}, phase=phase)
    template["spec"]["restartPolicy"] = "Never"
    job = {"metadata": {"labels": {"team": "a"}}, "spec": {"backoffLimit": 0, "template": template}}
    return {"metadata": {"name": "tick"}, "spec": {"schedule": schedule, "jobTemplate": job, **spec}}


def active(bench: Bench) -> list[str]:
    return [one["name"] for one in bench.get(CRONS, "tick")["status"].get("active", ())]


def reasons(bench: Bench) -> list[str]:
    return [reason for reason, _ in bench.events("tick")]


async def set_back(bench: Bench, micros: int) -> None:
    """As if the last start had been this long ago."""
    status = {"lastScheduleTime": seconds_text(bench.clock.now() - micros)}
    await bench.patch(CRONS, "tick", {"status": status}, "status")


async def test_a_job_is_started_whenever_the_schedule_is_due(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, "cronjob", "job") as bench:
        await bench.create(CRONS, cron_job("Succeeded", successfulJobsHistoryLimit=9))
        await bench.rest(3600)
        minutes = [int(name.removeprefix("tick-")) for name in bench.names(JOBS)]
        assert minutes == list(range(minutes[0], minutes[0] + 60, 10)) and minutes[0] % 10 == 0
        job = bench.all(JOBS)[0]
        reference = job["metadata"]["ownerReferences"][0]
        assert (reference["kind"], reference["name"], reference["controller"]) == ("CronJob", "tick", True)
        assert job["metadata"]["labels"]["team"] == "a" and job["spec"]["completions"] == 1
        status = bench.get(CRONS, "tick")["status"]
        assert "active" not in status and status["lastSuccessfulTime"] >= status["lastScheduleTime"]
        assert micros_of(status["lastScheduleTime"]) == minutes[-1] * 60_000_000


async def test_the_latest_missed_start_is_made_up_for(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, "cronjob") as bench:
        await bench.create(CRONS, cron_job(schedule="0 0 1 1 *"))
        await set_back(bench, 400 * DAY)
        await bench.rest()
        (name,) = bench.names(JOBS)
        assert active(bench) == [name]
        assert bench.events("tick") == [("SuccessfulCreate", f"Created job {name}")]
        reference = bench.get(CRONS, "tick")["status"]["active"][0]
        metadata = bench.get(JOBS, name)["metadata"]
        assert reference == {
            "kind": "Job",
            "namespace": "default",
            "name": name,
            "uid": metadata["uid"],
            "apiVersion": "batch/v1",
            "resourceVersion": metadata["resourceVersion"],
        }


async def test_more_than_a_hundred_missed_starts_are_reported_and_one_is_made(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, "cronjob") as bench:
        await bench.create(CRONS, cron_job())
        await set_back(bench, 2 * DAY)
        await bench.rest()
        assert len(bench.names(JOBS)) == 1
        assert sorted(reasons(bench)) == ["SuccessfulCreate", "TooManyMissedTimes"]


async def test_nothing_is_started_after_the_deadline(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, "cronjob") as bench:
        await bench.create(CRONS, cron_job(schedule="0 0 1 1 *", startingDeadlineSeconds=60))
        await set_back(bench, 400 * DAY)
        await bench.rest(60)
        assert not bench.names(JOBS) and not bench.events()


@cases(
    ("policy", "expected"),
    [("Allow", ["first", "second"]), ("Forbid", ["first"]), ("Replace", ["second"])],
)
async def test_policies_for_a_start_while_a_job_runs(
    tmp_path: Path, autojump_clock: MockClock, policy: str, expected: list[str]
) -> None:
    async with open_bench(tmp_path / policy, "cronjob", "job", "garbagecollector") as bench:
        await bench.create(CRONS, cron_job(concurrencyPolicy=policy))
        await bench.rest(600)
        (first,) = bench.names(JOBS)
        await bench.rest(600)
        names = {"first": first, "second": f"tick-{int(first.removeprefix('tick-')) + 10}"}
        assert bench.names(JOBS) == active(bench) == [names[one] for one in expected]
        assert ("JobAlreadyActive" in reasons(bench)) == (policy == "Forbid")
        assert ("SuccessfulDelete" in reasons(bench)) == (policy == "Replace")


@pytest.mark.parametrize(
    ("phase", "field", "end"),
    [("Succeeded", "successfulJobsHistoryLimit", "Complete"), ("Failed", "failedJobsHistoryLimit", "Failed")],
)
async def test_history_keeps_as_many_ended_jobs_as_its_limit(
    tmp_path: Path, autojump_clock: MockClock, phase: str, field: str, end: str
) -> None:
    async with open_bench(tmp_path, "cronjob", "job", "garbagecollector") as bench:
        await bench.create(CRONS, cron_job(phase, **{field: 2}))
        await bench.rest(2400)
        names = bench.names(JOBS)
        assert len(names) == 2 and len(bench.names("pods")) == 2
        assert ("SawCompletedJob", f"Saw completed job: {names[-1]}, status: {end}") in bench.events("tick")
        assert sum(reason == "SuccessfulDelete" for reason in reasons(bench)) == 2
        assert ("lastSuccessfulTime" in bench.get(CRONS, "tick")["status"]) == (phase == "Succeeded")


async def test_a_suspended_cron_job_starts_nothing_and_then_makes_up_for_it(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, "cronjob") as bench:
        await bench.create(CRONS, cron_job(suspend=True))
        await bench.rest(3700)
        assert not bench.names(JOBS)
        await bench.patch(CRONS, "tick", {"spec": {"suspend": False}})
        await bench.rest()
        assert len(bench.names(JOBS)) == 1


async def test_a_changed_schedule_waits_for_its_next_moment(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, "cronjob") as bench:
        await bench.create(CRONS, cron_job(schedule="0 0 1 1 *"))
        await bench.rest(3600 + 30)
        await bench.patch(CRONS, "tick", {"spec": {"schedule": "*/15 * * * *"}})
        await bench.rest()
        assert not bench.names(JOBS)
        await bench.rest(900)
        assert len(bench.names(JOBS)) == 1


LONG = ",".join(f"{number % 60:0{3 + number % 12}}" for number in range(0, 60_000, 15)) + " * * * *"


async def test_long_schedules_are_parsed_in_turns_and_once(tmp_path: Path, autojump_clock: MockClock) -> None:
    schedules, cron = Schedules(), cron_job(schedule=LONG)
    assert schedules.known(cron) is None
    found = await schedules.of(cron)
    assert schedules.known(cron) is found and found == parse_schedule("*/15 * * * *")
    assert schedules.known(cron_job(schedule=LONG.replace(" *", " 1", 1))) is None
    assert len(list(parts_of_steps(LONG))) > 50
    async with open_bench(tmp_path, "cronjob") as bench:
        await bench.create(CRONS, cron_job(schedule="0 0 1 1 *"))
        await bench.rest(3600 + 30)
        await bench.patch(CRONS, "tick", {"spec": {"schedule": LONG}})
        await bench.rest()
        assert not bench.names(JOBS)
        await bench.rest(900)
        assert len(bench.names(JOBS)) == 1


async def test_a_job_that_goes_while_a_long_schedule_changes_leaves_the_active_list(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    yearly = LONG.replace(" * * * *", " 0 1 1 *")
    async with open_bench(tmp_path, "cronjob") as bench:
        await bench.create(CRONS, cron_job())
        await bench.rest(600)
        (job,) = bench.names(JOBS)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bench.patch, CRONS, "tick", {"spec": {"schedule": yearly}})
            nursery.start_soon(bench.delete, JOBS, job)
        await bench.rest()
        assert active(bench) == []


def parts_of_steps(text: str) -> Steps[None]:
    yield from schedule_steps(text)


async def test_zones_of_the_field_and_of_the_schedule(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, "cronjob") as bench:
        await bench.create(CRONS, cron_job(schedule="0 9 * * *", timeZone="Asia/Tokyo"))
        other = cron_job(schedule="TZ=Asia/Tokyo 0 9 * * *")
        other["metadata"]["name"] = "tock"
        await bench.create(CRONS, other)
        await bench.rest()
        assert [reason for reason, _ in bench.events()] == ["UnsupportedSchedule"]
        await bench.rest(86400)
        minutes = {int(name.rpartition("-")[2]) % 1440 for name in bench.names(JOBS)}
        assert minutes == {0} and len(bench.names(JOBS)) == 2


async def test_a_schedule_that_is_never_due_is_reported_once_it_is_looked_at(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, "cronjob") as bench:
        await bench.create(CRONS, cron_job(schedule="0 0 31 2 *"))
        await bench.rest(600)
        text = "invalid schedule: 0 0 31 2 * : time difference between two schedules less than 1 second"
        assert bench.events() == [("InvalidSchedule", text)]


async def test_deleted_job_leaves_the_active_list(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, "cronjob") as bench:
        await bench.create(CRONS, cron_job())
        await bench.rest(600)
        (name,) = bench.names(JOBS)
        await bench.delete(JOBS, name)
        await bench.rest()
        assert not active(bench) and not bench.names(JOBS)
        assert bench.events("tick")[-1] == ("MissingJob", f"Active job went missing: {name}")


@pytest.mark.parametrize("stop", [1, 2, 3, 5])
async def test_a_kill_before_any_write_starts_no_job_twice(
    tmp_path: Path, autojump_clock: MockClock, stop: int
) -> None:
    async with open_bench(tmp_path, "cronjob") as bench:
        bench.kill_before(stop, "cronjob-controller")
        await bench.create(CRONS, cron_job(schedule="0 0 1 1 *"))
        await set_back(bench, 400 * DAY)
        await bench.rest()
    async with open_bench(tmp_path, "cronjob") as bench:
        await bench.rest()
        assert len(bench.names(JOBS)) == 1 and active(bench) == bench.names(JOBS)


@cases(
    ("text", "earliest", "now", "latest", "is_too_many"),
    [
        ("0 * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:59:59Z", None, False),
        ("0 * * * *", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z", "2026-01-01T01:00:00Z", False),
        ("0 * * * *", "2026-01-01T00:00:00Z", "2026-01-01T09:30:00Z", "2026-01-01T09:00:00Z", False),
        ("0 * * * *", "2026-01-01T00:00:00Z", "2026-01-05T04:30:00Z", "2026-01-05T04:00:00Z", False),
        ("0 * * * *", "2026-01-01T00:00:00Z", "2026-01-05T05:30:00Z", "2026-01-05T05:00:00Z", True),
        ("@every 7m", "2026-01-01T00:00:00Z", "2026-01-01T00:30:00Z", "2026-01-01T00:28:00Z", False),
        # Thursday to Monday: v1.25 looks back as far as two days, in which nothing was due.
        ("0 9 * * 1-5", "2026-01-07T10:00:00Z", "2026-01-12T08:00:00Z", None, False),
    ],
)
def test_latest_missed_start_is_found(
    text: str, earliest: str, now: str, latest: str | None, is_too_many: bool
) -> None:
    missed = missed_since(parse_schedule(text), micros_of(earliest), micros_of(now))
    assert missed == (None if latest is None else micros_of(latest), is_too_many)


def test_a_schedule_is_looked_at_a_little_after_its_next_moment() -> None:
    def due(text: str, earliest: str, now: str) -> int | None:
        return next_due(parse_schedule(text), micros_of(earliest), micros_of(now))

    start = "2026-01-07T10:00:00Z"
    assert due("0 * * * *", start, "2026-01-07T13:20:00Z") == micros_of("2026-01-07T14:00:00Z") + 100_000
    assert due("0 9 * * 1-5", start, "2026-01-12T08:00:00Z") == micros_of("2026-01-12T09:00:00Z") + 100_000
    assert due("0 0 31 2 *", start, start) is None
    with pytest.raises(NoInterval):
        missed_since(parse_schedule("0 0 31 2 *"), START, START + DAY)
