"""Fields of pods; rules follow."""

from __future__ import annotations

from actors.kinds.core.pods.projections import OBJECT_FIELD_SELECTOR, RESOURCE_FIELD_SELECTOR
from actors.kinds.fields import BOOL, STRING, Field, Struct

CONFIG_MAP_ENV_SOURCE = Struct(
    "core.v1.ConfigMapEnvSource",
    Field("name", STRING, 1, embedded=1),
    Field("optional", BOOL, 2, pointer=True),
)
SECRET_ENV_SOURCE = Struct(
    "core.v1.SecretEnvSource",
    Field("name", STRING, 1, embedded=1),
    Field("optional", BOOL, 2, pointer=True),
)
ENV_FROM_SOURCE = Struct(
    "core.v1.EnvFromSource",
    Field("prefix", STRING, 1),
    Field("configMapRef", CONFIG_MAP_ENV_SOURCE, 2, pointer=True),
    Field("secretRef", SECRET_ENV_SOURCE, 3, pointer=True),
)
CONFIG_MAP_KEY_SELECTOR = Struct(
    "core.v1.ConfigMapKeySelector",
    Field("name", STRING, 1, embedded=1),
    Field("key", STRING, 2, required=True, always=True),
    Field("optional", BOOL, 3, pointer=True),
    atomic=True,
)
SECRET_KEY_SELECTOR = Struct(
    "core.v1.SecretKeySelector",
    Field("name", STRING, 1, embedded=1),
    Field("key", STRING, 2, required=True, always=True),
    Field("optional", BOOL, 3, pointer=True),
    atomic=True,
)
ENV_VAR_SOURCE = Struct(
    "core.v1.EnvVarSource",
    Field("fieldRef", OBJECT_FIELD_SELECTOR, 1, pointer=True),
    Field("resourceFieldRef", RESOURCE_FIELD_SELECTOR, 2, pointer=True),
    Field("configMapKeyRef", CONFIG_MAP_KEY_SELECTOR, 3, pointer=True),
    Field("secretKeyRef", SECRET_KEY_SELECTOR, 4, pointer=True),
)
ENV_VAR = Struct(
    "core.v1.EnvVar",
    Field("name", STRING, 1, required=True, always=True),
    Field("value", STRING, 2),
    Field("valueFrom", ENV_VAR_SOURCE, 3, pointer=True),
)
