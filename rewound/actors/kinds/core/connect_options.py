"""The options of requests that are forwarded to a pod, service or node: the object that admission reviews on CONNECT.

Clients send them in the query. They are never stored, and have no metadata.
"""

from __future__ import annotations

from typing import Final

from rewound.actors.kinds.declaration.definition import Definition, Subresource
from rewound.actors.kinds.schema.fields import BOOL, INT32, INT64, STRING, TIME, Field, ListOf, Struct
from rewound.actors.kinds.validation import name_is_subdomain

_STREAMS: Final = (
    Field("stdin", BOOL, 1),
    Field("stdout", BOOL, 2),
    Field("stderr", BOOL, 3),
    Field("tty", BOOL, 4),
    Field("container", STRING, 5),
)
_STRUCTS: Final = {
    "PodAttachOptions": _STREAMS,
    "PodExecOptions": (*_STREAMS, Field("command", ListOf(STRING), 6, always=True)),
    "PodPortForwardOptions": (Field("ports", ListOf(INT32), 1),),
    "PodProxyOptions": (Field("path", STRING, 1),),
    "ServiceProxyOptions": (Field("path", STRING, 1),),
    "NodeProxyOptions": (Field("path", STRING, 1),),
    "PodLogOptions": (
        Field("container", STRING, 1),
        Field("follow", BOOL, 2),
        Field("previous", BOOL, 3),
        Field("sinceSeconds", INT64, 4, pointer=True),
        Field("sinceTime", TIME, 5, pointer=True),
        Field("timestamps", BOOL, 6),
        Field("tailLines", INT64, 7, pointer=True),
        Field("limitBytes", INT64, 8, pointer=True),
        Field("insecureSkipTLSVerifyBackend", BOOL, 9),
    ),
}


def options_of(kind: str) -> Definition:
    return Definition(
        group="",
        version="v1",
        kind=kind,
        plural="",
        namespaced=False,
        check_name=name_is_subdomain,
        fields=Struct(f"core.v1.{kind}", *_STRUCTS[kind]),
        verbs=(),
    )


def connecting(name: str, kind: str) -> Subresource:
    """Return a subresource whose requests are forwarded to the pod, the service or the kubelet."""
    verbs = ("create", "delete", "get", "patch", "update") if name == "proxy" else ("create", "get")
    return Subresource(name=name, kind=kind, verbs=verbs, forwarded=True, options=options_of(kind))
