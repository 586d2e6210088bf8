"""Fields of pods; rules follow."""

from __future__ import annotations

from actors.kinds.core.references import OBJECT_REFERENCE
from actors.kinds.fields import Field, Struct
from actors.kinds.meta import METADATA

BINDING = Struct(
    "core.v1.Binding",
    METADATA,
    Field("target", OBJECT_REFERENCE, 2, required=True, always=True),
)
