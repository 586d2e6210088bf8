"""Fields of pods; rules follow."""

from __future__ import annotations

from actors.kinds.fields import INT32, INT64, INT_OR_STRING, STRING, STRINGS, Field, ListOf, Struct

EXEC_ACTION = Struct(
    "core.v1.ExecAction",
    Field("command", STRINGS, 1),
)
HTTP_HEADER = Struct(
    "core.v1.HTTPHeader",
    Field("name", STRING, 1, required=True, always=True),
    Field("value", STRING, 2, required=True, always=True),
)
HTTP_GET_ACTION = Struct(
    "core.v1.HTTPGetAction",
    Field("path", STRING, 1, default="/"),
    Field("port", INT_OR_STRING, 2, required=True),
    Field("host", STRING, 3),
    Field("scheme", STRING, 4, enum=("HTTP", "HTTPS"), default="HTTP"),
    Field("httpHeaders", ListOf(HTTP_HEADER), 5),
)
TCP_SOCKET_ACTION = Struct(
    "core.v1.TCPSocketAction",
    Field("port", INT_OR_STRING, 1, required=True),
    Field("host", STRING, 2),
)
GRPC_ACTION = Struct(
    "core.v1.GRPCAction",
    Field("port", INT32, 1, required=True, always=True),
    Field("service", STRING, 2, pointer=True),
)
PROBE = Struct(
    "core.v1.Probe",
    Field("exec", EXEC_ACTION, 1, embedded=1, pointer=True),
    Field("httpGet", HTTP_GET_ACTION, 2, embedded=1, pointer=True),
    Field("tcpSocket", TCP_SOCKET_ACTION, 3, embedded=1, pointer=True),
    Field("grpc", GRPC_ACTION, 4, embedded=1, pointer=True),
    Field("initialDelaySeconds", INT32, 2),
    Field("timeoutSeconds", INT32, 3, default=1),
    Field("periodSeconds", INT32, 4, default=10),
    Field("successThreshold", INT32, 5, default=1),
    Field("failureThreshold", INT32, 6, default=3),
    Field("terminationGracePeriodSeconds", INT64, 7, pointer=True),
)
LIFECYCLE_HANDLER = Struct(
    "core.v1.LifecycleHandler",
    Field("exec", EXEC_ACTION, 1, pointer=True),
    Field("httpGet", HTTP_GET_ACTION, 2, pointer=True),
    Field("tcpSocket", TCP_SOCKET_ACTION, 3, pointer=True),
)
LIFECYCLE = Struct(
    "core.v1.Lifecycle",
    Field("postStart", LIFECYCLE_HANDLER, 1, pointer=True),
    Field("preStop", LIFECYCLE_HANDLER, 2, pointer=True),
)
