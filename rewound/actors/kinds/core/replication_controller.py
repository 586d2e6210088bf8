"""ReplicationController: keeps a number of pods of one template running.

The oldest workload kind: its selector is a plain set of labels and defaults to the template's labels.
"""

from __future__ import annotations

from functools import partial

from rewound.actors.errors import Resource
from rewound.actors.golang import format as go_format
from rewound.actors.kinds.core.pod_template import (
    POD_TEMPLATE_SPEC,
    pod_template_rules,
    set_template_defaults,
    template_warnings,
    without_disabled_template_fields,
)
from rewound.actors.kinds.core.volumes import shared_disk_rules
from rewound.actors.kinds.declaration.columns import AGE, NAME, Column
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
from rewound.actors.kinds.declaration.meta import METADATA, OBJECT_META, metadata_rules, metadata_update_rules
from rewound.actors.kinds.declaration.scale import labels_text, scale
from rewound.actors.kinds.declaration.workloads import (
    CONTAINERS,
    DOES_NOT_MATCH,
    IMAGES,
    count_cell,
    labels_or_none,
    name_warnings,
)
from rewound.actors.kinds.schema.fields import (
    INT32,
    INT64,
    STRING,
    STRING_MAP,
    TIME,
    UNTYPED_BEFORE_1_30,
    Field,
    ListOf,
    Struct,
)
from rewound.actors.kinds.validation import (
    NEGATIVE,
    FieldErrors,
    forbidden,
    invalid,
    name_is_long,
    name_is_subdomain,
    not_supported,
    required,
)
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.versions.features import CONTROLLERS_VALIDATED_ONCE, LONG_NAMES, NAMES_FOR_HOSTS

SPEC = Struct(
    "core.v1.ReplicationControllerSpec",
    Field("replicas", INT32, 1, pointer=True, default=1),
    Field("minReadySeconds", INT32, 4),
    Field("selector", STRING_MAP, 2, map_type="atomic"),
    Field("template", POD_TEMPLATE_SPEC, 3, pointer=True),
)
CONDITION = Struct(
    "core.v1.ReplicationControllerCondition",
    Field("type", STRING, 1, required=True, always=True),
    Field("status", STRING, 2, required=True, always=True),
    Field("lastTransitionTime", TIME, 3),
    Field("reason", STRING, 4),
    Field("message", STRING, 5),
)
STATUS = Struct(
    "core.v1.ReplicationControllerStatus",
    Field("replicas", INT32, 1, required=True, always=True),
    Field("fullyLabeledReplicas", INT32, 2),
    Field("readyReplicas", INT32, 4),
    Field("availableReplicas", INT32, 5),
    Field("observedGeneration", INT64, 3),
    Field(
        "conditions",
        ListOf(CONDITION),
        6,
        patch="merge",
        merge_key="type",
        list_keys=("type",),
        list_type="map",
        before=UNTYPED_BEFORE_1_30,
    ),
)
REPLICATION_CONTROLLER = Struct(
    "core.v1.ReplicationController",
    METADATA,
    Field("spec", SPEC, 2),
    Field("status", STATUS, 3),
)

COLUMNS = (
    NAME,
    Column("Desired", "integer", "Desired number of pods.", count_cell("spec", "replicas")),
    Column("Current", "integer", "Current number of pods.", count_cell("status", "replicas")),
    Column("Ready", "integer", "Number of ready pods.", count_cell("status", "readyReplicas")),
    AGE,
    CONTAINERS,
    IMAGES,
    Column(
        "Selector",
        "string",
        "Labels by which its pods are found.",
        lambda stored, _: labels_or_none(stored["spec"].get("selector", {})),
        priority=1,
    ),
)


def define(names: Names, features: frozenset[str] = frozenset()) -> Definition:
    return Definition(
        group="",
        version="v1",
        kind="ReplicationController",
        plural="replicationcontrollers",
        names=DiscoveryNames(short_names=("rc",), categories=("all",)),
        namespaced=True,
        check_name=name_is_long if LONG_NAMES in features else name_is_subdomain,
        fields=REPLICATION_CONTROLLER,
        set_defaults=partial(set_defaults, features),
        subresources=(
            scale(
                lambda stored: labels_text(stored["spec"].get("selector", {})),
                features,
                Resource("autoscaling", "replicationcontrollers/scale"),
            ),
            Subresource(name="status", prepare=keep_spec, validate=status_update_rules),
        ),
        deletion=Deletion(orphans_by_default=True),
        selection=Selection(
            fields={"status.replicas": lambda stored: str(stored["status"]["replicas"])},
            own_label_conversion=True,
        ),
        table=Table(COLUMNS),
        strategy=Strategy(
            prepare_for_create=partial(prepare_create, features),
            prepare_for_update=partial(prepare_update, features),
            validate_create=partial(rules, names=names),
            validate_update=partial(update_rules, names=names),
            warnings=partial(warnings, names, features),
        ),
    )


def set_defaults(features: frozenset[str], new: Object) -> None:
    spec, metadata = new["spec"], new["metadata"]
    template = spec.get("template")
    if template is None:
        return
    labels = template["metadata"].get("labels")
    if labels and not metadata.get("labels"):
        new["metadata"] = OBJECT_META.arranged({**metadata, "labels": dict(labels)})
    if labels and not spec.get("selector"):
        new["spec"] = SPEC.arranged({**spec, "selector": dict(labels)})
    set_template_defaults(template, features)


def prepare_create(features: frozenset[str], new: Object) -> None:
    reset_status_and_generation(STATUS, new)
    if "template" in new["spec"]:
        new["spec"]["template"] = without_disabled_template_fields(new["spec"]["template"], None, features)


def prepare_update(features: frozenset[str], new: Object, old: Object) -> None:
    spec = new["spec"]
    if "template" in spec:
        spec["template"] = without_disabled_template_fields(
            spec["template"], old["spec"].get("template"), features
        )
    keep_status_and_bump_generation(new, old)


def rules(errors: FieldErrors, new: Object, old: Object | None = None, *, names: Names) -> None:
    spec = new["spec"]
    if spec.get("minReadySeconds", 0) < 0:
        errors.add(invalid("spec.minReadySeconds", spec["minReadySeconds"], NEGATIVE))
    if not spec.get("selector"):
        errors.add(required("spec.selector"))
    if spec.get("replicas", 0) < 0:
        errors.add(invalid("spec.replicas", spec["replicas"], NEGATIVE))
    if "template" not in spec:
        errors.add(required("spec.template"))
        return
    before = None if old is None else old["spec"].get("template")
    _template_rules(errors, names, spec, before)


def _template_rules(errors: FieldErrors, names: Names, spec: Object, old: Object | None) -> None:
    field, template, selector = "spec.template", spec["template"], spec.get("selector", {})
    labels = template["metadata"].get("labels", {})
    if not selector.items() <= labels.items():
        labels = go_format.format_labels(template["metadata"].get("labels"))
        errors.add(invalid(f"{field}.metadata.labels", labels, DOES_NOT_MATCH))
    pod_template_rules(errors, template, field, names, old)
    if spec.get("replicas", 0) > 1:
        shared_disk_rules(errors, template["spec"].get("volumes", []), f"{field}.spec.volumes")
    policy = template["spec"].get("restartPolicy", "")
    if policy != "Always":
        errors.add(not_supported(f"{field}.spec.restartPolicy", policy, ("Always",)))
    if "activeDeadlineSeconds" in template["spec"]:
        text = "activeDeadlineSeconds in ReplicationController is not Supported"
        errors.add(forbidden(f"{field}.spec.activeDeadlineSeconds", text))


def update_rules(errors: FieldErrors, new: Object, old: Object, *, names: Names) -> None:
    if CONTROLLERS_VALIDATED_ONCE in errors.features:
        metadata_update_rules(errors, new["metadata"], old["metadata"])
        rules(errors, new, old, names=names)
        return
    metadata_rules(errors, new["metadata"], namespaced=True, check_name=name_is_subdomain)
    own = errors.added_by(rules, new, old, names=names)
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    errors.add_all(own)


def status_update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    status = new["status"]
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    parts = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
    for part in ("replicas", *parts, "observedGeneration"):
        if status.get(part, 0) < 0:
            errors.add(invalid(f"status.{part}", status[part], NEGATIVE))
    for part in parts:
        if status.get(part, 0) > status["replicas"]:
            text = "cannot be greater than status.replicas"
            errors.add(invalid(f"status.{part}", status.get(part, 0), text))
    if status.get("availableReplicas", 0) > status.get("readyReplicas", 0):
        text = "cannot be greater than readyReplicas"
        errors.add(invalid("status.availableReplicas", status.get("availableReplicas", 0), text))


def warnings(names: Names, features: frozenset[str], new: Object, old: Object | None) -> list[str]:
    """As in v1.25, an update of the spec warns about the old template, not about the new one."""
    found = name_warnings(new, features) if old is None else []
    if old is None:
        # The change that made it warn about names mended the path, too.
        template, field = (
            new["spec"].get("template"),
            "spec.template" if NAMES_FOR_HOSTS in features else "template",
        )
    elif new["metadata"].get("generation") != old["metadata"].get("generation"):
        template, field = old["spec"].get("template"), "spec.template"
    else:
        return []
    return found + (template_warnings(template, field, names, features) if template is not None else [])
