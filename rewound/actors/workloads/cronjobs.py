"""CronJobs: start a Job whenever a schedule is due, and delete old ones.

The name of a job contains the minute for which it was started. So no minute is started twice, whatever was lost between
the job and `status.lastScheduleTime`. Of the start times missed since the last start, only the latest is made up for,
and only within `startingDeadlineSeconds`.

v1.25 estimates the number of missed start times by the distance of the first two, and searches the latest only about as
far back. The same happens here, so "too many missed start times" are the same ones. A changed schedule is due at its
next time: start times that only the new schedule has are not made up for.
"""

from __future__ import annotations

from collections import OrderedDict
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final, NamedTuple

from rewound.actors.errors import AlreadyExists, NotFound, RequestError
from rewound.actors.golang.quoting import cut, quoted, quoted_start
from rewound.actors.kinds.batch import CRON_JOB_STATUS
from rewound.actors.kinds.core.references import OBJECT_REFERENCE
from rewound.actors.kinds.values.schedule import (
    SECOND,
    InvalidSchedule,
    Schedule,
    parse_schedule,
    schedule_steps,
    time_zone_error,
    zone_text,
)
from rewound.actors.kinds.values.times import micros_of, seconds_text
from rewound.actors.messages import DeleteOptions, Object
from rewound.actors.runtime.turns import in_turns
from rewound.actors.store.document import decode
from rewound.actors.versions.features import ENDS_BY_CONDITION, SCHEDULED_ANNOTATION
from rewound.actors.workloads.cache import Key, controller_of, key_of
from rewound.actors.workloads.controller import Parts, WorkloadController
from rewound.actors.workloads.jobs import finished_condition
from rewound.actors.workloads.pods import copied, is_namespace_terminating, is_terminating, owner_reference

DELAY: Final = SECOND // 10  # after a start time, for clocks that are a little behind
TOO_MANY: Final = 100
SHORT: Final = 200  # characters of a schedule that is parsed at once, and remembered as text
MOST_KNOWN: Final = 4096  # schedules
# Before the name of a CronJob in a key: its schedule has changed and must be parsed. It has its own key, because a
# change of a job triggers a pass at once, and a changed schedule does not.
RETIMED: Final = "/retimed/"


class NoInterval(ValueError):
    """The schedule is never due, or not twice."""


class Missed(NamedTuple):
    """The latest missed start time, if any, and whether too many were missed."""

    latest: int | None
    is_too_many: bool = False


def missed_since(schedule: Schedule, earliest: int, now: int) -> Missed:
    """The start times missed since `earliest`. Raises NoInterval if the schedule is never due, or not twice."""
    first = schedule.next(earliest)
    if first is not None and now < first:
        return Missed(None)
    second = None if first is None else schedule.next(first)
    if first is None or second is None:
        raise NoInterval("time difference between two schedules less than 1 second")
    if now < second:
        return Missed(first)
    distance = second - first
    count = (now - first) // SECOND // (distance // SECOND) + 1
    return Missed(schedule.latest(first + (count - 2) * distance, now), count > TOO_MANY)


def next_due(schedule: Schedule, earliest: int, now: int) -> int | None:
    """When to check the schedule next; None if it is never due."""
    try:
        latest = missed_since(schedule, earliest, now).latest
    except NoInterval:
        latest = now
    due = schedule.next(earliest if latest is None else latest)
    if due is not None and due + DELAY <= now:
        due = schedule.next(now)
    return None if due is None else due + DELAY


def earliest_of(cron: Object) -> int:
    """The time of the last start, or of the creation."""
    return micros_of(cron["status"].get("lastScheduleTime") or cron["metadata"]["creationTimestamp"])


class Schedules:
    """The parsed schedules, by their texts: a CronJob is checked repeatedly, and a text may be half a megabyte.

    A long text is known by its digest, so that it is not kept in memory.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str | bytes, str], Schedule] = OrderedDict()

    def known(self, cron: Object) -> Schedule | None:
        """A known schedule, or one that is short enough to parse at once. Raises InvalidSchedule."""
        found = self._known.get(_text_key(cron))
        if found is None and len(cron["spec"]["schedule"]) <= SHORT:
            return self._remember(cron, parse_schedule(*_timing_texts(cron)))
        return found

    async def of(self, cron: Object) -> Schedule:
        """The schedule; parses it in turns the first time. Raises InvalidSchedule if it cannot be parsed."""
        found = self.known(cron)
        if found is not None:
            return found
        return self._remember(cron, await in_turns(schedule_steps(*_timing_texts(cron))))

    def _remember(self, cron: Object, schedule: Schedule) -> Schedule:
        self._known[_text_key(cron)] = schedule
        if len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)
        return schedule


def _timing_texts(cron: Object) -> tuple[str, str]:
    zone = cron["spec"].get("timeZone", "")
    return cron["spec"]["schedule"], "" if time_zone_error(zone) else zone


def _text_key(cron: Object) -> tuple[str | bytes, str]:
    text, zone = _timing_texts(cron)
    return (text if len(text) <= SHORT else sha256(text.encode()).digest()), zone


class CronJobs(WorkloadController):
    name, account = "cronjob", "cronjob-controller"

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._crons = self.cache.collection("cronjobs.batch")
        self._jobs = self.cache.collection("jobs.batch")
        self._schedules = Schedules()
        self._scheduled = self.names.key("cronjob-scheduled-timestamp", "batch")
        self._crons.listen(self._cron_changed)
        self._jobs.listen(self._job_changed)

    async def catch_up(self) -> None:
        await self.cache.loaded()
        for cron in self._crons:
            self.queue.add(key_of(cron))

    def _cron_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            return
        if old is None or _timing(old) == _timing(new):
            self.queue.add(key_of(new))
            return
        try:
            schedule = self._schedules.known(new)
        except InvalidSchedule:
            self.queue.add(key_of(new))
            return
        if schedule is None:
            namespace, name = key_of(new)
            self.queue.add((namespace, RETIMED + name))
        else:
            self._wait_for(schedule, new)

    def _wait_for(self, schedule: Schedule, cron: Object) -> None:
        """Check a changed schedule when it is due."""
        due = next_due(schedule, earliest_of(cron), self.now())
        self.queue.add_after(key_of(cron), 0 if due is None else (due - self.now()) / SECOND)

    async def _parse_retimed(self, cron: Object) -> None:
        try:
            schedule = await self._schedules.of(cron)
        except InvalidSchedule:
            self.queue.add(key_of(cron))
        else:
            self._wait_for(schedule, cron)

    def _job_changed(self, old: Object | None, new: Object | None) -> None:
        """Of jobs, only their existence, owner and outcome matter."""
        if old is not None and new is not None and _facts(old) == _facts(new):
            return
        for job in (old, new):
            reference = None if job is None else controller_of(job)
            if job is not None and reference is not None and reference["kind"] == "CronJob":
                self.queue.add((job["metadata"]["namespace"], reference["name"]))

    async def reconcile(self, key: Key) -> None:
        namespace, name = key
        cron = self._crons.get(namespace, name.removeprefix(RETIMED))
        if cron is None:
            return
        if name.startswith(RETIMED):
            await self._parse_retimed(cron)
            return
        changed = {**cron, "status": copied(cron["status"])}
        failure: RequestError | None = None
        try:
            jobs = list(self._jobs.controlled_by(cron["metadata"]["uid"]))
            await self._clean_up(changed, jobs)
            self._note_jobs(changed, jobs)
            await self._run(key, changed)
        except RequestError as error:
            failure = error
        await self._write(cron, changed)
        if failure is not None:
            raise failure

    async def _write(self, cron: Object, changed: Object) -> None:
        status = {part: value for part, value in changed["status"].items() if value}
        if status == cron["status"]:
            return
        changed = {**cron, "status": CRON_JOB_STATUS.arranged(status)}
        try:
            await self.client.replace(self._crons.definition, changed, "status")
        except NotFound:
            return

    async def _clean_up(self, cron: Object, jobs: list[Object]) -> None:
        """Delete the oldest finished jobs, beyond the limits of the history."""
        limits = {"Complete": "successfulJobsHistoryLimit", "Failed": "failedJobsHistoryLimit"}
        for end, field in limits.items():
            limit = cron["spec"].get(field)
            if limit is not None:
                ended = sorted((job for job in jobs if _end_of(job) == end), key=_by_start)
                for job in ended[: max(0, len(ended) - limit)]:
                    if not is_terminating(job):
                        await self._delete(cron, job)

    async def _delete(self, cron: Object, job: Object) -> bool:
        options = DeleteOptions(propagation_policy="Background", uid=job["metadata"]["uid"])
        try:
            await self.client.delete(self._jobs.definition, *key_of(job), options)
        except RequestError as error:
            self._report(cron, "Warning", "FailedDelete", f"Deleted job: {error}")
            return False
        _forget(cron["status"], job["metadata"]["uid"])
        self._report(cron, "Normal", "SuccessfulDelete", f"Deleted job {job['metadata']['name']}")
        return True

    async def _run(self, key: Key, cron: Object) -> None:
        spec, now = cron["spec"], self.now()
        if is_terminating(cron) or self._has_unknown_zone(cron) or spec.get("suspend"):
            return
        schedule = await self._parsed(cron)
        if schedule is None:
            return
        earliest = earliest_of(cron)
        if "startingDeadlineSeconds" in spec:
            earliest = max(earliest, now - spec["startingDeadlineSeconds"] * SECOND)
        try:
            missed = missed_since(schedule, earliest, now) if earliest <= now else Missed(None)
        except NoInterval as why:
            text = f"invalid schedule: {cut(spec['schedule'])} : {why}"
            self._report(cron, "Warning", "InvalidSchedule", text)
            return
        if missed.is_too_many:
            text = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
            self._report(cron, "Warning", "TooManyMissedTimes", text)
        if missed.latest is None or await self._start(cron, missed.latest, now):
            due = next_due(schedule, earliest_of(cron), now)
            if due is not None:
                self.queue.add_after(key, (due - now) / SECOND)

    def _note_jobs(self, cron: Object, jobs: list[Object]) -> None:
        """Update the status from the jobs seen before, some of which may just have been deleted."""
        status = cron["status"]
        known = {one["uid"]: one["name"] for one in status.get("active") or ()}
        for job in jobs:
            uid, name, end = job["metadata"]["uid"], job["metadata"]["name"], _end_of(job)
            if uid in known:
                del known[uid]
                if end:
                    _forget(status, uid)
                    word = "condition" if ENDS_BY_CONDITION in self.release.features else "status"
                    text = f"Saw completed job: {name}, {word}: {end}"
                    self._report(cron, "Normal", "SawCompletedJob", text)
            elif not end:
                text = f"Saw a job that the controller did not create or forgot: {name}"
                self._report(cron, "Warning", "UnexpectedJob", text)
            if end and (completed := job["status"].get("completionTime")):
                status["lastSuccessfulTime"] = max(completed, status.get("lastSuccessfulTime") or "")
        for uid, name in known.items():
            _forget(status, uid)
            self._report(cron, "Normal", "MissingJob", f"Active job went missing: {name}")

    def _has_unknown_zone(self, cron: Object) -> bool:
        zone = cron["spec"].get("timeZone", "")
        why = time_zone_error(zone)
        if why:
            self._report(cron, "Warning", "UnknownTimeZone", f"invalid timeZone: {quoted(zone)}: {why}")
        return bool(why)

    async def _parsed(self, cron: Object) -> Schedule | None:
        text = cron["spec"]["schedule"]
        if "TZ" in text:
            page = f"https://{self.names.key_domain}/docs/concepts/workloads/controllers/cron-jobs/"
            why = f"CRON_TZ or TZ used in schedule {quoted_start(text)} is not officially supported"
            self._report(cron, "Warning", "UnsupportedSchedule", f"{why}, see {page} for more details")
        try:
            return await self._schedules.of(cron)
        except InvalidSchedule as error:
            message = f"unparseable schedule: {quoted_start(text)} : {cut(str(error))}"
            self._report(cron, "Warning", "UnparseableSchedule", message)
            return None

    async def _start(self, cron: Object, moment: int, now: int) -> bool:
        """Start the job of this time, unless something prevents it; False: wait for a change of the jobs."""
        spec, status = cron["spec"], cron["status"]
        name = f"{cron['metadata']['name']}-{moment // SECOND // 60}"
        active = list(status.get("active") or ())
        if "startingDeadlineSeconds" in spec and moment + spec["startingDeadlineSeconds"] * SECOND < now:
            text = f"Missed scheduled time to start a job: {_rfc1123_time(moment)}"
            self._report(cron, "Warning", "MissSchedule", text)
            return True
        if any(one["name"] == name for one in active) or status.get("lastScheduleTime") == seconds_text(
            moment
        ):
            return True
        if spec["concurrencyPolicy"] == "Forbid" and active:
            text = "Not starting job because prior execution is running and concurrency policy is Forbid"
            self._report(cron, "Normal", "JobAlreadyActive", text)
            return True
        if spec["concurrencyPolicy"] == "Replace":
            await self._replace(cron, active)
        return await self._create(cron, name, moment)

    async def _replace(self, cron: Object, active: list[Object]) -> None:
        for one in active:
            job = self._jobs.get(one["namespace"], one["name"])
            if job is None:
                error = NotFound(self._jobs.definition.resource, one["name"])
                self._report(cron, "Warning", "FailedGet", f"Get job: {error}")
                raise error
            if not await self._delete(cron, job):
                raise NotReplaced(one["namespace"], one["name"])

    async def _create(self, cron: Object, name: str, moment: int) -> bool:
        namespace = cron["metadata"]["namespace"]
        try:
            new = await self.decoded(self._jobs.definition, self._job(cron, name, moment))
            body = await self.client.create(self._jobs.definition, namespace, new)
            job = decode(body)
            self._report(cron, "Normal", "SuccessfulCreate", f"Created job {name}")
        except AlreadyExists:
            there = self._jobs.get(namespace, name)
            if there is None:
                raise  # it is gone
            reference = controller_of(there)
            if reference is None or reference["uid"] != cron["metadata"]["uid"]:
                return True  # not ours: the next start time has another name
            job = there  # created before a crash
        except RequestError as error:
            if not is_namespace_terminating(error):
                self._report(cron, "Warning", "FailedCreate", f"Error creating job: {error}")
            raise
        status = cron["status"]
        status["active"] = [*(status.get("active") or ()), self._reference(job)]
        status["lastScheduleTime"] = seconds_text(moment)
        return True

    def _job(self, cron: Object, name: str, moment: int) -> Object:
        template = cron["spec"]["jobTemplate"]
        described = template.get("metadata") or {}
        metadata = {
            "name": name,
            **{part: described[part] for part in ("labels", "annotations") if described.get(part)},
            "ownerReferences": [owner_reference(self._crons.definition, cron)],
        }
        job = copied({"metadata": metadata, "spec": template["spec"]})
        if SCHEDULED_ANNOTATION in self.release.features:
            annotations = job["metadata"].setdefault("annotations", {})
            annotations[self._scheduled] = zone_text(moment, _timing_texts(cron)[1])
        return job

    def _reference(self, job: Object) -> Object:
        metadata, definition = job["metadata"], self._jobs.definition
        reference = {part: metadata[part] for part in ("namespace", "name", "uid", "resourceVersion")}
        return OBJECT_REFERENCE.arranged(
            {"apiVersion": definition.api_version, "kind": definition.kind, **reference}
        )

    def _report(self, cron: Object, event_type: str, reason: str, message: str) -> None:
        self.recorder.event(self._crons.definition, cron, event_type, reason, message)


class NotReplaced(RequestError):
    def __init__(self, namespace: str, name: str) -> None:
        self.message = f"could not replace job {namespace}/{name}"


def _timing(cron: Object) -> tuple[str, str | None]:
    return cron["spec"]["schedule"], cron["spec"].get("timeZone")


def _facts(job: Object) -> tuple[object, ...]:
    return job["metadata"]["uid"], job["metadata"].get("ownerReferences"), _end_of(job)


def _end_of(job: Object) -> str:
    """Complete or Failed; "" while it runs."""
    condition = finished_condition(job)
    return "" if condition is None else condition["type"]


def _by_start(job: Object) -> tuple[bool, str, str]:
    """The order in which jobs were started; those that were not come last."""
    started = job["status"].get("startTime")
    return started is None, started or "", job["metadata"]["name"]


def _forget(status: Object, uid: str) -> None:
    status["active"] = [one for one in status.get("active") or () if one["uid"] != uid]


def _rfc1123_time(moment: int) -> str:
    return datetime.fromtimestamp(moment // SECOND, UTC).strftime("%a, %d %b %Y %H:%M:%S +0000")
