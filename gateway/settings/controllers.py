"""The settings of controllers and bootstrap tokens."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    """None of these flags is implemented yet."""
