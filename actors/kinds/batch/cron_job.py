"""CronJob: creates jobs on a schedule."""

from __future__ import annotations

from functools import partial
from typing import Final

from actors.kinds.batch.job_spec import JOB_SPEC, job_spec_rules
from actors.kinds.batch.schedule import InvalidSchedule, check_schedule, time_zone_error
from actors.kinds.core.pod_template import set_template_defaults, template_warnings, without_disabled_fields
from actors.kinds.core.references import OBJECT_REFERENCE
from actors.kinds.declaration.columns import AGE, NAME, NONE, Column, at, since
from actors.kinds.declaration.definition import (
    Definition,
    DiscoveryNames,
    Strategy,
    Subresource,
    Table,
    keep_spec,
    keep_status_and_bump_generation,
    reset_status_and_generation,
)
from actors.kinds.declaration.meta import METADATA, TEMPLATE_META, metadata_update_rules
from actors.kinds.declaration.workloads import CONTAINERS, IMAGES, not_negative, selector_or_none
from actors.kinds.schema.fields import BOOL, INT32, INT64, STRING, TIME, Field, ListOf, Struct
from actors.kinds.validation import (
    FieldError,
    FieldErrors,
    at_most,
    invalid,
    name_is_subdomain,
    not_supported,
    required,
    size,
)
from actors.messages import Object
from actors.names import Names

CONCURRENCY_POLICIES: Final = ("Allow", "Forbid", "Replace")
LONGEST_NAME: Final = 52  # the controller appends eleven characters to name a job
POD_TEMPLATE: Final = "spec.jobTemplate.spec.template"

JOB_TEMPLATE_SPEC = Struct(
    "batch.v1.JobTemplateSpec",
    Field("metadata", TEMPLATE_META, 1),
    Field("spec", JOB_SPEC, 2),
)
SPEC = Struct(
    "batch.v1.CronJobSpec",
    Field("schedule", STRING, 1, required=True, always=True),
    Field("timeZone", STRING, 8, pointer=True),
    Field("startingDeadlineSeconds", INT64, 2, pointer=True),
    Field("concurrencyPolicy", STRING, 3, enum=CONCURRENCY_POLICIES, default="Allow"),
    Field("suspend", BOOL, 4, pointer=True, default=False),
    Field("jobTemplate", JOB_TEMPLATE_SPEC, 5, required=True),
    Field("successfulJobsHistoryLimit", INT32, 6, pointer=True, default=3),
    Field("failedJobsHistoryLimit", INT32, 7, pointer=True, default=1),
)
STATUS = Struct(
    "batch.v1.CronJobStatus",
    Field("active", ListOf(OBJECT_REFERENCE), 1, list_type="atomic"),
    Field("lastScheduleTime", TIME, 4, pointer=True),
    Field("lastSuccessfulTime", TIME, 5, pointer=True),
)
CRON_JOB = Struct("batch.v1.CronJob", METADATA, Field("spec", SPEC, 2), Field("status", STATUS, 3))


def _last_schedule_cell(stored: Object, now: int) -> str:
    last = stored["status"].get("lastScheduleTime")
    return NONE if last is None else since(last, now)


COLUMNS: Final = (
    NAME,
    Column("Schedule", "string", "Schedule in cron format.", at("spec", "schedule")),
    Column(
        "Suspend",
        "boolean",
        "Whether it creates no jobs at present.",
        lambda stored, _: str(stored["spec"].get("suspend", "<unset>")),
    ),
    Column(
        "Active",
        "integer",
        "Running jobs.",
        lambda stored, _: len(stored["status"].get("active", ())),
    ),
    Column("Last Schedule", "string", "Time since a job was last scheduled.", _last_schedule_cell),
    AGE,
    CONTAINERS,
    IMAGES,
    Column(
        "Selector",
        "string",
        "Label selector of its pods.",
        lambda stored, _: selector_or_none(stored["spec"]["jobTemplate"]["spec"].get("selector")),
        priority=1,
    ),
)


def define(names: Names, features: frozenset[str] = frozenset()) -> Definition:
    return Definition(
        group="batch",
        version="v1",
        kind="CronJob",
        plural="cronjobs",
        names=DiscoveryNames(short_names=("cj",), categories=("all",)),
        namespaced=True,
        check_name=name_is_subdomain,
        fields=CRON_JOB,
        set_defaults=lambda new: set_template_defaults(_pod_template(new)),
        subresources=(Subresource(name="status", prepare=keep_spec),),
        table=Table(COLUMNS),
        strategy=Strategy(
            prepare_for_create=partial(prepare_create, features),
            prepare_for_update=partial(prepare_update, features),
            validate_create=partial(create_rules, names=names),
            validate_update=partial(update_rules, names=names),
            warnings=partial(warnings, names),
        ),
    )


def _pod_template(stored: Object) -> Object:
    template: Object = stored["spec"]["jobTemplate"]["spec"]["template"]
    return template


def _drop_disabled_fields(new: Object, before: Object | None, features: frozenset[str]) -> None:
    template, job = _pod_template(new), new["spec"]["jobTemplate"]
    kept = without_disabled_fields(template, before, features)
    if kept is not template:
        new["spec"]["jobTemplate"] = {**job, "spec": {**job["spec"], "template": kept}}


def prepare_create(features: frozenset[str], new: Object) -> None:
    reset_status_and_generation(STATUS, new)
    _drop_disabled_fields(new, None, features)


def prepare_update(features: frozenset[str], new: Object, old: Object) -> None:
    _drop_disabled_fields(new, _pod_template(old), features)
    keep_status_and_bump_generation(new, old)


def create_rules(errors: FieldErrors, new: Object, *, names: Names) -> None:
    name = new["metadata"].get("name", "")
    rules(errors, names, new)
    if size(name) > LONGEST_NAME:
        errors.add(invalid("metadata.name", name, at_most(LONGEST_NAME)))


def update_rules(errors: FieldErrors, new: Object, old: Object, *, names: Names) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    rules(errors, names, new, old)


def rules(errors: FieldErrors, names: Names, new: Object, old: Object | None = None) -> None:
    spec = new["spec"]
    _schedule_rules(errors, spec)
    not_negative(errors, spec, "spec", "startingDeadlineSeconds")
    if old is None or old["spec"].get("timeZone") != spec.get("timeZone"):
        _zone_rules(errors, spec.get("timeZone"))
    if spec["concurrencyPolicy"] not in CONCURRENCY_POLICIES:
        policy = spec["concurrencyPolicy"]
        errors.add(not_supported("spec.concurrencyPolicy", policy, CONCURRENCY_POLICIES))
    _job_rules(errors, names, spec["jobTemplate"]["spec"], None if old is None else _pod_template(old))
    not_negative(errors, spec, "spec", "successfulJobsHistoryLimit", "failedJobsHistoryLimit")


def _schedule_rules(errors: FieldErrors, spec: Object) -> None:
    schedule = spec["schedule"]
    if not schedule:
        errors.add(required("spec.schedule"))
        return
    try:
        check_schedule(schedule)
    except InvalidSchedule as why:
        errors.add(invalid("spec.schedule", schedule, str(why)))
    if "TZ" in schedule and "timeZone" in spec:
        text = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
        errors.add(invalid("spec.schedule", schedule, text))


def _zone_rules(errors: FieldErrors, zone: str | None) -> None:
    if zone is None:
        return
    if not zone:
        errors.add(invalid("spec.timeZone", zone, "timeZone must be nil or non-empty string"))
        return
    if zone.lower() == "local":
        text = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        errors.add(invalid("spec.timeZone", zone, text))
    wrong = time_zone_error(zone)
    if wrong:
        errors.add(invalid("spec.timeZone", zone, wrong))


def _job_rules(errors: FieldErrors, names: Names, job: Object, old_template: Object | None) -> None:
    field = "spec.jobTemplate.spec"
    job_spec_rules(errors, names, job, field, old_template)
    if "selector" in job:
        text = "`selector` will be auto-generated"
        errors.add(invalid(f"{field}.selector", job["selector"], text))
    if job.get("manualSelector"):
        text = 'Unsupported value: true: supported values: "nil", "false"'
        errors.add(FieldError("FieldValueNotSupported", f"{field}.manualSelector", text))


def warnings(names: Names, new: Object, old: Object | None) -> list[str]:
    if old is not None and new["spec"] is old["spec"]:
        return []  # only its status was written
    changed = old is None or new["metadata"].get("generation") != old["metadata"].get("generation")
    found = template_warnings(_pod_template(new), POD_TEMPLATE, names) if changed else []
    if "TZ" in new["spec"]["schedule"]:
        page = f"https://{names.key_domain}/docs/concepts/workloads/controllers/cron-jobs/"
        found.append(
            f"CRON_TZ or TZ used in spec.spec.schedule is not officially supported, see {page} for more details"
        )
    return found
