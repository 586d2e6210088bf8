"""ReplicaSet: a number of pods of one pod template. A Deployment creates one for each revision of its template."""

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
    Strategy,
    Subresource,
    Table,
    keep_spec,
    keep_status_and_bump_generation,
    reset_status_and_generation,
)
from actors.kinds.declaration.meta import LABEL_SELECTOR, METADATA, metadata_rules, metadata_update_rules
from actors.kinds.declaration.scale import scale
from actors.kinds.declaration.workloads import (
    CONTAINERS,
    IMAGES,
    SELECTOR,
    condition_struct,
    count_cell,
    not_negative,
    replica_status_rules,
    selector_of,
)
from actors.kinds.schema.fields import INT32, INT64, Field, ListOf, Struct
from actors.kinds.validation import FieldErrors, name_is_subdomain, unchanged
from actors.messages import Object
from actors.names import Names

SPEC = Struct(
    "apps.v1.ReplicaSetSpec",
    Field("replicas", INT32, 1, pointer=True, default=1),
    Field("minReadySeconds", INT32, 4),
    Field("selector", LABEL_SELECTOR, 2, pointer=True, required=True, always=True),
    Field("template", POD_TEMPLATE_SPEC, 3),
)
STATUS = Struct(
    "apps.v1.ReplicaSetStatus",
    Field("replicas", INT32, 1, required=True, always=True),
    Field("fullyLabeledReplicas", INT32, 2),
    Field("readyReplicas", INT32, 4),
    Field("availableReplicas", INT32, 5),
    Field("observedGeneration", INT64, 3),
    Field(
        "conditions",
        ListOf(condition_struct("apps.v1.ReplicaSetCondition")),
        6,
        patch="merge",
        merge_key="type",
    ),
)
REPLICA_SET = Struct("apps.v1.ReplicaSet", METADATA, Field("spec", SPEC, 2), Field("status", STATUS, 3))

COLUMNS: Final = (
    NAME,
    Column("Desired", "integer", "Desired pods.", count_cell("spec", "replicas")),
    Column("Current", "integer", "Current pods.", count_cell("status", "replicas")),
    Column("Ready", "integer", "Ready pods.", count_cell("status", "readyReplicas")),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
)


def define(names: Names, features: frozenset[str] = frozenset()) -> Definition:
    return Definition(
        group="apps",
        version="v1",
        kind="ReplicaSet",
        plural="replicasets",
        names=DiscoveryNames(short_names=("rs",), categories=("all",)),
        namespaced=True,
        check_name=name_is_subdomain,
        fields=REPLICA_SET,
        set_defaults=lambda new: set_template_defaults(new["spec"]["template"]),
        subresources=(
            scale(selector_of, Resource("apps", "replicasets/scale")),
            Subresource(name="status", prepare=keep_spec, validate=status_update_rules),
        ),
        table=Table(COLUMNS),
        strategy=Strategy(
            prepare_for_create=partial(prepare_create, features),
            prepare_for_update=partial(prepare_update, features),
            validate_create=partial(rules, names=names),
            validate_update=partial(update_rules, names=names),
            warnings=partial(spec_warnings, names),
        ),
    )


def prepare_create(features: frozenset[str], new: Object) -> None:
    reset_status_and_generation(STATUS, new)
    new["spec"]["template"] = without_disabled_fields(new["spec"]["template"], features=features)


def prepare_update(features: frozenset[str], new: Object, old: Object) -> None:
    spec = new["spec"]
    spec["template"] = without_disabled_fields(spec["template"], old["spec"]["template"], features)
    keep_status_and_bump_generation(new, old)


def rules(errors: FieldErrors, new: Object, old: Object | None = None, *, names: Names) -> None:
    spec = new["spec"]
    not_negative(errors, spec, "spec", "replicas", "minReadySeconds")
    selected_template_rules(errors, names, spec, None if old is None else old["spec"])


def update_rules(errors: FieldErrors, new: Object, old: Object, *, names: Names) -> None:
    metadata_rules(errors, new["metadata"], namespaced=True, check_name=name_is_subdomain)
    own = errors.added_by(rules, new, old, names=names)
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    errors.add_all(own)
    unchanged(errors, "spec.selector", new["spec"]["selector"], old["spec"]["selector"])


def status_update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    parts = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    not_negative(errors, new["status"], "status", "replicas", *parts, "observedGeneration")
    replica_status_rules(errors, new["status"], parts)
