"""Deployment: replicated pods, which its controller replaces step by step when the pod template changes.

`strategy` limits the steps: by default, maxSurge and maxUnavailable are 25%. A change of annotations increments the
generation too, because the controller copies them to ReplicaSets.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from actors.errors import Resource
from actors.kinds.apps.replicas import selected_template_rules
from actors.kinds.core.pod_template import (
    POD_TEMPLATE_SPEC,
    set_template_defaults,
    spec_warnings,
    without_disabled_fields,
)
from actors.kinds.declaration.columns import AGE, NAME, Column
from actors.kinds.declaration.definition import (
    Definition,
    DiscoveryNames,
    Storage,
    Strategy,
    Subresource,
    Table,
    keep_spec,
    keep_status_and_bump_generation,
    reset_status_and_generation,
)
from actors.kinds.declaration.meta import LABEL_SELECTOR, METADATA, metadata_update_rules
from actors.kinds.declaration.scale import scale
from actors.kinds.declaration.workloads import (
    CONTAINERS,
    IMAGES,
    annotation_number,
    at_most_100_percent,
    collision_rules,
    count_cell,
    int_or_percent_rules,
    not_negative,
    number_in,
    ready_cell,
    replica_status_rules,
    selector_of,
)
from actors.kinds.schema.decoder import NotDecodable
from actors.kinds.schema.fields import (
    BOOL,
    INT32,
    INT64,
    INT_OR_STRING,
    STRING,
    TIME,
    Field,
    ListOf,
    Struct,
)
from actors.kinds.validation import (
    NEGATIVE,
    FieldErrors,
    forbidden,
    invalid,
    name_is_subdomain,
    not_supported,
    required,
    unchanged,
)
from actors.messages import Object
from actors.names import Names

STRATEGIES: Final = ("Recreate", "RollingUpdate")
ROLLBACK: Final = "deprecated.deployment.rollback.to"  # the field spec.rollbackTo of an older version

ROLLING_UPDATE = Struct(
    "apps.v1.RollingUpdateDeployment",
    Field("maxUnavailable", INT_OR_STRING, 1, pointer=True),
    Field("maxSurge", INT_OR_STRING, 2, pointer=True),
)
STRATEGY = Struct(
    "apps.v1.DeploymentStrategy",
    Field("type", STRING, 1, enum=STRATEGIES, default="RollingUpdate"),
    Field("rollingUpdate", ROLLING_UPDATE, 2, pointer=True),
)
SPEC = Struct(
    "apps.v1.DeploymentSpec",
    Field("replicas", INT32, 1, pointer=True, default=1),
    Field("selector", LABEL_SELECTOR, 2, pointer=True, required=True, always=True),
    Field("template", POD_TEMPLATE_SPEC, 3, required=True),
    Field("strategy", STRATEGY, 4, patch="retainKeys"),
    Field("minReadySeconds", INT32, 5),
    Field("revisionHistoryLimit", INT32, 6, pointer=True, default=10),
    Field("paused", BOOL, 7),
    Field("progressDeadlineSeconds", INT32, 9, pointer=True, default=600),
)
CONDITION = Struct(
    "apps.v1.DeploymentCondition",
    Field("type", STRING, 1, required=True, always=True),
    Field("status", STRING, 2, required=True, always=True),
    Field("lastUpdateTime", TIME, 6),
    Field("lastTransitionTime", TIME, 7),
    Field("reason", STRING, 4),
    Field("message", STRING, 5),
)
STATUS = Struct(
    "apps.v1.DeploymentStatus",
    Field("observedGeneration", INT64, 1),
    Field("replicas", INT32, 2),
    Field("updatedReplicas", INT32, 3),
    Field("readyReplicas", INT32, 7),
    Field("availableReplicas", INT32, 4),
    Field("unavailableReplicas", INT32, 5),
    Field("conditions", ListOf(CONDITION), 6, patch="merge", merge_key="type"),
    Field("collisionCount", INT32, 8, pointer=True),
)
DEPLOYMENT = Struct("apps.v1.Deployment", METADATA, Field("spec", SPEC, 2), Field("status", STATUS, 3))

COLUMNS: Final = (
    NAME,
    Column("Ready", "string", "Ready pods of desired pods.", ready_cell),
    Column(
        "Up-to-date",
        "string",
        "Pods created from the current template.",
        count_cell("status", "updatedReplicas"),
    ),
    Column(
        "Available",
        "string",
        "Pods that have been ready for minReadySeconds.",
        count_cell("status", "availableReplicas"),
    ),
    AGE,
    CONTAINERS,
    IMAGES,
    Column(
        "Selector", "string", "Label selector of its pods.", lambda stored, _: selector_of(stored), priority=1
    ),
)


def define(names: Names, features: frozenset[str] = frozenset()) -> Definition:
    return Definition(
        group="apps",
        version="v1",
        kind="Deployment",
        plural="deployments",
        names=DiscoveryNames(short_names=("deploy",), categories=("all",)),
        namespaced=True,
        check_name=name_is_subdomain,
        fields=DEPLOYMENT,
        set_defaults=set_defaults,
        subresources=(
            scale(selector_of, Resource("apps", "deployments/scale")),
            Subresource(
                name="status",
                prepare=prepare_status,
                validate=status_update_rules,
                reset_fields=("spec", "metadata.labels"),
            ),
        ),
        storage=Storage(field_annotations=frozenset((ROLLBACK,))),
        table=Table(COLUMNS),
        strategy=Strategy(
            prepare_for_create=partial(prepare_create, features),
            prepare_for_update=partial(prepare_update, features),
            validate_create=partial(rules, names=names),
            validate_update=partial(update_rules, names=names),
            warnings=partial(spec_warnings, names),
        ),
    )


def set_defaults(new: Object) -> None:
    spec = new["spec"]
    if spec["strategy"]["type"] == "RollingUpdate":
        sent = spec["strategy"].get("rollingUpdate", {})
        spec["strategy"]["rollingUpdate"] = {"maxUnavailable": "25%", "maxSurge": "25%", **sent}
    set_template_defaults(spec["template"])
    _normalize_rollback(new["metadata"])


def _normalize_rollback(metadata: Object) -> None:
    annotations = metadata.get("annotations", {})
    revision = annotations.get(ROLLBACK)
    if revision is None:
        return
    if not revision:
        del annotations[ROLLBACK]
        if not annotations:
            del metadata["annotations"]
    elif annotation_number(revision) is None:
        why = f"failed to parse annotation[{ROLLBACK}]={revision} as int64"
        raise NotDecodable(f'Deployment in version "v1" cannot be handled as a Deployment: {why}')


def prepare_create(features: frozenset[str], new: Object) -> None:
    reset_status_and_generation(STATUS, new)
    new["spec"]["template"] = without_disabled_fields(new["spec"]["template"], features=features)


def prepare_update(features: frozenset[str], new: Object, old: Object) -> None:
    spec = new["spec"]
    spec["template"] = without_disabled_fields(spec["template"], old["spec"]["template"], features)
    keep_status_and_bump_generation(new, old)
    metadata, before = new["metadata"], old["metadata"]
    if metadata.get("annotations") != before.get("annotations"):
        metadata["generation"] = before.get("generation", 0) + 1


def prepare_status(new: Object, old: Object) -> None:
    keep_spec(new, old)
    new["metadata"].pop("labels", None)
    if "labels" in old["metadata"]:
        new["metadata"]["labels"] = old["metadata"]["labels"]


def rules(errors: FieldErrors, new: Object, old: Object | None = None, *, names: Names) -> None:
    spec = new["spec"]
    not_negative(errors, spec, "spec", "replicas")
    selected_template_rules(errors, names, spec, None if old is None else old["spec"])
    _strategy_rules(errors, spec["strategy"], "spec.strategy")
    not_negative(errors, spec, "spec", "minReadySeconds", "revisionHistoryLimit")
    _rollback_rules(errors, new["metadata"].get("annotations", {}))
    _deadline_rules(errors, spec)


def _strategy_rules(errors: FieldErrors, strategy: Object, field: str) -> None:
    rolling = strategy.get("rollingUpdate")
    if strategy["type"] == "RollingUpdate":
        if rolling is None:
            errors.add(required(f"{field}.rollingUpdate", "this should be defaulted and never be nil"))
            return
        _rolling_update_rules(errors, rolling, f"{field}.rollingUpdate")
        return
    if strategy["type"] != "Recreate":
        errors.add(not_supported(field, strategy["type"], STRATEGIES))
        return
    text = "may not be specified when strategy `type` is 'Recreate'"
    if rolling is not None:
        errors.add(forbidden(f"{field}.rollingUpdate", text))


def _rolling_update_rules(errors: FieldErrors, rolling: Object, field: str) -> None:
    max_unavailable, max_surge = rolling["maxUnavailable"], rolling["maxSurge"]
    int_or_percent_rules(errors, max_unavailable, f"{field}.maxUnavailable")
    int_or_percent_rules(errors, max_surge, f"{field}.maxSurge")
    if not number_in(max_unavailable) and not number_in(max_surge):
        text = "may not be 0 when `maxSurge` is 0"
        errors.add(invalid(f"{field}.maxUnavailable", max_unavailable, text))
    at_most_100_percent(errors, max_unavailable, f"{field}.maxUnavailable")


def _rollback_rules(errors: FieldErrors, annotations: dict[str, str]) -> None:
    revision = int(annotations.get(ROLLBACK, "0"))
    if revision < 0:
        errors.add(invalid("spec.rollback.version", revision, NEGATIVE))


def _deadline_rules(errors: FieldErrors, spec: Object) -> None:
    field = "spec.progressDeadlineSeconds"
    deadline = spec["progressDeadlineSeconds"]
    if deadline < 0:
        errors.add(invalid(field, deadline, NEGATIVE))
    if deadline <= spec.get("minReadySeconds", 0):
        errors.add(invalid(field, deadline, "must be greater than minReadySeconds"))


def update_rules(errors: FieldErrors, new: Object, old: Object, *, names: Names) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    rules(errors, new, old, names=names)
    unchanged(errors, "spec.selector", new["spec"]["selector"], old["spec"]["selector"])


def status_update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    status = new["status"]
    parts = ("updatedReplicas", "readyReplicas", "availableReplicas")
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    not_negative(errors, status, "status", "observedGeneration", "replicas", *parts)
    not_negative(errors, status, "status", "unavailableReplicas", "collisionCount")
    replica_status_rules(errors, status, parts)
    collision_rules(errors, new, old)
