"""Fields of pods; rules follow."""

from __future__ import annotations

from actors.kinds.fields import BOOL, INT32, STRING, TIME, Field, ListOf, Struct

POD_CONDITION = Struct(
    "core.v1.PodCondition",
    Field("type", STRING, 1, required=True, always=True),
    Field("status", STRING, 2, required=True, always=True),
    Field("lastProbeTime", TIME, 3),
    Field("lastTransitionTime", TIME, 4),
    Field("reason", STRING, 5),
    Field("message", STRING, 6),
)
POD_IP = Struct(
    "core.v1.PodIP",
    Field("ip", STRING, 1),
)
CONTAINER_STATE_WAITING = Struct(
    "core.v1.ContainerStateWaiting",
    Field("reason", STRING, 1),
    Field("message", STRING, 2),
)
CONTAINER_STATE_RUNNING = Struct(
    "core.v1.ContainerStateRunning",
    Field("startedAt", TIME, 1),
)
CONTAINER_STATE_TERMINATED = Struct(
    "core.v1.ContainerStateTerminated",
    Field("exitCode", INT32, 1, required=True, always=True),
    Field("signal", INT32, 2),
    Field("reason", STRING, 3),
    Field("message", STRING, 4),
    Field("startedAt", TIME, 5),
    Field("finishedAt", TIME, 6),
    Field("containerID", STRING, 7),
)
CONTAINER_STATE = Struct(
    "core.v1.ContainerState",
    Field("waiting", CONTAINER_STATE_WAITING, 1, pointer=True),
    Field("running", CONTAINER_STATE_RUNNING, 2, pointer=True),
    Field("terminated", CONTAINER_STATE_TERMINATED, 3, pointer=True),
)
CONTAINER_STATUS = Struct(
    "core.v1.ContainerStatus",
    Field("name", STRING, 1, required=True, always=True),
    Field("state", CONTAINER_STATE, 2),
    Field("lastState", CONTAINER_STATE, 3),
    Field("ready", BOOL, 4, required=True, always=True),
    Field("restartCount", INT32, 5, required=True, always=True),
    Field("image", STRING, 6, required=True, always=True),
    Field("imageID", STRING, 7, required=True, always=True),
    Field("containerID", STRING, 8),
    Field("started", BOOL, 9, pointer=True),
)
POD_STATUS = Struct(
    "core.v1.PodStatus",
    Field("phase", STRING, 1, enum=("Failed", "Pending", "Running", "Succeeded", "Unknown")),
    Field("conditions", ListOf(POD_CONDITION), 2, patch="merge", merge_key="type"),
    Field("message", STRING, 3),
    Field("reason", STRING, 4),
    Field("nominatedNodeName", STRING, 11),
    Field("hostIP", STRING, 5),
    Field("podIP", STRING, 6),
    Field("podIPs", ListOf(POD_IP), 12, patch="merge", merge_key="ip"),
    Field("startTime", TIME, 7, pointer=True),
    Field("initContainerStatuses", ListOf(CONTAINER_STATUS), 10),
    Field("containerStatuses", ListOf(CONTAINER_STATUS), 8),
    Field("qosClass", STRING, 9, enum=("BestEffort", "Burstable", "Guaranteed")),
    Field("ephemeralContainerStatuses", ListOf(CONTAINER_STATUS), 13),
)
