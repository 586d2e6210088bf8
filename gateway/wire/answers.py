"""What the server takes and gives besides objects of kinds, declared in the alphabet that kinds are declared in."""

from __future__ import annotations

from functools import lru_cache

from actors.kinds.core.pods.eviction import DELETE_OPTIONS
from actors.kinds.declaration.meta import METADATA
from actors.kinds.schema.fields import (
    ANY_JSON,
    BOOL,
    INT32,
    INT64,
    STRING,
    STRINGS,
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
    "BUILD",
    "DELETE_OPTIONS",
    "LIST_META",
    "PARTIAL",
    "PATCH",
    "STATUS",
    "WATCH_EVENT",
]


def _shown(name: str, type_: Type, number: int) -> Field:
    """One that is there in every answer."""
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
PARTIAL = Struct("meta.v1.PartialObjectMetadata", METADATA)
WATCH_EVENT = Struct(
    "meta.v1.WatchEvent",
    _shown("type", STRING, 1),
    _shown("object", ANY_JSON, 2),
)
PATCH = Struct("meta.v1.Patch")  # whatever one of the patch formats has for a body

_ADDRESS = Struct(
    "meta.v1.ServerAddressByClientCIDR",
    _shown("clientCIDR", STRING, 1),
    _shown("serverAddress", STRING, 2),
)
_GROUP_VERSION = Struct(
    "meta.v1.GroupVersionForDiscovery",
    _shown("groupVersion", STRING, 1),
    _shown("version", STRING, 2),
)
_API_RESOURCE = Struct(
    "meta.v1.APIResource",
    _shown("name", STRING, 1),
    _shown("singularName", STRING, 6),
    _shown("namespaced", BOOL, 2),
    Field("group", STRING, 8),
    Field("version", STRING, 9),
    _shown("kind", STRING, 3),
    _shown("verbs", ListOf(STRING, boxed=True), 4),
    Field("shortNames", STRINGS, 5),
    Field("categories", STRINGS, 7),
    Field("storageVersionHash", STRING, 10),
)
API_VERSIONS = Struct(
    "meta.v1.APIVersions",
    _shown("versions", STRINGS, 1),
    _shown("serverAddressByClientCIDRs", ListOf(_ADDRESS), 2),
)
API_GROUP = Struct(
    "meta.v1.APIGroup",
    _shown("name", STRING, 1),
    _shown("versions", ListOf(_GROUP_VERSION), 2),
    Field("preferredVersion", _GROUP_VERSION, 3),
    Field("serverAddressByClientCIDRs", ListOf(_ADDRESS), 4),
)
API_GROUP_LIST = Struct("meta.v1.APIGroupList", _shown("groups", ListOf(API_GROUP), 1))
API_RESOURCE_LIST = Struct(
    "meta.v1.APIResourceList",
    _shown("groupVersion", STRING, 1),
    _shown("resources", ListOf(_API_RESOURCE), 2),
)
BUILD = Struct(
    "version.Info",
    *(
        _shown(part, STRING, 0)
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


@lru_cache(maxsize=4096)  # one for each kind, because messages are compiled for each struct
def list_of(struct: Struct) -> Struct:
    """The list of a kind's objects, which no kind declares because all are alike."""
    return Struct(
        f"{struct.of}List",
        Field("metadata", LIST_META, 1),
        _shown("items", ListOf(struct), 2),
    )
