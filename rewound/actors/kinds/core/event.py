"""Event: something that happened to an object, in the form in which all events are stored.

The events group serves the same objects with other field names and is stricter about new ones; it builds on the
rules here. Events of old clients have no eventTime, and few rules apply to them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from msgspec.structs import replace

from rewound.actors.kinds.core.references import OBJECT_REFERENCE
from rewound.actors.kinds.declaration.columns import NAME, Column, at, since
from rewound.actors.kinds.declaration.definition import (
    Definition,
    Deletion,
    DiscoveryNames,
    Selection,
    Strategy,
    Table,
)
from rewound.actors.kinds.declaration.meta import METADATA, metadata_rules, value_at_path
from rewound.actors.kinds.schema.fields import INT32, MICRO_TIME, STRING, TIME, Field, Struct
from rewound.actors.kinds.validation import (
    FieldErrors,
    dns_subdomain,
    invalid,
    name_is_path_segment,
    qualified_name,
    required,
    size,
)
from rewound.actors.messages import Object
from rewound.actors.names import Names

LONGEST_NAME: Final = 128
LONGEST_MESSAGE: Final = 1024
OTHER_NAMESPACE: Final = "does not match event.namespace"

SERIES = Struct("core.v1.EventSeries", Field("count", INT32, 1), Field("lastObservedTime", MICRO_TIME, 2))
SOURCE = Struct("core.v1.EventSource", Field("component", STRING, 1), Field("host", STRING, 2))
EVENT = Struct(
    "core.v1.Event",
    replace(METADATA, required=True),
    Field("involvedObject", OBJECT_REFERENCE, 2, required=True),
    Field("reason", STRING, 3),
    Field("message", STRING, 4),
    Field("source", SOURCE, 5),
    Field("firstTimestamp", TIME, 6),
    Field("lastTimestamp", TIME, 7),
    Field("count", INT32, 8),
    Field("type", STRING, 9),
    Field("eventTime", MICRO_TIME, 10),
    Field("series", SERIES, 11, pointer=True),
    Field("action", STRING, 12),
    Field("related", OBJECT_REFERENCE, 13, pointer=True),
    Field("reportingComponent", STRING, 14, always=True),
    Field("reportingInstance", STRING, 15, always=True),
)


def define(names: Names) -> Definition:
    return Definition(
        group="",
        version="v1",
        kind="Event",
        plural="events",
        names=DiscoveryNames(short_names=("ev",)),
        namespaced=True,
        check_name=name_is_path_segment,
        fields=EVENT,
        deletion=Deletion(has_dependents=False),
        selection=Selection(fields=SELECTABLE, own_label_conversion=True),
        table=Table(COLUMNS),
        strategy=Strategy(
            allow_create_on_update=True,
            validates_metadata=True,
            validate_create=partial(create_rules, names=names),
            validate_update=partial(update_rules, names=names),
        ),
    )


def _metadata(errors: FieldErrors, new: Object) -> None:
    metadata_rules(
        errors, new["metadata"], namespaced=True, check_name=name_is_path_segment, known_finalizers=False
    )


def _source(stored: Object) -> str:
    return value_at_path(stored, "source", "component") or stored.get("reportingComponent") or ""


def _involved(part: str, stored: Object) -> str:
    return str(stored["involvedObject"].get(part, ""))


SELECTABLE: Final[dict[str, Callable[[Object], str]]] = {
    **{f"involvedObject.{part}": partial(_involved, part) for part in OBJECT_REFERENCE.by_name},
    "reason": lambda stored: stored.get("reason", ""),
    "reportingComponent": lambda stored: stored.get("reportingComponent", ""),
    "source": _source,
    "type": lambda stored: stored.get("type", ""),
}


def create_rules(errors: FieldErrors, new: Object, *, names: Names) -> None:
    """Metadata is checked only if nothing else is wrong."""
    if not errors.added_by(legacy_rules, new, names=names, reporter="reportingComponent"):
        _metadata(errors, new)


def update_rules(errors: FieldErrors, new: Object, _: Object, *, names: Names) -> None:
    legacy_rules(errors, new, names=names, reporter="reportingComponent")


def legacy_rules(errors: FieldErrors, new: Object, *, names: Names, reporter: str) -> None:
    """The rules of every event. `reporter` is the name of reportingComponent in the caller's version."""
    namespace = new["metadata"].get("namespace", "")
    about = new["involvedObject"].get("namespace", "")
    if new.get("eventTime") is None:
        _same_namespace_rules(errors, namespace, about)
    else:
        _namespace_of_cluster_object_rules(errors, names, namespace, about)
        _complete_event_rules(errors, new, reporter)
    errors.add_each("namespace", namespace, dns_subdomain(namespace))


def _same_namespace_rules(errors: FieldErrors, namespace: str, about: str) -> None:
    if about != namespace and (about or namespace not in ("", "default")):
        errors.add(invalid("involvedObject.namespace", about, OTHER_NAMESPACE))


def _namespace_of_cluster_object_rules(errors: FieldErrors, names: Names, namespace: str, about: str) -> None:
    if not about and namespace not in ("default", names.system_namespace):
        errors.add(invalid("involvedObject.namespace", about, OTHER_NAMESPACE))


def _complete_event_rules(errors: FieldErrors, new: Object, reporter: str) -> None:
    controller = new.get("reportingComponent", "")
    if not controller:
        errors.add(required(reporter))
    errors.add_each(reporter, controller, qualified_name(controller))
    for part in ("reportingInstance", "action", "reason"):
        if not new.get(part):
            errors.add(required(part))
        _length_rules(errors, part, new.get(part, ""), LONGEST_NAME)
    _length_rules(errors, "message", new.get("message", ""), LONGEST_MESSAGE)


def _length_rules(errors: FieldErrors, field: str, text: str, limit: int) -> None:
    if size(text) > limit:
        errors.add(invalid(field, "", f"can have at most {limit} characters"))


def _first_seen_cell(stored: Object, now: int) -> str:
    return since(stored.get("firstTimestamp") or stored.get("eventTime"), now)


def _last_seen_cell(stored: Object, now: int) -> str:
    series = stored.get("series")
    if series:
        return since(series.get("lastObservedTime"), now)
    return (
        since(stored["lastTimestamp"], now) if stored.get("lastTimestamp") else _first_seen_cell(stored, now)
    )


def _object_cell(stored: Object, _: int) -> str:
    involved = stored.get("involvedObject", {})
    kind, name = involved.get("kind", "").lower(), involved.get("name", "")
    return f"{kind}/{name}" if name else kind


def _source_cell(stored: Object, _: int) -> str:
    source = stored.get("source", {})
    component = source.get("component") or stored.get("reportingComponent", "")
    host = source.get("host") or stored.get("reportingInstance", "")
    return f"{component}, {host}" if host else component


def _count_cell(stored: Object, _: int) -> int:
    series = stored.get("series")
    return int(series.get("count", 0)) if series else int(stored.get("count", 0) or 1)


COLUMNS = (
    Column("Last Seen", "string", "Time since the event last occurred.", _last_seen_cell),
    Column("Type", "string", "Normal or Warning.", at("type")),
    Column("Reason", "string", "Reason of the event.", at("reason")),
    Column("Object", "string", "Object that the event is about.", _object_cell),
    Column(
        "Subobject",
        "string",
        "Part of the object that the event is about.",
        at("involvedObject", "fieldPath"),
        priority=1,
    ),
    Column("Source", "string", "Component that reported the event.", _source_cell, priority=1),
    Column("Message", "string", "Message of the event.", lambda stored, _: stored.get("message", "").strip()),
    Column("First Seen", "string", "Time since the event first occurred.", _first_seen_cell, priority=1),
    Column("Count", "string", "Number of times the event occurred.", _count_cell, priority=1),
    Column("Name", "string", NAME.description, NAME.cell, format="name", priority=1),
)
