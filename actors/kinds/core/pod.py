"""Fields of pods; rules follow."""

from __future__ import annotations

from actors.kinds.core.pods.spec import POD_SPEC
from actors.kinds.core.pods.status import POD_STATUS
from actors.kinds.fields import Field, Struct
from actors.kinds.meta import METADATA

POD = Struct(
    "core.v1.Pod",
    METADATA,
    Field("spec", POD_SPEC, 2),
    Field("status", POD_STATUS, 3),
)
