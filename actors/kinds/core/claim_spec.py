"""Fields of pods; rules follow."""

from __future__ import annotations

from actors.kinds.core.resources import RESOURCE_REQUIREMENTS
from actors.kinds.fields import STRING, STRINGS, Field, Struct
from actors.kinds.label_selector import LABEL_SELECTOR

TYPED_LOCAL_OBJECT_REFERENCE = Struct(
    "core.v1.TypedLocalObjectReference",
    Field("apiGroup", STRING, 1, pointer=True),
    Field("kind", STRING, 2, required=True, always=True),
    Field("name", STRING, 3, required=True, always=True),
    atomic=True,
)
PERSISTENT_VOLUME_CLAIM_SPEC = Struct(
    "core.v1.PersistentVolumeClaimSpec",
    Field("accessModes", STRINGS, 1),
    Field("selector", LABEL_SELECTOR, 4, pointer=True),
    Field("resources", RESOURCE_REQUIREMENTS, 2),
    Field("volumeName", STRING, 3),
    Field("storageClassName", STRING, 5, pointer=True),
    Field("volumeMode", STRING, 6, pointer=True, default="Filesystem"),
    Field("dataSource", TYPED_LOCAL_OBJECT_REFERENCE, 7, pointer=True),
    Field("dataSourceRef", TYPED_LOCAL_OBJECT_REFERENCE, 8, pointer=True),
)
