"""Fields of pods; rules follow."""

from __future__ import annotations

from actors.kinds.core.pod_template import POD_TEMPLATE_SPEC
from actors.kinds.fields import INT32, INT64, STRING, STRING_MAP, TIME, Field, ListOf, Struct
from actors.kinds.meta import METADATA

REPLICATION_CONTROLLER_SPEC = Struct(
    "core.v1.ReplicationControllerSpec",
    Field("replicas", INT32, 1, pointer=True, default=1),
    Field("minReadySeconds", INT32, 4),
    Field("selector", STRING_MAP, 2, map_type="atomic"),
    Field("template", POD_TEMPLATE_SPEC, 3, pointer=True),
)
REPLICATION_CONTROLLER_CONDITION = Struct(
    "core.v1.ReplicationControllerCondition",
    Field("type", STRING, 1, required=True, always=True),
    Field("status", STRING, 2, required=True, always=True),
    Field("lastTransitionTime", TIME, 3),
    Field("reason", STRING, 4),
    Field("message", STRING, 5),
)
REPLICATION_CONTROLLER_STATUS = Struct(
    "core.v1.ReplicationControllerStatus",
    Field("replicas", INT32, 1, required=True, always=True),
    Field("fullyLabeledReplicas", INT32, 2),
    Field("readyReplicas", INT32, 4),
    Field("availableReplicas", INT32, 5),
    Field("observedGeneration", INT64, 3),
    Field("conditions", ListOf(REPLICATION_CONTROLLER_CONDITION), 6, patch="merge", merge_key="type"),
)
REPLICATION_CONTROLLER = Struct(
    "core.v1.ReplicationController",
    METADATA,
    Field("spec", REPLICATION_CONTROLLER_SPEC, 2),
    Field("status", REPLICATION_CONTROLLER_STATUS, 3),
)
