"""Fields of pods; rules follow."""

from __future__ import annotations

from actors.kinds.core.claim_spec import PERSISTENT_VOLUME_CLAIM_SPEC
from actors.kinds.fields import Field, Struct
from actors.kinds.meta import TEMPLATE_META

PERSISTENT_VOLUME_CLAIM_TEMPLATE = Struct(
    "core.v1.PersistentVolumeClaimTemplate",
    Field("metadata", TEMPLATE_META, 1),
    Field("spec", PERSISTENT_VOLUME_CLAIM_SPEC, 2, required=True, always=True),
)
EPHEMERAL_VOLUME_SOURCE = Struct(
    "core.v1.EphemeralVolumeSource",
    Field("volumeClaimTemplate", PERSISTENT_VOLUME_CLAIM_TEMPLATE, 1, pointer=True),
)
