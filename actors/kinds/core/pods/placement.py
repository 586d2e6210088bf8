"""Fields of pods; rules follow."""

from __future__ import annotations

from actors.kinds.fields import INT32, INT64, STRING, STRINGS, Field, Struct
from actors.kinds.label_selector import LABEL_SELECTOR

TOLERATION = Struct(
    "core.v1.Toleration",
    Field("key", STRING, 1),
    Field("operator", STRING, 2, enum=("Equal", "Exists")),
    Field("value", STRING, 3),
    Field("effect", STRING, 4, enum=("NoExecute", "NoSchedule", "PreferNoSchedule")),
    Field("tolerationSeconds", INT64, 5, pointer=True),
)
TOPOLOGY_SPREAD_CONSTRAINT = Struct(
    "core.v1.TopologySpreadConstraint",
    Field("maxSkew", INT32, 1, required=True, always=True),
    Field("topologyKey", STRING, 2, required=True, always=True),
    Field(
        "whenUnsatisfiable", STRING, 3, required=True, always=True, enum=("DoNotSchedule", "ScheduleAnyway")
    ),
    Field("labelSelector", LABEL_SELECTOR, 4, pointer=True),
    Field("minDomains", INT32, 5, pointer=True),
    Field("nodeAffinityPolicy", STRING, 6, pointer=True),
    Field("nodeTaintsPolicy", STRING, 7, pointer=True),
    Field("matchLabelKeys", STRINGS, 8, list_type="atomic"),
)
POD_READINESS_GATE = Struct(
    "core.v1.PodReadinessGate",
    Field("conditionType", STRING, 1, required=True, always=True),
)
