"""StatefulSet: pods with stable names and storage, created and replaced in order.

Only the fields in MUTABLE can change after creation. Two fields belong to alpha features, and are dropped while these
are disabled: persistentVolumeClaimRetentionPolicy, and maxUnavailable of rollingUpdate.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from actors.kinds.core import persistent_volume_claim as claims
from actors.kinds.core.pod_template import (
    POD_TEMPLATE_SPEC,
    set_template_defaults,
    spec_warnings,
    template_metadata_rules,
    without_disabled_fields,
)
from actors.kinds.declaration.columns import AGE, NAME, Column
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
from actors.kinds.declaration.meta import (
    LABEL_SELECTOR,
    METADATA,
    TEMPLATE_META,
    metadata_rules,
    metadata_update_rules,
)
from actors.kinds.declaration.scale import scale
from actors.kinds.declaration.workloads import (
    CONTAINERS,
    IMAGES,
    always_restart_rules,
    at_most_100_percent,
    collision_rules,
    condition_struct,
    int_or_percent_rules,
    not_negative,
    number_in,
    ready_cell,
    replica_status_rules,
    selector_compiles,
    selector_matches_rules,
    selector_of,
    selector_rules,
)
from actors.kinds.features import AUTO_DELETE, MAX_UNAVAILABLE
from actors.kinds.schema.fields import INT32, INT64, INT_OR_STRING, STRING, Field, ListOf, Struct
from actors.kinds.validation import (
    FieldErrors,
    forbidden,
    invalid,
    name_is_subdomain,
    not_supported,
    required,
)
from actors.messages import Object
from actors.names import Names

STRATEGIES: Final = ("OnDelete", "RollingUpdate")
POD_MANAGEMENT_POLICIES: Final = ("OrderedReady", "Parallel")
RETENTION_POLICIES: Final = ("Retain", "Delete")
MUTABLE: Final = (
    *("replicas", "template", "updateStrategy", "minReadySeconds"),
    "persistentVolumeClaimRetentionPolicy",
)

ROLLING_UPDATE = Struct(
    "apps.v1.RollingUpdateStatefulSetStrategy",
    Field("partition", INT32, 1, pointer=True),
    Field("maxUnavailable", INT_OR_STRING, 2, pointer=True),
)
STRATEGY = Struct(
    "apps.v1.StatefulSetUpdateStrategy",
    Field("type", STRING, 1, enum=STRATEGIES),
    Field("rollingUpdate", ROLLING_UPDATE, 2, pointer=True),
)
RETENTION = Struct(
    "apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy",
    Field("whenDeleted", STRING, 1),
    Field("whenScaled", STRING, 2),
)
CLAIM_TEMPLATE = Struct(
    "core.v1.PersistentVolumeClaim",
    Field("kind", STRING, 0, default="PersistentVolumeClaim"),
    Field("apiVersion", STRING, 0, default="v1"),
    Field("metadata", TEMPLATE_META, 1),
    Field("spec", claims.SPEC, 2),
    Field("status", claims.STATUS, 3),
)
SPEC = Struct(
    "apps.v1.StatefulSetSpec",
    Field("replicas", INT32, 1, pointer=True, default=1),
    Field("selector", LABEL_SELECTOR, 2, pointer=True, required=True, always=True),
    Field("template", POD_TEMPLATE_SPEC, 3, required=True),
    Field("volumeClaimTemplates", ListOf(CLAIM_TEMPLATE), 4),
    Field("serviceName", STRING, 5, required=True, always=True),
    Field("podManagementPolicy", STRING, 6, enum=POD_MANAGEMENT_POLICIES, default="OrderedReady"),
    Field("updateStrategy", STRATEGY, 7),
    Field("revisionHistoryLimit", INT32, 8, pointer=True, default=10),
    Field("minReadySeconds", INT32, 9),
    Field("persistentVolumeClaimRetentionPolicy", RETENTION, 10, pointer=True),
)
STATUS = Struct(
    "apps.v1.StatefulSetStatus",
    Field("observedGeneration", INT64, 1),
    Field("replicas", INT32, 2, required=True, always=True),
    Field("readyReplicas", INT32, 3),
    Field("currentReplicas", INT32, 4),
    Field("updatedReplicas", INT32, 5),
    Field("currentRevision", STRING, 6),
    Field("updateRevision", STRING, 7),
    Field("collisionCount", INT32, 9, pointer=True),
    Field(
        "conditions",
        ListOf(condition_struct("apps.v1.StatefulSetCondition")),
        10,
        patch="merge",
        merge_key="type",
    ),
    Field("availableReplicas", INT32, 11, always=True),
)
STATEFUL_SET = Struct("apps.v1.StatefulSet", METADATA, Field("spec", SPEC, 2), Field("status", STATUS, 3))

COLUMNS: Final = (
    NAME,
    Column("Ready", "string", "Ready pods of desired pods.", ready_cell),
    AGE,
    CONTAINERS,
    IMAGES,
)


def define(names: Names, features: frozenset[str] = frozenset()) -> Definition:
    return Definition(
        group="apps",
        version="v1",
        kind="StatefulSet",
        plural="statefulsets",
        names=DiscoveryNames(short_names=("sts",), categories=("all",)),
        namespaced=True,
        check_name=name_is_subdomain,
        fields=STATEFUL_SET,
        set_defaults=partial(set_defaults, features),
        subresources=(
            scale(selector_of),
            Subresource(name="status", prepare=prepare_status, validate=status_update_rules),
        ),
        table=Table(COLUMNS),
        strategy=Strategy(
            prepare_for_create=partial(prepare_create, features),
            prepare_for_update=partial(prepare_update, features),
            validate_create=partial(create_rules, names=names),
            validate_update=partial(update_rules, names=names),
            warnings=partial(spec_warnings, names),
        ),
    )


def set_defaults(features: frozenset[str], new: Object) -> None:
    spec = new["spec"]
    _set_strategy_defaults(features, spec["updateStrategy"])
    if AUTO_DELETE in features:
        sent = spec.get("persistentVolumeClaimRetentionPolicy", {})
        spec["persistentVolumeClaimRetentionPolicy"] = {
            part: sent.get(part, "Retain") for part in ("whenDeleted", "whenScaled")
        }
    for claim in spec.get("volumeClaimTemplates", ()):
        claim["kind"], claim["apiVersion"] = "PersistentVolumeClaim", "v1"
        claims.set_defaults(claim)
    set_template_defaults(spec["template"])


def _set_strategy_defaults(features: frozenset[str], strategy: Object) -> None:
    if "type" not in strategy:
        rolling = strategy.get("rollingUpdate", {})
        strategy.clear()
        strategy.update({"type": "RollingUpdate", "rollingUpdate": rolling})
    if strategy["type"] != "RollingUpdate" or "rollingUpdate" not in strategy:
        return
    defaults = {"partition": 0, "maxUnavailable": 1} if MAX_UNAVAILABLE in features else {"partition": 0}
    strategy["rollingUpdate"] = {**defaults, **strategy["rollingUpdate"]}


def prepare_create(features: frozenset[str], new: Object) -> None:
    reset_status_and_generation(STATUS, new)
    _drop_disabled_fields(features, new["spec"], {})
    new["spec"]["template"] = without_disabled_fields(new["spec"]["template"], features=features)


def prepare_update(features: frozenset[str], new: Object, old: Object) -> None:
    _drop_disabled_fields(features, new["spec"], old["spec"])
    spec = new["spec"]
    spec["template"] = without_disabled_fields(spec["template"], old["spec"]["template"], features)
    keep_status_and_bump_generation(new, old)


def prepare_status(new: Object, old: Object) -> None:
    keep_spec(new, old)


def _drop_disabled_fields(features: frozenset[str], spec: Object, before: Object) -> None:
    policy = "persistentVolumeClaimRetentionPolicy"
    if AUTO_DELETE not in features and policy not in before:
        spec.pop(policy, None)
    had = "maxUnavailable" in before.get("updateStrategy", {}).get("rollingUpdate", {})
    if MAX_UNAVAILABLE not in features and not had:
        strategy = spec["updateStrategy"]
        rolling = strategy.get("rollingUpdate", {})
        if "maxUnavailable" in rolling:
            kept = {part: value for part, value in rolling.items() if part != "maxUnavailable"}
            spec["updateStrategy"] = {**strategy, "rollingUpdate": kept}


def create_rules(errors: FieldErrors, new: Object, *, names: Names) -> None:
    """Require serviceName only when the rest of the object is valid, as Kubernetes does."""
    if not errors.added_by(rules, names, new) and not new["spec"]["serviceName"]:
        errors.add(required("spec.serviceName"))


def rules(errors: FieldErrors, names: Names, new: Object, old: Object | None = None) -> None:
    spec = new["spec"]
    selector, template = spec["selector"], spec["template"]
    _policy_rules(errors, spec["podManagementPolicy"])
    _strategy_rules(errors, spec["updateStrategy"], "spec.updateStrategy")
    _retention_rules(errors, spec.get("persistentVolumeClaimRetentionPolicy", {}))
    not_negative(errors, spec, "spec", "replicas", "minReadySeconds")
    selector_rules(errors, selector, "spec.selector", "empty selector is invalid for statefulset")
    if not selector_compiles(selector):
        errors.add(invalid("spec.selector", selector, ""))
    else:
        if selector != {}:
            selector_matches_rules(errors, selector, template, "spec.template")
        before = None if old is None else old["spec"]["template"]
        template_metadata_rules(errors, template, "spec.template", names, before)
    always_restart_rules(errors, template, "spec.template", "StatefulSet")


def _policy_rules(errors: FieldErrors, policy: str) -> None:
    if policy not in POD_MANAGEMENT_POLICIES:
        errors.add(invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'"))


def _strategy_rules(errors: FieldErrors, strategy: Object, field: str) -> None:
    rolling = strategy.get("rollingUpdate")
    if strategy["type"] == "RollingUpdate":
        if rolling is not None:
            _rolling_update_rules(errors, rolling, f"{field}.rollingUpdate")
        return
    if strategy["type"] != "OnDelete":
        errors.add(invalid(field, strategy, "must be 'RollingUpdate' or 'OnDelete'"))
        return
    if rolling is not None:
        errors.add(
            invalid(f"{field}.rollingUpdate", rolling, "only allowed for updateStrategy 'RollingUpdate'")
        )


def _rolling_update_rules(errors: FieldErrors, rolling: Object, field: str) -> None:
    not_negative(errors, rolling, field, "partition")
    max_unavailable = rolling.get("maxUnavailable")
    if max_unavailable is None:
        return
    here = f"{field}.maxUnavailable"
    int_or_percent_rules(errors, max_unavailable, here)
    if not number_in(max_unavailable):
        errors.add(invalid(here, max_unavailable, "cannot be 0"))
    at_most_100_percent(errors, max_unavailable, here)


def _retention_rules(errors: FieldErrors, policy: Object) -> None:
    field = "spec.persistentVolumeClaimRetentionPolicy"
    for part in ("whenDeleted", "whenScaled"):
        if policy and policy.get(part, "") not in RETENTION_POLICIES:
            errors.add(not_supported(f"{field}.{part}", policy.get(part, ""), RETENTION_POLICIES))


def update_rules(errors: FieldErrors, new: Object, old: Object, *, names: Names) -> None:
    metadata_rules(errors, new["metadata"], namespaced=True, check_name=name_is_subdomain)
    rules(errors, names, new, old)
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    if _immutable_fields(new["spec"]) != _immutable_fields(old["spec"]):
        text = (
            "updates to statefulset spec for fields other than 'replicas', 'template', 'updateStrategy', "
            "'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
        )
        errors.add(forbidden("spec", text))


def _immutable_fields(spec: Object) -> Object:
    return {part: value for part, value in spec.items() if part not in MUTABLE}


def status_update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    parts = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
    not_negative(errors, new["status"], "status", "replicas", *parts, "observedGeneration", "collisionCount")
    replica_status_rules(errors, new["status"], parts, ready="status.readyReplicas")
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    collision_rules(errors, new, old)
