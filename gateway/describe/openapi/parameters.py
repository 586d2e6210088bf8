"""What may be said in a query and what stands in a path, by what is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    text: str
    type: Literal["string", "integer", "boolean"] = "string"
    place: Literal["query", "path"] = "query"


NAME: Final = Parameter("name", "Name of the object.", place="path")
NAMESPACE: Final = Parameter("namespace", "Namespace that the object is in.", place="path")
PRETTY: Final = Parameter("pretty", 'Indent the answer for people: "true" or "false".')

DRY_RUN: Final = Parameter("dryRun", "All: do everything but keep the change. Nothing else is allowed.")
_MANAGER: Final = Parameter("fieldManager", "Who makes this change and comes to own the fields that it sets.")
_VALIDATION: Final = Parameter(
    "fieldValidation",
    "What becomes of unknown and repeated fields. Ignore: dropped. Warn: dropped with a warning, which is usual. "
    "Strict: the request is refused.",
)
_FORCE: Final = Parameter(
    "force", "Of an apply alone: take over fields that others own, instead of a conflict.", "boolean"
)
_VERSION: Final = Parameter("resourceVersion", "The version that the answer must show, or be newer than.")
_TIMEOUT: Final = Parameter("timeoutSeconds", "How long the request, or a watch, may last.", "integer")
_SELECTION: Final = (
    Parameter("continue", "The token of the last page, to get the one that follows it."),
    Parameter("fieldSelector", "Only objects whose fields have these values: metadata.name=web."),
    Parameter("labelSelector", "Only objects with such labels: app=web,tier in (front,back),!old."),
    Parameter("limit", "How many objects a page has at most.", "integer"),
    _VERSION,
    Parameter(
        "resourceVersionMatch",
        "How resourceVersion is meant: Exact, or NotOlderThan. It needs one to be given.",
    ),
    _TIMEOUT,
)
_DELETION: Final = (
    DRY_RUN,
    Parameter("gracePeriodSeconds", "How long the object has to come to its end; 0 is at once.", "integer"),
    Parameter("orphanDependents", "Old form of propagationPolicy: true is Orphan.", "boolean"),
    Parameter(
        "propagationPolicy",
        "What becomes of those that the object owns. Orphan: they stay. Background: they go afterwards. "
        "Foreground: they go first.",
    ),
)
READ: Final = ()
LIST: Final = (
    Parameter("allowWatchBookmarks", "Of a watch: tell now and then how far it has come.", "boolean"),
    *_SELECTION,
    Parameter("watch", "Go on with the changes that follow, as a stream of events.", "boolean"),
)
WRITE: Final = (DRY_RUN, _MANAGER, _VALIDATION)
PATCH: Final = (DRY_RUN, _MANAGER, _VALIDATION, _FORCE)
DELETE: Final = _DELETION
DELETE_COLLECTION: Final = (*_SELECTION, *_DELETION)

_CONTAINER: Final = Parameter("container", "Which container of the pod; needed where it has several.")
_STREAMS: Final = (
    Parameter("stdin", "Connect the standard input.", "boolean"),
    Parameter("stdout", "Connect the standard output.", "boolean"),
    Parameter("stderr", "Connect the standard error.", "boolean"),
    Parameter("tty", "Run in a terminal.", "boolean"),
)
# Subresources that an agent would answer, by name.
OF_AGENTS: Final = {
    "attach": (_CONTAINER, *_STREAMS),
    "exec": (Parameter("command", "The command, one word at a time."), _CONTAINER, *_STREAMS),
    "log": (
        _CONTAINER,
        Parameter("follow", "Go on with what is written from now on.", "boolean"),
        Parameter("insecureSkipTLSVerifyBackend", "Do not check the agent's certificate.", "boolean"),
        Parameter("limitBytes", "How many bytes at most.", "integer"),
        Parameter("previous", "Of the container that ran before this one.", "boolean"),
        Parameter("sinceSeconds", "Not older than so many seconds.", "integer"),
        Parameter("tailLines", "So many lines from the end.", "integer"),
        Parameter("timestamps", "Begin every line with the time it was written.", "boolean"),
    ),
    "portforward": (Parameter("ports", "Ports of the pod to connect to."),),
    "proxy": (Parameter("path", "Path to ask for behind the proxy."),),
}
