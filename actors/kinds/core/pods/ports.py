"""Fields of pods; rules follow."""

from __future__ import annotations

from actors.kinds.fields import INT32, STRING, Field, Struct

CONTAINER_PORT = Struct(
    "core.v1.ContainerPort",
    Field("name", STRING, 1),
    Field("hostPort", INT32, 2),
    Field("containerPort", INT32, 3, required=True, always=True),
    Field("protocol", STRING, 4, enum=("SCTP", "TCP", "UDP"), default="TCP"),
    Field("hostIP", STRING, 5),
)
