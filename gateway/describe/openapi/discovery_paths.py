"""Paths of discovery documents, of /version, about the issuer of service account tokens, and of the past.

The paths of the past are the same for every resource, which is a parameter of theirs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from actors.kinds.schema.fields import Struct
from actors.names import REWIND_GROUP
from gateway.describe.openapi.naming import Naming
from gateway.describe.openapi.operations import Operation, Path
from gateway.describe.openapi.parameters import DRY_RUN, NAME, NAMESPACE, PRETTY, Parameter
from gateway.wire import meta_types, rewind_types


@dataclass(frozen=True, slots=True)
class DiscoveryPaths:
    naming: Naming

    def versions(self) -> Path:
        return self._get(
            "/api/", "getCoreAPIVersions", "core", "Versions of the core group.", meta_types.API_VERSIONS
        )

    def groups(self) -> Path:
        return self._get("/apis/", "getAPIVersions", "apis", "API groups.", meta_types.API_GROUP_LIST)

    def group(self, group: str) -> Path:
        id_ = f"get{self.naming.infix(group)}APIGroup"
        text = "Versions of the group."
        return self._get(f"/apis/{group}/", id_, self.naming.tag(group), text, meta_types.API_GROUP)

    def resources(self, group: str, version: str) -> Path:
        id_ = f"get{self.naming.infix(group, version)}APIResources"
        path = f"/apis/{group}/{version}/" if group else f"/api/{version}/"
        tag, text = self.naming.tag(group, version), "Resources of the group version."
        return self._get(path, id_, tag, text, meta_types.API_RESOURCE_LIST)

    def version(self) -> Path:
        text, media = "Version of the server.", ("application/json",)
        return _get("/version/", "getCodeVersion", "version", text, meta_types.VERSION_INFO, media, media)

    def issuer_configuration(self) -> Path:
        return _get(
            "/.well-known/openid-configuration/",
            "getServiceAccountIssuerOpenIDConfiguration",
            "WellKnown",
            "OpenID configuration of the issuer of service account tokens.",
            None,
            ("application/json",),
        )

    def issuer_keys(self) -> Path:
        return _get(
            "/openid/v1/jwks/",
            "getServiceAccountIssuerOpenIDKeyset",
            "openid",
            "Public keys with which service account tokens are verified.",
            None,
            ("application/jwk-set+json",),
        )

    def _get(self, path: str, id_: str, tag: str, text: str, struct: Struct) -> Path:
        return _get(path, id_, tag, text, struct, self.naming.media, self.naming.media)


def paths_of_the_past(naming: Naming) -> Iterator[Path]:
    """The paths below every stored object in the group of the past, and those of the timeline."""
    root = f"/apis/{REWIND_GROUP}/v1"
    for place, suffix, more in (("", "", ()), ("/namespaces/{namespace}", "Namespaced", (NAMESPACE,))):
        for below, operation in _OF_THE_PAST.items():
            path = f"{root}{place}/{{resource}}/{{name}}/{below}"
            id_ = f"{operation.id}{suffix}"
            media = naming.media + (("text/plain",) if operation.method == "get" else ())
            described = replace(operation, tag=naming.tag(REWIND_GROUP, "v1"), id=id_, produces=media)
            yield Path(path, (NAME, *more, _RESOURCE, PRETTY), (described,))
    for below, operation in _OF_THE_TIMELINE.items():
        described = replace(operation, tag=naming.tag(REWIND_GROUP, "v1"), produces=naming.media)
        yield Path(f"{root}/timeline{below}", (PRETTY,), (described,))


_RESOURCE: Final = Parameter(
    "resource", "Resource of the object, with its group: deployments.apps.", place="path"
)
_UID: Final = Parameter("uid", "Which of the objects that had this name.")
_MANAGED: Final = Parameter(
    "managedFields", "false: patches leave out managedFields and resourceVersion.", "boolean"
)


def _past(
    method: str, id_: str, text: str, *parameters: Parameter, sends: Struct | None, returns: Struct
) -> Operation:
    status = 200 if method == "get" or sends is rewind_types.ROLLBACK else 201
    return Operation(
        tag="",
        method=method,
        id=id_,
        text=text,
        parameters=parameters,
        body=sends,
        consumes=("application/json",) if sends is not None else (),
        produces=(),
        responses=((status, "the request succeeded", returns),),
    )


_OF_THE_PAST: Final = {
    "history": _past(
        "get",
        "readRewoundV1History",
        "Read the versions of an object, newest first, or the difference of two versions.",
        Parameter("limit", "Maximum number of versions of a page: 50 by default, at most 500.", "integer"),
        Parameter("continue", "The continue token of the previous page, to get the next one."),
        Parameter("diff", "Two versions or times, A..B: read the difference between them instead."),
        _MANAGED,
        _UID,
        sends=None,
        returns=rewind_types.HISTORY,
    ),
    "blame": _past(
        "get",
        "readRewoundV1Blame",
        "Read who set each field of an object.",
        Parameter("at", "A version or a time: the fields that the object had then."),
        _UID,
        sends=None,
        returns=rewind_types.BLAME,
    ),
    "rollback": _past(
        "post",
        "createRewoundV1Rollback",
        "Update an object to what it was.",
        DRY_RUN,
        sends=rewind_types.ROLLBACK,
        returns=rewind_types.RESTORED,
    ),
    "undelete": _past(
        "post",
        "createRewoundV1Undelete",
        "Create a deleted object again.",
        DRY_RUN,
        sends=rewind_types.UNDELETE,
        returns=rewind_types.RESTORED,
    ),
}


_SCOPE: Final = (
    Parameter("type", "A resource with its group, deployments.apps; may be repeated. All unless given."),
    Parameter("namespace", "A namespace; may be repeated. All unless given."),
)
_FROM: Final = Parameter("from", "Begin with this time, or this version of an event.")
_TO: Final = Parameter("to", "End with this time, or this version of an event.")
_FILTERS: Final = (
    Parameter("name", "Name of the objects; web-* for a prefix."),
    Parameter("verb", "Verb with which they were written."),
    Parameter("user", "Who wrote them."),
)
_OF_THE_TIMELINE: Final = {
    "": _past(
        "get",
        "readRewoundV1Timeline",
        "Count the events of the journal per bucket of time, of what the caller may list.",
        *_SCOPE,
        _FROM,
        _TO,
        Parameter("buckets", "Maximum number of buckets: 500 by default, at most 2000.", "integer"),
        Parameter("by", "What is a row: type, namespace or both."),
        *_FILTERS,
        sends=None,
        returns=rewind_types.TIMELINE,
    ),
    "/events": _past(
        "get",
        "listRewoundV1TimelineEvents",
        "Read events of the journal, of what the caller may list.",
        *_SCOPE,
        _FROM,
        _TO,
        *_FILTERS,
        Parameter("limit", "Maximum number of events of a page: 100 by default, at most 1000.", "integer"),
        Parameter("continue", "The continue token of the previous page, to get the next one."),
        Parameter("order", "descending: newest first, or ascending."),
        Parameter("contents", "true: each event has its object.", "boolean"),
        Parameter("wait", "With order=ascending, wait for events for up to so many seconds.", "integer"),
        sends=None,
        returns=rewind_types.TIMELINE_EVENTS,
    ),
    "/types": _past(
        "get",
        "listRewoundV1TimelineTypes",
        "List the types whose events the caller sees.",
        *_SCOPE,
        sends=None,
        returns=rewind_types.TIMELINE_TYPES,
    ),
}


def _get(
    path: str,
    id_: str,
    tag: str,
    text: str,
    struct: Struct | None,
    media: tuple[str, ...],
    consumes: tuple[str, ...] = (),
) -> Path:
    responses = ((200, "the document", struct),)
    operation = Operation(tag=tag, id=id_, text=text, consumes=consumes, produces=media, responses=responses)
    return Path(path, (), (operation,))
