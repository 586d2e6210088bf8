"""CronJob: defaults, schedule and time zone, the job's template, names, status."""

from __future__ import annotations

from typing import Any

from rewound.actors.kinds.batch import CRON_JOB_COLUMNS
from rewound.actors.names import Names
from tests.actors.kinds.definitions import Definitions
from tests.actors.kinds.workload import template, with_status
from tests.cases import cases

PLURAL = "cronjobs"


def cron_job(name: str = "a", schedule: str = "* * * * *", job: Any = None, **spec: Any) -> dict[str, Any]:
    of = {"template": template(restartPolicy="Never"), **(job or {})}
    return {"metadata": {"name": name}, "spec": {"schedule": schedule, "jobTemplate": {"spec": of}, **spec}}


def test_create_sets_defaults(kinds: Definitions) -> None:
    stored = kinds.stored(PLURAL, with_status(cron_job(), lastScheduleTime="2020-01-01T00:00:00Z"))
    spec = stored["spec"]
    assert list(spec) == [
        *("schedule", "concurrencyPolicy", "suspend", "jobTemplate"),
        *("successfulJobsHistoryLimit", "failedJobsHistoryLimit"),
    ]
    assert (spec["concurrencyPolicy"], spec["suspend"]) == ("Allow", False)
    assert (spec["successfulJobsHistoryLimit"], spec["failedJobsHistoryLimit"]) == (3, 1)
    assert stored["status"] == {} and stored["metadata"]["generation"] == 1
    assert spec["jobTemplate"]["metadata"] == {"creationTimestamp": None}
    assert list(spec["jobTemplate"]["spec"]) == ["template"]
    assert kinds.create_causes(PLURAL, cron_job()) == []


@cases(
    ("document", "wrong"),
    [
        (cron_job(schedule=""), ["spec.schedule"]),
        (cron_job(schedule="x"), ["spec.schedule"]),
        (cron_job(schedule="TZ=UTC * * * * *", timeZone="UTC"), ["spec.schedule"]),
        (cron_job(timeZone="Europe/Berlin"), []),
        (cron_job(timeZone=""), ["spec.timeZone"]),
        (cron_job(timeZone="Local"), ["spec.timeZone"]),
        (cron_job(timeZone="No/Where"), ["spec.timeZone"]),
        (cron_job(startingDeadlineSeconds=-1), ["spec.startingDeadlineSeconds"]),
        (cron_job(concurrencyPolicy="Maybe"), ["spec.concurrencyPolicy"]),
        (cron_job(successfulJobsHistoryLimit=-1), ["spec.successfulJobsHistoryLimit"]),
        (cron_job(failedJobsHistoryLimit=-1), ["spec.failedJobsHistoryLimit"]),
        (cron_job(job={"selector": {}}), ["spec.jobTemplate.spec.selector"]),
        (cron_job(job={"manualSelector": True}), ["spec.jobTemplate.spec.manualSelector"]),
        (cron_job(job={"manualSelector": False}), []),
        (cron_job(job={"completions": -1}), ["spec.jobTemplate.spec.completions"]),
        (cron_job(job={"template": template()}), ["spec.jobTemplate.spec.template.spec.restartPolicy"]),
        (cron_job("a" * 52), []),
        (cron_job("a" * 53), ["metadata.name"]),
    ],
)
def test_create_reports_invalid_fields(kinds: Definitions, document: Any, wrong: list[str]) -> None:
    assert [field for field, _ in kinds.create_causes(PLURAL, document)] == wrong


def test_errors_have_the_texts_of_kubernetes(kinds: Definitions) -> None:
    assert kinds.create_causes(PLURAL, cron_job("a" * 53))[0][1].endswith(
        "must be no more than 52 characters"
    )
    assert kinds.create_causes(PLURAL, cron_job(job={"manualSelector": True}))[0][1] == (
        'Unsupported value: true: supported values: "nil", "false"'
    )
    assert kinds.create_causes(PLURAL, cron_job(timeZone="local"))[0][1] == (
        'Invalid value: "local": timeZone must be an explicit time zone as defined in '
        "https://www.iana.org/time-zones"
    )


def test_update_tolerates_a_long_name_and_an_unknown_time_zone(kinds: Definitions) -> None:
    new, causes = kinds.update(PLURAL, cron_job("a" * 60), cron_job("a" * 60, "0 0 * * *"))
    assert causes == [] and new["metadata"]["generation"] == 2
    old_zone = cron_job(timeZone="No/Where")
    assert (
        kinds.update(PLURAL, old_zone, {**old_zone, "spec": {**old_zone["spec"], "suspend": True}})[1] == []
    )


def test_status_subresource_changes_only_the_status(kinds: Definitions) -> None:
    found = with_status(cron_job(schedule="1 1 1 1 1"), active=[{"kind": "Job", "name": "j"}])
    new, causes = kinds.update(PLURAL, cron_job(), found, "status")
    assert causes == [] and new["spec"]["schedule"] == "* * * * *"
    assert new["status"] == {"active": [{"kind": "Job", "name": "j"}]}


def test_time_zone_in_schedule_causes_a_warning(kinds: Definitions, names: Names) -> None:
    definition = kinds[PLURAL]
    with_zone = kinds.stored(PLURAL, cron_job(schedule="TZ=UTC * * * * *"))
    assert definition.strategy.warnings(with_zone, None) == [
        "CRON_TZ or TZ used in spec.spec.schedule is not officially supported, see "
        f"https://{names.key_domain}/docs/concepts/workloads/controllers/cron-jobs/ for more details"
    ]
    assert definition.strategy.warnings({**with_zone}, with_zone) == []
    assert len(definition.strategy.warnings({**with_zone, "spec": dict(with_zone["spec"])}, with_zone)) == 1


def test_table_cells_are_computed_from_the_object(kinds: Definitions) -> None:
    stored = kinds.stored(PLURAL, cron_job())
    now = 1_600_000_000_000_000
    cells = {column.name: column.cell(stored, now) for column in CRON_JOB_COLUMNS}
    assert (cells["Schedule"], cells["Suspend"], cells["Active"]) == ("* * * * *", "False", 0)
    assert (cells["Last Schedule"], cells["Containers"], cells["Selector"]) == ("<none>", "c", "<none>")
    stored["status"] = {"lastScheduleTime": "2020-09-13T12:26:30Z", "active": [{}]}
    cells = {column.name: column.cell(stored, now) for column in CRON_JOB_COLUMNS}
    assert (cells["Last Schedule"], cells["Active"]) == ("10s", 1)
