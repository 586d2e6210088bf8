"""Fields of pods; rules follow."""

from __future__ import annotations

from actors.kinds.fields import BOOL, STRING, Field, Struct

VOLUME_MOUNT = Struct(
    "core.v1.VolumeMount",
    Field("name", STRING, 1, required=True, always=True),
    Field("readOnly", BOOL, 2),
    Field("mountPath", STRING, 3, required=True, always=True),
    Field("subPath", STRING, 4),
    Field("mountPropagation", STRING, 5, pointer=True),
    Field("subPathExpr", STRING, 6),
)
VOLUME_DEVICE = Struct(
    "core.v1.VolumeDevice",
    Field("name", STRING, 1, required=True, always=True),
    Field("devicePath", STRING, 2, required=True, always=True),
)
