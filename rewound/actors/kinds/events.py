"""The events group (v1): core events with newer field names, and stricter validation of writes.

Events are stored in the form of core/v1; the conversion renames fields in both directions. Validation sees the
stored form, so errors name the fields of core/v1, as in Kubernetes.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from rewound.actors.kinds.core.event import COLUMNS, EVENT, SELECTABLE, SOURCE, legacy_rules
from rewound.actors.kinds.core.references import OBJECT_REFERENCE
from rewound.actors.kinds.declaration.definition import (
    Conversion,
    Definition,
    Deletion,
    DiscoveryNames,
    Selection,
    Storage,
    Strategy,
    Table,
)
from rewound.actors.kinds.declaration.meta import METADATA, metadata_rules, metadata_update_rules
from rewound.actors.kinds.schema.exact_decoder import ExactDecoder
from rewound.actors.kinds.schema.fields import INT32, MICRO_TIME, STRING, TIME, Field, Struct
from rewound.actors.kinds.schema.internal import shown
from rewound.actors.kinds.validation import (
    IMMUTABLE,
    FieldErrors,
    invalid,
    name_is_subdomain,
    required,
    unchanged,
)
from rewound.actors.messages import Object
from rewound.actors.names import Names

SERIES = Struct(
    "events.v1.EventSeries",
    Field("count", INT32, 1, required=True, always=True),
    Field("lastObservedTime", MICRO_TIME, 2, required=True, always=True),
)
EVENT_V1 = Struct(
    "events.v1.Event",
    METADATA,
    Field("eventTime", MICRO_TIME, 2, required=True, always=True),
    Field("series", SERIES, 3, pointer=True),
    Field("reportingController", STRING, 4),
    Field("reportingInstance", STRING, 5),
    Field("action", STRING, 6),
    Field("reason", STRING, 7),
    Field("regarding", OBJECT_REFERENCE, 8),
    Field("related", OBJECT_REFERENCE, 9, pointer=True),
    Field("note", STRING, 10),
    Field("type", STRING, 11),
    Field("deprecatedSource", SOURCE, 12),
    Field("deprecatedFirstTimestamp", TIME, 13),
    Field("deprecatedLastTimestamp", TIME, 14),
    Field("deprecatedCount", INT32, 15),
)

# Fields whose names differ: name in this version -> stored name.
STORED_NAMES: Final = {
    "reportingController": "reportingComponent",
    "regarding": "involvedObject",
    "note": "message",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_OWN_NAMES: Final = {stored: own for own, stored in STORED_NAMES.items()}

_IMMUTABLE: Final = (
    *(
        "involvedObject",
        "reason",
        "message",
        "source",
        "firstTimestamp",
        "lastTimestamp",
        "count",
        "reason",
        "type",
    ),
    *("eventTime", "action", "related"),
)


def declare(names: Names) -> tuple[Definition, ...]:
    event = Definition(
        group=names.group("events"),
        version="v1",
        kind="Event",
        plural="events",
        names=DiscoveryNames(short_names=("ev",)),
        namespaced=True,
        check_name=name_is_subdomain,
        fields=EVENT_V1,
        storage=Storage(stored_as="events", conversion=Conversion(to_storage, from_storage)),
        deletion=Deletion(has_dependents=False),
        selection=Selection(stored_labels=_selector_names(), own_label_conversion=True),
        table=Table(COLUMNS),
        strategy=Strategy(
            allow_create_on_update=True,
            validates_metadata=True,
            validate_create=partial(rules, names=names),
            validate_update=partial(update_rules, names=names),
        ),
    )
    return (event,)


def to_storage(event: Object) -> Object:
    return ExactDecoder(defaults=False).struct(
        EVENT, {STORED_NAMES.get(name, name): event[name] for name in event}
    )


def from_storage(stored: Object) -> Object:
    return ExactDecoder(defaults=False).struct(
        EVENT_V1, {_OWN_NAMES.get(name, name): stored[name] for name in stored}
    )


def _selector_names() -> dict[str, str]:
    names = {"metadata.name": "metadata.name", "metadata.namespace": "metadata.namespace"}
    for stored in SELECTABLE:
        first, dot, rest = stored.partition(".")
        names[_OWN_NAMES.get(first, first) + dot + rest] = stored
    del names["deprecatedSource"]  # Kubernetes has no field selector for it in this version
    return names


def rules(errors: FieldErrors, new: Object, *, names: Names) -> None:
    legacy_rules(errors, new, names=names, reporter="reportingController")
    metadata_rules(errors, new["metadata"], namespaced=True, check_name=name_is_subdomain)
    _series(errors, new)
    if new.get("eventTime") is None:
        errors.add(required("eventTime"))
    if new.get("type") not in ("Normal", "Warning"):
        errors.add(invalid("type", "", f"has invalid value: {new.get('type', '')}"))
    for part in ("firstTimestamp", "lastTimestamp", "count", "source"):
        if new.get(part):
            errors.add(invalid(part, "", "needs to be unset"))


def update_rules(errors: FieldErrors, new: Object, old: Object, *, names: Names) -> None:
    legacy_rules(errors, new, names=names, reporter="reportingController")
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    if new.get("series") != old.get("series"):
        _series(errors, new)
    for part in _IMMUTABLE:
        if new.get(part, "") != old.get(part, ""):
            of_struct = part in ("involvedObject", "related")
            sent = shown(OBJECT_REFERENCE, new.get(part)) if of_struct else new.get(part, "")
            errors.add(invalid(part, sent, IMMUTABLE))
    for part, own_name in (("reportingComponent", "reportingController"), ("reportingInstance",) * 2):
        unchanged(errors, own_name, new.get(part, ""), old.get(part, ""))


def _series(errors: FieldErrors, new: Object) -> None:
    series = new.get("series")
    if series is None:
        return
    if series.get("count", 0) < 2:
        errors.add(invalid("series.count", "", "should be at least 2"))
    if series.get("lastObservedTime") is None:
        errors.add(required("series.lastObservedTime"))
