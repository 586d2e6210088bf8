"""DaemonSet: one pod on every node that the pod template can be scheduled to.

An annotation counts the changes of the pod template. It was a field (spec.templateGeneration) in older versions, and
clients still read it. Only the server changes it.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from actors.kinds.core.pod_template import (
    POD_TEMPLATE_SPEC,
    pod_template_rules,
    set_template_defaults,
    template_warnings,
    without_disabled_fields,
)
from actors.kinds.core.pods.volumes import shared_disk_rules
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
from actors.kinds.declaration.meta import (
    LABEL_SELECTOR,
    METADATA,
    OBJECT_META,
    label_selector_rules,
    metadata_rules,
    metadata_update_rules,
)
from actors.kinds.declaration.workloads import (
    CONTAINERS,
    IMAGES,
    SELECTOR,
    always_restart_rules,
    annotation_number,
    at_most_100_percent,
    collision_rules,
    condition_struct,
    count_cell,
    int_or_percent_rules,
    labels_or_none,
    not_negative,
    number_in,
    selector_compiles,
    selector_matches_rules,
)
from actors.kinds.schema.decoder import NotDecodable
from actors.kinds.schema.fields import INT32, INT64, INT_OR_STRING, STRING, Field, ListOf, Struct
from actors.kinds.validation import (
    NEGATIVE,
    FieldErrors,
    invalid,
    name_is_subdomain,
    not_supported,
    required,
    unchanged,
)
from actors.kinds.values import go_format
from actors.messages import Object
from actors.names import Names
from actors.quoting import quoted_start

STRATEGIES: Final = ("OnDelete", "RollingUpdate")
TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"

ROLLING_UPDATE = Struct(
    "apps.v1.RollingUpdateDaemonSet",
    Field("maxUnavailable", INT_OR_STRING, 1, pointer=True),
    Field("maxSurge", INT_OR_STRING, 2, pointer=True),
)
STRATEGY = Struct(
    "apps.v1.DaemonSetUpdateStrategy",
    Field("type", STRING, 1, enum=STRATEGIES, default="RollingUpdate"),
    Field("rollingUpdate", ROLLING_UPDATE, 2, pointer=True),
)
SPEC = Struct(
    "apps.v1.DaemonSetSpec",
    Field("selector", LABEL_SELECTOR, 1, pointer=True, required=True, always=True),
    Field("template", POD_TEMPLATE_SPEC, 2, required=True),
    Field("updateStrategy", STRATEGY, 3),
    Field("minReadySeconds", INT32, 4),
    Field("revisionHistoryLimit", INT32, 6, pointer=True, default=10),
)
STATUS = Struct(
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
    ),
)
DAEMON_SET = Struct("apps.v1.DaemonSet", METADATA, Field("spec", SPEC, 2), Field("status", STATUS, 3))

COLUMNS: Final = (
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


def define(names: Names, features: frozenset[str] = frozenset()) -> Definition:
    return Definition(
        group="apps",
        version="v1",
        kind="DaemonSet",
        plural="daemonsets",
        names=DiscoveryNames(short_names=("ds",), categories=("all",)),
        namespaced=True,
        check_name=name_is_subdomain,
        fields=DAEMON_SET,
        set_defaults=set_defaults,
        subresources=(Subresource(name="status", prepare=prepare_status, validate=status_update_rules),),
        storage=Storage(field_annotations=frozenset((TEMPLATE_GENERATION,))),
        table=Table(COLUMNS),
        strategy=Strategy(
            prepare_for_create=partial(prepare_create, features),
            prepare_for_update=partial(prepare_update, features),
            validate_create=partial(rules, names=names),
            validate_update=partial(update_rules, names=names),
            warnings=partial(warnings, names),
        ),
    )


def set_defaults(new: Object) -> None:
    _set_strategy_defaults(new["spec"]["updateStrategy"])
    set_template_defaults(new["spec"]["template"])
    annotated = new["metadata"].get("annotations", {}).get(TEMPLATE_GENERATION, "0")
    generation = annotation_number(annotated)
    if generation is None:
        why = f"strconv.ParseInt: parsing {quoted_start(annotated)}: invalid syntax"
        raise NotDecodable(f'DaemonSet in version "v1" cannot be handled as a DaemonSet: {why}')
    _set_template_generation(new, generation)
    new["metadata"] = OBJECT_META.arranged(new["metadata"])


def _set_strategy_defaults(strategy: Object) -> None:
    """Default rollingUpdate for RollingUpdate, and complete one that was sent with another type with zeros."""
    rolls, sent = strategy["type"] == "RollingUpdate", strategy.get("rollingUpdate")
    if rolls or sent is not None:
        strategy["rollingUpdate"] = {"maxUnavailable": int(rolls), "maxSurge": 0, **(sent or {})}


def _template_generation(stored: Object) -> int:
    return int(stored["metadata"].get("annotations", {}).get(TEMPLATE_GENERATION, "0"))


def _set_template_generation(new: Object, generation: int) -> None:
    annotations = {**new["metadata"].get("annotations", {}), TEMPLATE_GENERATION: str(generation)}
    new["metadata"]["annotations"] = dict(sorted(annotations.items()))


def prepare_create(features: frozenset[str], new: Object) -> None:
    reset_status_and_generation(STATUS, new)
    _set_template_generation(new, max(1, _template_generation(new)))
    new["spec"]["template"] = without_disabled_fields(new["spec"]["template"], features=features)


def prepare_update(features: frozenset[str], new: Object, old: Object) -> None:
    before = old["spec"]["template"]
    template = new["spec"]["template"] = without_disabled_fields(new["spec"]["template"], before, features)
    keep_status_and_bump_generation(new, old)
    _set_template_generation(new, _template_generation(old) + (template != before))


def prepare_status(new: Object, old: Object) -> None:
    keep_spec(new, old)
    _set_template_generation(new, _template_generation(old))


def rules(errors: FieldErrors, new: Object, old: Object | None = None, *, names: Names) -> None:
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
    shared_disk_rules(errors, template["spec"].get("volumes", []), "spec.template.spec.volumes")
    always_restart_rules(errors, template, "spec.template", "DaemonSet")
    not_negative(errors, spec, "spec", "minReadySeconds")
    if _template_generation(new) < 0:
        errors.add(invalid("spec.templateGeneration", _template_generation(new), NEGATIVE))
    _strategy_rules(errors, spec["updateStrategy"], "spec.updateStrategy")
    not_negative(errors, spec, "spec", "revisionHistoryLimit")


def _strategy_rules(errors: FieldErrors, strategy: Object, field: str) -> None:
    if strategy["type"] == "OnDelete":
        return
    if strategy["type"] != "RollingUpdate":
        errors.add(not_supported(field, strategy["type"], ("RollingUpdate", "OnDelete")))
        return
    if "rollingUpdate" not in strategy:
        errors.add(required(f"{field}.rollingUpdate"))
    else:
        _rolling_update_rules(errors, strategy["rollingUpdate"], f"{field}.rollingUpdate")


def _rolling_update_rules(errors: FieldErrors, rolling: Object, field: str) -> None:
    max_unavailable, max_surge = rolling["maxUnavailable"], rolling["maxSurge"]
    int_or_percent_rules(errors, max_unavailable, f"{field}.maxUnavailable")
    int_or_percent_rules(errors, max_surge, f"{field}.maxSurge")
    at_most_100_percent(errors, max_unavailable, f"{field}.maxUnavailable")
    at_most_100_percent(errors, max_surge, f"{field}.maxSurge")
    if number_in(max_unavailable) and number_in(max_surge):
        errors.add(invalid(f"{field}.maxSurge", max_surge, "may not be set when maxUnavailable is non-zero"))
    elif not number_in(max_unavailable) and not number_in(max_surge):
        errors.add(required(f"{field}.maxUnavailable", "cannot be 0 when maxSurge is 0"))


def update_rules(errors: FieldErrors, new: Object, old: Object, *, names: Names) -> None:
    metadata_rules(errors, new["metadata"], namespaced=True, check_name=name_is_subdomain)
    own = errors.added_by(rules, new, old, names=names)
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    errors.add_all(own)
    unchanged(errors, "spec.selector", new["spec"]["selector"], old["spec"]["selector"])


def status_update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    counts = (
        *("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"),
        *("observedGeneration", "updatedNumberScheduled", "numberAvailable", "numberUnavailable"),
        "collisionCount",
    )
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    not_negative(errors, new["status"], "status", *counts)
    collision_rules(errors, new, old)


def warnings(names: Names, new: Object, old: Object | None) -> list[str]:
    if old is not None and _template_generation(new) == _template_generation(old):
        return []
    return template_warnings(new["spec"]["template"], "spec.template", names)
