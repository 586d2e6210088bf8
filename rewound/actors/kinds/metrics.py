"""The metrics group: PodMetrics and NodeMetrics, the current usage of pods and nodes, computed on every read.

Not part of the catalog of built-in kinds: a server has them only while it simulates metrics
(`actors.workloads.simulated_metrics`); otherwise another server serves the group, or none.
"""

from __future__ import annotations

from rewound.actors.kinds.declaration.columns import NAME, Column, at
from rewound.actors.kinds.declaration.definition import Definition, Storage, Table
from rewound.actors.kinds.declaration.meta import METADATA
from rewound.actors.kinds.schema.fields import DURATION, QUANTITIES, STRING, TIME, Field, ListOf, Struct
from rewound.actors.kinds.validation import name_is_subdomain
from rewound.actors.messages import Object
from rewound.actors.names import Names

CONTAINER_METRICS = Struct(
    "metrics.v1beta1.ContainerMetrics",
    Field("name", STRING, 1, required=True, always=True),
    Field("usage", QUANTITIES, 2, required=True, always=True),
)
POD_METRICS = Struct(
    "metrics.v1beta1.PodMetrics",
    METADATA,
    Field("timestamp", TIME, 2, required=True, always=True),
    Field("window", DURATION, 3, required=True, always=True),
    Field("containers", ListOf(CONTAINER_METRICS), 4, required=True, always=True),
)
NODE_METRICS = Struct(
    "metrics.v1beta1.NodeMetrics",
    METADATA,
    Field("timestamp", TIME, 2, required=True, always=True),
    Field("window", DURATION, 3, required=True, always=True),
    Field("usage", QUANTITIES, 4, required=True, always=True),
)


def _usage(resource: str) -> Column:
    def cell(one: Object, _: int) -> str:
        found: str = one["usage"].get(resource, "0")
        return found

    return Column(resource, "string", f"How much {resource} it uses.", cell)


def declare(names: Names) -> tuple[Definition, ...]:
    window = Column("Window", "string", "The time in which it was measured.", at("window"))
    kinds = (
        ("PodMetrics", "pods", True, POD_METRICS, (NAME, window)),
        ("NodeMetrics", "nodes", False, NODE_METRICS, (NAME, _usage("cpu"), _usage("memory"), window)),
    )
    return tuple(
        Definition(
            group=names.group("metrics"),
            version="v1beta1",
            kind=kind,
            plural=plural,
            namespaced=namespaced,
            check_name=name_is_subdomain,
            fields=fields,
            verbs=("get", "list"),
            storage=Storage(computed=True),
            table=Table(columns),
        )
        for kind, plural, namespaced, fields, columns in kinds
    )
