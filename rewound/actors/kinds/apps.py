"""The apps group (v1): workload controllers that keep pods running.

ControllerRevision is a snapshot of a workload, which its controller stores for rollbacks. The controller alone defines
`data`, which is immutable. Only `revision` changes: a rollback to an old snapshot gives it a new number.

DaemonSet runs one pod on every node that the pod template can be scheduled to. An annotation counts the changes of the
pod template. It was a field (spec.templateGeneration) in older versions, and clients still read it. Only the server
changes it.

Deployment has replicated pods, which its controller replaces step by step when the pod template changes. `strategy`
limits the steps: by default, maxSurge and maxUnavailable are 25%. A change of annotations increments the generation
too, because the controller copies them to ReplicaSets.

ReplicaSet keeps a number of pods of one pod template; a Deployment creates one for each revision of its template.

StatefulSet has pods with stable names and storage, created and replaced in order. Only the fields in
`STATEFUL_SET_MUTABLE` can change after creation. Two fields belong to alpha features, and are dropped while these are
disabled: persistentVolumeClaimRetentionPolicy, and maxUnavailable of rollingUpdate.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from rewound.actors.errors import Resource
from rewound.actors.golang import format as go_format
from rewound.actors.golang.quoting import quoted_start
from rewound.actors.kinds.core.persistent_volumes import CLAIM_STATUS, set_claim_defaults
from rewound.actors.kinds.core.pod_template import (
    POD_TEMPLATE_SPEC,
    pod_template_rules,
    set_template_defaults,
    spec_warnings,
    template_metadata_rules,
    template_warnings,
    without_disabled_template_fields,
)
from rewound.actors.kinds.core.volumes import (
    PERSISTENT_VOLUME_CLAIM_SPEC,
    claim_spec_rules,
    shared_disk_rules,
)
from rewound.actors.kinds.declaration.columns import AGE, NAME, NONE, Column, at
from rewound.actors.kinds.declaration.definition import (
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
from rewound.actors.kinds.declaration.meta import (
    LABEL_SELECTOR,
    METADATA,
    OBJECT_META,
    TEMPLATE_META,
    label_selector_rules,
    metadata_rules,
    metadata_update_rules,
)
from rewound.actors.kinds.declaration.scale import scale
from rewound.actors.kinds.declaration.workloads import (
    CONTAINERS,
    IMAGES,
    SELECTOR,
    always_restart_rules,
    at_most_100_percent,
    collision_rules,
    condition_struct,
    count_cell,
    int64_of,
    int_or_percent_rules,
    labels_or_none,
    name_warnings,
    not_negative,
    number_in,
    ready_cell,
    replica_status_rules,
    same_selector,
    selector_compiles,
    selector_matches_rules,
    selector_of,
    selector_rules,
)
from rewound.actors.kinds.schema.decoder import NotDecodable
from rewound.actors.kinds.schema.fields import (
    ANY_JSON,
    BOOL,
    INT32,
    INT64,
    INT_OR_STRING,
    STRING,
    TIME,
    UNTYPED_BEFORE_1_30,
    Before,
    Field,
    ListOf,
    Struct,
)
from rewound.actors.kinds.validation import (
    NEGATIVE,
    FieldErrors,
    TooManyErrors,
    dns_label,
    forbidden,
    invalid,
    name_is_label,
    name_is_subdomain,
    not_supported,
    required,
    unchanged,
)
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.profile import DOCUMENTED, Rules
from rewound.actors.versions.features import (
    AUTO_DELETE,
    CHECKED_STATEFUL_TEMPLATES,
    MAX_UNAVAILABLE,
    MUTABLE_HISTORY,
    REVISIONS_ARE_OBJECTS,
    SHARED_DISKS,
    START_ORDINALS,
    STATEFUL_SETS_ARE_HOSTS,
    VALIDATED_ONCE,
)


def selected_template_rules(errors: FieldErrors, names: Names, spec: Object, old: Object | None) -> None:
    """Validate the selector, and then the template, whose labels the selector must match."""
    selector = spec["selector"]
    selector_rules(errors, selector, "spec.selector", "empty selector is invalid for deployment")
    if not selector_compiles(selector):
        errors.add(invalid("spec.selector", selector, "invalid label selector"))
    else:
        _template_rules(errors, names, spec, None if old is None else old["template"])


def _template_rules(errors: FieldErrors, names: Names, spec: Object, old: Object | None) -> None:
    field, template, selector = "spec.template", spec["template"], spec["selector"]
    if selector != {}:
        selector_matches_rules(errors, selector, template, field)
    pod_template_rules(errors, template, field, names, old)
    if spec.get("replicas", 0) > 1 and SHARED_DISKS not in errors.features:
        shared_disk_rules(errors, template["spec"].get("volumes", []), f"{field}.spec.volumes")
    always_restart_rules(errors, template, field, "ReplicaSet")


CONTROLLER_REVISION = Struct(
    "apps.v1.ControllerRevision",
    METADATA,
    Field("data", ANY_JSON, 2, pointer=True),
    Field("revision", INT64, 3, required=True, always=True),
)


def _controller_cell(stored: Object, _: int) -> str:
    for owner in stored["metadata"].get("ownerReferences", ()):
        if owner.get("controller"):
            group = owner["apiVersion"].rpartition("/")[0]
            kind = f"{owner['kind']}.{group}" if group else owner["kind"]
            return f"{kind.lower()}/{owner['name']}"
    return NONE


CONTROLLER_REVISION_COLUMNS: Final = (
    NAME,
    Column("Controller", "string", "Controller that owns the revision.", _controller_cell),
    Column("Revision", "string", "Number of the revision.", at("revision")),
    AGE,
)


def define_controller_revision(_: Names) -> Definition:
    return Definition(
        group="apps",
        version="v1",
        kind="ControllerRevision",
        plural="controllerrevisions",
        namespaced=True,
        check_name=name_is_subdomain,
        fields=CONTROLLER_REVISION,
        table=Table(CONTROLLER_REVISION_COLUMNS),
        strategy=Strategy(
            validate_create=controller_revision_rules,
            validate_update=controller_revision_update_rules,
        ),
    )


def controller_revision_rules(errors: FieldErrors, new: Object) -> None:
    if "data" not in new:
        errors.add(required("data", "data is mandatory"))
    elif REVISIONS_ARE_OBJECTS in errors.features and not isinstance(new["data"], dict):
        errors.add(required("data", "data must be a valid JSON object"))
    if new["revision"] < 0:
        errors.add(invalid("revision", new["revision"], NEGATIVE))


def controller_revision_update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    metadata_rules(errors, new["metadata"], namespaced=True, check_name=name_is_subdomain)
    controller_revision_rules(errors, new)
    unchanged(errors, "data", new.get("data"), old.get("data"))


DAEMON_SET_STRATEGIES: Final = ("OnDelete", "RollingUpdate")
TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"

DAEMON_SET_ROLLING_UPDATE = Struct(
    "apps.v1.RollingUpdateDaemonSet",
    Field("maxUnavailable", INT_OR_STRING, 1, pointer=True),
    Field("maxSurge", INT_OR_STRING, 2, pointer=True),
)
DAEMON_SET_STRATEGY = Struct(
    "apps.v1.DaemonSetUpdateStrategy",
    Field("type", STRING, 1, enum=DAEMON_SET_STRATEGIES, default="RollingUpdate"),
    Field("rollingUpdate", DAEMON_SET_ROLLING_UPDATE, 2, pointer=True),
)
DAEMON_SET_SPEC = Struct(
    "apps.v1.DaemonSetSpec",
    Field("selector", LABEL_SELECTOR, 1, pointer=True, required=True, always=True),
    Field("template", POD_TEMPLATE_SPEC, 2, required=True),
    Field("updateStrategy", DAEMON_SET_STRATEGY, 3),
    Field("minReadySeconds", INT32, 4),
    Field("revisionHistoryLimit", INT32, 6, pointer=True, default=10),
)
DAEMON_SET_STATUS = Struct(
    "apps.v1.DaemonSetStatus",
    Field("currentNumberScheduled", INT32, 1, required=True, always=True),
    Field("numberMisscheduled", INT32, 2, required=True, always=True),
    Field("desiredNumberScheduled", INT32, 3, required=True, always=True),
    Field("numberReady", INT32, 4, required=True, always=True),
    Field("observedGeneration", INT64, 5),
    Field("updatedNumberScheduled", INT32, 6),
    Field("numberAvailable", INT32, 7),
    Field("numberUnavailable", INT32, 8),
    Field("collisionCount", INT32, 9, pointer=True),
    Field(
        "conditions",
        ListOf(condition_struct("apps.v1.DaemonSetCondition")),
        10,
        patch="merge",
        merge_key="type",
        list_keys=("type",),
        list_type="map",
        before=UNTYPED_BEFORE_1_30,
    ),
)
DAEMON_SET = Struct(
    "apps.v1.DaemonSet", METADATA, Field("spec", DAEMON_SET_SPEC, 2), Field("status", DAEMON_SET_STATUS, 3)
)

DAEMON_SET_COLUMNS: Final = (
    NAME,
    Column(
        "Desired", "integer", "Nodes that should run its pod.", count_cell("status", "desiredNumberScheduled")
    ),
    Column("Current", "integer", "Nodes that run its pod.", count_cell("status", "currentNumberScheduled")),
    Column("Ready", "integer", "Nodes whose pod is ready.", count_cell("status", "numberReady")),
    Column(
        "Up-to-date",
        "integer",
        "Nodes whose pod has the current template.",
        count_cell("status", "updatedNumberScheduled"),
    ),
    Column(
        "Available",
        "integer",
        "Nodes whose pod has been ready for minReadySeconds.",
        count_cell("status", "numberAvailable"),
    ),
    Column(
        "Node Selector",
        "string",
        "nodeSelector of the pod template.",
        lambda stored, _: labels_or_none(stored["spec"]["template"]["spec"].get("nodeSelector", {})),
    ),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
)


def define_daemon_set(names: Names, features: frozenset[str] = frozenset()) -> Definition:
    return Definition(
        group="apps",
        version="v1",
        kind="DaemonSet",
        plural="daemonsets",
        names=DiscoveryNames(short_names=("ds",), categories=("all",)),
        namespaced=True,
        check_name=name_is_subdomain,
        fields=DAEMON_SET,
        set_defaults=partial(set_daemon_set_defaults, features),
        subresources=(
            Subresource(
                name="status", prepare=prepare_status_daemon_set, validate=daemon_set_status_update_rules
            ),
        ),
        storage=Storage(field_annotations=frozenset((TEMPLATE_GENERATION,))),
        table=Table(DAEMON_SET_COLUMNS),
        strategy=Strategy(
            prepare_for_create=partial(prepare_create_daemon_set, features),
            prepare_for_update=partial(prepare_update_daemon_set, features),
            validate_create=partial(daemon_set_rules, names=names),
            validate_update=partial(daemon_set_update_rules, names=names),
            warnings=partial(daemon_set_warnings, names, features),
        ),
    )


def set_daemon_set_defaults(features: frozenset[str], new: Object) -> None:
    _set_daemon_set_strategy_defaults(new["spec"]["updateStrategy"])
    set_template_defaults(new["spec"]["template"], features)
    annotated = new["metadata"].get("annotations", {}).get(TEMPLATE_GENERATION, "0")
    generation = int64_of(annotated)
    if generation is None:
        why = f"strconv.ParseInt: parsing {quoted_start(annotated)}: invalid syntax"
        raise NotDecodable(f'DaemonSet in version "v1" cannot be handled as a DaemonSet: {why}')
    _set_template_generation(new, generation)
    new["metadata"] = OBJECT_META.arranged(new["metadata"])


def _set_daemon_set_strategy_defaults(strategy: Object) -> None:
    """Default rollingUpdate for RollingUpdate; if it was sent with another type, fill its fields with zeros."""
    rolls, sent = strategy["type"] == "RollingUpdate", strategy.get("rollingUpdate")
    if rolls or sent is not None:
        strategy["rollingUpdate"] = {"maxUnavailable": int(rolls), "maxSurge": 0, **(sent or {})}


def _template_generation(stored: Object) -> int:
    return int(stored["metadata"].get("annotations", {}).get(TEMPLATE_GENERATION, "0"))


def _set_template_generation(new: Object, generation: int) -> None:
    annotations = {**new["metadata"].get("annotations", {}), TEMPLATE_GENERATION: str(generation)}
    new["metadata"]["annotations"] = dict(sorted(annotations.items()))


def prepare_create_daemon_set(features: frozenset[str], new: Object) -> None:
    reset_status_and_generation(DAEMON_SET_STATUS, new)
    _set_template_generation(new, max(1, _template_generation(new)))
    new["spec"]["template"] = without_disabled_template_fields(new["spec"]["template"], features=features)


def prepare_update_daemon_set(features: frozenset[str], new: Object, old: Object) -> None:
    before = old["spec"]["template"]
    template = new["spec"]["template"] = without_disabled_template_fields(
        new["spec"]["template"], before, features
    )
    keep_status_and_bump_generation(new, old)
    _set_template_generation(new, _template_generation(old) + (template != before))


def prepare_status_daemon_set(new: Object, old: Object) -> None:
    keep_spec(new, old)
    _set_template_generation(new, _template_generation(old))


def daemon_set_rules(errors: FieldErrors, new: Object, old: Object | None = None, *, names: Names) -> None:
    spec = new["spec"]
    selector, template = spec["selector"], spec["template"]
    label_selector_rules(errors, selector, "spec.selector")
    if selector_compiles(selector):
        selector_matches_rules(errors, selector, template, "spec.template")
    if selector == {}:
        text = "empty selector is invalid for daemonset"
        errors.add(invalid("spec.selector", go_format.format_selector(selector), text))
    pod_template_rules(
        errors, template, "spec.template", names, None if old is None else old["spec"]["template"]
    )
    if SHARED_DISKS not in errors.features:
        shared_disk_rules(errors, template["spec"].get("volumes", []), "spec.template.spec.volumes")
    always_restart_rules(errors, template, "spec.template", "DaemonSet")
    not_negative(errors, spec, "spec", "minReadySeconds")
    if _template_generation(new) < 0:
        errors.add(invalid("spec.templateGeneration", _template_generation(new), NEGATIVE))
    _daemon_set_strategy_rules(errors, spec["updateStrategy"], "spec.updateStrategy")
    not_negative(errors, spec, "spec", "revisionHistoryLimit")


_UNSET: Final = {"maxUnavailable": 0, "maxSurge": 0}


def _printed(strategy: Object, kind: str, rolling: str, unset: Mapping[str, Any]) -> str:
    """Return a strategy as Kubernetes prints it, or its type alone where v1.25 would print an address in memory.

    `unset` has the values of members of a rolling update that are not set.
    """
    type_, update = quoted_start(strategy["type"]), strategy.get("rollingUpdate")
    text = type_
    if update is None:
        text = f"apps.{kind}{{Type:{type_}, RollingUpdate:(*apps.{rolling})(nil)}}"
    else:
        update = {name[0].upper() + name[1:]: update.get(name, value) for name, value in unset.items()}
    return go_format.Formatted(text, {"Type": strategy["type"], "RollingUpdate": update})


def _daemon_set_strategy_rules(errors: FieldErrors, strategy: Object, field: str) -> None:
    if strategy["type"] == "OnDelete":
        return
    if strategy["type"] != "RollingUpdate":
        shown = _printed(strategy, "DaemonSetUpdateStrategy", "RollingUpdateDaemonSet", _UNSET)
        errors.add(not_supported(field, shown, ("RollingUpdate", "OnDelete")))
        return
    if "rollingUpdate" not in strategy:
        errors.add(required(f"{field}.rollingUpdate"))
    else:
        _daemon_set_rolling_update_rules(errors, strategy["rollingUpdate"], f"{field}.rollingUpdate")


def _daemon_set_rolling_update_rules(errors: FieldErrors, rolling: Object, field: str) -> None:
    max_unavailable, max_surge = rolling["maxUnavailable"], rolling["maxSurge"]
    int_or_percent_rules(errors, max_unavailable, f"{field}.maxUnavailable")
    int_or_percent_rules(errors, max_surge, f"{field}.maxSurge")
    at_most_100_percent(errors, max_unavailable, f"{field}.maxUnavailable")
    at_most_100_percent(errors, max_surge, f"{field}.maxSurge")
    if number_in(max_unavailable) and number_in(max_surge):
        errors.add(invalid(f"{field}.maxSurge", max_surge, "may not be set when maxUnavailable is non-zero"))
    elif not number_in(max_unavailable) and not number_in(max_surge):
        errors.add(required(f"{field}.maxUnavailable", "cannot be 0 when maxSurge is 0"))


def daemon_set_update_rules(errors: FieldErrors, new: Object, old: Object, *, names: Names) -> None:
    if VALIDATED_ONCE in errors.features:
        metadata_update_rules(errors, new["metadata"], old["metadata"])
        same_selector(errors, new["spec"]["selector"], old["spec"]["selector"])
        daemon_set_rules(errors, new, old, names=names)
        return
    metadata_rules(errors, new["metadata"], namespaced=True, check_name=name_is_subdomain)
    own = errors.added_by(daemon_set_rules, new, old, names=names)
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    errors.add_all(own)
    same_selector(errors, new["spec"]["selector"], old["spec"]["selector"])


def daemon_set_status_update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    counts = (
        *("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"),
        *("observedGeneration", "updatedNumberScheduled", "numberAvailable", "numberUnavailable"),
        "collisionCount",
    )
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    not_negative(errors, new["status"], "status", *counts)
    collision_rules(errors, new, old)


def named_warnings(names: Names, features: frozenset[str], new: Object, old: Object | None) -> list[str]:
    return (name_warnings(new, features) if old is None else []) + spec_warnings(names, features, new, old)


def daemon_set_warnings(names: Names, features: frozenset[str], new: Object, old: Object | None) -> list[str]:
    if old is not None and _template_generation(new) == _template_generation(old):
        return []
    return template_warnings(new["spec"]["template"], "spec.template", names, features)


DEPLOYMENT_STRATEGIES: Final = ("Recreate", "RollingUpdate")
# The field spec.rollbackTo of an older version.
DEPLOYMENT_ROLLBACK: Final = "deprecated.deployment.rollback.to"

DEPLOYMENT_ROLLING_UPDATE = Struct(
    "apps.v1.RollingUpdateDeployment",
    Field("maxUnavailable", INT_OR_STRING, 1, pointer=True),
    Field("maxSurge", INT_OR_STRING, 2, pointer=True),
)
DEPLOYMENT_STRATEGY = Struct(
    "apps.v1.DeploymentStrategy",
    Field("type", STRING, 1, enum=DEPLOYMENT_STRATEGIES, default="RollingUpdate"),
    Field("rollingUpdate", DEPLOYMENT_ROLLING_UPDATE, 2, pointer=True),
)
DEPLOYMENT_SPEC = Struct(
    "apps.v1.DeploymentSpec",
    Field("replicas", INT32, 1, pointer=True, default=1),
    Field("selector", LABEL_SELECTOR, 2, pointer=True, required=True, always=True),
    Field("template", POD_TEMPLATE_SPEC, 3, required=True),
    Field("strategy", DEPLOYMENT_STRATEGY, 4, patch="retainKeys"),
    Field("minReadySeconds", INT32, 5),
    Field("revisionHistoryLimit", INT32, 6, pointer=True, default=10),
    Field("paused", BOOL, 7),
    Field("progressDeadlineSeconds", INT32, 9, pointer=True, default=600),
)
DEPLOYMENT_CONDITION = Struct(
    "apps.v1.DeploymentCondition",
    Field("type", STRING, 1, required=True, always=True),
    Field("status", STRING, 2, required=True, always=True),
    Field("lastUpdateTime", TIME, 6),
    Field("lastTransitionTime", TIME, 7),
    Field("reason", STRING, 4),
    Field("message", STRING, 5),
)
DEPLOYMENT_STATUS = Struct(
    "apps.v1.DeploymentStatus",
    Field("observedGeneration", INT64, 1),
    Field("replicas", INT32, 2),
    Field("updatedReplicas", INT32, 3),
    Field("readyReplicas", INT32, 7),
    Field("availableReplicas", INT32, 4),
    Field("unavailableReplicas", INT32, 5),
    Field(
        "terminatingReplicas",
        INT32,
        9,
        pointer=True,
        since="1.33",
        gate="DeploymentReplicaSetTerminatingReplicas",
    ),
    Field(
        "conditions",
        ListOf(DEPLOYMENT_CONDITION),
        6,
        patch="merge",
        merge_key="type",
        list_keys=("type",),
        list_type="map",
        before=UNTYPED_BEFORE_1_30,
    ),
    Field("collisionCount", INT32, 8, pointer=True),
)
DEPLOYMENT = Struct(
    "apps.v1.Deployment", METADATA, Field("spec", DEPLOYMENT_SPEC, 2), Field("status", DEPLOYMENT_STATUS, 3)
)

DEPLOYMENT_COLUMNS: Final = (
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


def define_deployment(names: Names, features: frozenset[str] = frozenset()) -> Definition:
    return Definition(
        group="apps",
        version="v1",
        kind="Deployment",
        plural="deployments",
        names=DiscoveryNames(short_names=("deploy",), categories=("all",)),
        namespaced=True,
        check_name=name_is_subdomain,
        fields=DEPLOYMENT,
        set_defaults=partial(set_deployment_defaults, features),
        subresources=(
            scale(selector_of, features, Resource("apps", "deployments/scale")),
            Subresource(
                name="status",
                prepare=prepare_status_deployment,
                validate=deployment_status_update_rules,
                reset_fields=("spec", "metadata.labels"),
            ),
        ),
        storage=Storage(field_annotations=frozenset((DEPLOYMENT_ROLLBACK,))),
        table=Table(DEPLOYMENT_COLUMNS),
        strategy=Strategy(
            prepare_for_create=partial(prepare_create_deployment, features),
            prepare_for_update=partial(prepare_update_deployment, features),
            validate_create=partial(deployment_rules, names=names),
            validate_update=partial(deployment_update_rules, names=names),
            warnings=partial(named_warnings, names, features),
        ),
    )


def set_deployment_defaults(features: frozenset[str], new: Object) -> None:
    spec = new["spec"]
    if spec["strategy"]["type"] == "RollingUpdate":
        sent = spec["strategy"].get("rollingUpdate", {})
        spec["strategy"]["rollingUpdate"] = {"maxUnavailable": "25%", "maxSurge": "25%", **sent}
    set_template_defaults(spec["template"], features)
    _normalize_rollback(new["metadata"])


def _normalize_rollback(metadata: Object) -> None:
    annotations = metadata.get("annotations", {})
    revision = annotations.get(DEPLOYMENT_ROLLBACK)
    if revision is None:
        return
    if not revision:
        del annotations[DEPLOYMENT_ROLLBACK]
        if not annotations:
            del metadata["annotations"]
    elif int64_of(revision) is None:
        why = f"failed to parse annotation[{DEPLOYMENT_ROLLBACK}]={revision} as int64"
        raise NotDecodable(f'Deployment in version "v1" cannot be handled as a Deployment: {why}')


def prepare_create_deployment(features: frozenset[str], new: Object) -> None:
    reset_status_and_generation(DEPLOYMENT_STATUS, new)
    new["spec"]["template"] = without_disabled_template_fields(new["spec"]["template"], features=features)


def prepare_update_deployment(features: frozenset[str], new: Object, old: Object) -> None:
    spec = new["spec"]
    spec["template"] = without_disabled_template_fields(spec["template"], old["spec"]["template"], features)
    keep_status_and_bump_generation(new, old)
    metadata, before = new["metadata"], old["metadata"]
    if metadata.get("annotations") != before.get("annotations"):
        metadata["generation"] = before.get("generation", 0) + 1


def prepare_status_deployment(new: Object, old: Object) -> None:
    keep_spec(new, old)
    new["metadata"].pop("labels", None)
    if "labels" in old["metadata"]:
        new["metadata"]["labels"] = old["metadata"]["labels"]


def deployment_rules(errors: FieldErrors, new: Object, old: Object | None = None, *, names: Names) -> None:
    spec = new["spec"]
    not_negative(errors, spec, "spec", "replicas")
    selected_template_rules(errors, names, spec, None if old is None else old["spec"])
    _deployment_strategy_rules(errors, spec["strategy"], "spec.strategy")
    not_negative(errors, spec, "spec", "minReadySeconds", "revisionHistoryLimit")
    _rollback_rules(errors, new["metadata"].get("annotations", {}))
    _deadline_rules(errors, spec)


def _deployment_strategy_rules(errors: FieldErrors, strategy: Object, field: str) -> None:
    rolling = strategy.get("rollingUpdate")
    if strategy["type"] == "RollingUpdate":
        if rolling is None:
            errors.add(required(f"{field}.rollingUpdate", "this should be defaulted and never be nil"))
            return
        _deployment_rolling_update_rules(errors, rolling, f"{field}.rollingUpdate")
        return
    if strategy["type"] != "Recreate":
        shown = _printed(strategy, "DeploymentStrategy", "RollingUpdateDeployment", _UNSET)
        errors.add(not_supported(field, shown, DEPLOYMENT_STRATEGIES))
        return
    text = "may not be specified when strategy `type` is 'Recreate'"
    if rolling is not None:
        errors.add(forbidden(f"{field}.rollingUpdate", text))


def _deployment_rolling_update_rules(errors: FieldErrors, rolling: Object, field: str) -> None:
    max_unavailable, max_surge = rolling["maxUnavailable"], rolling["maxSurge"]
    int_or_percent_rules(errors, max_unavailable, f"{field}.maxUnavailable")
    int_or_percent_rules(errors, max_surge, f"{field}.maxSurge")
    if not number_in(max_unavailable) and not number_in(max_surge):
        text = "may not be 0 when `maxSurge` is 0"
        errors.add(invalid(f"{field}.maxUnavailable", max_unavailable, text))
    at_most_100_percent(errors, max_unavailable, f"{field}.maxUnavailable")


def _rollback_rules(errors: FieldErrors, annotations: dict[str, str]) -> None:
    revision = int(annotations.get(DEPLOYMENT_ROLLBACK, "0"))
    if revision < 0:
        errors.add(invalid("spec.rollback.version", revision, NEGATIVE))


def _deadline_rules(errors: FieldErrors, spec: Object) -> None:
    field = "spec.progressDeadlineSeconds"
    deadline = spec["progressDeadlineSeconds"]
    if deadline < 0:
        errors.add(invalid(field, deadline, NEGATIVE))
    if deadline <= spec.get("minReadySeconds", 0):
        errors.add(invalid(field, deadline, "must be greater than minReadySeconds"))


def deployment_update_rules(errors: FieldErrors, new: Object, old: Object, *, names: Names) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    deployment_rules(errors, new, old, names=names)
    same_selector(errors, new["spec"]["selector"], old["spec"]["selector"])


def deployment_status_update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    status = new["status"]
    parts = ("updatedReplicas", "readyReplicas", "availableReplicas")
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    not_negative(errors, status, "status", "observedGeneration", "replicas", *parts)
    not_negative(errors, status, "status", "unavailableReplicas", "terminatingReplicas", "collisionCount")
    replica_status_rules(errors, status, parts)
    collision_rules(errors, new, old)


REPLICA_SET_SPEC = Struct(
    "apps.v1.ReplicaSetSpec",
    Field("replicas", INT32, 1, pointer=True, default=1),
    Field("minReadySeconds", INT32, 4),
    Field("selector", LABEL_SELECTOR, 2, pointer=True, required=True, always=True),
    Field("template", POD_TEMPLATE_SPEC, 3),
)
REPLICA_SET_STATUS = Struct(
    "apps.v1.ReplicaSetStatus",
    Field("replicas", INT32, 1, required=True, always=True),
    Field("fullyLabeledReplicas", INT32, 2),
    Field("readyReplicas", INT32, 4),
    Field("availableReplicas", INT32, 5),
    Field(
        "terminatingReplicas",
        INT32,
        7,
        pointer=True,
        since="1.33",
        gate="DeploymentReplicaSetTerminatingReplicas",
    ),
    Field("observedGeneration", INT64, 3),
    Field(
        "conditions",
        ListOf(condition_struct("apps.v1.ReplicaSetCondition")),
        6,
        patch="merge",
        merge_key="type",
        list_keys=("type",),
        list_type="map",
        before=UNTYPED_BEFORE_1_30,
    ),
)
REPLICA_SET = Struct(
    "apps.v1.ReplicaSet", METADATA, Field("spec", REPLICA_SET_SPEC, 2), Field("status", REPLICA_SET_STATUS, 3)
)

REPLICA_SET_COLUMNS: Final = (
    NAME,
    Column("Desired", "integer", "Desired pods.", count_cell("spec", "replicas")),
    Column("Current", "integer", "Current pods.", count_cell("status", "replicas")),
    Column("Ready", "integer", "Ready pods.", count_cell("status", "readyReplicas")),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
)


def define_replica_set(names: Names, features: frozenset[str] = frozenset()) -> Definition:
    return Definition(
        group="apps",
        version="v1",
        kind="ReplicaSet",
        plural="replicasets",
        names=DiscoveryNames(short_names=("rs",), categories=("all",)),
        namespaced=True,
        check_name=name_is_subdomain,
        fields=REPLICA_SET,
        set_defaults=lambda new: set_template_defaults(new["spec"]["template"], features),
        subresources=(
            scale(selector_of, features, Resource("apps", "replicasets/scale")),
            Subresource(name="status", prepare=keep_spec, validate=replica_set_status_update_rules),
        ),
        table=Table(REPLICA_SET_COLUMNS),
        strategy=Strategy(
            prepare_for_create=partial(prepare_create_replica_set, features),
            prepare_for_update=partial(prepare_update_replica_set, features),
            validate_create=partial(replica_set_rules, names=names),
            validate_update=partial(replica_set_update_rules, names=names),
            warnings=partial(named_warnings, names, features),
        ),
    )


def prepare_create_replica_set(features: frozenset[str], new: Object) -> None:
    reset_status_and_generation(REPLICA_SET_STATUS, new)
    new["spec"]["template"] = without_disabled_template_fields(new["spec"]["template"], features=features)


def prepare_update_replica_set(features: frozenset[str], new: Object, old: Object) -> None:
    spec = new["spec"]
    spec["template"] = without_disabled_template_fields(spec["template"], old["spec"]["template"], features)
    keep_status_and_bump_generation(new, old)


def replica_set_rules(errors: FieldErrors, new: Object, old: Object | None = None, *, names: Names) -> None:
    spec = new["spec"]
    not_negative(errors, spec, "spec", "replicas", "minReadySeconds")
    selected_template_rules(errors, names, spec, None if old is None else old["spec"])


def replica_set_update_rules(errors: FieldErrors, new: Object, old: Object, *, names: Names) -> None:
    if VALIDATED_ONCE in errors.features:
        metadata_update_rules(errors, new["metadata"], old["metadata"])
        replica_set_rules(errors, new, old, names=names)
        same_selector(errors, new["spec"]["selector"], old["spec"]["selector"])
        return
    metadata_rules(errors, new["metadata"], namespaced=True, check_name=name_is_subdomain)
    own = errors.added_by(replica_set_rules, new, old, names=names)
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    errors.add_all(own)
    same_selector(errors, new["spec"]["selector"], old["spec"]["selector"])


def replica_set_status_update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    parts = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    parts_and_more = (*parts, "terminatingReplicas", "observedGeneration")
    not_negative(errors, new["status"], "status", "replicas", *parts_and_more)
    replica_status_rules(errors, new["status"], parts)


STATEFUL_SET_STRATEGIES: Final = ("OnDelete", "RollingUpdate")
POD_MANAGEMENT_POLICIES: Final = ("OrderedReady", "Parallel")
RETENTION_POLICIES: Final = ("Retain", "Delete")
STATEFUL_SET_MUTABLE: Final = (
    *("replicas", "template", "updateStrategy", "minReadySeconds"),
    "persistentVolumeClaimRetentionPolicy",
)

STATEFUL_SET_ROLLING_UPDATE = Struct(
    "apps.v1.RollingUpdateStatefulSetStrategy",
    Field("partition", INT32, 1, pointer=True),
    Field("maxUnavailable", INT_OR_STRING, 2, pointer=True),
)
STATEFUL_SET_STRATEGY = Struct(
    "apps.v1.StatefulSetUpdateStrategy",
    Field("type", STRING, 1, enum=STATEFUL_SET_STRATEGIES),
    Field("rollingUpdate", STATEFUL_SET_ROLLING_UPDATE, 2, pointer=True),
)
STATEFUL_SET_RETENTION = Struct(
    "apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy",
    Field("whenDeleted", STRING, 1),
    Field("whenScaled", STRING, 2),
)
CLAIM_TEMPLATE = Struct(
    "core.v1.PersistentVolumeClaim",
    Field("kind", STRING, 0, default="PersistentVolumeClaim"),
    Field("apiVersion", STRING, 0, default="v1"),
    Field("metadata", TEMPLATE_META, 1),
    Field("spec", PERSISTENT_VOLUME_CLAIM_SPEC, 2),
    Field("status", CLAIM_STATUS, 3),
)
STATEFUL_SET_ORDINALS = Struct(
    "apps.v1.StatefulSetOrdinals",
    Field("start", INT32, 1, always=True),
)
STATEFUL_SET_SPEC = Struct(
    "apps.v1.StatefulSetSpec",
    Field("replicas", INT32, 1, pointer=True, default=1),
    Field("selector", LABEL_SELECTOR, 2, pointer=True, required=True, always=True),
    Field("template", POD_TEMPLATE_SPEC, 3, required=True),
    Field("volumeClaimTemplates", ListOf(CLAIM_TEMPLATE), 4, list_type="atomic", before=UNTYPED_BEFORE_1_30),
    Field("serviceName", STRING, 5, always=True, before=(Before("1.33", required=True),)),
    Field("podManagementPolicy", STRING, 6, enum=POD_MANAGEMENT_POLICIES, default="OrderedReady"),
    Field("updateStrategy", STATEFUL_SET_STRATEGY, 7),
    Field("revisionHistoryLimit", INT32, 8, pointer=True, default=10),
    Field("minReadySeconds", INT32, 9),
    Field("persistentVolumeClaimRetentionPolicy", STATEFUL_SET_RETENTION, 10, pointer=True),
    Field("ordinals", STATEFUL_SET_ORDINALS, 11, pointer=True, since="1.26", gate="StatefulSetStartOrdinal"),
)
STATEFUL_SET_STATUS = Struct(
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
        list_keys=("type",),
        list_type="map",
        before=UNTYPED_BEFORE_1_30,
    ),
    Field("availableReplicas", INT32, 11, always=True),
)
STATEFUL_SET = Struct(
    "apps.v1.StatefulSet",
    METADATA,
    Field("spec", STATEFUL_SET_SPEC, 2),
    Field("status", STATEFUL_SET_STATUS, 3),
)

STATEFUL_SET_COLUMNS: Final = (
    NAME,
    Column("Ready", "string", "Ready pods of desired pods.", ready_cell),
    AGE,
    CONTAINERS,
    IMAGES,
)


def define_stateful_set(
    names: Names, features: frozenset[str] = frozenset(), rules: Rules = DOCUMENTED
) -> Definition:
    return Definition(
        group="apps",
        version="v1",
        kind="StatefulSet",
        plural="statefulsets",
        names=DiscoveryNames(short_names=("sts",), categories=("all",)),
        namespaced=True,
        check_name=name_is_label if STATEFUL_SETS_ARE_HOSTS in features else name_is_subdomain,
        fields=STATEFUL_SET,
        set_defaults=partial(set_stateful_set_defaults, features),
        subresources=(
            scale(selector_of, features),
            Subresource(
                name="status", prepare=prepare_status_stateful_set, validate=stateful_set_status_update_rules
            ),
        ),
        table=Table(STATEFUL_SET_COLUMNS),
        strategy=Strategy(
            prepare_for_create=partial(prepare_create_stateful_set, features),
            prepare_for_update=partial(prepare_update_stateful_set, features),
            validate_create=partial(
                stateful_set_create_rules, names=names, named=rules.service_name == "required"
            ),
            validate_update=partial(stateful_set_update_rules, names=names),
            warnings=partial(stateful_set_warnings, names, features),
        ),
    )


def stateful_set_warnings(
    names: Names, features: frozenset[str], new: Object, old: Object | None
) -> list[str]:
    found = spec_warnings(names, features, new, old)
    if MUTABLE_HISTORY in features and new["spec"].get("revisionHistoryLimit", 0) < 0:
        found.append(
            "spec.revisionHistoryLimit: a negative value retains all historical revisions; "
            "a value >= 0 is recommended"
        )
    return found


def set_stateful_set_defaults(features: frozenset[str], new: Object) -> None:
    spec = new["spec"]
    _set_stateful_set_strategy_defaults(features, spec["updateStrategy"])
    if AUTO_DELETE in features:
        sent = spec.get("persistentVolumeClaimRetentionPolicy", {})
        spec["persistentVolumeClaimRetentionPolicy"] = {
            part: sent.get(part, "Retain") for part in ("whenDeleted", "whenScaled")
        }
    for claim in spec.get("volumeClaimTemplates", ()):
        claim["kind"], claim["apiVersion"] = "PersistentVolumeClaim", "v1"
        set_claim_defaults(claim)
    set_template_defaults(spec["template"], features)


def _set_stateful_set_strategy_defaults(features: frozenset[str], strategy: Object) -> None:
    if "type" not in strategy:
        rolling = strategy.get("rollingUpdate", {})
        strategy.clear()
        strategy.update({"type": "RollingUpdate", "rollingUpdate": rolling})
    if strategy["type"] != "RollingUpdate" or "rollingUpdate" not in strategy:
        return
    defaults = {"partition": 0, "maxUnavailable": 1} if MAX_UNAVAILABLE in features else {"partition": 0}
    strategy["rollingUpdate"] = {**defaults, **strategy["rollingUpdate"]}


def prepare_create_stateful_set(features: frozenset[str], new: Object) -> None:
    reset_status_and_generation(STATEFUL_SET_STATUS, new)
    _drop_disabled_fields(features, new["spec"], {})
    new["spec"]["template"] = without_disabled_template_fields(new["spec"]["template"], features=features)


def prepare_update_stateful_set(features: frozenset[str], new: Object, old: Object) -> None:
    _drop_disabled_fields(features, new["spec"], old["spec"])
    spec = new["spec"]
    spec["template"] = without_disabled_template_fields(spec["template"], old["spec"]["template"], features)
    keep_status_and_bump_generation(new, old)


def prepare_status_stateful_set(new: Object, old: Object) -> None:
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


def stateful_set_create_rules(errors: FieldErrors, new: Object, *, names: Names, named: bool) -> None:
    """Where serviceName is required (`named`), that is checked only if the rest of the object is valid."""
    if not errors.added_by(stateful_set_rules, names, new) and named and not new["spec"]["serviceName"]:
        errors.add(required("spec.serviceName"))


def stateful_set_rules(errors: FieldErrors, names: Names, new: Object, old: Object | None = None) -> None:
    spec = new["spec"]
    selector, template = spec["selector"], spec["template"]
    _policy_rules(errors, spec["podManagementPolicy"])
    _stateful_set_strategy_rules(errors, spec["updateStrategy"], "spec.updateStrategy")
    _retention_rules(errors, spec.get("persistentVolumeClaimRetentionPolicy", {}))
    if old is None and CHECKED_STATEFUL_TEMPLATES in errors.features:
        for index, claim in enumerate(spec.get("volumeClaimTemplates", ())):
            claim_spec_rules(errors, claim["spec"], f"spec.volumeClaimTemplates[{index}].spec")
    not_negative(errors, spec, "spec", "replicas", "minReadySeconds")
    if "ordinals" in spec and spec["ordinals"]["start"] < 0:
        errors.add(invalid("spec.ordinals.start", spec["ordinals"]["start"], NEGATIVE))
    service = spec.get("serviceName", "")
    if old is None and service and MUTABLE_HISTORY in errors.features:
        errors.add_each("spec.serviceName", service, dns_label(service))
    selector_rules(errors, selector, "spec.selector", "empty selector is invalid for statefulset")
    if not selector_compiles(selector):
        errors.add(invalid("spec.selector", selector, ""))
    else:
        if selector != {}:
            selector_matches_rules(errors, selector, template, "spec.template")
        before = None if old is None else old["spec"]["template"]
        template_metadata_rules(errors, template, "spec.template", names, before)
        if CHECKED_STATEFUL_TEMPLATES in errors.features and not _was_invalid(errors, names, old):
            pod_template_rules(errors, _as_controller_sees(spec), "spec.template", names, before)
    always_restart_rules(errors, template, "spec.template", "StatefulSet")


def _was_invalid(errors: FieldErrors, names: Names, old: Object | None) -> bool:
    """Whether a stored stateful set breaks its rules, as those of earlier versions may."""
    if old is None:
        return False
    found = FieldErrors(errors.features)
    try:
        stateful_set_rules(found, names, old)
    except TooManyErrors:
        return True
    return bool(found.found)


def _as_controller_sees(spec: Object) -> Object:
    """Return the template with the volumes of claims, and without the names that the controller sets."""
    template, claims = spec["template"], spec.get("volumeClaimTemplates", ())
    pods = {part: value for part, value in template["spec"].items() if part not in ("hostname", "subdomain")}
    if claims:
        added = {
            claim["metadata"].get("name", ""): {
                "name": claim["metadata"].get("name", ""),
                "persistentVolumeClaim": {"claimName": claim["metadata"].get("name", "")},
            }
            for claim in claims
        }
        own = [one for one in pods.get("volumes", ()) if one["name"] not in added]
        pods["volumes"] = [*added.values(), *own]
    return {**template, "spec": pods}


def _policy_rules(errors: FieldErrors, policy: str) -> None:
    if policy not in POD_MANAGEMENT_POLICIES:
        errors.add(invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'"))


def _stateful_set_strategy_rules(errors: FieldErrors, strategy: Object, field: str) -> None:
    rolling = strategy.get("rollingUpdate")
    if strategy["type"] == "RollingUpdate":
        if rolling is not None:
            _stateful_set_rolling_update_rules(errors, rolling, f"{field}.rollingUpdate")
        return
    if strategy["type"] != "OnDelete":
        unset = {"partition": 0, "maxUnavailable": None}
        shown = _printed(strategy, "StatefulSetUpdateStrategy", "RollingUpdateStatefulSetStrategy", unset)
        errors.add(invalid(field, shown, "must be 'RollingUpdate' or 'OnDelete'"))
        return
    if rolling is not None:
        errors.add(
            invalid(f"{field}.rollingUpdate", rolling, "only allowed for updateStrategy 'RollingUpdate'")
        )


def _stateful_set_rolling_update_rules(errors: FieldErrors, rolling: Object, field: str) -> None:
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


def stateful_set_update_rules(errors: FieldErrors, new: Object, old: Object, *, names: Names) -> None:
    if STATEFUL_SETS_ARE_HOSTS in errors.features:
        metadata_update_rules(errors, new["metadata"], old["metadata"])
        stateful_set_rules(errors, names, new, old)
    else:
        metadata_rules(errors, new["metadata"], namespaced=True, check_name=name_is_subdomain)
        stateful_set_rules(errors, names, new, old)
        metadata_update_rules(errors, new["metadata"], old["metadata"])
    ordinals, history = START_ORDINALS in errors.features, MUTABLE_HISTORY in errors.features
    mutable = {*STATEFUL_SET_MUTABLE, *(("ordinals",) if ordinals else ())}
    mutable |= {"revisionHistoryLimit"} if history else set()
    now, before = (
        {part: value for part, value in one["spec"].items() if part not in mutable} for one in (new, old)
    )
    if now != before:
        text = (
            f"updates to statefulset spec for fields other than 'replicas', {_quoted('ordinals', ordinals)}"
            f"'template', 'updateStrategy', {_quoted('revisionHistoryLimit', history)}"
            "'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
        )
        errors.add(forbidden("spec", text))


def _quoted(field: str, shown: bool) -> str:
    return f"'{field}', " if shown else ""


def stateful_set_status_update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    parts = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
    not_negative(errors, new["status"], "status", "replicas", *parts, "observedGeneration", "collisionCount")
    replica_status_rules(errors, new["status"], parts, ready="status.readyReplicas")
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    collision_rules(errors, new, old)


def declare(
    names: Names, features: frozenset[str] = frozenset(), rules: Rules = DOCUMENTED
) -> tuple[Definition, ...]:
    return (
        define_controller_revision(names),
        define_daemon_set(names, features),
        define_deployment(names, features),
        define_replica_set(names, features),
        define_stateful_set(names, features, rules),
    )
