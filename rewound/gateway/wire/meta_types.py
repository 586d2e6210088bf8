"""Types of requests and responses that are not kinds of a group: Status, ListMeta, discovery and version documents.

They are declared like kinds, so that protobuf encoding and OpenAPI are derived from the declarations.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from rewound.actors.kinds.core.pod import DELETE_OPTIONS
from rewound.actors.kinds.declaration.meta import METADATA
from rewound.actors.kinds.schema.fields import (
    ANY_JSON,
    BOOL,
    INT32,
    INT64,
    STRING,
    STRINGS,
    CustomStruct,
    Field,
    ListOf,
    Struct,
    Type,
)

__all__ = [
    "API_GROUP",
    "API_GROUP_LIST",
    "API_RESOURCE_LIST",
    "API_VERSIONS",
    "DELETE_OPTIONS",
    "LIST_META",
    "PARTIAL_OBJECT_METADATA",
    "PATCH",
    "STATUS",
    "VERSION_INFO",
    "WATCH_EVENT",
]


def _always(name: str, type_: Type, number: int) -> Field:
    """A field that every response has, even if it is empty."""
    return Field(name, type_, number, required=True, always=True)


LIST_META = Struct(
    "meta.v1.ListMeta",
    Field("selfLink", STRING, 1),
    Field("resourceVersion", STRING, 2),
    Field("continue", STRING, 3),
    Field("remainingItemCount", INT64, 4, pointer=True),
)
_STATUS_CAUSE = Struct(
    "meta.v1.StatusCause", Field("reason", STRING, 1), Field("message", STRING, 2), Field("field", STRING, 3)
)
_STATUS_DETAILS = Struct(
    "meta.v1.StatusDetails",
    Field("name", STRING, 1),
    Field("group", STRING, 2),
    Field("kind", STRING, 3),
    Field("uid", STRING, 6),
    Field("causes", ListOf(_STATUS_CAUSE), 4),
    Field("retryAfterSeconds", INT32, 5),
)
STATUS = Struct(
    "meta.v1.Status",
    Field("metadata", LIST_META, 1),
    Field("status", STRING, 2),
    Field("message", STRING, 3),
    Field("reason", STRING, 4),
    Field("details", _STATUS_DETAILS, 5, pointer=True),
    Field("code", INT32, 6),
)
PARTIAL_OBJECT_METADATA = Struct("meta.v1.PartialObjectMetadata", METADATA)
WATCH_EVENT = Struct(
    "meta.v1.WatchEvent",
    _always("type", STRING, 1),
    _always("object", ANY_JSON, 2),
)
PATCH = Struct("meta.v1.Patch")  # a body in any of the patch formats

_SERVER_ADDRESS = Struct(
    "meta.v1.ServerAddressByClientCIDR",
    _always("clientCIDR", STRING, 1),
    _always("serverAddress", STRING, 2),
)
_GROUP_VERSION = Struct(
    "meta.v1.GroupVersionForDiscovery",
    _always("groupVersion", STRING, 1),
    _always("version", STRING, 2),
)
_API_RESOURCE = Struct(
    "meta.v1.APIResource",
    _always("name", STRING, 1),
    _always("singularName", STRING, 6),
    _always("namespaced", BOOL, 2),
    Field("group", STRING, 8),
    Field("version", STRING, 9),
    _always("kind", STRING, 3),
    _always("verbs", ListOf(STRING, boxed=True), 4),
    Field("shortNames", STRINGS, 5),
    Field("categories", STRINGS, 7),
    Field("storageVersionHash", STRING, 10),
)
API_VERSIONS = Struct(
    "meta.v1.APIVersions",
    _always("versions", STRINGS, 1),
    _always("serverAddressByClientCIDRs", ListOf(_SERVER_ADDRESS), 2),
)
API_GROUP = Struct(
    "meta.v1.APIGroup",
    _always("name", STRING, 1),
    _always("versions", ListOf(_GROUP_VERSION), 2),
    Field("preferredVersion", _GROUP_VERSION, 3),
    Field("serverAddressByClientCIDRs", ListOf(_SERVER_ADDRESS), 4),
)
API_GROUP_LIST = Struct("meta.v1.APIGroupList", _always("groups", ListOf(API_GROUP), 1))
API_RESOURCE_LIST = Struct(
    "meta.v1.APIResourceList",
    _always("groupVersion", STRING, 1),
    _always("resources", ListOf(_API_RESOURCE), 2),
)
VERSION_INFO = Struct(
    "version.Info",
    *(
        _always(part, STRING, 0)
        for part in (
            "major",
            "minor",
            "gitVersion",
            "gitCommit",
            "gitTreeState",
            "buildDate",
            "goVersion",
            "compiler",
            "platform",
        )
    ),
)


def list_of(struct: Struct) -> Struct:
    """The list type of a kind. Kinds do not declare it, because all lists have the same fields."""
    if isinstance(struct, CustomStruct):  # not cached: custom kinds come and go
        return CustomStruct(struct.group, struct.version, struct.list_kind, *_list_fields(struct))
    return _list_of(struct)


# The same struct for a kind each time, because protobuf writers are cached by struct.
@lru_cache(maxsize=4096)
def _list_of(struct: Struct) -> Struct:
    return Struct(f"{struct.of}List", *_list_fields(struct))


def _list_fields(struct: Struct) -> tuple[Field, Field]:
    items = _always("items", ListOf(struct), 2)
    if struct.name == "CSIStorageCapacity":  # v1.25 declares merge keys only for the lists of this kind
        items = replace(items, list_type="map", list_keys=("name",))
    return Field("metadata", LIST_META, 1), items
