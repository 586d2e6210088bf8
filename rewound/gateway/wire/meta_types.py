"""Types of requests and responses that are not kinds of a group: Status, ListMeta, discovery and version documents.

They are declared like kinds, so that protobuf encoding and OpenAPI are derived from the declarations.
"""

from __future__ import annotations

from functools import lru_cache

from msgspec.structs import replace

from rewound.actors.kinds.core.pod import DELETE_OPTIONS
from rewound.actors.kinds.declaration.meta import METADATA
from rewound.actors.kinds.schema.fields import (
    ANY_JSON,
    BOOL,
    INT32,
    INT64,
    STRING,
    UNTYPED_BEFORE_1_30,
    Before,
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


def _list(name: str, item: Type, number: int, *, always: bool = False) -> Field:
    return Field(
        name,
        ListOf(item),
        number,
        required=always,
        always=always,
        list_type="atomic",
        before=UNTYPED_BEFORE_1_30,
    )


_SHARD_INFO = Struct("meta.v1.ShardInfo", _always("selector", STRING, 1))
LIST_META = Struct(
    "meta.v1.ListMeta",
    Field("selfLink", STRING, 1),
    Field("resourceVersion", STRING, 2),
    Field("continue", STRING, 3),
    Field("remainingItemCount", INT64, 4, pointer=True),
    Field("shardInfo", _SHARD_INFO, 5, pointer=True, since="1.36"),
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
    _list("causes", _STATUS_CAUSE, 4),
    Field("retryAfterSeconds", INT32, 5),
)
STATUS = Struct(
    "meta.v1.Status",
    Field("metadata", LIST_META, 1),
    Field("status", STRING, 2),
    Field("message", STRING, 3),
    Field("reason", STRING, 4),
    Field(
        "details",
        _STATUS_DETAILS,
        5,
        pointer=True,
        before=(
            Before("1.35", list_type="atomic"),
            *UNTYPED_BEFORE_1_30,
        ),  # in 1.30 it got the marker of a list
    ),
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
    _list("shortNames", STRING, 5),
    _list("categories", STRING, 7),
    Field("storageVersionHash", STRING, 10),
)
API_VERSIONS = Struct(
    "meta.v1.APIVersions",
    _list("versions", STRING, 1, always=True),
    _list("serverAddressByClientCIDRs", _SERVER_ADDRESS, 2, always=True),
)
API_GROUP = Struct(
    "meta.v1.APIGroup",
    _always("name", STRING, 1),
    _list("versions", _GROUP_VERSION, 2, always=True),
    Field("preferredVersion", _GROUP_VERSION, 3),
    _list("serverAddressByClientCIDRs", _SERVER_ADDRESS, 4),
)
API_GROUP_LIST = Struct("meta.v1.APIGroupList", _list("groups", API_GROUP, 1, always=True))
API_RESOURCE_LIST = Struct(
    "meta.v1.APIResourceList",
    _always("groupVersion", STRING, 1),
    _list("resources", _API_RESOURCE, 2, always=True),
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
    *(
        Field(part, STRING, 0, since="1.33")
        for part in ("emulationMajor", "emulationMinor", "minCompatibilityMajor", "minCompatibilityMinor")
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
    if (
        struct.name == "CSIStorageCapacity"
    ):  # Kubernetes once declared merge keys only for the lists of this kind
        items = replace(items, before=(Before("1.30", list_type="map", list_keys=("name",)),))
    elif struct.of == "storagemigration.v1alpha1.StorageVersionMigration":
        items = replace(items, patch="merge", merge_key="type", list_type="map", list_keys=("type",))
    return Field("metadata", LIST_META, 1), items
