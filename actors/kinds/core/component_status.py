"""Fields of pods; rules follow."""

from __future__ import annotations

from actors.kinds.fields import STRING, Field, ListOf, Struct
from actors.kinds.meta import METADATA

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
    Field("conditions", ListOf(COMPONENT_CONDITION), 2, patch="merge", merge_key="type"),
)
