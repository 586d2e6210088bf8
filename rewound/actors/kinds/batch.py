"""The batch group (v1): Job, pods that run to completion, and CronJob, jobs on a schedule.

Unless `manualSelector` is true, the server generates the selector of a Job and the labels of its pods from the job's
uid, so that no job selects the pods of another. A delete without a propagation policy orphans the pods.
`podFailurePolicy` says how the job handles a failed pod, by its exit codes or its conditions; it belongs to the alpha
feature JobPodFailurePolicy, and is dropped while that is disabled.

CronJob shares JobSpec in its jobTemplate, but only a Job gets the defaults of a job: a jobTemplate gets those of its
pod template. `values/schedule.py` reads its schedule.
"""

from __future__ import annotations

import re
from collections.abc import Set
from contextlib import suppress
from functools import partial
from typing import Any, Final

from rewound.actors.golang.format import Formatted, format_labels, format_selector
from rewound.actors.golang.quoting import quoted_start
from rewound.actors.kinds.core.pod_spec import POD_SPEC
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
    name_warnings,
    not_negative,
    same_selector,
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
from rewound.actors.kinds.schema.internal import shown
from rewound.actors.kinds.validation import (
    IMMUTABLE,
    NEGATIVE,
    FieldError,
    FieldErrors,
    at_most,
    dns_label,
    domain_prefixed_path,
    duplicate,
    forbidden,
    invalid,
    name_is_subdomain,
    not_supported,
    qualified_name,
    required,
    size,
    too_long,
    too_many,
    unchanged,
)
from rewound.actors.kinds.values.schedule import InvalidSchedule, parse_schedule, time_zone_error
from rewound.actors.kinds.values.times import micros_of
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.versions.features import (
    ELASTIC_JOBS,
    FAIL_INDEX,
    FAILURE_POLICY,
    JOB_SUCCESS,
    MANAGED_BY,
    MANUAL_SELECTOR_DEFAULT,
    NO_JOB_TRACKING,
    NO_ZONE_IN_SCHEDULES,
    PER_INDEX_LIMITS,
    POD_REPLACEMENT,
    PREFIXED_JOB_LABELS,
    SUCCESS_CRITERIA,
    SUSPENDED_RESOURCES,
    SUSPENDED_SCHEDULING,
    WIDE_SUCCESS_CRITERIA,
)

MAX_RULES: Final = 20
MAX_EXIT_CODES: Final = 255
MAX_CONDITIONS: Final = 20
ACTIONS: Final = ("Count", "FailJob", "Ignore")
INDEX_ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")
OPERATORS: Final = ("In", "NotIn")
STATUSES: Final = ("False", "True", "Unknown")

_ALWAYS_WRITTEN: Final = (Before("1.28", always=True),)

EXIT_CODES = Struct(
    "batch.v1.PodFailurePolicyOnExitCodesRequirement",
    Field("containerName", STRING, 1, pointer=True, before=_ALWAYS_WRITTEN),
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
    Field("onExitCodes", EXIT_CODES, 2, pointer=True, before=_ALWAYS_WRITTEN),
    Field("onPodConditions", ListOf(POD_CONDITION), 3, list_type="atomic", before=_ALWAYS_WRITTEN),
)
POD_FAILURE_POLICY = Struct(
    "batch.v1.PodFailurePolicy",
    Field("rules", ListOf(FAILURE_POLICY_RULE), 1, required=True, always=True, list_type="atomic"),
)


def set_failure_policy_defaults(policy: Object) -> None:
    """Default the status of pod conditions to True."""
    for rule in policy["rules"] or ():
        for pattern in rule.get("onPodConditions") or ():
            pattern["status"] = pattern["status"] or "True"


def failure_policy_rules(
    errors: FieldErrors, policy: Object, containers: Set[str], field: str, *, per_index: bool = False
) -> None:
    """`per_index`: the job has a limit for each index, and the policy may fail one index."""
    rules = policy["rules"] or []
    if len(rules) > MAX_RULES:
        errors.add(too_many(field, len(rules), MAX_RULES))
    for index, rule in enumerate(rules):
        if FAIL_INDEX in errors.features and rule["action"] == "FailIndex":
            if not per_index:
                text = "requires the backoffLimitPerIndex to be set"
                errors.add(invalid(f"{field}[{index}].action", "FailIndex", text))
        else:
            actions = INDEX_ACTIONS if FAIL_INDEX in errors.features else ACTIONS
            _failure_policy_enum_rules(errors, rule["action"], actions, f"{field}[{index}].action")
        _failure_policy_rule_rules(errors, rule, containers, f"{field}[{index}]")


def _failure_policy_rule_rules(errors: FieldErrors, rule: Object, containers: Set[str], field: str) -> None:
    codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions")
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
    name, values = codes.get("containerName"), codes["values"] or []
    if name is not None and name not in containers:
        text = "must be one of the container or initContainer names in the pod template"
        errors.add(invalid(f"{field}.containerName", name, text))
    if not values:
        empty = Formatted("[]int32(nil)", None) if codes["values"] is None else Formatted("[]int32{}", [])
        errors.add(invalid(f"{field}.values", empty, "at least one value is required"))
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
MANY_COMPLETIONS: Final = 100_000
MOST_OF_MANY: Final = 10_000  # pods and failed indexes of jobs with so many completions
LONGEST_MANAGER: Final = 63
LONGEST_INDEXES: Final = 64 * 1024
REPLACEMENT_POLICIES: Final = ("Failed", "TerminatingOrFailed")
NEEDS_INDEXES: Final = "requires indexed completion mode"

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

# Jobs lack these while their gate is off, unless the stored job has them; the templates of cron jobs keep them.
_GATED_PARTS: Final = (
    ("podFailurePolicy", FAILURE_POLICY),
    ("successPolicy", JOB_SUCCESS),
    ("backoffLimitPerIndex", PER_INDEX_LIMITS),
    ("maxFailedIndexes", PER_INDEX_LIMITS),
    ("podReplacementPolicy", POD_REPLACEMENT),
)
_COUNTS: Final = (
    *("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit"),
    *("ttlSecondsAfterFinished", "backoffLimitPerIndex", "maxFailedIndexes"),
)


def job_spec_rules(
    errors: FieldErrors, names: Names, spec: Object, field: str, old_template: Object | None = None
) -> None:
    """Validate everything but the selector, which is required in a Job and invalid in a jobTemplate."""
    template = spec["template"]
    not_negative(errors, spec, field, *_COUNTS)
    if "maxFailedIndexes" in spec and "backoffLimitPerIndex" not in spec:
        errors.add(required(f"{field}.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    if "managedBy" in spec:
        domain_prefixed_path(errors, f"{field}.managedBy", spec["managedBy"])
        if size(spec["managedBy"]) > LONGEST_MANAGER:
            errors.add(too_long(f"{field}.managedBy", LONGEST_MANAGER))
    _mode_rules(errors, spec, field)
    if "podFailurePolicy" in spec:
        here = f"{field}.podFailurePolicy.rules"
        per_index = "backoffLimitPerIndex" in spec
        names_of_containers = _container_names(template)
        failure_policy_rules(errors, spec["podFailurePolicy"], names_of_containers, here, per_index=per_index)
    if "successPolicy" in spec:
        _success_policy_rules(errors, spec, f"{field}.successPolicy")
    if "podReplacementPolicy" in spec:
        supported = ("Failed",) if "podFailurePolicy" in spec else REPLACEMENT_POLICIES
        if spec["podReplacementPolicy"] not in supported:
            here = f"{field}.podReplacementPolicy"
            errors.add(not_supported(here, spec["podReplacementPolicy"], supported))
    pod_template_rules(errors, template, f"{field}.template", names, old_template)
    _restart_rules(errors, spec, f"{field}.template.spec.restartPolicy")


def _mode_rules(errors: FieldErrors, spec: Object, field: str) -> None:
    mode = spec.get("completionMode", "NonIndexed")
    if mode not in COMPLETION_MODES:
        errors.add(not_supported(f"{field}.completionMode", mode, COMPLETION_MODES))
    if mode == "NonIndexed":
        for part in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if part in spec:
                errors.add(invalid(f"{field}.{part}", spec[part], NEEDS_INDEXES))
    if mode != "Indexed":
        return
    if "completions" not in spec:
        errors.add(required(f"{field}.completions", "when completion mode is Indexed"))
    parallelism = spec.get("parallelism", 0)
    if parallelism > MAX_INDEXED_PARALLELISM:
        text = f"must be less than or equal to {MAX_INDEXED_PARALLELISM} when completion mode is Indexed"
        errors.add(invalid(f"{field}.parallelism", parallelism, text))
    _failed_index_rules(errors, spec, field)


def _failed_index_rules(errors: FieldErrors, spec: Object, field: str) -> None:
    """Validate limits of jobs with very many indexes, whose failed ones would not fit into the status."""
    most, completions = spec.get("maxFailedIndexes"), spec.get("completions")
    if most is not None and completions is not None and most > completions:
        errors.add(invalid(f"{field}.maxFailedIndexes", most, "must be less than or equal to completions"))
    if most is not None and most > MAX_INDEXED_PARALLELISM:
        text = f"must be less than or equal to {MAX_INDEXED_PARALLELISM}"
        errors.add(invalid(f"{field}.maxFailedIndexes", most, text))
    if (completions or 0) <= MANY_COMPLETIONS or "backoffLimitPerIndex" not in spec:
        return
    if most is None:
        text = f"must be specified when completions is above {MANY_COMPLETIONS}"
        errors.add(required(f"{field}.maxFailedIndexes", text))
    text = (
        f"must be less than or equal to {MOST_OF_MANY} when completions are above {MANY_COMPLETIONS} "
        "and used with backoff limit per index"
    )
    for part in ("parallelism", "maxFailedIndexes"):
        if spec.get(part, 0) > MOST_OF_MANY:
            errors.add(invalid(f"{field}.{part}", spec[part], text))


def _success_policy_rules(errors: FieldErrors, spec: Object, field: str) -> None:
    policy = spec["successPolicy"]
    rules = policy["rules"] or []
    if spec.get("completionMode", "NonIndexed") != "Indexed":
        shown = {
            "Rules": [
                {"SucceededIndexes": one.get("succeededIndexes"), "SucceededCount": one.get("succeededCount")}
                for one in rules
            ]
        }
        errors.add(invalid(field, shown, NEEDS_INDEXES))
        return
    if not rules:
        text = "at least one rules must be specified when the successPolicy is specified"
        errors.add(required(f"{field}.rules", text))
    if len(rules) > MAX_RULES:
        errors.add(too_many(f"{field}.rules", len(rules), MAX_RULES))
    for index, rule in enumerate(rules):
        _success_rule_rules(errors, rule, spec.get("completions", 0), f"{field}.rules[{index}]")


def _success_rule_rules(errors: FieldErrors, rule: Object, completions: int, field: str) -> None:
    indexes, count, total = rule.get("succeededIndexes"), rule.get("succeededCount"), 0
    if indexes is None and count is None:
        text = "at least one of succeededCount or succeededIndexes must be specified"
        errors.add(required(field, text))
    if indexes is not None:
        if size(indexes) > LONGEST_INDEXES:
            errors.add(too_long(f"{field}.succeededIndexes", LONGEST_INDEXES))
        try:
            total = sum(last - first + 1 for first, last in parse_indexes(indexes, completions))
        except ValueError as why:
            text = f"error parsing succeededIndexes: {why}"
            errors.add(invalid(f"{field}.succeededIndexes", indexes, text))
    if count is None:
        return
    here = f"{field}.succeededCount"
    if count < 0:
        errors.add(invalid(here, count, NEGATIVE))
    if count > completions:
        text = f"must be less than or equal to {completions} (the number of specified completions)"
        errors.add(invalid(here, count, text))
    if indexes is not None and count > total:
        text = (
            f"must be less than or equal to {total} "
            "(the number of indexes in the specified succeededIndexes field)"
        )
        errors.add(invalid(here, count, text))


def parse_indexes(text: str, completions: int) -> list[tuple[int, int]]:
    """Parse `1,3-5` into intervals. Raises ValueError, which says what is wrong, as Kubernetes does."""
    intervals: list[tuple[int, int]] = []
    for part in text.split(",") if text else ():
        first, last = _parse_interval(part, completions)
        if intervals and intervals[-1][1] >= first:
            raise ValueError(f"non-increasing order, previous: {intervals[-1][1]}, current: {first}")
        intervals.append((first, last))
    return intervals


def _parse_interval(text: str, completions: int) -> tuple[int, int]:
    limits = text.split("-")
    if len(limits) > 2:
        raise ValueError(
            f"the fragment {quoted_start(text)} violates the requirement that an index interval can have "
            "at most two parts separated by '-'"
        )
    numbers = []
    for limit in limits:
        if not re.fullmatch("[+-]?[0-9]{1,18}", limit):
            raise ValueError(f"cannot convert string to integer for index: {quoted_start(limit)}")
        if int(limit) >= completions:
            raise ValueError(f"too large index: {quoted_start(limit)}")
        numbers.append(int(limit))
    if len(numbers) > 1 and numbers[0] >= numbers[1]:
        raise ValueError(f"non-increasing order, previous: {numbers[0]}, current: {numbers[1]}")
    return numbers[0], numbers[-1]


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
            warnings=partial(job_warnings, names, features),
        ),
    )


def set_job_defaults(features: frozenset[str], new: Object) -> None:
    spec = new["spec"]
    defaults: dict[str, Any] = {"parallelism": 1, "backoffLimit": 6, "completionMode": "NonIndexed"}
    if "backoffLimitPerIndex" in spec:
        defaults["backoffLimit"] = 2**31 - 1
    if POD_REPLACEMENT in features:
        replaced = "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed"
        defaults["podReplacementPolicy"] = replaced
    if MANUAL_SELECTOR_DEFAULT in features:
        defaults["manualSelector"] = False
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
        prefixed = (names.key(UID_LABEL, "batch"), names.key(NAME_LABEL, "batch"))
        self._prefixed = prefixed if PREFIXED_JOB_LABELS in features else ()

    def prepare_create(self, new: Object) -> None:
        metadata, spec = new["metadata"], new["spec"]
        reset_status_and_generation(JOB_STATUS, new)
        if NO_JOB_TRACKING not in self._features:
            annotations = {**metadata.get("annotations", {}), self._tracking: ""}
            metadata["annotations"] = dict(sorted(annotations.items()))
        for part, gate in (*_GATED_PARTS, ("managedBy", MANAGED_BY)):
            if gate not in self._features:
                spec.pop(part, None)
        if PER_INDEX_LIMITS not in self._features and "podFailurePolicy" in spec:
            rules = spec["podFailurePolicy"]["rules"] or ()
            kept = [one for one in rules if FAIL_INDEX not in self._features or one["action"] != "FailIndex"]
            spec["podFailurePolicy"] = {"rules": kept}
        spec["template"] = without_disabled_template_fields(spec["template"], features=self._features)
        if not spec.get("manualSelector"):
            generate_selector(new, self._prefixed)

    def prepare_update(self, new: Object, old: Object) -> None:
        spec, before = new["spec"], old["spec"]
        for part, gate in _GATED_PARTS:
            if gate not in self._features and part not in before:
                spec.pop(part, None)
        spec["template"] = without_disabled_template_fields(
            spec["template"], before["template"], self._features
        )
        keep_status_and_bump_generation(new, old)

    def rules(self, errors: FieldErrors, new: Object) -> None:
        _generated_rules(errors, new, self._prefixed)
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
        labels = old["spec"]["template"]["metadata"].get("labels", {})
        _generated_rules(errors, new, self._prefixed if all(key in labels for key in self._prefixed) else ())
        own = errors.added_by(self._spec_rules, new, old)
        self._tracking_rules(errors, new, old)
        _indexed_name_rules(errors, new)
        metadata_update_rules(errors, new["metadata"], old["metadata"])
        errors.add_all(own)
        _immutable_rules(errors, new["spec"], old)

    def _tracking_rules(self, errors: FieldErrors, new: Object, old: Object) -> None:
        now, before = (self._tracking in one["metadata"].get("annotations", {}) for one in (new, old))
        if not before and now and NO_JOB_TRACKING not in errors.features:
            errors.add(forbidden(f"metadata.annotations[{self._tracking}]", "cannot add this annotation"))


def generate_selector(new: Object, prefixed: tuple[str, ...] = ()) -> None:
    """Set a selector and pod labels that are unique to this job; `prefixed` are later names of the two labels.

    Labels that `set_job_defaults` copied from the template are the same dict, and get the new ones too; equal labels
    that a client sent are another dict, and stay unchanged. `label_as_template` labels a job whose template had none.
    """
    metadata, spec = new["metadata"], new["spec"]
    template = spec["template"]["metadata"]
    labels = template.get("labels") or {}
    own = _own_labels(metadata, prefixed)
    selected = dict(sorted({**own, **labels}.items()))
    if metadata.get("labels") is labels:
        metadata["labels"] = dict(selected)
    selector = spec.get("selector", {})
    key = prefixed[0] if prefixed else UID_LABEL
    match_labels = {key: metadata["uid"], **selector.get("matchLabels", {})}
    labelled = OBJECT_META.arranged({**template, "labels": selected})
    spec["template"] = {**spec["template"], "metadata": labelled}
    spec["selector"] = {**selector, "matchLabels": dict(sorted(match_labels.items()))}
    new["spec"] = JOB_SPEC.arranged(spec)


def _own_labels(metadata: Object, prefixed: tuple[str, ...]) -> dict[str, str]:
    uid, name = metadata.get("uid", ""), metadata.get("name", "")
    return {UID_LABEL: uid, NAME_LABEL: name, **dict(zip(prefixed, (uid, name), strict=False))}


def label_as_template(new: Object) -> None:
    """Copy the labels of the template to the job, like `set_job_defaults`.

    In v1.25 that happens when the stored job is read, after validation and admission.
    """
    metadata, labels = new["metadata"], new["spec"]["template"]["metadata"].get("labels")
    if labels and not metadata.get("labels"):
        new["metadata"] = OBJECT_META.arranged({**metadata, "labels": labels})


def _generated_rules(errors: FieldErrors, new: Object, prefixed: tuple[str, ...]) -> None:
    """The selector and pod labels, whether generated or sent by a client, must name this job."""
    metadata, spec = new["metadata"], new["spec"]
    selector = spec.get("selector")
    if spec.get("manualSelector") or selector is None:
        return
    expected = _own_labels(metadata, prefixed)
    labels = spec["template"]["metadata"].get("labels", {})
    for key, value in expected.items():
        field = f"spec.template.metadata.labels[{key}]"
        if key not in labels:
            errors.add(required(field, f"must be '{value}'"))
        elif labels[key] != value:
            errors.add(invalid(field, format_labels(labels), f"must be '{value}'"))
    if selector_compiles(selector) and not label_selector_matches(selector, expected):
        errors.add(invalid("spec.selector", format_selector(selector), "`selector` not auto-generated"))


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
    before, features = old["spec"], errors.features
    template = before["template"]
    scheduling = before.get("suspend") and "startTime" not in old["status"]
    if SUSPENDED_SCHEDULING in features:
        scheduling = _is_at_rest(old)
    if scheduling:
        template = _with_scheduling_of(template, spec["template"], gates=ELASTIC_JOBS in features)
    if ELASTIC_JOBS in features and spec.get("completionMode") == "Indexed":
        _completion_rules(errors, spec, before)
    else:
        unchanged(errors, "spec.completions", spec.get("completions"), before.get("completions"))
    same_selector(errors, spec.get("selector"), before.get("selector"))
    if SUSPENDED_RESOURCES in features and before.get("suspend") and _is_at_rest(old):
        spec_before = _with_resources_of(template["spec"], spec["template"]["spec"])
        _same_part(errors, "spec.template.spec", POD_SPEC, spec["template"]["spec"], spec_before)
    else:
        _same_part(errors, "spec.template", POD_TEMPLATE_SPEC, spec["template"], template)
    unchanged(errors, "spec.completionMode", spec.get("completionMode"), before.get("completionMode"))
    policy, part = POD_FAILURE_POLICY, "podFailurePolicy"
    _same_part(errors, f"spec.{part}", policy, spec.get(part), before.get(part))
    for part in ("backoffLimitPerIndex", "managedBy"):
        unchanged(errors, f"spec.{part}", spec.get(part), before.get(part))
    policy, part = SUCCESS_POLICY, "successPolicy"
    _same_part(errors, f"spec.{part}", policy, spec.get(part), before.get(part))


def _same_part(
    errors: FieldErrors, field: str, struct: Struct, new: Object | None, old: Object | None
) -> None:
    if new != old:
        errors.add(invalid(field, shown(struct, new), IMMUTABLE))


def _completion_rules(errors: FieldErrors, spec: Object, before: Object) -> None:
    completions = spec.get("completions")
    if completions in (None, before.get("completions")) or completions == spec.get("parallelism"):
        return
    text = "can only be modified in tandem with spec.parallelism"
    errors.add(invalid("spec.completions", completions, text))


def _is_at_rest(job: Object) -> bool:
    """Whether a job is suspended and has no pods."""
    status = job["status"]
    rests = "startTime" not in status or _is_true(status, "Suspended")
    return bool(job["spec"].get("suspend")) and rests and not status.get("active")


def _with_resources_of(spec: Object, other: Object) -> Object:
    """Return the spec of a template with the resources of the other's containers."""
    kept = dict(spec)
    for part in ("containers", "initContainers"):
        ours, theirs = spec.get(part) or [], other.get(part) or []
        if ours and len(ours) == len(theirs):
            kept[part] = [
                {**one, "resources": another["resources"]} if one["name"] == another["name"] else one
                for one, another in zip(ours, theirs, strict=True)
            ]
    return kept


def _with_scheduling_of(template: Object, other: Object, *, gates: bool) -> Object:
    """Return the template with the scheduling directives of the other.

    These are mutable while a job is suspended and has never started.
    """
    metadata = _with_fields_of(template["metadata"], other["metadata"], "labels", "annotations")
    parts = ("nodeSelector", "tolerations", *(("schedulingGates",) if gates else ()))
    spec = _with_fields_of(template["spec"], other["spec"], *parts)
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
    not_negative(errors, new["status"], "status", "active", "succeeded", "failed", "ready", "terminating")
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
    if MANAGED_BY in errors.features:
        _finished_rules(errors, new, old)
    if SUCCESS_CRITERIA in errors.features:
        _success_criteria_rules(errors, new, old)
    if MANAGED_BY in errors.features:
        _progress_rules(errors, new, old)
    if SUCCESS_CRITERIA in errors.features:
        _success_criteria_update_rules(errors, new["status"], old["status"])


def _is_true(status: Object, condition: str) -> bool:
    return any(one["type"] == condition and one["status"] == "True" for one in status.get("conditions", ()))


def _is_finished(status: Object) -> bool:
    return _is_true(status, "Complete") or _is_true(status, "Failed")


def _finished_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    """Validate what controllers other than the built-in one may report; what the update leaves alone may stay."""
    spec, now, before = new["spec"], new["status"], old["status"]
    complete, failed, finished = _is_true(now, "Complete"), _is_true(now, "Failed"), _is_finished(now)
    started, ended = now.get("startTime"), now.get("completionTime")

    def changed(*parts: str) -> bool:
        return any(now.get(part) != before.get(part) for part in parts)

    def turned(*conditions: str) -> bool:
        return any(_is_true(now, one) != _is_true(before, one) for one in conditions)

    ends = finished != _is_finished(before)
    if turned("Complete", "Failed") and complete and failed:
        errors.add(_conditions_error("cannot set Complete=True and Failed=true conditions"))
    if turned("Complete", "FailureTarget") and complete and _is_true(now, "FailureTarget"):
        errors.add(_conditions_error("cannot set Complete=True and FailureTarget=true conditions"))
    if turned("Complete") or changed("completionTime"):
        if ended is not None and not complete:
            text = "cannot set completionTime when there is no Complete=True condition"
            errors.add(invalid("status.completionTime", ended, text))
        if ended is None and complete:
            errors.add(required("status.completionTime", "completionTime is required for Complete jobs"))
    if changed("startTime", "completionTime") and started and ended and micros_of(ended) < micros_of(started):
        errors.add(invalid("status.completionTime", ended, "must be equal to or after `startTime`"))
    if (turned("Failed") or changed("failedIndexes")) and failed and not _is_true(now, "FailureTarget"):
        errors.add(
            _conditions_error("cannot set Failed=True condition without the FailureTarget=true condition")
        )
    if turned("Complete", "SuccessCriteriaMet") and complete and not _is_true(now, "SuccessCriteriaMet"):
        errors.add(
            _conditions_error(
                "cannot set Complete=True condition without the SuccessCriteriaMet=true condition"
            )
        )
    if (ends or changed("active")) and finished and now.get("active", 0) > 0:
        errors.add(invalid("status.active", now["active"], "active>0 is invalid for finished job"))
    empty_and_suspended = spec.get("suspend") and spec.get("completions") == 0
    if (ends or changed("startTime")) and not empty_and_suspended and finished and started is None:
        errors.add(required("status.startTime", "startTime is required for finished job"))
    uncounted = now.get("uncountedTerminatedPods", {})
    if (ends or changed("uncountedTerminatedPods")) and finished and any(uncounted.values()):
        shown = {"Succeeded": uncounted.get("succeeded"), "Failed": uncounted.get("failed")}
        errors.add(invalid("status.uncountedTerminatedPods", shown, "must be empty for finished job"))
    _status_index_rules(errors, spec, now, before)
    if (ends or changed("terminating")) and finished and now.get("terminating", 0) > 0:
        errors.add(
            invalid("status.terminating", now["terminating"], "terminating>0 is invalid for finished job")
        )
    if changed("ready", "active") and now.get("ready", 0) > now.get("active", 0):
        errors.add(invalid("status.ready", now.get("ready", 0), "cannot set more ready pods than active"))


def _status_index_rules(errors: FieldErrors, spec: Object, now: Object, before: Object) -> None:
    completions, completed = spec.get("completions"), now.get("completedIndexes", "")
    failed, per_index = now.get("failedIndexes"), "backoffLimitPerIndex" in spec
    new_completed = completed != before.get("completedIndexes", "")
    new_failed = failed != before.get("failedIndexes")
    if new_completed and completions is not None:
        _index_format_rules(errors, completed, completions, "completedIndexes")
    if new_failed and completions is not None and per_index and failed is not None:
        _index_format_rules(errors, failed, completions, "failedIndexes")
    if new_completed and completed and spec.get("completionMode") != "Indexed":
        text = "cannot set non-empty completedIndexes when non-indexed completion mode"
        errors.add(invalid("status.completedIndexes", completed, text))
    if new_failed and not per_index and failed is not None:
        text = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        errors.add(invalid("status.failedIndexes", failed, text))
    if (new_failed or new_completed) and completions is not None and failed is not None:
        index = _first_overlap(completed, failed, completions)
        if index is not None:
            text = f"failedIndexes and completedIndexes overlap at index: {index}"
            errors.add(invalid("status.failedIndexes", failed, text))


def _index_format_rules(errors: FieldErrors, indexes: str, completions: int, part: str) -> None:
    try:
        parse_indexes(indexes, completions)
    except ValueError as why:
        errors.add(invalid(f"status.{part}", indexes, f"error parsing {part}: {why}"))


def _first_overlap(completed: str, failed: str, completions: int) -> int | None:
    """Return the first index in both lists; intervals that cannot be parsed are left out."""
    ours, theirs = (_valid_intervals(text, completions) for text in (completed, failed))
    at = other = 0
    while at < len(ours) and other < len(theirs):
        (first, last), (start, end) = ours[at], theirs[other]
        if first <= end and start <= last:
            return max(first, start)
        if first <= start:
            at += 1
        else:
            other += 1
    return None


def _valid_intervals(text: str, completions: int) -> list[tuple[int, int]]:
    found = []
    for part in text.split(",") if text else ():
        with suppress(ValueError):
            found.append(_parse_interval(part, completions))
    return found


def _conditions_error(text: str) -> FieldError:
    return _invalid_without_value("status.conditions", text)


def _success_criteria_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    spec, now, before = new["spec"], new["status"], old["status"]
    met = _is_true(now, "SuccessCriteriaMet")
    wide = WIDE_SUCCESS_CRITERIA in errors.features and (
        not errors.features.isdisjoint((MANAGED_BY, POD_REPLACEMENT))
        or _is_true(before, "SuccessCriteriaMet")
    )
    if not wide and met and spec.get("completionMode", "NonIndexed") != "Indexed":
        errors.add(_conditions_error("cannot set SuccessCriteriaMet to NonIndexed Job"))
    if met and _is_true(now, "Failed"):
        errors.add(_conditions_error("cannot set SuccessCriteriaMet=True and Failed=true conditions"))
    if met and _is_true(now, "FailureTarget"):
        errors.add(_conditions_error("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions"))
    if not wide and met and "successPolicy" not in spec:
        errors.add(_conditions_error("cannot set SuccessCriteriaMet=True for Job without SuccessPolicy"))
    if "successPolicy" in spec and not met and _is_true(now, "Complete"):
        text = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"
        errors.add(_conditions_error(text))


def _success_criteria_update_rules(errors: FieldErrors, now: Object, before: Object) -> None:
    met, was_met = (_is_true(status, "SuccessCriteriaMet") for status in (now, before))
    if was_met and not met:
        errors.add(_conditions_error("cannot disable the SuccessCriteriaMet=True condition"))
    if _is_true(before, "Complete") and not was_met and met:
        text = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
        errors.add(_conditions_error(text))


def _progress_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    """Counts do not shrink, and what has ended stays so."""
    spec, now, before = new["spec"], new["status"], old["status"]
    for condition in ("Failed", "Complete", "FailureTarget"):
        if _is_true(before, condition) and not _is_true(now, condition):
            errors.add(_conditions_error(f"cannot disable the terminal {condition}=True condition"))
    elastic = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")
    for part in ("failed", *(() if elastic else ("succeeded",))):
        if now.get(part, 0) < before.get(part, 0):
            text = f"cannot decrease the {part} counter"
            errors.add(invalid(f"status.{part}", now.get(part, 0), text))
    ended = now.get("completionTime"), before.get("completionTime")
    if None not in ended and ended[0] != ended[1]:
        errors.add(invalid("status.completionTime", ended[0], IMMUTABLE))
    resumes = _is_true(before, "Suspended") and any(
        one["type"] == "Suspended" and one["status"] == "False" for one in now.get("conditions", ())
    )
    started = before.get("startTime")
    if started is not None and now.get("startTime") != started and not resumes and not spec.get("suspend"):
        text = "field is immutable for unsuspended job once set"
        errors.add(invalid("status.startTime", now.get("startTime"), text))


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
    _schedule_rules(errors, spec, None if old is None else old["spec"])
    not_negative(errors, spec, "spec", "startingDeadlineSeconds")
    if old is None or old["spec"].get("timeZone") != spec.get("timeZone"):
        _zone_rules(errors, spec.get("timeZone"))
    if spec["concurrencyPolicy"] not in CONCURRENCY_POLICIES:
        policy = spec["concurrencyPolicy"]
        errors.add(not_supported("spec.concurrencyPolicy", policy, CONCURRENCY_POLICIES))
    _job_rules(errors, names, spec["jobTemplate"]["spec"], None if old is None else _pod_template(old))
    not_negative(errors, spec, "spec", "successfulJobsHistoryLimit", "failedJobsHistoryLimit")


def _schedule_rules(errors: FieldErrors, spec: Object, old: Object | None) -> None:
    schedule = spec["schedule"]
    if not schedule:
        errors.add(required("spec.schedule"))
        return
    try:
        parse_schedule(schedule)
    except InvalidSchedule as why:
        errors.add(invalid("spec.schedule", schedule, str(why)))
    may_have_zone = NO_ZONE_IN_SCHEDULES not in errors.features or "TZ" in (old or {}).get("schedule", "")
    if "TZ" in schedule and not may_have_zone:
        text = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        errors.add(invalid("spec.schedule", schedule, text))
    elif "TZ" in schedule and "timeZone" in spec:
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
        errors.add(invalid(f"{field}.selector", format_selector(job["selector"]), text))
    if job.get("manualSelector"):
        text = 'Unsupported value: true: supported values: "nil", "false"'
        errors.add(FieldError("FieldValueNotSupported", f"{field}.manualSelector", text))


def cron_job_warnings(names: Names, features: frozenset[str], new: Object, old: Object | None) -> list[str]:
    if old is not None and new["spec"] is old["spec"]:
        return []  # only the status was written
    changed = old is None or new["metadata"].get("generation") != old["metadata"].get("generation")
    found = name_warnings(new, features) if old is None else []
    if changed:
        found += _size_warnings(new["spec"]["jobTemplate"]["spec"], "spec.jobTemplate.spec", features)
        found += template_warnings(_pod_template(new), POD_TEMPLATE, names, features)
    if "TZ" in new["spec"]["schedule"] and NO_ZONE_IN_SCHEDULES in features:
        if old is not None:
            page = f"https://{names.key_domain}/docs/concepts/workloads/controllers/cron-jobs/"
            found.append(
                "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, "
                f"see {page} for more details"
            )
    elif "TZ" in new["spec"]["schedule"]:
        page = f"https://{names.key_domain}/docs/concepts/workloads/controllers/cron-jobs/"
        found.append(
            f"CRON_TZ or TZ used in spec.spec.schedule is not officially supported, see {page} for more details"
        )
    return found


def job_warnings(names: Names, features: frozenset[str], new: Object, old: Object | None) -> list[str]:
    found = name_warnings(new, features) if old is None else []
    if old is None or new["metadata"].get("generation") != old["metadata"].get("generation"):
        found += _size_warnings(new["spec"], "spec", features)
    return found + spec_warnings(names, features, new, old)


def _size_warnings(spec: Object, field: str, features: frozenset[str]) -> list[str]:
    if FAIL_INDEX not in features or spec.get("completionMode") != "Indexed":
        return []
    if spec.get("completions", 0) <= MANY_COMPLETIONS or spec.get("parallelism", 0) <= MOST_OF_MANY:
        return []
    return [
        f"{field}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than "
        "10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
    ]


def declare(names: Names, features: frozenset[str] = frozenset()) -> tuple[Definition, ...]:
    return define_cron_job(names, features), define_job(names, features)
