"""Fields of pods; rules follow."""

from __future__ import annotations

from typing import Final

from actors.kinds.fields import BOOL, INT32, INT64, QUANTITY, STRING, Field, ListOf, Struct

FILE_MODE: Final = 0o644

KEY_TO_PATH = Struct(
    "core.v1.KeyToPath",
    Field("key", STRING, 1, required=True, always=True),
    Field("path", STRING, 2, required=True, always=True),
    Field("mode", INT32, 3, pointer=True),
)
OBJECT_FIELD_SELECTOR = Struct(
    "core.v1.ObjectFieldSelector",
    Field("apiVersion", STRING, 1, default="v1"),
    Field("fieldPath", STRING, 2, required=True, always=True),
    atomic=True,
)
RESOURCE_FIELD_SELECTOR = Struct(
    "core.v1.ResourceFieldSelector",
    Field("containerName", STRING, 1),
    Field("resource", STRING, 2, required=True, always=True),
    Field("divisor", QUANTITY, 3),
    atomic=True,
)
DOWNWARD_API_VOLUME_FILE = Struct(
    "core.v1.DownwardAPIVolumeFile",
    Field("path", STRING, 1, required=True, always=True),
    Field("fieldRef", OBJECT_FIELD_SELECTOR, 2, pointer=True),
    Field("resourceFieldRef", RESOURCE_FIELD_SELECTOR, 3, pointer=True),
    Field("mode", INT32, 4, pointer=True),
)
SECRET_VOLUME_SOURCE = Struct(
    "core.v1.SecretVolumeSource",
    Field("secretName", STRING, 1),
    Field("items", ListOf(KEY_TO_PATH), 2),
    Field("defaultMode", INT32, 3, pointer=True, default=FILE_MODE),
    Field("optional", BOOL, 4, pointer=True),
)
CONFIG_MAP_VOLUME_SOURCE = Struct(
    "core.v1.ConfigMapVolumeSource",
    Field("name", STRING, 1, embedded=1),
    Field("items", ListOf(KEY_TO_PATH), 2),
    Field("defaultMode", INT32, 3, pointer=True, default=FILE_MODE),
    Field("optional", BOOL, 4, pointer=True),
)
DOWNWARD_API_VOLUME_SOURCE = Struct(
    "core.v1.DownwardAPIVolumeSource",
    Field("items", ListOf(DOWNWARD_API_VOLUME_FILE), 1),
    Field("defaultMode", INT32, 2, pointer=True, default=FILE_MODE),
)
SECRET_PROJECTION = Struct(
    "core.v1.SecretProjection",
    Field("name", STRING, 1, embedded=1),
    Field("items", ListOf(KEY_TO_PATH), 2),
    Field("optional", BOOL, 4, pointer=True),
)
DOWNWARD_API_PROJECTION = Struct(
    "core.v1.DownwardAPIProjection",
    Field("items", ListOf(DOWNWARD_API_VOLUME_FILE), 1),
)
CONFIG_MAP_PROJECTION = Struct(
    "core.v1.ConfigMapProjection",
    Field("name", STRING, 1, embedded=1),
    Field("items", ListOf(KEY_TO_PATH), 2),
    Field("optional", BOOL, 4, pointer=True),
)
SERVICE_ACCOUNT_TOKEN_PROJECTION = Struct(
    "core.v1.ServiceAccountTokenProjection",
    Field("audience", STRING, 1),
    Field("expirationSeconds", INT64, 2, pointer=True, default=3600),
    Field("path", STRING, 3, required=True, always=True),
)
VOLUME_PROJECTION = Struct(
    "core.v1.VolumeProjection",
    Field("secret", SECRET_PROJECTION, 1, pointer=True),
    Field("downwardAPI", DOWNWARD_API_PROJECTION, 2, pointer=True),
    Field("configMap", CONFIG_MAP_PROJECTION, 3, pointer=True),
    Field("serviceAccountToken", SERVICE_ACCOUNT_TOKEN_PROJECTION, 4, pointer=True),
)
PROJECTED_VOLUME_SOURCE = Struct(
    "core.v1.ProjectedVolumeSource",
    Field("sources", ListOf(VOLUME_PROJECTION), 1, always=True),
    Field("defaultMode", INT32, 2, pointer=True, default=FILE_MODE),
)
