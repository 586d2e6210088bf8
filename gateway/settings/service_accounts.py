"""The settings of service account tokens."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAccountSettings:
    """None of these flags is implemented yet."""
