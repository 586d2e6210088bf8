"""The settings of the authenticating proxy."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHeaderSettings:
    """None of these flags is implemented yet."""
