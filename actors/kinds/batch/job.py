"""Job: pods that run until enough of them have succeeded.

Unless `manualSelector` is true, the server generates the selector and the labels of the pods from the job's uid, so
that no job selects the pods of another. A delete without a propagation policy orphans the pods.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from actors.kinds.batch import failure_policy
from actors.kinds.batch.job_spec import JOB_SPEC, job_spec_rules
from actors.kinds.core.pod_template import set_template_defaults, spec_warnings, without_disabled_fields
from actors.kinds.declaration.columns import AGE, NAME, SECOND, Column, human_duration, since
from actors.kinds.declaration.definition import (
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
from actors.kinds.declaration.meta import (
    METADATA,
    OBJECT_META,
    label_selector_matches,
    label_selector_rules,
    metadata_rules,
    metadata_update_rules,
)
from actors.kinds.declaration.workloads import (
    CONTAINERS,
    IMAGES,
    SELECTOR,
    not_negative,
    selector_compiles,
    selector_matches_rules,
)
from actors.kinds.features import FAILURE_POLICY
from actors.kinds.schema.fields import INT32, STRING, STRINGS, TIME, Field, ListOf, Struct
from actors.kinds.validation import (
    FieldErrors,
    dns_label,
    duplicate,
    forbidden,
    invalid,
    name_is_subdomain,
    required,
    unchanged,
)
from actors.kinds.values.go_format import format_labels
from actors.kinds.values.times import micros_of
from actors.messages import Object
from actors.names import Names

UID_LABEL, NAME_LABEL = "controller-uid", "job-name"
ORPHAN_WARNING: Final = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them "
    "or set propagationPolicy=Orphan to suppress this warning"
)

CONDITION = Struct(
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
STATUS = Struct(
    "batch.v1.JobStatus",
    Field("conditions", ListOf(CONDITION), 1, patch="merge", merge_key="type", list_type="atomic"),
    Field("startTime", TIME, 2, pointer=True),
    Field("completionTime", TIME, 3, pointer=True),
    Field("active", INT32, 4),
    Field("succeeded", INT32, 5),
    Field("failed", INT32, 6),
    Field("completedIndexes", STRING, 7),
    Field("uncountedTerminatedPods", UNCOUNTED_PODS, 8, pointer=True),
    Field("ready", INT32, 9, pointer=True),
)
JOB = Struct("batch.v1.Job", METADATA, Field("spec", JOB_SPEC, 2), Field("status", STATUS, 3))


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


COLUMNS: Final = (
    NAME,
    Column("Completions", "string", "Succeeded pods of required completions.", _completions_cell),
    Column("Duration", "string", "Time from start to completion, or until now.", _duration_cell),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
)


def define(names: Names, features: frozenset[str] = frozenset()) -> Definition:
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
        set_defaults=set_defaults,
        subresources=(Subresource(name="status", prepare=keep_spec, validate=status_update_rules),),
        deletion=Deletion(orphans_by_default=True, default_policy_warning=ORPHAN_WARNING),
        selection=Selection(
            fields={"status.successful": lambda stored: str(stored["status"].get("succeeded", 0))},
            own_label_conversion=True,
            unsupported_message='field label "{label}" not supported for Job',
        ),
        table=Table(COLUMNS),
        strategy=Strategy(
            prepare_for_create=jobs.prepare_create,
            prepare_for_update=jobs.prepare_update,
            validate_create=jobs.rules,
            validate_update=jobs.update_rules,
            canonicalize=label_as_template,
            warnings=partial(spec_warnings, names),
        ),
    )


def set_defaults(new: Object) -> None:
    spec = new["spec"]
    defaults: dict[str, Any] = {"parallelism": 1, "backoffLimit": 6, "completionMode": "NonIndexed"}
    if "completions" not in spec and "parallelism" not in spec:
        defaults["completions"] = 1
    new["spec"] = spec = JOB_SPEC.arranged({**defaults, "suspend": False, **spec})
    label_as_template(new)
    if "podFailurePolicy" in spec:
        failure_policy.set_defaults(spec["podFailurePolicy"])
    set_template_defaults(spec["template"])


class Jobs:
    """Strategy of jobs in one dialect, with the enabled alpha `features`."""

    def __init__(self, names: Names, features: frozenset[str]) -> None:
        self._names, self._features = names, features
        self._tracking = names.key("job-tracking", "batch")

    def prepare_create(self, new: Object) -> None:
        metadata, spec = new["metadata"], new["spec"]
        reset_status_and_generation(STATUS, new)
        annotations = {**metadata.get("annotations", {}), self._tracking: ""}
        metadata["annotations"] = dict(sorted(annotations.items()))
        if FAILURE_POLICY not in self._features:
            spec.pop("podFailurePolicy", None)
        spec["template"] = without_disabled_fields(spec["template"], features=self._features)
        if not spec.get("manualSelector"):
            generate_selector(new)

    def prepare_update(self, new: Object, old: Object) -> None:
        spec, before = new["spec"], old["spec"]
        if FAILURE_POLICY not in self._features and "podFailurePolicy" not in before:
            spec.pop("podFailurePolicy", None)
        spec["template"] = without_disabled_fields(spec["template"], before["template"], self._features)
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

    Labels that `set_defaults` copied from the template are the identical dict, and get the same; equal labels that a
    client sent are another dict, and stay unchanged. `label_as_template` labels a job whose template had none.
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
    """As `set_defaults` does; in v1.25 reading the stored job back does it, after validation and admission."""
    metadata, labels = new["metadata"], new["spec"]["template"]["metadata"].get("labels")
    if labels and not metadata.get("labels"):
        new["metadata"] = OBJECT_META.arranged({**metadata, "labels": labels})


def _generated_rules(errors: FieldErrors, new: Object) -> None:
    """The selector and pod labels that are generated, or that a client sent in their place, name this job."""
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
    """The template with the scheduling directives of the other.

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


def status_update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
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
