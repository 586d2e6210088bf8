"""The node group: RuntimeClass, which selects the container runtime that runs a pod."""

from __future__ import annotations

from functools import partial

from rewound.actors.kinds.core.node_selector import DeprecatedLabels, deprecated_labels, label_warnings
from rewound.actors.kinds.core.pod_spec import TOLERATION, printed_toleration, toleration_rules
from rewound.actors.kinds.core.resources import requirement_rules
from rewound.actors.kinds.declaration.columns import AGE, NAME, Column, at
from rewound.actors.kinds.declaration.definition import Definition, Deletion, Strategy, Table
from rewound.actors.kinds.declaration.meta import METADATA, label_rules, metadata_rules, metadata_update_rules
from rewound.actors.kinds.schema.fields import QUANTITIES, STRING, STRING_MAP, Field, ListOf, Struct
from rewound.actors.kinds.validation import (
    FieldErrors,
    dns_label,
    duplicate,
    name_is_subdomain,
    required,
    unchanged,
)
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.versions.features import HANDLER_REQUIRED, TOLERATIONS_NAMED_ONCE

OVERHEAD = Struct("node.v1.Overhead", Field("podFixed", QUANTITIES, 1))
SCHEDULING = Struct(
    "node.v1.Scheduling",
    Field("nodeSelector", STRING_MAP, 1, map_type="atomic"),
    Field("tolerations", ListOf(TOLERATION), 2, list_type="atomic"),
)
RUNTIME_CLASS = Struct(
    "node.v1.RuntimeClass",
    METADATA,
    Field("handler", STRING, 2, required=True, always=True),
    Field("overhead", OVERHEAD, 3, pointer=True),
    Field("scheduling", SCHEDULING, 4, pointer=True),
)


def declare(names: Names) -> tuple[Definition, ...]:
    runtime_class = Definition(
        group=names.group("node"),
        version="v1",
        kind="RuntimeClass",
        plural="runtimeclasses",
        namespaced=False,
        check_name=name_is_subdomain,
        fields=RUNTIME_CLASS,
        deletion=Deletion(only_known_finalizers=False),
        table=Table(
            (
                NAME,
                Column("Handler", "string", "Name of the container runtime handler on nodes.", at("handler")),
                AGE,
            )
        ),
        strategy=Strategy(
            allow_create_on_update=True,
            allow_unconditional_update=False,
            validate_create=partial(rules, api_domain=names.key("")),
            validate_update=partial(update_rules, api_domain=names.key("")),
            warnings=partial(warnings, deprecated_labels(names)),
        ),
    )
    return (runtime_class,)


def rules(errors: FieldErrors, new: Object, *, api_domain: str) -> None:
    if not new["handler"] and HANDLER_REQUIRED in errors.features:
        errors.add(required("handler"))
    else:
        errors.add_each("handler", new["handler"], dns_label(new["handler"]))
    fixed = new.get("overhead", {}).get("podFixed", {})
    requirement_rules(errors, {"limits": fixed}, "overhead", api_domain)
    scheduling = new.get("scheduling", {})
    label_rules(errors, scheduling.get("nodeSelector", {}), "scheduling.nodeSelector")
    _tolerations(errors, scheduling.get("tolerations", []), "scheduling.tolerations")


def update_rules(errors: FieldErrors, new: Object, old: Object, *, api_domain: str) -> None:
    metadata, before = new["metadata"], old["metadata"]
    metadata_rules(errors, metadata, namespaced=False, check_name=name_is_subdomain, known_finalizers=False)
    rules(errors, new, api_domain=api_domain)
    metadata_update_rules(errors, metadata, before, known_finalizers=False)
    unchanged(errors, "handler", new["handler"], old["handler"])


def warnings(known: DeprecatedLabels, new: Object, _: Object | None) -> list[str]:
    return label_warnings(known, new.get("scheduling", {}).get("nodeSelector", ()), "scheduling.nodeSelector")


def _tolerations(errors: FieldErrors, tolerations: list[Object], field: str) -> None:
    """Until v1.34 the path of an error inside a toleration names the list twice."""
    inside = field if TOLERATIONS_NAMED_ONCE in errors.features else f"{field}.tolerations"
    toleration_rules(errors, tolerations, inside)
    seen: set[tuple[str, ...]] = set()
    for index, toleration in enumerate(tolerations):
        key = tuple(toleration.get(part, "") for part in ("key", "operator", "value", "effect"))
        if key in seen:
            errors.add(duplicate(f"{field}[{index}]", printed_toleration(toleration)))
        seen.add(key)
