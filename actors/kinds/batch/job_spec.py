"""JobSpec, which Job and the jobTemplate of CronJob share.

Only a Job gets the defaults of a job (`batch/job`); a jobTemplate gets only those of its pod template.
"""

from __future__ import annotations

from typing import Final

from actors.kinds.batch.failure_policy import POD_FAILURE_POLICY, failure_policy_rules
from actors.kinds.core.pod_template import POD_TEMPLATE_SPEC, pod_template_rules
from actors.kinds.declaration.meta import LABEL_SELECTOR
from actors.kinds.declaration.workloads import not_negative
from actors.kinds.schema.fields import BOOL, INT32, INT64, STRING, Field, Struct
from actors.kinds.validation import FieldErrors, invalid, not_supported, required
from actors.messages import Object
from actors.names import Names

COMPLETION_MODES: Final = ("NonIndexed", "Indexed")
MAX_INDEXED_PARALLELISM: Final = 100_000

JOB_SPEC = Struct(
    "batch.v1.JobSpec",
    Field("parallelism", INT32, 1, pointer=True),
    Field("completions", INT32, 2, pointer=True),
    Field("activeDeadlineSeconds", INT64, 3, pointer=True),
    Field("podFailurePolicy", POD_FAILURE_POLICY, 11, pointer=True),
    Field("backoffLimit", INT32, 7, pointer=True),
    Field("selector", LABEL_SELECTOR, 4, pointer=True),
    Field("manualSelector", BOOL, 5, pointer=True),
    Field("template", POD_TEMPLATE_SPEC, 6, required=True),
    Field("ttlSecondsAfterFinished", INT32, 8, pointer=True),
    Field("completionMode", STRING, 9, pointer=True),
    Field("suspend", BOOL, 10, pointer=True),
)

_COUNTS: Final = (
    *("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit"),
    "ttlSecondsAfterFinished",
)


def job_spec_rules(
    errors: FieldErrors, names: Names, spec: Object, field: str, old_template: Object | None = None
) -> None:
    """Validate all but the selector, which is required in a Job and invalid in a jobTemplate."""
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
