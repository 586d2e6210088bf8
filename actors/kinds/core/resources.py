"""Fields of pods; rules follow."""

from __future__ import annotations

from actors.kinds.fields import QUANTITIES, Field, Struct

RESOURCE_REQUIREMENTS = Struct(
    "core.v1.ResourceRequirements",
    Field("limits", QUANTITIES, 1),
    Field("requests", QUANTITIES, 2),
)
