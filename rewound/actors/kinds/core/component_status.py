"""ComponentStatus: the health of the parts of this server, computed on every read.

Deprecated, but charts and consoles still read it; `/livez` and `/readyz` report the same and more.
"""

from __future__ import annotations

from rewound.actors.kinds.declaration.columns import NAME, Column
from rewound.actors.kinds.declaration.definition import Definition, DiscoveryNames, Storage, Table
from rewound.actors.kinds.declaration.meta import METADATA
from rewound.actors.kinds.schema.fields import STRING, UNTYPED_BEFORE_1_30, Field, ListOf, Struct
from rewound.actors.kinds.validation import name_is_subdomain
from rewound.actors.messages import Object
from rewound.actors.names import Names

COMPONENT_CONDITION = Struct(
    "core.v1.ComponentCondition",
    Field("type", STRING, 1, required=True, always=True),
    Field("status", STRING, 2, required=True, always=True),
    Field("message", STRING, 3),
    Field("error", STRING, 4),
)
COMPONENT_STATUS = Struct(
    "core.v1.ComponentStatus",
    METADATA,
    Field(
        "conditions",
        ListOf(COMPONENT_CONDITION),
        2,
        patch="merge",
        merge_key="type",
        list_keys=("type",),
        list_type="map",
        before=UNTYPED_BEFORE_1_30,
    ),
)


def _healthy(stored: Object) -> Object:
    return next((one for one in stored.get("conditions", ()) if one["type"] == "Healthy"), {})


def _status(stored: Object, _: int) -> str:
    condition = _healthy(stored)
    if not condition:
        return "Unknown"
    return "Healthy" if condition["status"] == "True" else "Unhealthy"


COLUMNS = (
    NAME,
    Column("Status", "string", "Whether the component is healthy.", _status),
    Column("Message", "string", "Message.", lambda stored, _: _healthy(stored).get("message", "")),
    Column("Error", "string", "Error of the component.", lambda stored, _: _healthy(stored).get("error", "")),
)


def define(_: Names) -> Definition:
    return Definition(
        group="",
        version="v1",
        kind="ComponentStatus",
        plural="componentstatuses",
        names=DiscoveryNames(short_names=("cs",)),
        namespaced=False,
        check_name=name_is_subdomain,
        fields=COMPONENT_STATUS,
        verbs=("get", "list"),
        deprecation_warning="v1 ComponentStatus is deprecated in v1.19+",
        storage=Storage(computed=True),
        table=Table(COLUMNS),
    )
