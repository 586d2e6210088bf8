"""The batch group (v1): Job, pods that run to completion, and CronJob, jobs on a schedule.

Unless `manualSelector` is true, the server generates the selector of a Job and the labels of its pods from the job's
uid, so that no job selects the pods of another. A delete without a propagation policy orphans the pods.
`podFailurePolicy` says how the job handles a failed pod, by its exit codes or its conditions; it belongs to the alpha
feature JobPodFailurePolicy, and is dropped while that is disabled.

CronJob shares JobSpec in its jobTemplate, but only a Job gets the defaults of a job: a jobTemplate gets those of its
pod template. `values/schedule.py` reads its schedule.
"""

from __future__ import annotations

from collections.abc import Set
from functools import partial
from typing import Any, Final

from rewound.actors.golang.format import format_labels
from rewound.actors.golang.quoting import quoted_start
from rewound.actors.kinds.core.pod_template import (
    POD_TEMPLATE_SPEC,
    pod_template_rules,
    set_template_defaults,
    spec_warnings,
    template_warnings,
    without_disabled_template_fields,
)
from rewound.actors.kinds.core.references import OBJECT_REFERENCE
from rewound.actors.kinds.declaration.columns import (
    AGE,
    NAME,
    NONE,
    SECOND,
    Column,
    at,
    human_duration,
    since,
)
from rewound.actors.kinds.declaration.definition import (
    Definition,
    Deletion,
    DiscoveryNames,
    Selection,
    Strategy,
    Subresource,
    Table,
    keep_spec,
    keep_status_and_bump_generation,
    reset_status_and_generation,
)
from rewound.actors.kinds.declaration.meta import (
    LABEL_SELECTOR,
    METADATA,
    OBJECT_META,
    TEMPLATE_META,
    label_selector_matches,
    label_selector_rules,
    metadata_rules,
    metadata_update_rules,
)
from rewound.actors.kinds.declaration.workloads import (
    CONTAINERS,
    IMAGES,
    SELECTOR,
    not_negative,
    selector_compiles,
    selector_matches_rules,
    selector_or_none,
)
from rewound.actors.kinds.schema.fields import (
    BOOL,
    INT32,
    INT64,
    STRING,
    STRINGS,
    TIME,
    Before,
    Field,
    ListOf,
    Struct,
)
from rewound.actors.kinds.validation import (
    FieldError,
    FieldErrors,
    at_most,
    dns_label,
    duplicate,
    forbidden,
    invalid,
    name_is_subdomain,
    not_supported,
    qualified_name,
    required,
    size,
    too_many,
    unchanged,
)
from rewound.actors.kinds.values.schedule import InvalidSchedule, parse_schedule, time_zone_error
from rewound.actors.kinds.values.times import micros_of
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.versions.features import FAILURE_POLICY

MAX_RULES: Final = 20
MAX_EXIT_CODES: Final = 255
MAX_CONDITIONS: Final = 20
ACTIONS: Final = ("Count", "FailJob", "Ignore")
OPERATORS: Final = ("In", "NotIn")
STATUSES: Final = ("False", "True", "Unknown")

EXIT_CODES = Struct(
    "batch.v1.PodFailurePolicyOnExitCodesRequirement",
    Field("containerName", STRING, 1, pointer=True, always=True),
    Field("operator", STRING, 2, required=True, always=True, enum=OPERATORS),
    Field("values", ListOf(INT32), 3, required=True, always=True, list_type="set"),
)
POD_CONDITION = Struct(
    "batch.v1.PodFailurePolicyOnPodConditionsPattern",
    Field("type", STRING, 1, required=True, always=True),
    Field("status", STRING, 2, always=True, before=(Before("1.35", required=True),)),
)
FAILURE_POLICY_RULE = Struct(
    "batch.v1.PodFailurePolicyRule",
    Field("action", STRING, 1, required=True, always=True, enum=ACTIONS),
    Field("onExitCodes", EXIT_CODES, 2, pointer=True, always=True),
    Field("onPodConditions", ListOf(POD_CONDITION), 3, always=True, list_type="atomic"),
)
POD_FAILURE_POLICY = Struct(
    "batch.v1.PodFailurePolicy",
    Field("rules", ListOf(FAILURE_POLICY_RULE), 1, required=True, always=True, list_type="atomic"),
)


def set_failure_policy_defaults(policy: Object) -> None:
    """Default the status of pod conditions to True."""
    for rule in policy["rules"] or ():
        for pattern in rule["onPodConditions"] or ():
            pattern["status"] = pattern["status"] or "True"


def failure_policy_rules(errors: FieldErrors, policy: Object, containers: Set[str], field: str) -> None:
    rules = policy["rules"] or []
    if len(rules) > MAX_RULES:
        errors.add(too_many(field, len(rules), MAX_RULES))
    for index, rule in enumerate(rules):
        _failure_policy_rule_rules(errors, rule, containers, f"{field}[{index}]")


def _failure_policy_rule_rules(errors: FieldErrors, rule: Object, containers: Set[str], field: str) -> None:
    codes, conditions = rule["onExitCodes"], rule["onPodConditions"]
    _failure_policy_enum_rules(errors, rule["action"], ACTIONS, f"{field}.action")
    if codes is not None:
        _exit_code_rules(errors, codes, containers, f"{field}.onExitCodes")
    _pod_condition_rules(errors, conditions or [], f"{field}.onPodConditions")
    if codes is not None and conditions:
        errors.add(
            _invalid_without_value(field, "specifying both OnExitCodes and OnPodConditions is not supported")
        )
    if codes is None and not conditions:
        errors.add(
            _invalid_without_value(field, "specifying one of OnExitCodes and OnPodConditions is required")
        )


def _invalid_without_value(field: str, text: str) -> FieldError:
    """Return an error whose message shows no value."""
    return FieldError("FieldValueInvalid", field, f"Invalid value: {text}")


def _failure_policy_enum_rules(
    errors: FieldErrors, value: str, supported: tuple[str, ...], field: str
) -> None:
    if not value:
        errors.add(required(field, f"valid values: [{' '.join(quoted_start(one) for one in supported)}]"))
    elif value not in supported:
        errors.add(not_supported(field, value, supported))


def _pod_condition_rules(errors: FieldErrors, conditions: list[Object], field: str) -> None:
    if len(conditions) > MAX_CONDITIONS:
        errors.add(too_many(field, len(conditions), MAX_CONDITIONS))
    for index, pattern in enumerate(conditions):
        here = f"{field}[{index}]"
        errors.add_each(f"{here}.type", pattern["type"], qualified_name(pattern["type"]))
        _failure_policy_enum_rules(errors, pattern["status"], STATUSES, f"{here}.status")


def _exit_code_rules(errors: FieldErrors, codes: Object, containers: Set[str], field: str) -> None:
    _failure_policy_enum_rules(errors, codes["operator"], OPERATORS, f"{field}.operator")
    name, values = codes["containerName"], codes["values"] or []
    if name is not None and name not in containers:
        text = "must be one of the container or initContainer names in the pod template"
        errors.add(invalid(f"{field}.containerName", name, text))
    if not values:
        errors.add(invalid(f"{field}.values", values, "at least one value is required"))
    elif len(values) > MAX_EXIT_CODES:
        errors.add(too_many(f"{field}.values", len(values), MAX_EXIT_CODES))
    _exit_code_value_rules(errors, values, codes["operator"], f"{field}.values")


def _exit_code_value_rules(errors: FieldErrors, values: list[int], operator: str, field: str) -> None:
    seen: set[int] = set()
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            errors.add(invalid(f"{field}[{index}]", value, "must not be 0 for the In operator"))
        if value in seen:
            errors.add(duplicate(f"{field}[{index}]", value))
        seen.add(value)
    if values != sorted(values):
        errors.add(invalid(field, values, "must be ordered"))


COMPLETION_MODES: Final = ("NonIndexed", "Indexed")
MAX_INDEXED_PARALLELISM: Final = 100_000

SUCCESS_POLICY_RULE = Struct(
    "batch.v1.SuccessPolicyRule",
    Field("succeededIndexes", STRING, 1, pointer=True),
    Field("succeededCount", INT32, 2, pointer=True),
)
SUCCESS_POLICY = Struct(
    "batch.v1.SuccessPolicy",
    Field("rules", ListOf(SUCCESS_POLICY_RULE), 1, required=True, always=True, list_type="atomic"),
)
JOB_SPEC = Struct(
    "batch.v1.JobSpec",
    Field("parallelism", INT32, 1, pointer=True),
    Field("completions", INT32, 2, pointer=True),
    Field("activeDeadlineSeconds", INT64, 3, pointer=True),
    Field("podFailurePolicy", POD_FAILURE_POLICY, 11, pointer=True),
    Field("successPolicy", SUCCESS_POLICY, 16, pointer=True, since="1.30"),
    Field("backoffLimit", INT32, 7, pointer=True),
    Field("backoffLimitPerIndex", INT32, 12, pointer=True, since="1.28"),
    Field("maxFailedIndexes", INT32, 13, pointer=True, since="1.28"),
    Field("selector", LABEL_SELECTOR, 4, pointer=True),
    Field("manualSelector", BOOL, 5, pointer=True),
    Field("template", POD_TEMPLATE_SPEC, 6, required=True),
    Field("ttlSecondsAfterFinished", INT32, 8, pointer=True),
    Field("completionMode", STRING, 9, pointer=True),
    Field("suspend", BOOL, 10, pointer=True),
    Field("managedBy", STRING, 15, pointer=True, since="1.30"),
    Field("podReplacementPolicy", STRING, 14, pointer=True, since="1.28"),
)

_COUNTS: Final = (
    *("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit"),
    "ttlSecondsAfterFinished",
)


def job_spec_rules(
    errors: FieldErrors, names: Names, spec: Object, field: str, old_template: Object | None = None
) -> None:
    """Validate everything but the selector, which is required in a Job and invalid in a jobTemplate."""
    template = spec["template"]
    not_negative(errors, spec, field, *_COUNTS)
    _mode_rules(errors, spec, field)
    if "podFailurePolicy" in spec:
        here = f"{field}.podFailurePolicy.rules"
        failure_policy_rules(errors, spec["podFailurePolicy"], _container_names(template), here)
    pod_template_rules(errors, template, f"{field}.template", names, old_template)
    _restart_rules(errors, spec, f"{field}.template.spec.restartPolicy")


def _mode_rules(errors: FieldErrors, spec: Object, field: str) -> None:
    mode = spec.get("completionMode", "NonIndexed")
    if mode not in COMPLETION_MODES:
        errors.add(not_supported(f"{field}.completionMode", mode, COMPLETION_MODES))
    if mode != "Indexed":
        return
    if "completions" not in spec:
        errors.add(required(f"{field}.completions", "when completion mode is Indexed"))
    parallelism = spec.get("parallelism", 0)
    if parallelism > MAX_INDEXED_PARALLELISM:
        text = f"must be less than or equal to {MAX_INDEXED_PARALLELISM} when completion mode is Indexed"
        errors.add(invalid(f"{field}.parallelism", parallelism, text))


def _container_names(template: Object) -> set[str]:
    spec = template["spec"]
    return {one["name"] for part in ("containers", "initContainers") for one in spec.get(part) or ()}


def _restart_rules(errors: FieldErrors, spec: Object, field: str) -> None:
    """Pods of a job must be able to finish, so restartPolicy Always is invalid."""
    policy = spec["template"]["spec"].get("restartPolicy", "")
    if policy in ("Always", ""):
        errors.add(required(field, 'valid values: "OnFailure", "Never"'))
        return
    if policy not in ("OnFailure", "Never"):
        errors.add(not_supported(field, policy, ("OnFailure", "Never")))
        return
    if "podFailurePolicy" in spec and policy != "Never":
        errors.add(invalid(field, policy, 'only "Never" is supported when podFailurePolicy is specified'))


UID_LABEL, NAME_LABEL = "controller-uid", "job-name"
ORPHAN_WARNING: Final = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them "
    "or set propagationPolicy=Orphan to suppress this warning"
)

JOB_CONDITION = Struct(
    "batch.v1.JobCondition",
    Field("type", STRING, 1, required=True, always=True),
    Field("status", STRING, 2, required=True, always=True),
    Field("lastProbeTime", TIME, 3),
    Field("lastTransitionTime", TIME, 4),
    Field("reason", STRING, 5),
    Field("message", STRING, 6),
)
UNCOUNTED_PODS = Struct(
    "batch.v1.UncountedTerminatedPods",
    Field("succeeded", STRINGS, 1, list_type="set"),
    Field("failed", STRINGS, 2, list_type="set"),
)
JOB_STATUS = Struct(
    "batch.v1.JobStatus",
    Field("conditions", ListOf(JOB_CONDITION), 1, patch="merge", merge_key="type", list_type="atomic"),
    Field("startTime", TIME, 2, pointer=True),
    Field("completionTime", TIME, 3, pointer=True),
    Field("active", INT32, 4),
    Field("succeeded", INT32, 5),
    Field("failed", INT32, 6),
    Field("terminating", INT32, 11, pointer=True, since="1.28"),
    Field("completedIndexes", STRING, 7),
    Field("failedIndexes", STRING, 10, pointer=True, since="1.28"),
    Field("uncountedTerminatedPods", UNCOUNTED_PODS, 8, pointer=True),
    Field("ready", INT32, 9, pointer=True),
)
JOB = Struct("batch.v1.Job", METADATA, Field("spec", JOB_SPEC, 2), Field("status", JOB_STATUS, 3))


def _completions_cell(stored: Object, _: int) -> str:
    spec, succeeded = stored["spec"], stored["status"].get("succeeded", 0)
    if "completions" in spec:
        return f"{succeeded}/{spec['completions']}"
    parallelism = spec.get("parallelism", 0)
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _duration_cell(stored: Object, now: int) -> str:
    started, ended = stored["status"].get("startTime"), stored["status"].get("completionTime")
    if started is None:
        return ""
    if ended is None:
        return since(started, now)
    return human_duration((micros_of(ended) - micros_of(started)) // SECOND)


# Conditions that the table prints, the first that is True; then a job that is being deleted is Terminating.
_ENDS: Final = ("Complete", "Failed")
_STATES_BEFORE_1_34: Final = ("Suspended", "FailureTarget")
_STATES: Final = (*_STATES_BEFORE_1_34, "SuccessCriteriaMet")


def _status_cell(states: tuple[str, ...], stored: Object, _: int) -> str:
    conditions = stored["status"].get("conditions", ())
    true = {one["type"] for one in conditions if one["status"] == "True"}
    for end in _ENDS:
        if end in true:
            return end
    if "deletionTimestamp" in stored["metadata"]:
        return "Terminating"
    return next((state for state in states if state in true), "Running")


JOB_COLUMNS: Final = (
    NAME,
    Column(
        "Status",
        "string",
        "State of the job.",
        partial(_status_cell, _STATES_BEFORE_1_34),
        since="1.30",
        until="1.33",
    ),
    Column("Status", "string", "State of the job.", partial(_status_cell, _STATES), since="1.34"),
    Column("Completions", "string", "Succeeded pods of required completions.", _completions_cell),
    Column("Duration", "string", "Time from start to completion, or until now.", _duration_cell),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
)


def define_job(names: Names, features: frozenset[str] = frozenset()) -> Definition:
    jobs = Jobs(names, features)
    return Definition(
        group="batch",
        version="v1",
        kind="Job",
        plural="jobs",
        names=DiscoveryNames(categories=("all",)),
        namespaced=True,
        check_name=name_is_subdomain,
        fields=JOB,
        set_defaults=partial(set_job_defaults, features),
        subresources=(Subresource(name="status", prepare=keep_spec, validate=job_status_update_rules),),
        deletion=Deletion(orphans_by_default=True, default_policy_warning=ORPHAN_WARNING),
        selection=Selection(
            fields={"status.successful": lambda stored: str(stored["status"].get("succeeded", 0))},
            own_label_conversion=True,
            unsupported_message='field label "{label}" not supported for Job',
        ),
        table=Table(JOB_COLUMNS),
        strategy=Strategy(
            prepare_for_create=jobs.prepare_create,
            prepare_for_update=jobs.prepare_update,
            validate_create=jobs.rules,
            validate_update=jobs.update_rules,
            canonicalize=label_as_template,
            warnings=partial(spec_warnings, names, features),
        ),
    )


def set_job_defaults(features: frozenset[str], new: Object) -> None:
    spec = new["spec"]
    defaults: dict[str, Any] = {"parallelism": 1, "backoffLimit": 6, "completionMode": "NonIndexed"}
    if "completions" not in spec and "parallelism" not in spec:
        defaults["completions"] = 1
    new["spec"] = spec = JOB_SPEC.arranged({**defaults, "suspend": False, **spec})
    label_as_template(new)
    if "podFailurePolicy" in spec:
        set_failure_policy_defaults(spec["podFailurePolicy"])
    set_template_defaults(spec["template"], features)


class Jobs:
    """The strategy of jobs in one dialect, with the enabled alpha `features`."""

    def __init__(self, names: Names, features: frozenset[str]) -> None:
        self._names, self._features = names, features
        self._tracking = names.key("job-tracking", "batch")

    def prepare_create(self, new: Object) -> None:
        metadata, spec = new["metadata"], new["spec"]
        reset_status_and_generation(JOB_STATUS, new)
        annotations = {**metadata.get("annotations", {}), self._tracking: ""}
        metadata["annotations"] = dict(sorted(annotations.items()))
        if FAILURE_POLICY not in self._features:
            spec.pop("podFailurePolicy", None)
        spec["template"] = without_disabled_template_fields(spec["template"], features=self._features)
        if not spec.get("manualSelector"):
            generate_selector(new)

    def prepare_update(self, new: Object, old: Object) -> None:
        spec, before = new["spec"], old["spec"]
        if FAILURE_POLICY not in self._features and "podFailurePolicy" not in before:
            spec.pop("podFailurePolicy", None)
        spec["template"] = without_disabled_template_fields(
            spec["template"], before["template"], self._features
        )
        keep_status_and_bump_generation(new, old)

    def rules(self, errors: FieldErrors, new: Object) -> None:
        _generated_rules(errors, new)
        self._spec_rules(errors, new)
        _indexed_name_rules(errors, new)

    def _spec_rules(self, errors: FieldErrors, new: Object, old: Object | None = None) -> None:
        spec = new["spec"]
        selector = spec.get("selector")
        before = None if old is None else old["spec"]["template"]
        job_spec_rules(errors, self._names, spec, "spec", before)
        if selector is None:
            errors.add(required("spec.selector"))
        else:
            label_selector_rules(errors, selector, "spec.selector")
        if selector_compiles(selector):
            selector_matches_rules(errors, selector, spec["template"], "spec.template")

    def update_rules(self, errors: FieldErrors, new: Object, old: Object) -> None:
        metadata_rules(errors, new["metadata"], namespaced=True, check_name=name_is_subdomain)
        _generated_rules(errors, new)
        own = errors.added_by(self._spec_rules, new, old)
        self._tracking_rules(errors, new, old)
        _indexed_name_rules(errors, new)
        metadata_update_rules(errors, new["metadata"], old["metadata"])
        errors.add_all(own)
        _immutable_rules(errors, new["spec"], old)

    def _tracking_rules(self, errors: FieldErrors, new: Object, old: Object) -> None:
        now, before = (self._tracking in one["metadata"].get("annotations", {}) for one in (new, old))
        if not before and now:
            errors.add(forbidden(f"metadata.annotations[{self._tracking}]", "cannot add this annotation"))


def generate_selector(new: Object) -> None:
    """Set a selector and pod labels that are unique to this job.

    Labels that `set_job_defaults` copied from the template are the same dict, and get the new ones too; equal labels
    that a client sent are another dict, and stay unchanged. `label_as_template` labels a job whose template had none.
    """
    metadata, spec = new["metadata"], new["spec"]
    template = spec["template"]["metadata"]
    labels = template.get("labels") or {}
    own = {UID_LABEL: metadata["uid"], NAME_LABEL: metadata.get("name", "")}
    selected = dict(sorted({**own, **labels}.items()))
    if metadata.get("labels") is labels:
        metadata["labels"] = dict(selected)
    selector = spec.get("selector", {})
    match_labels = {UID_LABEL: metadata["uid"], **selector.get("matchLabels", {})}
    labelled = OBJECT_META.arranged({**template, "labels": selected})
    spec["template"] = {**spec["template"], "metadata": labelled}
    spec["selector"] = {**selector, "matchLabels": dict(sorted(match_labels.items()))}
    new["spec"] = JOB_SPEC.arranged(spec)


def label_as_template(new: Object) -> None:
    """Copy the labels of the template to the job, like `set_job_defaults`.

    In v1.25 that happens when the stored job is read, after validation and admission.
    """
    metadata, labels = new["metadata"], new["spec"]["template"]["metadata"].get("labels")
    if labels and not metadata.get("labels"):
        new["metadata"] = OBJECT_META.arranged({**metadata, "labels": labels})


def _generated_rules(errors: FieldErrors, new: Object) -> None:
    """The selector and pod labels, whether generated or sent by a client, must name this job."""
    metadata, spec = new["metadata"], new["spec"]
    selector = spec.get("selector")
    if spec.get("manualSelector") or selector is None:
        return
    expected = {UID_LABEL: metadata.get("uid", ""), NAME_LABEL: metadata.get("name", "")}
    labels = spec["template"]["metadata"].get("labels", {})
    for key, value in expected.items():
        field = f"spec.template.metadata.labels[{key}]"
        if key not in labels:
            errors.add(required(field, f"must be '{value}'"))
        elif labels[key] != value:
            errors.add(invalid(field, format_labels(labels), f"must be '{value}'"))
    if selector_compiles(selector) and not label_selector_matches(selector, expected):
        errors.add(invalid("spec.selector", selector, "`selector` not auto-generated"))


def _indexed_name_rules(errors: FieldErrors, new: Object) -> None:
    """The name of the last indexed pod must be a valid host name."""
    name, spec = new["metadata"].get("name", ""), new["spec"]
    completions = spec.get("completions", 0)
    if spec.get("completionMode") != "Indexed" or completions <= 0:
        return
    last = f"{name}-{completions - 1}"
    if dns_label(last):
        errors.add(
            invalid("metadata.name", name, f"will not able to create pod with invalid DNS label: {last}")
        )


def _immutable_rules(errors: FieldErrors, spec: Object, old: Object) -> None:
    before = old["spec"]
    template = before["template"]
    if before.get("suspend") and "startTime" not in old["status"]:
        template = _with_scheduling_of(template, spec["template"])
    unchanged(errors, "spec.completions", spec.get("completions"), before.get("completions"))
    unchanged(errors, "spec.selector", spec.get("selector"), before.get("selector"))
    unchanged(errors, "spec.template", spec["template"], template)
    unchanged(errors, "spec.completionMode", spec.get("completionMode"), before.get("completionMode"))
    unchanged(errors, "spec.podFailurePolicy", spec.get("podFailurePolicy"), before.get("podFailurePolicy"))


def _with_scheduling_of(template: Object, other: Object) -> Object:
    """Return the template with the scheduling directives of the other.

    These are mutable while a job is suspended and has never started.
    """
    metadata = _with_fields_of(template["metadata"], other["metadata"], "labels", "annotations")
    spec = _with_fields_of(template["spec"], other["spec"], "nodeSelector", "tolerations")
    affinity, other_affinity = spec.pop("affinity", {}), other["spec"].get("affinity")
    affinity = _with_fields_of(affinity, other_affinity or {}, "nodeAffinity")
    if affinity or other_affinity is not None:
        spec["affinity"] = affinity
    return {**template, "metadata": metadata, "spec": spec}


def _with_fields_of(holder: Object, other: Object, *parts: str) -> Object:
    kept = {part: value for part, value in holder.items() if part not in parts}
    return {**kept, **{part: other[part] for part in parts if part in other}}


def job_status_update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    not_negative(errors, new["status"], "status", "active", "succeeded", "failed", "ready")
    seen: set[str] = set()
    uncounted = new["status"].get("uncountedTerminatedPods", {})
    for part in ("succeeded", "failed"):
        for index, uid in enumerate(uncounted.get(part, ())):
            field = f"status.uncountedTerminatedPods.{part}[{index}]"
            if not uid:
                errors.add(invalid(field, uid, "must not be empty"))
            elif uid in seen:
                errors.add(duplicate(field, uid))
            seen.add(uid)


CONCURRENCY_POLICIES: Final = ("Allow", "Forbid", "Replace")
LONGEST_NAME: Final = 52  # the controller appends eleven characters to name a job
POD_TEMPLATE: Final = "spec.jobTemplate.spec.template"

JOB_TEMPLATE_SPEC = Struct(
    "batch.v1.JobTemplateSpec",
    Field("metadata", TEMPLATE_META, 1),
    Field("spec", JOB_SPEC, 2),
)
CRON_JOB_SPEC = Struct(
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
CRON_JOB_STATUS = Struct(
    "batch.v1.CronJobStatus",
    Field("active", ListOf(OBJECT_REFERENCE), 1, list_type="atomic"),
    Field("lastScheduleTime", TIME, 4, pointer=True),
    Field("lastSuccessfulTime", TIME, 5, pointer=True),
)
CRON_JOB = Struct(
    "batch.v1.CronJob",
    METADATA,
    Field("spec", CRON_JOB_SPEC, 2, required=True, before=(Before("1.36", required=False),)),
    Field("status", CRON_JOB_STATUS, 3),
)


def _last_schedule_cell(stored: Object, now: int) -> str:
    last = stored["status"].get("lastScheduleTime")
    return NONE if last is None else since(last, now)


CRON_JOB_COLUMNS: Final = (
    NAME,
    Column("Schedule", "string", "Schedule in cron format.", at("spec", "schedule")),
    Column(
        "Timezone", "string", "Time zone of the schedule.", at("spec", "timeZone", missing=NONE), since="1.30"
    ),
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


def define_cron_job(names: Names, features: frozenset[str] = frozenset()) -> Definition:
    return Definition(
        group="batch",
        version="v1",
        kind="CronJob",
        plural="cronjobs",
        names=DiscoveryNames(short_names=("cj",), categories=("all",)),
        namespaced=True,
        check_name=name_is_subdomain,
        fields=CRON_JOB,
        set_defaults=lambda new: set_template_defaults(_pod_template(new), features),
        subresources=(Subresource(name="status", prepare=keep_spec),),
        table=Table(CRON_JOB_COLUMNS),
        strategy=Strategy(
            prepare_for_create=partial(prepare_create_cron_job, features),
            prepare_for_update=partial(prepare_update_cron_job, features),
            validate_create=partial(cron_job_create_rules, names=names),
            validate_update=partial(cron_job_update_rules, names=names),
            warnings=partial(cron_job_warnings, names, features),
        ),
    )


def _pod_template(stored: Object) -> Object:
    template: Object = stored["spec"]["jobTemplate"]["spec"]["template"]
    return template


def _drop_disabled_fields(new: Object, before: Object | None, features: frozenset[str]) -> None:
    template, job = _pod_template(new), new["spec"]["jobTemplate"]
    kept = without_disabled_template_fields(template, before, features)
    if kept is not template:
        new["spec"]["jobTemplate"] = {**job, "spec": {**job["spec"], "template": kept}}


def prepare_create_cron_job(features: frozenset[str], new: Object) -> None:
    reset_status_and_generation(CRON_JOB_STATUS, new)
    _drop_disabled_fields(new, None, features)


def prepare_update_cron_job(features: frozenset[str], new: Object, old: Object) -> None:
    _drop_disabled_fields(new, _pod_template(old), features)
    keep_status_and_bump_generation(new, old)


def cron_job_create_rules(errors: FieldErrors, new: Object, *, names: Names) -> None:
    name = new["metadata"].get("name", "")
    cron_job_rules(errors, names, new)
    if size(name) > LONGEST_NAME:
        errors.add(invalid("metadata.name", name, at_most(LONGEST_NAME)))


def cron_job_update_rules(errors: FieldErrors, new: Object, old: Object, *, names: Names) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    cron_job_rules(errors, names, new, old)


def cron_job_rules(errors: FieldErrors, names: Names, new: Object, old: Object | None = None) -> None:
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
        parse_schedule(schedule)
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


def cron_job_warnings(names: Names, features: frozenset[str], new: Object, old: Object | None) -> list[str]:
    if old is not None and new["spec"] is old["spec"]:
        return []  # only the status was written
    changed = old is None or new["metadata"].get("generation") != old["metadata"].get("generation")
    found = template_warnings(_pod_template(new), POD_TEMPLATE, names, features) if changed else []
    if "TZ" in new["spec"]["schedule"]:
        page = f"https://{names.key_domain}/docs/concepts/workloads/controllers/cron-jobs/"
        found.append(
            f"CRON_TZ or TZ used in spec.spec.schedule is not officially supported, see {page} for more details"
        )
    return found


def declare(names: Names, features: frozenset[str] = frozenset()) -> tuple[Definition, ...]:
    return define_cron_job(names, features), define_job(names, features)
