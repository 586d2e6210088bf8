"""Sections of the API: each has one document in OpenAPI 3.0; OpenAPI 2.0 has all of them in one document.

Most are group versions with the paths of their kinds. The others have paths without a kind: discovery, /version, the
issuer of service account tokens, and history, whose types are declared here like kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from rewound.actors.kinds.catalog import Catalog
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.schema.fields import ANY_JSON, BOOL, INT64, STRING, STRINGS, Field, ListOf, Struct
from rewound.actors.names import REWIND_GROUP
from rewound.gateway.describe.openapi.naming import Naming
from rewound.gateway.describe.openapi.operations import Operation, Operations, Path
from rewound.gateway.describe.openapi.parameters import DRY_RUN, NAME, NAMESPACE, PRETTY, Parameter
from rewound.gateway.wire import meta_types
from rewound.gateway.wire.meta_types import LIST_META


@dataclass(frozen=True, slots=True)
class Section:
    """`name` is its path below /openapi/v3: api/v1, apis/apps/v1.

    Its paths are created with its document: there may be a thousand groups, and clients want one.
    """

    name: str
    discovery_path: Callable[[], Path] | None  # None: discovery is not described, as for custom kinds
    definitions: tuple[Definition, ...]
    verbs: frozenset[str]  # verbs that the server serves
    naming: Naming
    more_paths: tuple[Path, ...] = ()  # paths that do not belong to one definition

    @property
    def group_version(self) -> tuple[str, str]:
        _, group, version = ("", *self.name.split("/"))[-3:] if "/" in self.name else ("", "", "")
        return ("", version) if group == "api" else (group, version)

    def paths(self) -> Iterator[Path]:
        if self.discovery_path is not None:
            yield self.discovery_path()
        yield from self.more_paths
        for definition in self.definitions:
            yield from Operations(definition, self.verbs, self.naming).paths()


NOTHING: Final[Mapping[str, Section]] = {}


def sections(
    catalog: Catalog,
    verbs: frozenset[str],
    naming: Naming,
    *,
    describes_issuer: bool = True,
    describes_history: bool = True,
    known: Mapping[str, Section] = NOTHING,
) -> Iterator[Section]:
    """The sections of a catalog; those of an earlier one (`known`) are reused if their definitions are the same."""
    paths = DiscoveryPaths(naming)

    def section(
        name: str, path: Callable[[], Path] | None, definitions: tuple[Definition, ...] = ()
    ) -> Section:
        return Section(name, path, definitions, verbs, naming)

    yield section("api", paths.versions)
    yield section("apis", paths.groups)
    yield section("version", paths.version)
    if describes_issuer:
        yield section(".well-known/openid-configuration", paths.issuer_configuration)
        yield section("openid/v1/jwks", paths.issuer_keys)
    if describes_history:
        yield section(f"apis/{REWIND_GROUP}", partial(paths.group, REWIND_GROUP))
        resources, past = partial(paths.resources, REWIND_GROUP, "v1"), tuple(history_paths(naming))
        yield Section(f"apis/{REWIND_GROUP}/v1", resources, (), verbs, naming, past)
    for group, versions in catalog.groups().items():
        found = {version: catalog.of_version(group, version) for version in versions}
        if group and not all(map(_are_custom, found.values())):
            name = f"apis/{group}"
            yield known.get(name) or section(name, partial(paths.group, group))
        for version, definitions in found.items():
            name = f"apis/{group}/{version}" if group else f"api/{version}"
            old = known.get(name)
            if old is None or old.definitions != definitions:
                path = None if _are_custom(definitions) else partial(paths.resources, group, version)
                old = section(name, path, definitions)
            yield old


def _are_custom(definitions: tuple[Definition, ...]) -> bool:
    return all(one.is_custom for one in definitions)


_EVENT = (
    Field("version", STRING, 0),
    Field("time", STRING, 0),
    Field("user", STRING, 0),
    Field("verb", STRING, 0),
    Field("fieldManager", STRING, 0),
    Field("reason", STRING, 0),
    Field("guessed", BOOL, 0),
    Field("userGuessed", BOOL, 0),
)
_OBJECT = Struct(
    "rewound.v1.ObjectName",
    Field("apiVersion", STRING, 0),
    Field("kind", STRING, 0),
    Field("namespace", STRING, 0),
    Field("name", STRING, 0),
)
_OPERATION = Struct(
    "rewound.v1.PatchOperation",
    Field("op", STRING, 0),
    Field("path", STRING, 0),
    Field("value", ANY_JSON, 0),
)
_VALUE_CHANGE = Struct(
    "rewound.v1.ValueChange",
    Field("path", STRING, 0),
    Field("before", ANY_JSON, 0),
    Field("after", ANY_JSON, 0),
)
_VERSION = Struct(
    "rewound.v1.ObjectVersion",
    *_EVENT,
    Field("uid", STRING, 0),
    Field("deleted", BOOL, 0),
    Field("compacted", BOOL, 0),
    Field("patch", ListOf(_OPERATION), 0),
    Field("changes", ListOf(_VALUE_CHANGE), 0),
)
_END = Struct("rewound.v1.DifferenceEnd", Field("version", STRING, 0), Field("objectVersion", STRING, 0))
_FIELD = Struct(
    "rewound.v1.FieldOwner",
    Field("field", STRING, 0),
    Field("path", STRING, 0),
    Field("value", ANY_JSON, 0),
    *_EVENT,
    Field("compacted", BOOL, 0),
)
# The response to `history` is a History or, with `diff`, a Difference, whose fields are here too.
HISTORY = Struct(
    "rewound.v1.History",
    Field("metadata", LIST_META, 0),
    Field("object", _OBJECT, 0),
    Field("items", ListOf(_VERSION), 0),
    Field("from", _END, 0),
    Field("to", _END, 0),
    Field("patch", ListOf(_OPERATION), 0),
)
BLAME = Struct(
    "rewound.v1.Blame",
    Field("object", _OBJECT, 0),
    Field("version", STRING, 0),
    Field("time", STRING, 0),
    Field("fields", ListOf(_FIELD), 0),
    Field("leftOut", INT64, 0),
)
ROLLBACK = Struct("rewound.v1.Rollback", Field("to", STRING, 0, required=True), Field("fields", STRINGS, 0))
UNDELETE = Struct("rewound.v1.Undelete", Field("uid", STRING, 0))
RESTORED = Struct("rewound.v1.RestoredObject")  # an object of any kind

# The timeline.
_MOMENT = Struct("rewound.v1.JournalEnd", Field("version", STRING, 0), Field("time", INT64, 0))
_ENDS = (Field("oldest", _MOMENT, 0), Field("newest", _MOMENT, 0), Field("now", INT64, 0))
_ROW = Struct(
    "rewound.v1.TimelineRow",
    Field("type", STRING, 0),
    Field("namespace", STRING, 0),
    Field("total", INT64, 0),
    Field("objects", INT64, 0),
    Field("cells", ListOf(INT64), 0),
)
_READING = Struct("rewound.v1.TimelineReading", Field("from", STRING, 0))
_INDEXED = Struct(
    "rewound.v1.TimelineIndexed",
    Field("from", STRING, 0),
    Field("upto", STRING, 0),
    Field("oldest", STRING, 0),
    Field("newest", STRING, 0),
)
TIMELINE = Struct(
    "rewound.v1.Timeline",
    *_ENDS,
    Field("start", INT64, 0),
    Field("width", INT64, 0),
    Field("buckets", INT64, 0),
    Field("rows", ListOf(_ROW), 0),
    Field("rowsLeftOut", INT64, 0),
    Field("searchedFrom", STRING, 0),
    Field("reading", _READING, 0),
    Field("indexed", _INDEXED, 0),
)
_FIELD_CHANGE = Struct(
    "rewound.v1.FieldChange", Field("field", STRING, 0), Field("old", ANY_JSON, 0), Field("new", ANY_JSON, 0)
)
_SUMMARY = Struct(
    "rewound.v1.TimelineSummary",
    Field("changes", ListOf(_FIELD_CHANGE), 0),
    Field("more", INT64, 0),
    Field("statusOnly", BOOL, 0),
    Field("text", STRING, 0),
    Field("compacted", BOOL, 0),
)
_JOURNAL_EVENT = Struct(
    "rewound.v1.TimelineEvent",
    *_EVENT,
    Field("micros", INT64, 0),
    Field("change", STRING, 0),
    Field("type", STRING, 0),
    Field("namespace", STRING, 0),
    Field("name", STRING, 0),
    Field("uid", STRING, 0),
    Field("previous", STRING, 0),
    Field("object", ANY_JSON, 0),
    Field("before", ANY_JSON, 0),
    Field("summary", _SUMMARY, 0),
)
TIMELINE_EVENTS = Struct(
    "rewound.v1.TimelineEvents",
    Field("metadata", LIST_META, 0),
    *_ENDS,
    Field("upto", STRING, 0),
    Field("indexed", _INDEXED, 0),
    Field("items", ListOf(_JOURNAL_EVENT), 0),
)
_LIFELINE = Struct(
    "rewound.v1.TimelineObject",
    Field("type", STRING, 0),
    Field("kind", STRING, 0),
    Field("namespace", STRING, 0),
    Field("name", STRING, 0),
    Field("uid", STRING, 0),
    Field("created", INT64, 0),
    Field("deleted", INT64, 0),
    Field("owner", STRING, 0),
    Field("depth", INT64, 0),
    Field("changes", INT64, 0),
    Field("phases", ListOf(ANY_JSON), 0),
    Field("marks", ListOf(INT64), 0),
    Field("authors", STRINGS, 0),
)
TIMELINE_OBJECTS = Struct(
    "rewound.v1.TimelineObjects",
    Field("metadata", LIST_META, 0),
    *_ENDS,
    Field("total", INT64, 0),
    Field("leftOut", INT64, 0),
    Field("reading", _READING, 0),
    Field("indexed", _INDEXED, 0),
    Field("searchedFrom", STRING, 0),
    Field("items", ListOf(_LIFELINE), 0),
)
_AUTHOR = Struct("rewound.v1.TimelineAuthor", Field("user", STRING, 0), Field("fieldManager", STRING, 0))
_FIGHT = Struct(
    "rewound.v1.TimelineFight",
    Field("type", STRING, 0),
    Field("namespace", STRING, 0),
    Field("name", STRING, 0),
    Field("field", STRING, 0),
    Field("turns", INT64, 0),
    Field("version", STRING, 0),
    Field("micros", INT64, 0),
    Field("authors", ListOf(_AUTHOR), 0),
)
TIMELINE_HIGHLIGHTS = Struct(
    "rewound.v1.TimelineHighlights",
    *_ENDS,
    Field("reading", _READING, 0),
    Field("indexed", _INDEXED, 0),
    Field("fights", ListOf(_FIGHT), 0),
    Field("failing", ListOf(ANY_JSON), 0),
    Field("failingTotal", INT64, 0),
    Field("failingPartly", BOOL, 0),
)
_COMPARED = Struct(
    "rewound.v1.ComparedObject",
    Field("change", STRING, 0),
    Field("type", STRING, 0),
    Field("kind", STRING, 0),
    Field("namespace", STRING, 0),
    Field("name", STRING, 0),
    Field("uid", STRING, 0),
    Field("from", STRING, 0),
    Field("to", STRING, 0),
    Field("summary", _SUMMARY, 0),
)
_COUNTS = Struct(
    "rewound.v1.ComparisonCounts",
    Field("added", INT64, 0),
    Field("removed", INT64, 0),
    Field("changed", INT64, 0),
)
TIMELINE_COMPARISON = Struct(
    "rewound.v1.TimelineComparison",
    Field("metadata", LIST_META, 0),
    *_ENDS,
    Field("from", _MOMENT, 0),
    Field("to", _MOMENT, 0),
    Field("counts", _COUNTS, 0),
    Field("leftOut", INT64, 0),
    Field("indexed", _INDEXED, 0),
    Field("searchedFrom", STRING, 0),
    Field("items", ListOf(_COMPARED), 0),
)
_REFUSED = Struct(
    "rewound.v1.RefusedRequest",
    Field("time", STRING, 0),
    Field("micros", INT64, 0),
    Field("user", STRING, 0),
    Field("verb", STRING, 0),
    Field("type", STRING, 0),
    Field("subresource", STRING, 0),
    Field("namespace", STRING, 0),
    Field("name", STRING, 0),
    Field("code", INT64, 0),
    Field("reason", STRING, 0),
    Field("message", STRING, 0),
    Field("userAgent", STRING, 0),
    Field("sourceIPs", STRINGS, 0),
    Field("auditID", STRING, 0),
)
TIMELINE_REFUSED = Struct("rewound.v1.TimelineRefused", Field("items", ListOf(_REFUSED), 0))
_TYPE = Struct(
    "rewound.v1.TimelineType",
    Field("type", STRING, 0),
    Field("apiVersion", STRING, 0),
    Field("resource", STRING, 0),
    Field("kind", STRING, 0),
    Field("namespaced", BOOL, 0),
    Field("singular", STRING, 0),
    Field("shortNames", STRINGS, 0),
)
_ABOUT = Struct(
    "rewound.v1.TimelineAbout",
    Field("title", STRING, 0),
    Field("server", STRING, 0),
    Field("dialect", STRING, 0),
    Field("kubernetes", STRING, 0),
    Field("release", STRING, 0),
    Field("replay", Struct("rewound.v1.TimelineReplay", Field("of", STRING, 0)), 0),
    Field(
        "recorded",
        Struct("rewound.v1.TimelineRecording", Field("server", STRING, 0), Field("exactFrom", STRING, 0)),
        0,
    ),
)
TIMELINE_TYPES = Struct(
    "rewound.v1.TimelineTypes",
    Field("user", STRING, 0),
    Field("metaGroup", STRING, 0),
    Field("replays", BOOL, 0),
    Field("about", _ABOUT, 0),
    Field("items", ListOf(_TYPE), 0),
)


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
        media = self.naming.media
        return _get(path, id_, tag, text, meta_types.API_RESOURCE_LIST, media, media)

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
        media = self.naming.media_without_cbor
        return _get(path, id_, tag, text, struct, media, media)


def history_paths(naming: Naming) -> Iterator[Path]:
    """The paths below every stored object in the group rewound.cluster.io, and those of the timeline."""
    root = f"/apis/{REWIND_GROUP}/v1"
    for place, suffix, more in (("", "", ()), ("/namespaces/{namespace}", "Namespaced", (NAMESPACE,))):
        for below, operation in _HISTORY_OPERATIONS.items():
            path = f"{root}{place}/{{resource}}/{{name}}/{below}"
            id_ = f"{operation.id}{suffix}"
            media = naming.media_without_cbor + (("text/plain",) if operation.method == "get" else ())
            described = replace(operation, tag=naming.tag(REWIND_GROUP, "v1"), id=id_, produces=media)
            yield Path(path, (NAME, *more, _RESOURCE, PRETTY), (described,))
    for below, operation in _OF_THE_TIMELINE.items():
        described = replace(operation, tag=naming.tag(REWIND_GROUP, "v1"), produces=naming.media_without_cbor)
        yield Path(f"{root}/timeline{below}", (PRETTY,), (described,))


_RESOURCE: Final = Parameter(
    "resource", "Resource of the object, with its group: deployments.apps.", place="path"
)
_UID: Final = Parameter("uid", "Which of the objects that had this name.")
_MANAGED: Final = Parameter(
    "managedFields", "false: patches leave out managedFields and resourceVersion.", "boolean"
)


def _history_operation(
    method: str, id_: str, text: str, *parameters: Parameter, sends: Struct | None, returns: Struct
) -> Operation:
    status = 200 if method == "get" or sends is ROLLBACK else 201
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


_HISTORY_OPERATIONS: Final = {
    "history": _history_operation(
        "get",
        "readRewoundV1History",
        "Read the versions of an object, newest first, or the difference of two versions.",
        Parameter("limit", "Maximum number of versions of a page: 50 by default, at most 500.", "integer"),
        Parameter("changes", "true: each version has its changes with old and new values.", "boolean"),
        Parameter("continue", "The continue token of the previous page, to get the next one."),
        Parameter("diff", "Two versions or times, A..B: read the difference between them instead."),
        Parameter("to", "A version or a time: only versions up to it."),
        _MANAGED,
        _UID,
        sends=None,
        returns=HISTORY,
    ),
    "blame": _history_operation(
        "get",
        "readRewoundV1Blame",
        "Read who set each field of an object.",
        Parameter("at", "A version or a time: the fields that the object had then."),
        _UID,
        sends=None,
        returns=BLAME,
    ),
    "rollback": _history_operation(
        "post",
        "createRewoundV1Rollback",
        "Update an object to what it was.",
        DRY_RUN,
        sends=ROLLBACK,
        returns=RESTORED,
    ),
    "undelete": _history_operation(
        "post",
        "createRewoundV1Undelete",
        "Create a deleted object again.",
        DRY_RUN,
        sends=UNDELETE,
        returns=RESTORED,
    ),
}


_SCOPE: Final = (
    Parameter(
        "type", "A kind: deployments.apps, deployment, deploy; !leases leaves one out. May be repeated."
    ),
    Parameter("namespace", "A namespace; !kube-system leaves one out. May be repeated."),
)
_FROM: Final = Parameter("from", "Begin with this time, or this version of an event.")
_TO: Final = Parameter("to", "End with this time, or this version of an event.")
_FILTERS: Final = (
    Parameter("name", "Name of the objects; web-* for a prefix, !web-* leaves out. May be repeated."),
    Parameter("verb", "Verb with which they were written. May be repeated."),
    Parameter("user", "Who wrote them; system:* for a prefix, !system:* leaves out. May be repeated."),
    Parameter("manager", "With which field manager. May be repeated."),
    Parameter(
        "q", "Words that they must have, each from its beginning: in names, changed fields, values, authors."
    ),
)
_OF_THE_TIMELINE: Final = {
    "": _history_operation(
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
        returns=TIMELINE,
    ),
    "/events": _history_operation(
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
        Parameter("before", "true: with contents, each event has what its object was before.", "boolean"),
        Parameter("summary", "true: each event says which fields it changed.", "boolean"),
        Parameter("wait", "With order=ascending, wait for events for up to so many seconds.", "integer"),
        sends=None,
        returns=TIMELINE_EVENTS,
    ),
    "/objects": _history_operation(
        "get",
        "listRewoundV1TimelineObjects",
        "Read the lives of objects in a range of time, with their phases, of what the caller may list.",
        *_SCOPE,
        _FROM,
        _TO,
        *_FILTERS,
        Parameter("roots", "false: busiest first, without an order by owners.", "boolean"),
        Parameter("limit", "Maximum number of objects of a page: 200 by default, at most 1000.", "integer"),
        Parameter("continue", "The continue token of the previous page, to get the next one."),
        sends=None,
        returns=TIMELINE_OBJECTS,
    ),
    "/highlights": _history_operation(
        "get",
        "readRewoundV1TimelineHighlights",
        "Read which fields several authors set in turn, and which objects fail, of what the caller may list.",
        *_SCOPE,
        _FROM,
        _TO,
        *_FILTERS,
        sends=None,
        returns=TIMELINE_HIGHLIGHTS,
    ),
    "/comparison": _history_operation(
        "get",
        "readRewoundV1TimelineComparison",
        "Compare two moments: which objects were added, removed and changed, of what the caller may list.",
        *_SCOPE,
        _FROM,
        _TO,
        *_FILTERS,
        Parameter("limit", "Maximum number of objects of a page: 100 by default, at most 1000.", "integer"),
        Parameter("continue", "The continue token of the previous page, to get the next one."),
        sends=None,
        returns=TIMELINE_COMPARISON,
    ),
    "/refused": _history_operation(
        "get",
        "listRewoundV1TimelineRefused",
        "List writes that the server or the recorded one refused, newest first, where the caller sees the author.",
        *_SCOPE,
        _FROM,
        _TO,
        *_FILTERS[:3],
        Parameter("limit", "Maximum number of requests: 100 by default, at most 1000.", "integer"),
        sends=None,
        returns=TIMELINE_REFUSED,
    ),
    "/types": _history_operation(
        "get",
        "listRewoundV1TimelineTypes",
        "List the types whose events the caller sees.",
        *_SCOPE,
        sends=None,
        returns=TIMELINE_TYPES,
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
