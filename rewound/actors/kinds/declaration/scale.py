"""The scale subresource: the desired and the current number of replicas of an object.

Every kind with replicas has the same subresource. An update of it sets `spec.replicas` of the object and nothing
else; the object is then validated as in any other update.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from msgspec.structs import replace

from rewound.actors.errors import Resource
from rewound.actors.kinds.declaration.columns import AGE, NAME, Column, at
from rewound.actors.kinds.declaration.definition import (
    Conversion,
    Definition,
    Storage,
    Strategy,
    Subresource,
    Table,
)
from rewound.actors.kinds.declaration.meta import METADATA, metadata_rules
from rewound.actors.kinds.schema.fields import INT32, STRING, Field, Struct
from rewound.actors.kinds.validation import NEGATIVE, FieldErrors, invalid, name_is_subdomain
from rewound.actors.messages import Object
from rewound.actors.versions.features import SCALES_NOT_NAMED

SCALE_SPEC = Struct("autoscaling.v1.ScaleSpec", Field("replicas", INT32, 1))
SCALE_STATUS = Struct(
    "autoscaling.v1.ScaleStatus",
    Field("replicas", INT32, 1, required=True, always=True),
    Field("selector", STRING, 2),
)
SCALE = Struct(
    "autoscaling.v1.Scale",
    METADATA,
    Field("spec", SCALE_SPEC, 2),
    Field("status", SCALE_STATUS, 3),
)

COLUMNS: Final = (
    replace(NAME, format=""),
    Column("Desired", "integer", "Desired number of replicas.", at("spec", "replicas", missing=0)),
    Column("Available", "integer", "Current number of replicas.", at("status", "replicas", missing=0)),
    AGE,
)

_SHOWN = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale(
    selector: Callable[[Object], str], features: frozenset[str], not_found_resource: Resource | None = None
) -> Subresource:
    """Return the scale subresource. `selector` returns the label selector of an object as text."""
    view = Definition(
        group="autoscaling",
        version="v1",
        kind="Scale",
        plural="scale",
        namespaced=True,
        check_name=name_is_subdomain,
        fields=SCALE,
        storage=Storage(
            conversion=Conversion(to_storage=_as_sent, from_storage=partial(from_storage, selector))
        ),
        table=Table(COLUMNS),
        strategy=Strategy(validate_create=rules),
    )
    return Subresource(
        name="scale",
        replicas=("spec", "replicas"),
        kind="Scale",
        group="autoscaling",
        version="v1",
        view=view,
        update_object=set_replicas,
        not_found_resource=None if SCALES_NOT_NAMED in features else not_found_resource,
    )


def _as_sent(document: Object) -> Object:
    return document


def from_storage(selector: Callable[[Object], str], stored: Object) -> Object:
    metadata = stored["metadata"]
    wanted, found = stored["spec"].get("replicas", 0), stored["status"].get("replicas", 0)
    chosen = selector(stored)
    return {
        "metadata": {part: metadata[part] for part in _SHOWN if part in metadata},
        "spec": {"replicas": wanted} if wanted else {},
        "status": {"replicas": found, "selector": chosen} if chosen else {"replicas": found},
    }


def rules(errors: FieldErrors, sent: Object) -> None:
    """A Scale has the namespace of the object that it scales, so no rule checks it."""
    metadata = {key: value for key, value in sent["metadata"].items() if key != "namespace"}
    metadata_rules(errors, metadata, namespaced=False, check_name=name_is_subdomain)
    wanted = sent["spec"].get("replicas", 0)
    if wanted < 0:
        errors.add(invalid("spec.replicas", wanted, NEGATIVE))


def set_replicas(sent: Object, stored: Object) -> Object:
    return {**stored, "spec": {**stored["spec"], "replicas": sent["spec"].get("replicas", 0)}}


def labels_text(labels: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def selector_text(selector: Object) -> str:
    """Return a LabelSelector as text, as in a query."""
    parts = [(key, f"{key}={value}") for key, value in selector.get("matchLabels", {}).items()]
    for requirement in selector.get("matchExpressions", ()):
        key, operator = requirement["key"], requirement["operator"]
        values = ",".join(sorted(requirement.get("values", ())))
        words = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }
        parts.append((key, words.get(operator, "")))
    return ",".join(text for _, text in sorted(parts, key=lambda part: part[0]))


def go_selector_text(selector: Object | None) -> str:
    """Return a LabelSelector as Go prints it."""
    if selector is None:
        return "nil"
    labels = "".join(f"{name}: {value}," for name, value in sorted(selector.get("matchLabels", {}).items()))
    expressions = "".join(
        f"LabelSelectorRequirement{{Key:{one['key']},Operator:{one['operator']},"
        f"Values:[{' '.join(one.get('values', ()))}],}},"
        for one in selector.get("matchExpressions", ())
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
