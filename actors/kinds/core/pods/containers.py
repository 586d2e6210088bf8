"""Fields of pods; rules follow."""

from __future__ import annotations

from actors.kinds.core.pods.env import ENV_FROM_SOURCE, ENV_VAR
from actors.kinds.core.pods.mounts import VOLUME_DEVICE, VOLUME_MOUNT
from actors.kinds.core.pods.ports import CONTAINER_PORT
from actors.kinds.core.pods.probes import LIFECYCLE, PROBE
from actors.kinds.core.pods.security import SECURITY_CONTEXT
from actors.kinds.core.resources import RESOURCE_REQUIREMENTS
from actors.kinds.fields import BOOL, STRING, STRINGS, Field, ListOf, Struct

CONTAINER = Struct(
    "core.v1.Container",
    Field("name", STRING, 1, required=True, always=True),
    Field("image", STRING, 2),
    Field("command", STRINGS, 3),
    Field("args", STRINGS, 4),
    Field("workingDir", STRING, 5),
    Field(
        "ports",
        ListOf(CONTAINER_PORT),
        6,
        patch="merge",
        merge_key="containerPort",
        list_type="map",
        list_keys=("containerPort", "protocol"),
    ),
    Field("envFrom", ListOf(ENV_FROM_SOURCE), 19),
    Field("env", ListOf(ENV_VAR), 7, patch="merge", merge_key="name"),
    Field("resources", RESOURCE_REQUIREMENTS, 8),
    Field("volumeMounts", ListOf(VOLUME_MOUNT), 9, patch="merge", merge_key="mountPath"),
    Field("volumeDevices", ListOf(VOLUME_DEVICE), 21, patch="merge", merge_key="devicePath"),
    Field("livenessProbe", PROBE, 10, pointer=True),
    Field("readinessProbe", PROBE, 11, pointer=True),
    Field("startupProbe", PROBE, 22, pointer=True),
    Field("lifecycle", LIFECYCLE, 12, pointer=True),
    Field("terminationMessagePath", STRING, 13, default="/dev/termination-log"),
    Field("terminationMessagePolicy", STRING, 20, enum=("FallbackToLogsOnError", "File"), default="File"),
    Field("imagePullPolicy", STRING, 14, enum=("Always", "IfNotPresent", "Never")),
    Field("securityContext", SECURITY_CONTEXT, 15, pointer=True),
    Field("stdin", BOOL, 16),
    Field("stdinOnce", BOOL, 17),
    Field("tty", BOOL, 18),
)
EPHEMERAL_CONTAINER = Struct(
    "core.v1.EphemeralContainer",
    Field("name", STRING, 1, embedded=1, required=True, always=True),
    Field("image", STRING, 2, embedded=1),
    Field("command", STRINGS, 3, embedded=1),
    Field("args", STRINGS, 4, embedded=1),
    Field("workingDir", STRING, 5, embedded=1),
    Field(
        "ports",
        ListOf(CONTAINER_PORT),
        6,
        embedded=1,
        patch="merge",
        merge_key="containerPort",
        list_type="map",
        list_keys=("containerPort", "protocol"),
    ),
    Field("envFrom", ListOf(ENV_FROM_SOURCE), 19, embedded=1),
    Field("env", ListOf(ENV_VAR), 7, embedded=1, patch="merge", merge_key="name"),
    Field("resources", RESOURCE_REQUIREMENTS, 8, embedded=1),
    Field("volumeMounts", ListOf(VOLUME_MOUNT), 9, embedded=1, patch="merge", merge_key="mountPath"),
    Field("volumeDevices", ListOf(VOLUME_DEVICE), 21, embedded=1, patch="merge", merge_key="devicePath"),
    Field("livenessProbe", PROBE, 10, embedded=1, pointer=True),
    Field("readinessProbe", PROBE, 11, embedded=1, pointer=True),
    Field("startupProbe", PROBE, 22, embedded=1, pointer=True),
    Field("lifecycle", LIFECYCLE, 12, embedded=1, pointer=True),
    Field("terminationMessagePath", STRING, 13, embedded=1, default="/dev/termination-log"),
    Field(
        "terminationMessagePolicy",
        STRING,
        20,
        embedded=1,
        enum=("FallbackToLogsOnError", "File"),
        default="File",
    ),
    Field("imagePullPolicy", STRING, 14, embedded=1, enum=("Always", "IfNotPresent", "Never")),
    Field("securityContext", SECURITY_CONTEXT, 15, embedded=1, pointer=True),
    Field("stdin", BOOL, 16, embedded=1),
    Field("stdinOnce", BOOL, 17, embedded=1),
    Field("tty", BOOL, 18, embedded=1),
    Field("targetContainerName", STRING, 2),
)
