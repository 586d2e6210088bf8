"""Query and path parameters of operations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True, slots=True, eq=False)
class Parameter:
    """A parameter; compared by identity, so that writers find cached values quickly."""

    name: str
    text: str
    type: Literal["string", "integer", "boolean"] = "string"
    place: Literal["query", "path"] = "query"
    since: str = ""  # the first version of Kubernetes that has it


def in_order(parameters: Iterable[Parameter]) -> tuple[Parameter, ...]:
    return tuple(sorted(parameters, key=lambda one: (one.name, one.place)))


NAME: Final = Parameter("name", "Name of the object.", place="path")
NAMESPACE: Final = Parameter("namespace", "Namespace that the object is in.", place="path")
PRETTY: Final = Parameter("pretty", 'Indent the response: "true" or "false".')

DRY_RUN: Final = Parameter(
    "dryRun", "All: process the request without storing the change. No other value is allowed."
)
_MANAGER: Final = Parameter(
    "fieldManager", "Name of the field manager that makes this change and owns the fields that it sets."
)
_VALIDATION: Final = Parameter(
    "fieldValidation",
    "How unknown and duplicate fields are handled. Ignore: dropped. Warn, the default: dropped with a warning. "
    "Strict: the request is refused.",
)
_FORCE: Final = Parameter(
    "force", "Only for apply: take over fields that other managers own, instead of a conflict.", "boolean"
)
_VERSION: Final = Parameter("resourceVersion", "The version that the response must have, or be newer than.")
_TIMEOUT: Final = Parameter("timeoutSeconds", "How long the request, or a watch, may last.", "integer")
_SELECTION: Final = (
    Parameter("continue", "The continue token of the previous page, to get the next one."),
    Parameter(
        "fieldSelector",
        "Limits the list of returned objects to those whose fields have these values: metadata.name=web.",
    ),
    Parameter(
        "labelSelector",
        "Limits the list of returned objects to those with such labels: app=web,tier in (front,back),!old.",
    ),
    Parameter("limit", "Maximum number of objects of a page.", "integer"),
    _VERSION,
    Parameter(
        "resourceVersionMatch",
        "How resourceVersion is applied: Exact, or NotOlderThan. It requires resourceVersion.",
    ),
    Parameter(
        "sendInitialEvents",
        "Begin a watch with an event for every object that exists. It requires resourceVersionMatch.",
        "boolean",
        since="1.27",
    ),
    Parameter(
        "shardSelector", "Limits the list of returned objects to a range of hashes of a field.", since="1.36"
    ),
    _TIMEOUT,
)
_DELETION: Final = (
    DRY_RUN,
    Parameter(
        "gracePeriodSeconds", "Seconds until the object is deleted; 0 deletes it immediately.", "integer"
    ),
    Parameter(
        "ignoreStoreReadErrorWithClusterBreakingPotential",
        "Delete the object even if it cannot be read, without finalizers and preconditions.",
        "boolean",
        since="1.32",
    ),
    Parameter("orphanDependents", "Deprecated, use propagationPolicy: true is Orphan.", "boolean"),
    Parameter(
        "propagationPolicy",
        "What happens to dependents of the object. Orphan: they stay. Background: they are deleted afterwards. "
        "Foreground: they are deleted first.",
    ),
)
_AT: Final = Parameter(
    "at",
    "Read objects as they were at this resourceVersion or time (RFC 3339), as far back as the journal goes.",
)
READ: Final = (_AT,)
READ_CUSTOM: Final = (_AT, _VERSION)
LIST: Final = (
    Parameter(
        "allowWatchBookmarks",
        "Send bookmark events with the current resourceVersion during a watch.",
        "boolean",
    ),
    _AT,
    *_SELECTION,
    Parameter("watch", "Watch for changes to the described resources: stream them as events.", "boolean"),
)
WRITE: Final = (DRY_RUN, _MANAGER, _VALIDATION)
PATCH: Final = (DRY_RUN, _MANAGER, _VALIDATION, _FORCE)
DELETE: Final = _DELETION
DELETE_COLLECTION: Final = (*_SELECTION, *_DELETION)
# For custom kinds v1.25 lists the parameters of a list there, which a DELETE accepts and ignores.
DELETE_CUSTOM_COLLECTION: Final = (
    *(one for one in LIST if one is not _AT and one not in _SELECTION),
    *DELETE_COLLECTION,
)

_CONTAINER: Final = Parameter("container", "Container of the pod; required if it has several.")
_STREAMS: Final = (
    Parameter("stdin", "Connect the standard input.", "boolean"),
    Parameter("stdout", "Connect the standard output.", "boolean"),
    Parameter("stderr", "Connect the standard error.", "boolean"),
    Parameter("tty", "Run in a terminal.", "boolean"),
)
# Parameters of subresources that a kubelet serves, by subresource.
SERVED_BY_NODE: Final = {
    "attach": (_CONTAINER, *_STREAMS),
    "exec": (Parameter("command", "The command, one word at a time."), _CONTAINER, *_STREAMS),
    "log": (
        _CONTAINER,
        Parameter("follow", "Stream new log lines.", "boolean"),
        Parameter("insecureSkipTLSVerifyBackend", "Do not verify the kubelet's certificate.", "boolean"),
        Parameter("limitBytes", "Maximum number of bytes.", "integer"),
        Parameter("previous", "The log of the previous instance of the container.", "boolean"),
        Parameter("sinceSeconds", "Maximum age of log lines in seconds.", "integer"),
        Parameter("tailLines", "Number of lines from the end.", "integer"),
        Parameter("timestamps", "Begin every line with its timestamp.", "boolean"),
    ),
    "portforward": (Parameter("ports", "Ports of the pod to connect to.", "integer"),),
    "proxy": (Parameter("path", "Path of the request that is forwarded."),),
}
PROXY_PATH: Final = Parameter("path", "Path of the request that is forwarded.", place="path")
