"""References from one object of the API to another."""

from __future__ import annotations

from rewound.actors.kinds.schema.fields import STRING, Field, Struct

OBJECT_REFERENCE = Struct(
    "core.v1.ObjectReference",
    Field("kind", STRING, 1),
    Field("namespace", STRING, 2),
    Field("name", STRING, 3),
    Field("uid", STRING, 4),
    Field("apiVersion", STRING, 5),
    Field("resourceVersion", STRING, 6),
    Field("fieldPath", STRING, 7),
    atomic=True,
)
LOCAL_OBJECT_REFERENCE = Struct("core.v1.LocalObjectReference", Field("name", STRING, 1), atomic=True)
